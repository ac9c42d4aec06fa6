//! Handshake messages of a data flow: version, run, flow, and a token from the control connection.
//!
//! ```text
//!  0      4        6     8      16    20        24        40       48
//!  | FBMK | version | kind | run  | flow | reserved | token | cookie |     integers in network order
//! ```
//!
//! The client sends `Open`; the server answers with `Accept` and the same token. If the transport's own handshake
//! has validated the client's address, the flow is then open, and the cookie is 0. Over UDP the acceptance carries
//! a cookie, and two more messages prove that it arrived: see [`Opener`](crate::Opener).

use crate::PROTOCOL_VERSION;

/// Length of every handshake message in bytes: no response is longer than its request.
pub const OPENING_BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"FBMK";

/// 128 random bits that only the ends of one flow know.
pub type Token = [u8; 16];

/// Type of a handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u16)]
pub enum OpeningKind {
    /// Client: opens the flow.
    Open = 1,
    /// Server: accepts it; over UDP with a cookie.
    Accept,
    /// Client: returns the cookie.
    Confirm,
    /// Server: the cookie is right and the flow is open.
    Confirmed,
}

/// A handshake message: the first bytes of a data flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Message type.
    pub kind: OpeningKind,
    /// Run number.
    pub run: u64,
    /// Flow number within the run, from 0.
    pub flow: u32,
    /// Proof that the message comes from an end of this flow.
    pub token: Token,
    /// Proof that the client receives datagrams at its address; 0 in `Open` and if the transport proves it.
    pub cookie: u64,
}

impl Opening {
    /// An `Open` message.
    pub fn new(run: u64, flow: u32, token: Token) -> Self {
        Self { kind: OpeningKind::Open, run, flow, token, cookie: 0 }
    }

    /// Serializes the message.
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

    /// Parses a message; `None` if `bytes` are not a message of this version.
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

    /// The `Accept` for this message.
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
