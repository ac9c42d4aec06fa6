//! UDP streams: opening, datagram header, and statistics of the receiver.

use crate::datagram::integer;
use crate::jitter::Jitter;
use crate::sequence::ahead;

/// Datagram that opens a stream.
pub const OPENING: [u8; 4] = *b"9876";

/// Replies to it: the one to send, and that of old servers.
pub const OPENING_REPLIES: [[u8; 4]; 2] = [*b"6789", [0xb1, 0x68, 0xde, 0x3a]];

/// The header of one datagram.
///
/// ```text
///  0         4              8         12 or 16
///  | seconds | microseconds | counter |     integers in network order
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Send time in microseconds of the sender's clock.
    pub sent_us: u64,
    /// Number in the stream, from 1; only the low 32 bits unless counters have 64.
    pub counter: u64,
}

impl Header {
    /// Writes the header into a payload of at least 16 bytes.
    pub fn emit(&self, payload: &mut [u8], is_wide: bool) {
        let seconds = (self.sent_us / 1_000_000) as u32;
        let microseconds = (self.sent_us % 1_000_000) as u32;
        let [.., a, b, c, d] = self.counter.to_be_bytes();
        let counter = if is_wide { self.counter.to_be_bytes().to_vec() } else { vec![a, b, c, d] };
        let header = seconds.to_be_bytes().into_iter().chain(microseconds.to_be_bytes());
        for (byte, value) in payload.iter_mut().zip(header.chain(counter)) {
            *byte = value;
        }
    }

    /// Reads the header; `None` if the datagram is too short.
    pub fn parse(payload: &[u8], is_wide: bool) -> Option<Self> {
        let counter = payload.get(8..if is_wide { 16 } else { 12 })?;
        let sent_us = integer(&payload[..4]) * 1_000_000 + integer(&payload[4..8]);
        Some(Self { sent_us, counter: integer(counter) })
    }
}

/// Statistics of a receiver, computed as in iperf3, so that both give the same figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// Highest counter that arrived.
    pub packets: u64,
    /// Counters that were skipped and have not arrived since. A duplicate decrements it, too: iperf3 cannot
    /// distinguish it from a late datagram.
    pub errors: u64,
    /// Arrivals after a higher or equal counter.
    pub out_of_order: u64,
    /// Interarrival jitter.
    pub jitter: Jitter,
}

impl Arrivals {
    /// Counts a datagram that arrived at this time.
    pub fn arrive(&mut self, header: Header, now_us: u64, is_wide: bool) {
        let counter = match is_wide {
            true => header.counter,
            false => self.packets.saturating_add_signed(ahead(header.counter, self.packets)),
        };
        if counter > self.packets {
            self.errors = self.errors.saturating_add(counter - 1 - self.packets);
            self.packets = counter;
        } else {
            self.out_of_order += 1;
            self.errors = self.errors.saturating_sub(1);
        }
        self.jitter.arrive(header.sent_us.wrapping_mul(1_000), now_us.wrapping_mul(1_000));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Header of a datagram that iperf 3.12 sent.
    const FIRST: [u8; 12] = [0, 0, 0o263, 0o177, 0, b'\r', 0o22, 0o16, 0, 0, 0, 1];

    #[test]
    fn the_first_datagram_of_the_original_is_read_and_written_the_same() {
        let header = Header { sent_us: 45_951_856_590, counter: 1 };
        assert_eq!(Header::parse(&FIRST, false), Some(header));
        let mut payload = [0; 16];
        header.emit(&mut payload, false);
        assert_eq!(payload[..12], FIRST);
        assert_eq!(Header::parse(&FIRST, true), None);
    }

    #[test]
    fn a_wide_counter_has_64_bits() {
        let header = Header { sent_us: 7, counter: 1 << 40 | 5 };
        let mut payload = [0; 16];
        header.emit(&mut payload, true);
        assert_eq!(Header::parse(&payload, true), Some(header));
        header.emit(&mut payload, false);
        assert_eq!(Header::parse(&payload, false), Some(Header { counter: 5, ..header }));
    }

    fn arrived(counters: &[u64]) -> (u64, u64, u64) {
        let mut arrivals = Arrivals::default();
        for &counter in counters {
            arrivals.arrive(Header { sent_us: 0, counter }, 0, false);
        }
        (arrivals.packets, arrivals.errors, arrivals.out_of_order)
    }

    #[test]
    fn gaps_are_errors_and_late_ones_take_them_back() {
        for (counters, expected) in [
            (&[1, 2, 3][..], (3, 0, 0)),
            (&[1, 4], (4, 2, 0)),
            (&[1, 4, 2], (4, 1, 1)),
            (&[1, 4, 2, 3, 3], (4, 0, 3)),
            (&[2], (2, 1, 0)),
        ] {
            assert_eq!(arrived(counters), expected, "{counters:?}");
        }
    }

    #[test]
    fn a_narrow_counter_goes_on_after_its_wrap() {
        let mut arrivals = Arrivals { packets: u64::from(u32::MAX), ..Arrivals::default() };
        arrivals.arrive(Header { sent_us: 0, counter: 1 }, 0, false);
        assert_eq!((arrivals.packets, arrivals.errors), ((1 << 32) + 1, 1));
    }

    #[test]
    fn jitter_is_a_sixteenth_of_each_difference() {
        let mut arrivals = Arrivals::default();
        for (counter, now_us) in [(1, 1_000), (2, 1_000), (3, 1_160)] {
            arrivals.arrive(Header { sent_us: 500, counter }, now_us, true);
        }
        assert!((arrivals.jitter.jitter_ns - 10e3).abs() < 1e-3, "{:?}", arrivals.jitter);
    }

    proptest! {
        #[test]
        fn no_payload_makes_the_parser_panic(payload: Vec<u8>, is_wide: bool) {
            let _ = Header::parse(&payload, is_wide);
        }

        #[test]
        fn no_header_makes_the_counting_panic(headers: Vec<(u64, u64, u64)>, is_wide: bool) {
            let mut arrivals = Arrivals::default();
            for (sent_us, counter, now_us) in headers {
                arrivals.arrive(Header { sent_us, counter }, now_us, is_wide);
            }
        }
    }
}
