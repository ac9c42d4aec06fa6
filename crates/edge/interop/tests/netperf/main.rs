//! The netperf server against recorded requests, against misbehaving clients, and against the real netperf if it is
//! installed.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod bad_clients;
mod client;
mod real;
mod replay;
