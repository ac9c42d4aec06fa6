//! Header of a datagram payload; a short payload carries as much of it as fits.
//!
//! | payload | header |
//! |---|---|
//! | 16 bytes and more | sequence number, 64 bits, then send time in nanoseconds, 64 bits |
//! | 4 to 15 bytes | the low 32 bits of the sequence number |
//! | 1 to 3 bytes | the low 8, 16 or 24 bits of the sequence number |
//!
//! Integers are in network byte order. In a closed loop the send time is 0.
//!
//! A response repeats the sequence number of its request. [`DatagramHeader::number_until`] restores bits that did
//! not fit; the crate `plan` limits the outstanding requests of short messages accordingly. In a stream of payloads
//! under 4 bytes the numbers are ignored: they wrap too soon to distinguish a late datagram from a duplicate.

/// The header of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Sequence number from 0; only its low bits if the payload is short.
    pub sequence: u64,
    /// Send time in nanoseconds of the sender's clock; 0: none.
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

    /// The largest number up to `last` whose low `bits` bits are those of `carried`. This is the request of a
    /// response, if `last` is the latest request and at most 2^`bits` - 1 others were sent after this one.
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
        match Self::sequence_bits(payload.len()) {
            0 => None,
            64 => {
                Some(Self { sequence: integer(&payload[..8]), sent_ns: integer(&payload[8..16]) })
            }
            bits => Some(Self { sequence: integer(&payload[..bits as usize / 8]), sent_ns: 0 }),
        }
    }
}

/// A number of up to 8 bytes in network byte order.
pub(crate) fn integer(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
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
