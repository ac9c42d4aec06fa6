//! A message cut into packets, before any link frames them.

use crate::frame::{
    AETH, BTH, DETH, ICRC, IMMEDIATE, IPV4_HEADER, IPV4_MTU_MIN, IPV6_FRAGMENT_HEADER, IPV6_HEADER,
    RETH, TCP_HEADER, UDP_HEADER, pad4,
};
use crate::link::MTU_MIN;
use crate::{Family, Impossible, Operation, Stack};

/// The longest message of a reliable connection, in bytes: 2 GiB (RFC 4755 section 5, IBTA vol. 1).
pub(crate) const RC_MESSAGE_MAX: u64 = 1 << 31;

/// The most options of a TCP header, in bytes: 60 less the 20 that are always there (RFC 9293).
pub(crate) const TCP_OPTIONS_MAX: u8 = 40;

/// Packets of equal length, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub count: u64,
    pub bytes: u64,
}

/// The packets of one message in order.
///
/// A packet is one of IP, header included; or one of verbs, from the base transport header to the
/// invariant CRC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// First, middle and last ones; any may be absent.
    pub runs: [Run; 3],
}

const NONE: Run = Run { count: 0, bytes: 0 };

impl Message {
    /// One packet.
    pub fn single(bytes: u64) -> Self {
        Self { runs: [Run { count: 1, bytes }, NONE, NONE] }
    }

    /// Cuts `payload` bytes; `mtu` is the largest IP packet, with verbs the largest payload of one.
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

/// Application bytes of the largest TCP segment.
pub(crate) fn segment_room(family: Family, mtu: u64, option_bytes: u8) -> Result<u64, Impossible> {
    if option_bytes > TCP_OPTIONS_MAX || !option_bytes.is_multiple_of(4) {
        return Err(Impossible::Options(option_bytes));
    }
    mtu.checked_sub(family.header_bytes() + TCP_HEADER + u64::from(option_bytes))
        .filter(|&room| room > 0)
        .ok_or(Impossible::NoRoom(mtu))
}

/// One packet of verbs with `extension` bytes of headers beyond the base transport header.
pub(crate) fn verbs_packet(extension: u64, payload: u64) -> u64 {
    BTH + extension + payload + pad4(payload) + ICRC
}

pub(crate) fn immediate_bytes(immediate: bool) -> u64 {
    if immediate { IMMEDIATE } else { 0 }
}

/// A message of verbs on a connection. The first packet of a write says where to, the first and the
/// last of a response to a read acknowledge it, and the last one carries immediate data.
fn connected(operation: Operation, immediate: bool, path_mtu: u64, payload: u64) -> Message {
    let count = payload.div_ceil(path_mtu).max(1);
    let rest = payload - (count - 1) * path_mtu;
    let (first, last) = match operation {
        Operation::Send => (0, immediate_bytes(immediate)),
        Operation::Write => (RETH, immediate_bytes(immediate)),
        Operation::Read => (AETH, AETH),
    };
    if count == 1 {
        // The acknowledgement of an only response stands there once.
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

/// A UDP datagram in one packet or in the fragments of [`fragments`].
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

/// Headers of a fragment: IPv6 needs an extension header to say that it is one.
fn fragment_header_bytes(family: Family) -> u64 {
    match family {
        Family::V4 => IPV4_HEADER,
        Family::V6 => IPV6_HEADER + IPV6_FRAGMENT_HEADER,
    }
}

/// Sizes in bytes of the IP packets that carry one datagram of `udp_payload` bytes, by the greedy rule of all
/// known stacks: every fragment is as full as it can be, and only the last may end off an 8-byte boundary.
///
/// `None` where the payload is larger than a datagram, or the MTU
/// smaller than IP needs: 68 bytes (RFC 791) or 1280 (RFC 8200).
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
