//! The netperf server against a client's frozen requests, against clients that behave badly, and against
//! the real program where there is one.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod bad_clients;
mod client;
mod real;
mod replay;
