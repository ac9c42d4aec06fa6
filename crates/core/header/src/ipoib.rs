//! IP over InfiniBand: the header between BTH or DETH and the IP packet.

use super::Format::{Decimal, Hex, Named};
use super::ethernet::ether_type;
use super::header;

header! {
    /// Encapsulation header of IP over InfiniBand, P1's 4-octet header (figure 5).
    IpoibHeader, IpoibHeaderView: 4, "IPoIB", "IPoIB Encapsulation Header", "RFC 4391, 6";
    /// What follows: IPv4, IPv6, ARP or RARP of [`ether_type`].
    ether_type: u16 = 0..16, "Type", Named(ether_type::name), "6";
    /// Reserved, 0.
    reserved_16: u16 = 16..32, "Reserved", Hex, "6";
}

header! {
    /// What a request for an IPoIB connection, and the reply to it, carry as private data.
    IpoibConnection, IpoibConnectionView: 8,
    "IPoIB-CM", "IPoIB Connected Mode Private Data", "RFC 4755, 6";
    /// Reserved, 0.
    reserved_0: u8 = 0..8, "Reserved", Hex, "6";
    /// The sender's queue pair for datagrams, which is part of its address on the link.
    ud_qp: u32 = 8..32, "UD QPN", Hex, "6";
    /// The largest packet that the sender receives, in bytes, encapsulation header included.
    receive_mtu: u32 = 32..64, "Receive MTU", Decimal, "6";
}

/// The service that a request for an IPoIB connection asks for: the queue pair for datagrams of who is
/// asked, with the prefix of the IETF (RFC 4755, 3.5; Linux, `IPOIB_CM_IETF_ID`).
pub const fn connection_service(ud_qp: u32) -> u64 {
    0x1000_0000_0000_0000 | (ud_qp & 0xff_ffff) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(an_ipoib_header_survives_the_wire, IpoibHeader, IpoibHeaderView);

    round_trip!(private_data_survive_the_wire, IpoibConnection, IpoibConnectionView);

    #[test]
    fn a_connection_is_asked_for_by_the_queue_pair_for_datagrams() {
        assert_eq!(connection_service(0x04_0485), 0x1000_0000_0004_0485);
    }

    #[test]
    fn an_ip_packet_follows_its_type_and_two_reserved_bytes() {
        let header = IpoibHeader { ether_type: 0x86dd, reserved_16: 0 };
        assert_eq!(header.to_bytes(), [0x86, 0xdd, 0, 0]);
        assert_eq!(IpoibHeader::LAYOUT.fields[0].text(0x86dd), "0x86dd (IPv6)");
    }
}
