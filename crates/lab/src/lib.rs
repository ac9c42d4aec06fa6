//! Networks to stand in, on this machine: namespaces, veth pairs between them, shaped links.
//!
//! A namespace is held open by a file descriptor of this process and has no name on the system, so
//! that nothing is left behind however the process ends.
//!
//! Deliberately not here: what is sent through the network (`load`) and when (`control`).

mod namespace;
mod network;
mod privilege;
mod shaper;
#[expect(unsafe_code, reason = "entering namespaces is a raw system call")]
mod sys;
mod tool;

pub use namespace::Namespace;
pub use network::{Attachment, End, Lab};
pub use privilege::{Privilege, acquire};
pub use shaper::Shaper;
pub use tool::LabError;
