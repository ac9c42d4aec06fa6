//! Labs that stay up between commands: a process holds each of them and answers at a Unix socket.
//!
//! Namespaces have no names: only the descriptors of the holder keep them. The name of its socket contains the name
//! of the lab and a unique id, and processes in the lab carry this id in their environment. So a command that finds
//! a socket without a listener knows which processes are left, and ends them.

mod client;
mod holder;
mod message;
mod place;
mod remnant;

pub use client::{Lab, ask_to_hold};
pub use holder::hold;
pub use message::{NodeReport, Packets, PathReport, Report, SharedReport};
pub use place::Place;

use std::io;

use crate::tool::LabError;

/// Environment variable of processes in a lab: `NAME.ID`.
pub const VARIABLE: &str = "FABRICMARK_LAB";

/// Why a lab cannot be used or held.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The request is invalid; the text says why, and what is valid.
    #[error("{0}")]
    Refused(String),
    /// This machine lacks something that the lab needs.
    #[error("{0}")]
    Missing(String),
    /// The system failed to do what the holder needed.
    #[error("{0}")]
    Broken(String),
    /// The connection to the holder failed.
    #[error("lost the process that holds the lab: {0}")]
    Lost(#[from] io::Error),
    /// The lab cannot be built.
    #[error(transparent)]
    Lab(#[from] LabError),
}
