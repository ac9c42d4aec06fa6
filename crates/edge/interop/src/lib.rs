//! Servers and clients for other tools' protocols. The protocols are in the crate `proto`; the sockets and threads
//! are here.
//!
//! None of these protocols authenticates its client by default, so each port is protected by a [`Guard`]: it serves
//! only loopback unless configured otherwise, and limits rate, duration and number of clients.

pub mod apdu;
mod guard;
pub mod iperf3;
pub mod netperf;
pub mod ntp;
mod socket;
pub mod stamp;

pub use guard::{Guard, Network, NetworkError};
