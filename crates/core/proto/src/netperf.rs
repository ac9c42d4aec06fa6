//! The server's side of netperf's control protocol, without I/O.
//!
//! Every message in either direction is 656 bytes: a type, a second word and 162 words of content, all of 32 bits in
//! network byte order. A modern netperf requests each of its socket tests with one message (type 97, "omni"), which
//! gives direction and amount of the data. The server answers with the port of its data socket; data flow; the server
//! sends its counts; the connection stays open for the next test. Transcripts of netperf 2.7.1: `tests/netperf/`.
//!
//! - [`Request`], [`Response`], [`Results`]: the three messages of a test.
//! - [`Test`]: a validated request.
//! - [`Server`]: order and time limits of the messages.
//!
//! Not implemented: the client's side, SCTP tests, and the older messages with a type per test.

mod message;
mod server;
mod test;

pub use message::{MESSAGE_BYTES, Message, Request, Response, Results, direction, flag};
pub use server::{Action, Caller, Server};
pub use test::{Ending, Refusal, Test, Traffic, Transport};
