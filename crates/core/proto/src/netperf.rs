//! netperf's control conversation, from the server's side, without I/O.
//!
//! Every message in either direction is 656 bytes: a type, a second word, and 162 words of content, all
//! of 32 bits in network order. A modern netperf asks for each of its socket tests in one message (type
//! 97, "omni") that says which way bytes flow and how many. The server answers with the port of its data
//! socket; data flow; the server sends what it counted; the control connection stays open for the next
//! test. Transcripts of netperf 2.7.1 are in `tests/netperf/`.
//!
//! - [`Request`], [`Response`], [`Results`]: the three messages of a test.
//! - [`Test`]: a request that is within its bounds.
//! - [`Server`]: which message may follow which, and how long to wait for it.
//!
//! Deliberately not here: netperf's own side, tests over SCTP, and the older messages, one for each test.

mod message;
mod server;
mod test;

pub use message::{MESSAGE_BYTES, Message, Request, Response, Results, direction, flag};
pub use server::{Action, Caller, Server};
pub use test::{Ending, Refusal, Test, Traffic, Transport};
