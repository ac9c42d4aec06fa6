//! Against the real iperf3 program, in both roles.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod authentication;
mod client;
mod hostile;
mod server;
mod support;
