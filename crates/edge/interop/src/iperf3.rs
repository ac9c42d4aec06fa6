//! An iperf3 server, and an iperf3 client.
//!
//! [`serve`] accepts control connections, recognises TCP streams by their cookie, and assigns a datagram that opens
//! a UDP stream to the test that waits for streams from its address. Each test has one thread for the control
//! connection and one for each direction of data. [`measure`] performs one run against an iperf3 server.

mod account;
mod authentication;
mod client;
mod cpu;
mod ends;
mod flow;
mod guesses;
mod line;
mod opening;
mod openssl;
mod parameters;
mod registry;
mod sender;
mod server;
mod session;
mod test;
mod udp_port;

pub use authentication::{Authentication, AuthenticationError, Credentials, Padding};
pub use client::{ClientEnd, Measured, measure};
pub use fabricmark_proto::iperf3::PORT;
pub use parameters::check;
pub use server::serve;
