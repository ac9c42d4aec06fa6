//! Bytes that a link adds to a packet.

use fabricmark_header::ethernet::{Ethernet, Vlan};
use fabricmark_header::infiniband::{Aeth, Bth, Deth, Grh, ImmDt, Lrh, Reth};
use fabricmark_header::ip::{Ipv4, Ipv6, Ipv6Fragment};
use fabricmark_header::ipoib::IpoibHeader;
use fabricmark_header::transport::{Tcp, Udp};

use crate::message::Run;
use crate::{Family, Ib, Ipoib, IpoibMode, Link};

/// Preamble and start delimiter in bytes (RFC 5180 appendix A).
pub const PREAMBLE: u64 = 8;
/// Average interframe gap of Ethernet in bytes (RFC 5180 appendix A).
pub const GAP: u64 = 12;
/// Ethernet header in bytes: two addresses and a type (IEEE 802.3).
pub const ETHERNET_HEADER: u64 = Ethernet::BYTES as u64;
/// One 802.1Q tag in bytes.
pub const VLAN_TAG: u64 = Vlan::BYTES as u64;
/// Frame check sequence in bytes (IEEE 802.3).
pub const FCS: u64 = 4;
/// Minimum frame in bytes, from header through FCS, tags included.
///
/// A bridge may pad a tagged frame to 68 (IEEE 802.1Q), but only 64 keeps a ceiling a bound.
pub const FRAME_MIN: u64 = 64;
/// Minimum MTU of IPv4 in bytes (RFC 791).
pub(crate) const IPV4_MTU_MIN: u16 = 68;
/// UDP header in bytes (RFC 768).
pub const UDP_HEADER: u64 = Udp::BYTES as u64;
/// TCP header without options in bytes (RFC 9293).
pub const TCP_HEADER: u64 = Tcp::BYTES as u64;
/// TCP timestamps option with two bytes of padding (RFC 7323); Linux sends it in every segment.
pub const TCP_TIMESTAMPS: u8 = 12;

// Header lengths in bytes: IP, and InfiniBand (IBTA vol. 1, 7.7 to 9.3; IPoIB: RFC 4391 section 6).
pub(crate) const IPV4_HEADER: u64 = Ipv4::BYTES as u64;
pub(crate) const IPV6_HEADER: u64 = Ipv6::BYTES as u64;
pub(crate) const IPV6_FRAGMENT_HEADER: u64 = Ipv6Fragment::BYTES as u64;
const LRH: u64 = Lrh::BYTES as u64;
const GRH: u64 = Grh::BYTES as u64;
pub(crate) const BTH: u64 = Bth::BYTES as u64;
pub(crate) const DETH: u64 = Deth::BYTES as u64;
pub(crate) const RETH: u64 = Reth::BYTES as u64;
pub(crate) const AETH: u64 = Aeth::BYTES as u64;
pub(crate) const IMMEDIATE: u64 = ImmDt::BYTES as u64;
const IPOIB_HEADER: u64 = IpoibHeader::BYTES as u64;
/// Invariant CRC in bytes (IBTA vol. 1, 7.8.1).
pub(crate) const ICRC: u64 = 4;
/// Variant CRC in bytes (IBTA vol. 1, 7.8.2).
const VCRC: u64 = 2;
/// Bytes that RoCE reserves for headers within the Ethernet MTU: GRH 40, UDP 8, BTH 12, AtomicETH 28, ICRC 4 and 4
/// more (Linux, `iboe_get_mtu`).
pub(crate) const ROCE_HEADERS_MAX: u16 = 96;

/// Padding to a multiple of 4 bytes, which InfiniBand requires (IBTA vol. 1, 9.2.6).
pub(crate) fn pad4(bytes: u64) -> u64 {
    bytes.next_multiple_of(4) - bytes
}

/// Bytes that an IP packet of `ip_packet` bytes uses on Ethernet, from preamble through gap.
///
/// `20 + max(64, 18 + 4 * vlan + ip_packet)`, with `vlan` 802.1Q tags.
pub fn ethernet_wire_bytes(ip_packet: u64, vlan: u8) -> u64 {
    GAP + ethernet_frame(ip_packet, vlan)
}

