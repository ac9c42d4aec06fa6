//! STAMP: packets to the octet, a reflector by what it answers, and sessions over a channel that loses,
//! repeats and reorders, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod channel;
mod packets;
mod reflector;
mod sessions;
