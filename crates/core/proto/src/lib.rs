//! Protocol state machines without I/O.
//!
//! Bytes and the current time are arguments; messages to send and the next deadline are results. The same values run
//! over a local socket, over a network and, in tests, joined in memory. Sockets and clocks are in other crates.

mod agent {
    pub(crate) mod admission;
    pub(crate) mod caller;
    pub(crate) mod clock;
    pub(crate) mod connection;
    pub(crate) mod keepalive;
    pub(crate) mod message;
    pub(crate) mod quota;
}
mod control {
    pub(crate) mod coordinator;
    pub(crate) mod message;
    pub(crate) mod worker;
}
mod apdu;
mod datagram;
mod frame;
pub mod iperf3;
mod jitter;
pub mod netperf;
mod ntp;
mod opening;
mod proxy;
mod reassembly;
mod sequence;
pub mod stamp;
mod validation;

pub use agent::admission::{AdmissionQueue, ConnectionId, Turn};
pub use agent::caller::{Caller, News};
pub use agent::clock::ClockFilter;
pub use agent::connection::{AgentAction, Connection};
pub use agent::message::{Answer, Request, SessionId, Welcome};
pub use agent::quota::{BURST_OVER_MAX, Quota};
pub use apdu::{
    APDU_BYTES, APDU_MULTICAST_BYTES, APDU_PADDED_BYTES, Apdu, ApduCounts, Echo, NotApdu, Peer,
};
pub use control::coordinator::{Conversation, ConversationError, Ends};
pub use control::message::{
    EndReport, Failure, Order, Prepare, Report, SequenceCounts, ZeroCopySends,
};
pub use control::worker::{Action, Worker};
pub use datagram::DatagramHeader;
pub use frame::{FrameError, FrameReader, encode};
pub use jitter::Jitter;
pub use ntp::{NTP_BYTES, NotAnswer, NtpAnswer, ntp_request};
pub use opening::{OPENING_BYTES, Opening, OpeningKind, Token};
pub use proxy::{NotProxy, PROXY_BYTES_MAX, ProxyHeader};
pub use reassembly::Reassembly;
pub use sequence::SequenceTracker;
pub use validation::{Admission, Heard, Opened, Opener};

/// Version of the control protocol and of the data-flow handshake; both ends must have the same.
pub const PROTOCOL_VERSION: u16 = 15;
