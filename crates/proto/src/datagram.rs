//! What a datagram's payload begins with: as much of a header as fits.
//!
//! | payload | header |
//! |---|---|
//! | 16 bytes and more | sequence number, 64 bits, then intended departure in nanoseconds, 64 bits |
//! | 4 to 15 bytes | the low 32 bits of the sequence number |
//! | under 4 bytes | nothing: loss is counted, reordering is not observable |
//!
//! Integers are in network order. In a closed loop a datagram has no intended departure: 0.

/// The header of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Sequence number, from 0; the low 32 bits where the payload is short.
    pub sequence: u64,
    /// When the datagram was to leave, in nanoseconds of the sender's clock; 0 for no such time.
    pub departure_ns: u64,
}

impl DatagramHeader {
    /// Bits of the sequence number that a payload of this length carries.
    pub const fn sequence_bits(payload_bytes: usize) -> u32 {
        match payload_bytes {
            0..4 => 0,
            4..16 => 32,
            _ => 64,
        }
    }

    /// Writes as much of the header as fits.
    pub fn emit(&self, payload: &mut [u8]) {
        match Self::sequence_bits(payload.len()) {
            0 => {}
            32 => payload[..4].copy_from_slice(&(self.sequence as u32).to_be_bytes()),
            _ => {
                payload[..8].copy_from_slice(&self.sequence.to_be_bytes());
                payload[8..16].copy_from_slice(&self.departure_ns.to_be_bytes());
            }
        }
    }

    /// Reads the header, or nothing where the payload is too short for one.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let integer = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        match Self::sequence_bits(payload.len()) {
            0 => None,
            32 => Some(Self { sequence: integer(&payload[..4]), departure_ns: 0 }),
            _ => Some(Self {
                sequence: integer(&payload[..8]),
                departure_ns: integer(&payload[8..16]),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_payload_carries_what_fits() {
        let header = DatagramHeader { sequence: 0x1_0000_0002, departure_ns: 9 };
        for (length, expected) in [
            (0, None),
            (3, None),
            (4, Some(DatagramHeader { sequence: 2, departure_ns: 0 })),
            (15, Some(DatagramHeader { sequence: 2, departure_ns: 0 })),
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
        fn no_payload_makes_the_parser_panic(payload: Vec<u8>) {
            let _ = DatagramHeader::parse(&payload);
        }
    }
}
