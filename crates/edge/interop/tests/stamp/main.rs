//! A reflector and a sender over real sockets on this host.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod measuring;
mod reflecting;
mod support;
