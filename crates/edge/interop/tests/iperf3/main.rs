//! Against the real iperf3 program, in both roles.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

mod authentication;
mod client;
mod hostile;
mod server;
mod support;
