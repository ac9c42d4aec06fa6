//! The ports that other tools speak. Their wires are in `proto`; here are the sockets and threads.
//!
//! None of these protocols knows who its client is, so that each port is held by a [`Guard`]: it serves
//! loopback unless told otherwise, and nobody without end.

mod guard;
pub mod iperf3;
pub mod netperf;
mod socket;
pub mod stamp;

pub use guard::{Guard, Network, NetworkError};
