//! Link-layer overhead of an IP packet, as `fabricmark_wire` counts it.

use fabricmark_units::BitRate;
use fabricmark_wire::frame::{gap, ip_wire_bytes};
use fabricmark_wire::{Link, MTU_DEFAULT};

/// Converts the length of an IP packet to bytes on the wire of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing(Option<Link>);

impl Framing {
    /// No overhead: the rate counts bits of IP packets.
    pub const NONE: Self = Self(None);

    /// Framing of a link; `None` if it has no wire, carries no IP, or has a value out of range.
    pub fn of(link: Link) -> Option<Self> {
        match link {
            // On RoCEv2 links this frames IP traffic beside verbs, which have their own framing.
            Link::Ethernet { vlan, .. } | Link::RoceV2 { vlan, .. } => Some(Self::ethernet(vlan)),
            Link::Ipoib(ipoib) => (ipoib.ib_mtu > 0).then_some(Self(Some(link))),
            Link::Loopback | Link::Veth { .. } | Link::Ib(_) | Link::RoceV1 { .. } => None,
        }
    }

    /// Ethernet with `vlan` 802.1Q tags: preamble to FCS, padded to 64 bytes, and the interframe gap.
    pub const fn ethernet(vlan: u8) -> Self {
        Self(Some(Link::Ethernet { rate: BitRate(1), mtu: MTU_DEFAULT, vlan }))
    }

    /// Bytes on the wire from the first to the last of a packet, without the gap after it.
    pub fn wire_bytes(self, ip_packet: u64) -> u64 {
        self.0.map_or(ip_packet, |link| ip_wire_bytes(link, ip_packet))
    }

    /// Idle bytes before the next packet may start.
    pub fn gap_bytes(self) -> u64 {
        self.0.map_or(0, gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_wire::ethernet_wire_bytes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_ethernet_frame_and_its_gap_are_as_long_as_the_crate_wire_says(
            ip_packet in 0u64..70_000,
            vlan in 0u8..=2,
        ) {
            let framing = Framing::ethernet(vlan);
            let bytes = framing.wire_bytes(ip_packet) + framing.gap_bytes();
            prop_assert_eq!(bytes, ethernet_wire_bytes(ip_packet, vlan));
        }
    }

    #[test]
    fn an_ipoib_datagram_has_38_bytes_of_overhead_and_padding() {
        for (ip_packet, link, bytes) in [
            (2044, "ipoib:4X-FDR", 2082),
            (45, "ipoib:4X-FDR", 86),
            (2044, "ipoib:4X-FDR,grh", 2122),
        ] {
            let framing = Framing::of(link.parse().unwrap()).unwrap();
            assert_eq!(framing.wire_bytes(ip_packet), bytes);
        }
    }

    #[test]
    fn only_the_first_packet_of_a_connected_message_has_the_ipoib_header() {
        let link: Link = "ipoib:4X-FDR,mode=connected".parse().unwrap();
        let framing = Framing::of(link).unwrap();
        // 65,524 bytes are 31 packets of 2048 and one of 2036.
        assert_eq!(framing.wire_bytes(65_520), 65_524 + 32 * 26);
        assert_eq!(framing.wire_bytes(2044), 2048 + 26);
        assert_eq!(framing.wire_bytes(2045), 2052 + 2 * 26);
        let Link::Ipoib(ipoib) = link else { panic!("{link}") };
        assert_eq!(Framing::of(Link::Ipoib(fabricmark_wire::Ipoib { ib_mtu: 0, ..ipoib })), None);
    }

    #[test]
    fn a_rate_of_ip_packets_has_no_overhead() {
        assert_eq!(Framing::NONE.wire_bytes(1500), 1500);
    }
}
