//! RDMA by verbs: messages from registered memory into registered memory.
//!
//! What a program would fill before each message is filled once: the adapter takes it from there again
//! and again, as it does for a program that has its data in place.

mod fetch;
mod message;
mod notes;
mod payload;
mod queue;
mod write;

pub(crate) use fetch::FetchFlow;
pub(crate) use message::MessageFlow;
pub(crate) use write::WriteFlow;
