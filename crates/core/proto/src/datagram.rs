//! What a datagram's payload begins with: as much of a header as fits.
//!
//! | payload | header |
//! |---|---|
//! | 16 bytes and more | sequence number, 64 bits, then time of sending in nanoseconds, 64 bits |
//! | 4 to 15 bytes | the low 32 bits of the sequence number |
//! | 1 to 3 bytes | the low 8, 16 or 24 bits of the sequence number |
//!
//! Integers are in network order. In a closed loop a datagram has no time of sending: 0.
//!
//! A response carries the number of its request. Bits that do not fit are restored by
//! [`DatagramHeader::number_until`]; how many requests may be under way with short messages is checked by the
//! crate `plan`. A stream of payloads under 4 bytes is counted without its numbers, which repeat too soon to
//! tell a late datagram from a duplicate.

/// The header of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Sequence number, from 0; its low bits where the payload is short.
    pub sequence: u64,
    /// When the datagram was sent, in nanoseconds of the sender's clock; 0 for no such time.
    pub sent_ns: u64,
}

impl DatagramHeader {
    /// Bits of the sequence number that a payload of this length carries.
    pub const fn sequence_bits(payload_bytes: usize) -> u32 {
        match payload_bytes {
            0 => 0,
            1 => 8,
            2 => 16,
            3 => 24,
            4..16 => 32,
            _ => 64,
        }
    }

    /// The number at or before `last` whose low `bits` bits are those of `carried`: the request that a
    /// response belongs to, where `last` is the request sent last and at most 2^`bits` - 1 were sent after it.
    pub const fn number_until(last: u64, carried: u64, bits: u32) -> u64 {
        let behind = last.wrapping_sub(carried) & u64::MAX.unbounded_shr(u64::BITS - bits);
        last.wrapping_sub(behind)
    }

    /// Writes as much of the header as fits.
    pub fn emit(&self, payload: &mut [u8]) {
        let low = self.sequence.to_be_bytes();
        match Self::sequence_bits(payload.len()) {
            64 => {
                payload[..8].copy_from_slice(&low);
                payload[8..16].copy_from_slice(&self.sent_ns.to_be_bytes());
            }
            bits => {
                let bytes = bits as usize / 8;
                payload[..bytes].copy_from_slice(&low[8 - bytes..]);
            }
        }
    }

    /// Reads the header; `None` for an empty payload.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let integer = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        match Self::sequence_bits(payload.len()) {
            0 => None,
            64 => {
                Some(Self { sequence: integer(&payload[..8]), sent_ns: integer(&payload[8..16]) })
            }
            bits => Some(Self { sequence: integer(&payload[..bits as usize / 8]), sent_ns: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_payload_carries_what_fits() {
        let header = DatagramHeader { sequence: 0x1_0203_0405, sent_ns: 9 };
        let low = |sequence| Some(DatagramHeader { sequence, sent_ns: 0 });
        for (length, expected) in [
            (0, None),
            (1, low(0x05)),
            (2, low(0x0405)),
            (3, low(0x03_0405)),
            (4, low(0x0203_0405)),
            (15, low(0x0203_0405)),
            (16, Some(header)),
            (1472, Some(header)),
        ] {
            let mut payload = vec![0xff; length];
            header.emit(&mut payload);
            assert_eq!(DatagramHeader::parse(&payload), expected, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn a_response_finds_its_request_while_its_low_bits_are_the_only_ones_under_way(
            bytes in 1usize..24,
            number: u64,
            later: u64,
        ) {
            let bits = DatagramHeader::sequence_bits(bytes);
            let later = later & u64::MAX.unbounded_shr(u64::BITS - bits);
            let last = number.saturating_add(later);
            let mut response = vec![0; bytes];
            DatagramHeader { sequence: number, sent_ns: 0 }.emit(&mut response);
            let carried = DatagramHeader::parse(&response).unwrap().sequence;
            prop_assert_eq!(DatagramHeader::number_until(last, carried, bits), number);
        }

        #[test]
        fn no_payload_makes_the_parser_panic(payload: Vec<u8>) {
            let _ = DatagramHeader::parse(&payload);
        }
    }
}
