//! RDMA by verbs: messages from registered memory into registered memory.
//!
//! Buffers are filled once, not before each message. The adapter reads them again and again, as it does for a program
//! that has its data in place.

mod fetch;
mod message;
mod notes;
mod payload;
mod queue;
mod write;

pub(crate) use fetch::FetchFlow;
pub(crate) use message::MessageFlow;
pub(crate) use write::WriteFlow;
