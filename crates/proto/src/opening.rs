//! How a data flow opens: version, run, flow and a token known to both ends by control.
//!
//! ```text
//!  0      4        6     8      16    20        24        40
//!  | FBMK | version | kind | run  | flow | reserved | token |     integers in network order
//! ```
//!
//! The starting end sends an opening, the other end answers with an acceptance of the same token.
//! Over UDP the opening is repeated until the acceptance arrives.

use crate::PROTOCOL_VERSION;

/// Length of an opening.
pub const OPENING_BYTES: usize = 40;

const MAGIC: [u8; 4] = *b"FBMK";

/// 128 random bits that only the ends of one flow know.
pub type Token = [u8; 16];

/// Which half of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpeningKind {
    /// From the end that starts the flow.
    Open,
    /// The answer.
    Accept,
}

/// The first bytes of a data flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Which half of the handshake.
    pub kind: OpeningKind,
    /// The run.
    pub run: u64,
    /// The flow within the run.
    pub flow: u32,
    /// Proof that the sender was told about this flow.
    pub token: Token,
}

impl Opening {
    /// The bytes of the opening.
    pub fn emit(&self) -> [u8; OPENING_BYTES] {
        let kind: u16 = match self.kind {
            OpeningKind::Open => 1,
            OpeningKind::Accept => 2,
        };
        let mut bytes = [0; OPENING_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        bytes[6..8].copy_from_slice(&kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.run.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.flow.to_be_bytes());
        bytes[24..40].copy_from_slice(&self.token);
        bytes
    }

    /// The opening in `bytes`, or nothing where they are no opening of this version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; OPENING_BYTES] = bytes.try_into().ok()?;
        let kind = match u16::from_be_bytes([bytes[6], bytes[7]]) {
            1 => OpeningKind::Open,
            2 => OpeningKind::Accept,
            _ => return None,
        };
        let is_ours = bytes[0..4] == MAGIC
            && bytes[4..6] == PROTOCOL_VERSION.to_be_bytes()
            && bytes[20..24] == [0; 4];
        let opening = Self {
            kind,
            run: u64::from_be_bytes(bytes[8..16].try_into().ok()?),
            flow: u32::from_be_bytes(bytes[16..20].try_into().ok()?),
            token: bytes[24..40].try_into().ok()?,
        };
        is_ours.then_some(opening)
    }

    /// The acceptance of this opening.
    pub fn acceptance(self) -> Self {
        Self { kind: OpeningKind::Accept, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(run: u64, flow: u32, token: Token) {
            let opening = Opening { kind: OpeningKind::Open, run, flow, token };
            prop_assert_eq!(Opening::parse(&opening.emit()), Some(opening));
            let answer = opening.acceptance();
            prop_assert_eq!(Opening::parse(&answer.emit()), Some(answer));
        }

        #[test]
        fn one_wrong_byte_in_the_frame_is_no_opening(at in 0usize..8, flip in 1u8..) {
            let opening = Opening { kind: OpeningKind::Open, run: 1, flow: 0, token: [7; 16] };
            let mut bytes = opening.emit();
            bytes[at] ^= flip;
            prop_assert_ne!(Opening::parse(&bytes), Some(opening));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
            let _ = Opening::parse(&bytes);
        }
    }
}
