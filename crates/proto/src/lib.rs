//! Conversations without I/O.
//!
//! Bytes and time come in as arguments; what should be sent, and when to wake up, come out. The
//! same values run over a local socket, a network or, in tests, over nothing at all.
//!
//! Deliberately not here: sockets and clocks.

mod control {
    pub(crate) mod coordinator;
    pub(crate) mod message;
    pub(crate) mod worker;
}
mod datagram;
mod frame;
mod gathering;
mod opening;
mod sequence;

pub use control::coordinator::{Conversation, ConversationError, Ends};
pub use control::message::{EndReport, Failure, Order, Prepare, Report, Role, SequenceCounts};
pub use control::worker::{Action, Worker};
pub use datagram::DatagramHeader;
pub use frame::{FrameError, FrameReader, encode};
pub use gathering::Gathering;
pub use opening::{OPENING_BYTES, Opening, OpeningKind, Token};
pub use sequence::SequenceTracker;

/// Version of the control conversation and of the data-flow opening; both ends must agree.
pub const PROTOCOL_VERSION: u16 = 4;
