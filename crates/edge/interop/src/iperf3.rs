//! iperf3 as a server of its clients, and as a client of its servers.
//!
//! [`serve`] accepts control connections, tells TCP streams from them by their cookies, and assigns
//! datagrams that open a UDP stream to the test that awaits some from their address. Each test has a
//! thread for its conversation and one for each direction in which data flows. [`measure`] carries one
//! run out at the other side.

mod account;
mod asking;
mod authentication;
mod client;
mod cpu;
mod ends;
mod flow;
mod line;
mod opening;
mod openssl;
mod registry;
mod sender;
mod server;
mod session;
mod test;
mod udp_port;

pub use authentication::{Authentication, AuthenticationError, Credentials, Padding};
pub use client::{Measured, measure};
pub use fabricmark_proto::iperf3::PORT;
pub use server::serve;