/// Bytes of an Ethernet frame with preamble, without the gap. A frame has arrived before its gap.
fn ethernet_frame(inside: u64, vlan: u8) -> u64 {
    let frame = ETHERNET_HEADER + VLAN_TAG * u64::from(vlan) + inside + FCS;
    PREAMBLE + frame.max(FRAME_MIN)
}

/// Minimum gap in bytes between two packets of this link. Ignores InfiniBand's symbols between packets: they differ
/// between generations, and a ceiling without them is still a bound.
pub fn gap(link: Link) -> u64 {
    match link {
        Link::Ethernet { .. } | Link::RoceV1 { .. } | Link::RoceV2 { .. } => GAP,
        Link::Loopback | Link::Veth { .. } | Link::Ipoib(_) | Link::Ib(_) => 0,
    }
}

/// Packets on the link that carry one packet of the layer above: a number of full ones and a last one. Lengths are
/// bytes on the wire without gap. Only connected-mode IPoIB needs more than one.
///
/// `packet` is the length of a packet of a [`Message`](crate::message::Message) that this link carries.
pub(crate) fn on_wire(link: Link, family: Family, packet: u64) -> [Run; 2] {
    let bytes = match link {
        Link::Loopback | Link::Veth { .. } => packet,
        Link::Ethernet { vlan, .. } => ethernet_frame(packet, vlan),
        Link::RoceV1 { vlan, .. } => ethernet_frame(GRH + packet, vlan),
        Link::RoceV2 { vlan, .. } => {
            ethernet_frame(family.header_bytes() + UDP_HEADER + packet, vlan)
        }
        Link::Ib(Ib { grh, .. }) => LRH + grh_bytes(grh) + packet + VCRC,
        Link::Ipoib(Ipoib { mode, ib_mtu, grh, .. }) => {
            let message = IPOIB_HEADER + packet;
            let frame = LRH + grh_bytes(grh) + BTH + ICRC + VCRC;
            match mode {
                IpoibMode::Datagram => frame + DETH + message + pad4(message),
                IpoibMode::Connected => {
                    let ib_mtu = u64::from(ib_mtu);
                    let full = message.div_ceil(ib_mtu) - 1;
                    // The IPoIB header is part of the message, so only the first packet has it.
                    let rest = message - full * ib_mtu;
                    return [
                        Run { count: full, bytes: frame + ib_mtu },
                        Run { count: 1, bytes: frame + rest + pad4(rest) },
                    ];
                }
            }
        }
    };
    [Run { count: 0, bytes: 0 }, Run { count: 1, bytes }]
}

fn grh_bytes(grh: bool) -> u64 {
    if grh { GRH } else { 0 }
}

/// Bytes on the wire of an IP packet, without the gap.
pub fn ip_wire_bytes(link: Link, ip_packet: u64) -> u64 {
    wire_bytes(link, Family::V4, ip_packet) - gap(link)
}

/// Bytes on the wire of one packet of the layer above, gaps included.
pub(crate) fn wire_bytes(link: Link, family: Family, packet: u64) -> u64 {
    let gap = gap(link);
    on_wire(link, family, packet).iter().map(|run| run.count * (run.bytes + gap)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_packets_are_padded_to_the_smallest_frame() {
        assert_eq!(ethernet_wire_bytes(46, 0), 84);
        assert_eq!(ethernet_wire_bytes(47, 0), 85);
        assert_eq!(ethernet_wire_bytes(42, 1), 84);
        assert_eq!(ethernet_wire_bytes(1500, 0), 1538);
        assert_eq!(ethernet_wire_bytes(1500, 2), 1546);
    }

    #[test]
    fn a_datagram_of_ipoib_adds_38_bytes_and_padding_and_a_global_route_40_more() {
        for (text, packet, bytes) in [
            ("ipoib:4X-FDR", 2044, 2082),
            ("ipoib:4X-FDR", 41, 41 + 38 + 3),
            ("ipoib:4X-FDR,grh", 40, 118),
            // Only the first packet has the IPoIB header: 65,524 bytes are 31 packets of 2048 and one of 2036.
            ("ipoib:4X-FDR,mode=connected,mtu=65520", 65_520, 65_524 + 32 * 26),
            ("ipoib:4X-FDR,mode=connected,grh", 2044, 2048 + 66),
        ] {
            assert_eq!(wire_bytes(text.parse().unwrap(), Family::V4, packet), bytes, "{text}");
        }
    }
}
