//! IP over InfiniBand: the header between BTH or DETH and the IP packet.

use super::Format::{Hex, Named};
use super::header;

header! {
    /// Encapsulation header of IP over InfiniBand (P1, figure 8).
    IpoibHeader, IpoibHeaderView: 4, "IPoIB", "IPoIB Encapsulation Header", "RFC 4391, 6";
    /// What follows, a value of Ethernet's type field.
    ether_type: u16 = 0..16, "Type", Named(ether_type), "6";
    /// Reserved, 0.
    reserved_16: u16 = 16..32, "Reserved", Hex, "6";
}

/// The four types of RFC 4391, section 6.
fn ether_type(value: u128) -> Option<&'static str> {
    match value {
        0x0800 => Some("IPv4"),
        0x0806 => Some("ARP"),
        0x8035 => Some("RARP"),
        0x86dd => Some("IPv6"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::laws::round_trip;

    round_trip!(an_ipoib_header_survives_the_wire, IpoibHeader, IpoibHeaderView);

    #[test]
    fn an_ip_packet_follows_its_type_and_two_reserved_bytes() {
        let header = IpoibHeader { ether_type: 0x86dd, reserved_16: 0 };
        assert_eq!(header.to_bytes(), [0x86, 0xdd, 0, 0]);
        assert_eq!(IpoibHeader::LAYOUT.fields[0].text(0x86dd), "0x86dd (IPv6)");
    }
}
