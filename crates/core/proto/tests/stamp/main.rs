//! STAMP: packets octet by octet, replies of a reflector, and sessions over a channel that loses, duplicates and
//! reorders, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod channel;
mod packets;
mod reflector;
mod sessions;
