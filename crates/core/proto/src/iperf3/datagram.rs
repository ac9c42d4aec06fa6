//! What a UDP stream opens with, and what its datagrams begin with.

/// The datagram that opens a stream.
pub const OPENING: [u8; 4] = *b"9876";

/// Answers to it, the one that is sent first: the other is that of old servers.
pub const OPENING_REPLIES: [[u8; 4]; 2] = [*b"6789", [0xb1, 0x68, 0xde, 0x3a]];

/// The header of one datagram.
///
/// ```text
///  0         4              8         12 or 16
///  | seconds | microseconds | counter |     integers in network order
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// When it was sent, in microseconds of the sender's clock.
    pub sent_us: u64,
    /// Its number in the stream, from 1; the low 32 bits where counters are not wide.
    pub counter: u64,
}

impl Header {
    /// Writes the header into a payload, which has 16 bytes at least.
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

    /// Reads the header; nothing where the datagram is too short for one.
    pub fn parse(payload: &[u8], is_wide: bool) -> Option<Self> {
        let integer = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let counter = payload.get(8..if is_wide { 16 } else { 12 })?;
        let sent_us = integer(&payload[..4]) * 1_000_000 + integer(&payload[4..8]);
        Some(Self { sent_us, counter: integer(counter) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of a datagram that iperf 3.12 sent.
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

    proptest! {
        #[test]
        fn no_payload_makes_the_parser_panic(payload: Vec<u8>, is_wide: bool) {
            let _ = Header::parse(&payload, is_wide);
        }
    }
}
