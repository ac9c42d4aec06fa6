//! Ethernet headers and VLAN tags.

use super::Format::{self, Decimal, Flag, Named};
use super::{Mac, header};

header! {
    /// Ethernet II header.
    Ethernet, EthernetView: 14, "Ethernet", "Ethernet II Header", "IEEE 802.3, 3.2";
    destination: Mac = 0..48, "Destination", Format::Mac, "3.2.4";
    source: Mac = 48..96, "Source", Format::Mac, "3.2.5";
    /// Type of the payload, one of [`ether_type`]; values below 1536 are the length of an IEEE 802.2 frame.
    ether_type: u16 = 96..112, "Type", Named(ether_type::NAMES), "3.2.6";
}

header! {
    /// VLAN tag without its TPID, which is the type field before it ([`ether_type::VLAN`]), and with the next type.
    Vlan, VlanView: 4, "802.1Q", "Customer VLAN Tag", "IEEE 802.1Q, 9.6";
    /// Priority code point, 0 to 7; 1 is the lowest.
    priority: u8 = 0..3, "PCP", Decimal, "9.6";
    /// Drop eligible indicator: the frame is dropped first under congestion.
    drop_eligible: bool = 3..4, "DEI", Flag, "9.6";
    /// VLAN identifier, 1 to 4094; 0 carries a priority only.
    vlan: u16 = 4..16, "VID", Decimal, "9.6";
    /// Type of the payload, one of [`ether_type`].
    ether_type: u16 = 16..32, "Type", Named(ether_type::NAMES), "9.4";
}

/// Values of the type field (IANA, IEEE 802 numbers).
pub mod ether_type {
    crate::named! {
        u16;
        /// IPv4 (RFC 894).
        IPV4 = 0x0800, "IPv4";
        /// ARP (RFC 826).
        ARP = 0x0806, "ARP";
        /// Reverse ARP (RFC 903).
        RARP = 0x8035, "RARP";
        /// Customer VLAN tag (IEEE 802.1Q, table 9-1).
        VLAN = 0x8100, "802.1Q";
        /// IPv6 (RFC 2464).
        IPV6 = 0x86dd, "IPv6";
        /// Service VLAN tag (IEEE 802.1Q, table 9-1).
        SERVICE_VLAN = 0x88a8, "802.1ad";
        /// RoCEv1: a GRH and a BTH follow (IBTA vol. 1, annex A16).
        ROCE_V1 = 0x8915, "RoCEv1";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(an_ethernet_header_survives_the_wire, Ethernet, EthernetView);
    round_trip!(a_tag_survives_the_wire, Vlan, VlanView);

    #[test]
    fn a_tagged_frame_is_read_header_by_header() {
        let frame = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 0x01, 0x81,
            0x00, // Ethernet
            0xb0, 0x64, 0x08, 0x06, // priority 5, drop eligible, VLAN 100, ARP
        ];
        let (ethernet, rest) = EthernetView::of(&frame).unwrap();
        assert_eq!(ethernet.destination(), Mac([0xff; 6]));
        assert_eq!(ethernet.source(), Mac([2, 0, 0, 0, 0, 1]));
        assert_eq!(ethernet.ether_type(), ether_type::VLAN);
        let (tag, rest) = VlanView::of(rest).unwrap();
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.vlan()), (5, true, 100));
        assert_eq!((tag.ether_type(), rest), (ether_type::ARP, &[][..]));
        let source = &Ethernet::LAYOUT.fields[1];
        assert_eq!(source.text(0x0200_0000_0001), "02:00:00:00:00:01");
    }
}
