//! Bytes on an Ethernet wire, from an application's payload down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::Family;
use crate::header::ethernet::{Ethernet, Vlan};
use crate::header::ip::{Ipv4, Ipv6, Ipv6Fragment};
use crate::header::transport::{Tcp, Udp};
use crate::link::{MTU_MIN, Wire};

/// Preamble and start delimiter in bytes (RFC 5180 appendix A).
pub const PREAMBLE: u64 = 8;
/// Average gap between frames in bytes (RFC 5180 appendix A).
pub const GAP: u64 = 12;
/// Ethernet header in bytes: two addresses and a type (IEEE 802.3).
pub const ETHERNET_HEADER: u64 = Ethernet::BYTES as u64;
/// One 802.1Q tag in bytes.
pub const VLAN_TAG: u64 = Vlan::BYTES as u64;
/// Frame check sequence in bytes (IEEE 802.3).
pub const FCS: u64 = 4;
/// The smallest frame in bytes, header to check sequence, tags included.
///
/// A bridge may pad a tagged frame to 68 (IEEE 802.1Q); 64 keeps a ceiling a bound.
pub const FRAME_MIN: u64 = 64;
/// IPv4 header without options in bytes (RFC 791).
pub const IPV4_HEADER: u64 = Ipv4::BYTES as u64;
/// IPv6 header in bytes (RFC 8200).
pub const IPV6_HEADER: u64 = Ipv6::BYTES as u64;
/// IPv6 fragment header in bytes (RFC 8200 section 4.5).
pub const IPV6_FRAGMENT_HEADER: u64 = Ipv6Fragment::BYTES as u64;
/// UDP header in bytes (RFC 768).
pub const UDP_HEADER: u64 = Udp::BYTES as u64;
/// TCP header without options in bytes (RFC 9293).
pub const TCP_HEADER: u64 = Tcp::BYTES as u64;
/// TCP time stamps with two bytes of padding (RFC 7323); Linux sends them in every segment.
pub const TCP_TIMESTAMPS: u8 = 12;

/// The smallest MTU that IPv4 runs over, in bytes (RFC 791).
pub const IPV4_MTU_MIN: u16 = 68;
/// The most that RoCE may put around a payload within the Ethernet's MTU, in bytes: GRH 40, UDP 8,
/// BTH 12, AtomicETH 28, ICRC 4 and 4 more (Linux, `iboe_get_mtu`).
pub const ROCE_HEADERS_MAX: u16 = 96;

/// What carries a payload over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layer4 {
    /// UDP: one datagram for a payload, fragmented by IP where it is larger than the MTU.
    Udp,
    /// TCP: a payload cut into full segments and a rest.
    Tcp {
        /// Length of the options in each segment, in bytes: 0 or [`TCP_TIMESTAMPS`].
        option_bytes: u8,
    },
}

/// Bytes that an IP packet of `ip_packet` bytes takes on the wire, from preamble to gap.
///
/// `20 + max(64, 18 + 4 * vlan + ip_packet)`, with `vlan` 802.1Q tags.
pub fn ethernet_wire_bytes(ip_packet: u64, vlan: u8) -> u64 {
    let frame = (ETHERNET_HEADER + VLAN_TAG * u64::from(vlan) + FCS).saturating_add(ip_packet);
    (PREAMBLE + GAP).saturating_add(frame.max(FRAME_MIN))
}

/// Sizes in bytes of the IP packets that carry one datagram of `udp_payload` bytes.
///
/// The greedy rule of all known stacks: every fragment is as full as it can be, and only the last
/// may end off an 8-byte boundary. `None` where the payload is larger than a datagram or the MTU
/// smaller than 1280 bytes.
pub fn fragments(family: Family, mtu: u16, udp_payload: u64) -> Option<Vec<u64>> {
    if udp_payload > family.udp_payload_max() || mtu < MTU_MIN {
        return None;
    }
    let (mtu, datagram) = (u64::from(mtu), UDP_HEADER + udp_payload);
    if family.header_bytes() + datagram <= mtu {
        return Some(vec![family.header_bytes() + datagram]);
    }
    let header = fragment_header_bytes(family);
    let last_room = mtu - header;
    let room = last_room / 8 * 8;
    let full = (datagram - last_room).div_ceil(room);
    let mut sizes = vec![header + room; full as usize];
    sizes.push(header + datagram - full * room);
    Some(sizes)
}

/// Headers of a fragment: IPv6 needs an extension header to say that it is one.
fn fragment_header_bytes(family: Family) -> u64 {
    match family {
        Family::V4 => IPV4_HEADER,
        Family::V6 => IPV6_HEADER + IPV6_FRAGMENT_HEADER,
    }
}

