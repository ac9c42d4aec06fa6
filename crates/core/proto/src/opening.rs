//! How a data flow opens: version, run, flow and a token known to both ends by control.
//!
//! ```text
//!  0      4        6     8      16    20        24        40       48
//!  | FBMK | version | kind | run  | flow | reserved | token | cookie |     integers in network order
//! ```
//!
//! The client sends an opening, the other end answers with an acceptance of the same token. Over
//! a transport whose handshake has shown that the client is where it says, that is all, and the
//! cookie is 0. Over UDP the acceptance carries a cookie, and two more messages prove that it arrived:
//! see [`Opener`](crate::Opener).

use crate::PROTOCOL_VERSION;

/// Length of an opening, whichever its kind: an answer is never longer than what it answers.
pub const OPENING_BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"FBMK";

/// 128 random bits that only the ends of one flow know.
pub type Token = [u8; 16];

/// Which message of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u16)]
pub enum OpeningKind {
    /// From the end that starts the flow.
    Open = 1,
    /// The answer.
    Accept,
    /// From the end that starts the flow, with the cookie of the answer.
    Confirm,
    /// The answer to that: the flow is open.
    Confirmed,
}

/// The first bytes of a data flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Which message of the handshake.
    pub kind: OpeningKind,
    /// The run.
    pub run: u64,
    /// The flow within the run.
    pub flow: u32,
    /// Proof that the sender was told about this flow.
    pub token: Token,
    /// Proof that the client receives what is sent to its address; 0 in an opening, and over
    /// transports that prove it themselves.
    pub cookie: u64,
}

impl Opening {
    /// The first message of a flow.
    pub fn new(run: u64, flow: u32, token: Token) -> Self {
        Self { kind: OpeningKind::Open, run, flow, token, cookie: 0 }
    }

    /// The bytes of the opening.
    pub fn emit(&self) -> [u8; OPENING_BYTES] {
        let mut bytes = [0; OPENING_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        bytes[6..8].copy_from_slice(&(self.kind as u16).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.run.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.flow.to_be_bytes());
        bytes[24..40].copy_from_slice(&self.token);
        bytes[40..48].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    /// The opening in `bytes`, or nothing where they are no opening of this version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; OPENING_BYTES] = bytes.try_into().ok()?;
        let is_ours = bytes[0..4] == MAGIC
            && bytes[4..6] == PROTOCOL_VERSION.to_be_bytes()
            && bytes[20..24] == [0; 4];
        let opening = Self {
            kind: OpeningKind::from_repr(u16::from_be_bytes([bytes[6], bytes[7]]))?,
            run: u64::from_be_bytes(bytes[8..16].try_into().ok()?),
            flow: u32::from_be_bytes(bytes[16..20].try_into().ok()?),
            token: bytes[24..40].try_into().ok()?,
            cookie: u64::from_be_bytes(bytes[40..48].try_into().ok()?),
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

    const KINDS: [OpeningKind; 4] =
        [OpeningKind::Open, OpeningKind::Accept, OpeningKind::Confirm, OpeningKind::Confirmed];

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(run: u64, flow: u32, token: Token, cookie: u64) {
            for kind in KINDS {
                let opening = Opening { kind, run, flow, token, cookie };
                prop_assert_eq!(Opening::parse(&opening.emit()), Some(opening));
            }
        }

        #[test]
        fn one_wrong_byte_is_another_opening_or_none(at in 0..OPENING_BYTES, flip in 1u8..) {
            for kind in KINDS {
                let opening = Opening { kind, ..Opening::new(1, 0, [7; 16]) };
                let mut bytes = opening.emit();
                bytes[at] ^= flip;
                prop_assert_ne!(Opening::parse(&bytes), Some(opening));
            }
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
            let _ = Opening::parse(&bytes);
        }

        #[test]
        fn no_bytes_of_the_right_length_make_the_parser_panic(bytes: [u8; OPENING_BYTES]) {
            let _ = Opening::parse(&bytes);
        }
    }
}
