//! Segments a message into packets, before a link frames them.

use crate::frame::{
    AETH, BTH, DETH, ICRC, IMMEDIATE, IPV4_HEADER, IPV4_MTU_MIN, IPV6_FRAGMENT_HEADER, IPV6_HEADER,
    RETH, TCP_HEADER, UDP_HEADER, pad4,
};
use crate::link::MTU_MIN;
use crate::{Family, Impossible, Operation, Stack};

/// Maximum message of a reliable connection in bytes: 2 GiB (RFC 4755 section 5, IBTA vol. 1).
pub(crate) const RC_MESSAGE_MAX: u64 = 1 << 31;

/// Maximum length of TCP options in bytes: 60 minus the 20 of the fixed header (RFC 9293).
pub(crate) const TCP_OPTIONS_MAX: u8 = 40;

/// Consecutive packets of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub count: u64,
    pub bytes: u64,
}

/// The packets of one message in order.
///
/// A packet is an IP packet with its header, or for verbs the bytes from the BTH through the invariant CRC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// First, middle and last packets; each run may be empty.
    pub runs: [Run; 3],
}

const NONE: Run = Run { count: 0, bytes: 0 };

impl Message {
    /// A message of one packet.
    pub fn single(bytes: u64) -> Self {
        Self { runs: [Run { count: 1, bytes }, NONE, NONE] }
    }

    /// Segments `payload` bytes. `mtu` is the maximum IP packet, or for verbs the maximum payload of a packet.
    pub fn cut(stack: Stack, mtu: u64, payload: u64) -> Result<Self, Impossible> {
        match stack {
            Stack::Udp { family } => datagram(family, mtu, payload),
            Stack::Tcp { family, option_bytes } => {
                let mss = segment_room(family, mtu, option_bytes)?;
                if payload == 0 {
                    return Err(Impossible::EmptyWrite);
                }
                let (full, rest) = (payload / mss, payload % mss);
                let last = Run { count: u64::from(rest > 0), bytes: mtu - mss + rest };
                Ok(Self { runs: [Run { count: full, bytes: mtu }, NONE, last] })
            }
            Stack::Rc { operation: Operation::Read, immediate: true, .. } => {
                Err(Impossible::ReadImmediate)
            }
            Stack::Rc { .. } if payload > RC_MESSAGE_MAX => Err(Impossible::Message(payload)),
            Stack::Rc { operation, immediate, .. } => {
                Ok(connected(operation, immediate, mtu, payload))
            }
            Stack::Ud { .. } if payload > mtu => {
                Err(Impossible::UdPayload { payload, path_mtu: mtu })
            }
            Stack::Ud { immediate, .. } => {
                Ok(Self::single(verbs_packet(DETH + immediate_bytes(immediate), payload)))
            }
        }
    }
}

/// Maximum payload of a TCP segment (MSS) in bytes.
pub(crate) fn segment_room(family: Family, mtu: u64, option_bytes: u8) -> Result<u64, Impossible> {
    if option_bytes > TCP_OPTIONS_MAX || !option_bytes.is_multiple_of(4) {
        return Err(Impossible::Options(option_bytes));
    }
    mtu.checked_sub(family.header_bytes() + TCP_HEADER + u64::from(option_bytes))
        .filter(|&room| room > 0)
        .ok_or(Impossible::NoRoom(mtu))
}

/// Length of a verbs packet with `extension` bytes of headers beyond the BTH.
pub(crate) fn verbs_packet(extension: u64, payload: u64) -> u64 {
    BTH + extension + payload + pad4(payload) + ICRC
}

pub(crate) fn immediate_bytes(immediate: bool) -> u64 {
    if immediate { IMMEDIATE } else { 0 }
}

/// A message of a reliable connection. The first packet of a WRITE carries a RETH, the first and the last of a READ
/// response carry an AETH, and the last packet of a SEND or WRITE carries immediate data.
fn connected(operation: Operation, immediate: bool, path_mtu: u64, payload: u64) -> Message {
    let count = payload.div_ceil(path_mtu).max(1);
    let rest = payload - (count - 1) * path_mtu;
    let (first, last) = match operation {
        Operation::Send => (0, immediate_bytes(immediate)),
        Operation::Write => (RETH, immediate_bytes(immediate)),
        Operation::Read => (AETH, AETH),
    };
    if count == 1 {
        // The only packet of a response carries one AETH.
        let extension = if operation == Operation::Read { AETH } else { first + last };
        return Message::single(verbs_packet(extension, rest));
    }
    Message {
        runs: [
            Run { count: 1, bytes: verbs_packet(first, path_mtu) },
            Run { count: count - 2, bytes: verbs_packet(0, path_mtu) },
            Run { count: 1, bytes: verbs_packet(last, rest) },
        ],
    }
}

/// A UDP datagram, in one packet or in the fragments of [`fragments`].
fn datagram(family: Family, mtu: u64, payload: u64) -> Result<Message, Impossible> {
    if payload > family.udp_payload_max() {
        return Err(Impossible::Datagram { family, payload });
    }
    let datagram = UDP_HEADER + payload;
    if family.header_bytes() + datagram <= mtu {
        return Ok(Message::single(family.header_bytes() + datagram));
    }
    let header = fragment_header_bytes(family);
    let last_room = mtu - header;
    let room = last_room / 8 * 8;
    let full = (datagram - last_room).div_ceil(room);
    let last = Run { count: 1, bytes: header + datagram - full * room };
    Ok(Message { runs: [Run { count: full, bytes: header + room }, NONE, last] })
}

/// Header bytes of a fragment; IPv6 needs an extension header.
fn fragment_header_bytes(family: Family) -> u64 {
    match family {
        Family::V4 => IPV4_HEADER,
        Family::V6 => IPV6_HEADER + IPV6_FRAGMENT_HEADER,
    }
}

/// Sizes in bytes of the IP packets that carry one UDP datagram with `udp_payload` bytes.
///
/// All known stacks fragment greedily: each fragment is as large as possible, and only the last may have a length
/// that is not a multiple of 8. `None` if the payload exceeds a datagram, or the MTU is below IP's minimum: 68 (RFC
/// 791) or 1280 bytes (RFC 8200).
pub fn fragments(family: Family, mtu: u16, udp_payload: u64) -> Option<Vec<u64>> {
    let smallest = match family {
        Family::V4 => IPV4_MTU_MIN,
        Family::V6 => MTU_MIN,
    };
    if mtu < smallest {
        return None;
    }
    let message = datagram(family, u64::from(mtu), udp_payload).ok()?;
    Some(message.runs.iter().flat_map(|run| (0..run.count).map(|_| run.bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fragments_are_cut_by_the_greedy_rule() {
        for (family, mtu, payload, sizes) in [
            (Family::V4, 1500, 1472, vec![1500]),
            (Family::V4, 1500, 1473, vec![1500, 21]),
            (Family::V6, 1500, 1452, vec![1500]),
            (Family::V6, 1500, 1453, vec![1496, 61]),
            // The last fragment uses the four bytes beyond the 8-byte boundary.
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
        assert_eq!(fragments(Family::V6, 1279, 1), None);
        assert_eq!(fragments(Family::V4, 67, 1), None);
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