/// Application bytes in a full TCP segment.
pub(crate) fn mss(wire: Wire, family: Family, option_bytes: u8) -> u64 {
    u64::from(wire.mtu) - family.header_bytes() - TCP_HEADER - u64::from(option_bytes)
}

/// The frames that carry one message, all sizes from preamble to gap.
#[derive(Clone, Copy)]
pub(crate) struct Frames {
    pub count: u64,
    pub wire_bytes: u64,
    pub largest_bytes: u64,
}

impl Frames {
    /// `None` where there is no such message: a datagram too large, a write of no bytes, or more
    /// bytes than a `u64` counts.
    pub fn of(wire: Wire, family: Family, layer4: Layer4, payload: u64) -> Option<Self> {
        let size = |ip_packet| ethernet_wire_bytes(ip_packet, wire.vlan);
        match layer4 {
            Layer4::Udp => {
                let packets = fragments(family, wire.mtu, payload)?;
                Some(Self {
                    count: packets.len() as u64,
                    wire_bytes: packets.iter().map(|&packet| size(packet)).sum(),
                    // Not always the first: the last fragment may use the unaligned room.
                    largest_bytes: size(packets.into_iter().max()?),
                })
            }
            Layer4::Tcp { option_bytes } => {
                let mss = mss(wire, family, option_bytes);
                let (full, rest) = (payload / mss, payload % mss);
                let full_bytes = size(u64::from(wire.mtu));
                let rest_bytes = if rest > 0 { size(u64::from(wire.mtu) - mss + rest) } else { 0 };
                (payload > 0).then_some(Self {
                    count: full + u64::from(rest > 0),
                    wire_bytes: full.checked_mul(full_bytes)?.checked_add(rest_bytes)?,
                    largest_bytes: if full > 0 { full_bytes } else { rest_bytes },
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_packets_are_padded_to_the_smallest_frame() {
        assert_eq!(ethernet_wire_bytes(46, 0), 84);
        assert_eq!(ethernet_wire_bytes(47, 0), 85);
        assert_eq!(ethernet_wire_bytes(42, 1), 84);
        assert_eq!(ethernet_wire_bytes(1500, 0), 1538);
        assert_eq!(ethernet_wire_bytes(1500, 2), 1546);
    }

    #[test]
    fn fragments_are_cut_by_the_greedy_rule() {
        for (family, mtu, payload, sizes) in [
            (Family::V4, 1500, 1472, vec![1500]),
            (Family::V4, 1500, 1473, vec![1500, 21]),
            (Family::V6, 1500, 1452, vec![1500]),
            (Family::V6, 1500, 1453, vec![1496, 61]),
            // The last fragment uses the four bytes of room off the 8-byte boundary.
            (Family::V6, 1500, 2892, vec![1496, 1500]),
            (Family::V6, 1500, 2893, vec![1496, 1496, 53]),
        ] {
            assert_eq!(fragments(family, mtu, payload), Some(sizes), "{payload}");
        }
    }

    #[test]
    fn the_largest_unfragmented_payloads_follow_from_the_mtu() {
        for (mtu, v4, v6) in [
            (1500, 1472, 1452),
            (2044, 2016, 1996),
            (4092, 4064, 4044),
            (9000, 8972, 8952),
            (65_520, 65_492, 65_472),
        ] {
            for (family, payload) in [(Family::V4, v4), (Family::V6, v6)] {
                let count = |payload| fragments(family, mtu, payload).unwrap().len();
                assert_eq!((count(payload), count(payload + 1)), (1, 2), "{mtu}");
            }
        }
    }

    #[test]
    fn a_datagram_larger_than_ip_can_carry_has_no_fragments() {
        assert!(fragments(Family::V4, 1500, 65_507).is_some());
        assert_eq!(fragments(Family::V4, 1500, 65_508), None);
        assert!(fragments(Family::V6, 1500, 65_527).is_some());
        assert_eq!(fragments(Family::V6, 1500, 65_528), None);
        assert_eq!(fragments(Family::V4, 1279, 1), None);
    }

    proptest! {
        #[test]
        fn fragments_carry_every_byte_within_the_mtu(
            v6: bool,
            mtu in MTU_MIN..,
            payload in 0u64..=65_507,
        ) {
            let family = if v6 { Family::V6 } else { Family::V4 };
            let sizes = fragments(family, mtu, payload).unwrap();
            let header = match sizes.len() {
                1 => family.header_bytes(),
                _ => fragment_header_bytes(family),
            };
            let parts: Vec<u64> = sizes.iter().map(|size| size - header).collect();
            prop_assert_eq!(parts.iter().sum::<u64>(), 8 + payload);
            prop_assert!(sizes.iter().all(|&size| size <= u64::from(mtu)));
            prop_assert!(parts.iter().all(|&part| part > 0));
            prop_assert!(parts[..parts.len() - 1].iter().all(|part| part % 8 == 0));
        }
    }
}
