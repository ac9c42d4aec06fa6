//! IP over InfiniBand: the encapsulation header between BTH or DETH and the IP packet.

use super::Format::{Hex, Named};
use super::ethernet::ether_type;
use super::header;

header! {
    /// Encapsulation header of IP over InfiniBand: the 4-octet header of P1, figure 5.
    IpoibHeader, IpoibHeaderView: 4, "IPoIB", "IPoIB Encapsulation Header", "RFC 4391, 6";
    /// Type of the payload: IPv4, IPv6, ARP or RARP of [`ether_type`].
    ether_type: u16 = 0..16, "Type", Named(ether_type::NAMES), "6";
    reserved_16: u16 = 16..32, "Reserved", Hex, "6";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(an_ipoib_header_survives_the_wire, IpoibHeader, IpoibHeaderView);

    #[test]
    fn an_ip_packet_follows_its_type_and_two_reserved_bytes() {
        let header = IpoibHeader { ether_type: 0x86dd, reserved_16: 0 };
        assert_eq!(header.to_bytes(), [0x86, 0xdd, 0, 0]);
        assert_eq!(IpoibHeader::LAYOUT.fields[0].text(0x86dd), "0x86dd (IPv6)");
    }
}
