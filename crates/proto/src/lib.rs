//! Conversations without I/O.
//!
//! Bytes and time come in as arguments; what should be sent, and when to wake up, come out. The
//! same values run over a local socket, a network or, in tests, over nothing at all.
//!
//! Deliberately not here: sockets and clocks.

mod agent {
    pub(crate) mod caller;
    pub(crate) mod clock;
    pub(crate) mod desk;
    pub(crate) mod message;
    pub(crate) mod quota;
    pub(crate) mod seat;
    pub(crate) mod vigil;
}
mod control {
    pub(crate) mod coordinator;
    pub(crate) mod message;
    pub(crate) mod worker;
}
mod datagram;
mod frame;
mod gathering;
pub mod iperf3;
mod jitter;
pub mod netperf;
mod opening;
mod sequence;
pub mod stamp;
mod validation;

pub use agent::caller::{Caller, News};
pub use agent::clock::ClockFilter;
pub use agent::desk::{Desk, SeatId, Turn};
pub use agent::message::{Answer, Request, SessionId, Welcome};
pub use agent::quota::Quota;
pub use agent::seat::{Deed, Seat};
pub use control::coordinator::{Conversation, ConversationError, Ends};
pub use control::message::{EndReport, Failure, Order, Prepare, Report, SequenceCounts};
pub use control::worker::{Action, Worker};
pub use datagram::DatagramHeader;
pub use frame::{FrameError, FrameReader, encode};
pub use gathering::Gathering;
pub use jitter::Jitter;
pub use opening::{OPENING_BYTES, Opening, OpeningKind, Token};
pub use sequence::SequenceTracker;
pub use validation::{Admission, Heard, Opened, Opener};

/// Version of the control conversation and of the data-flow opening; both ends must agree.
pub const PROTOCOL_VERSION: u16 = 8;
