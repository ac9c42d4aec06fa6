//! Client and server against the real iperf3.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod authentication;
mod client;
mod hostile;
mod server;
mod support;
