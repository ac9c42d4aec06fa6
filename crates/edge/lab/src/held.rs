//! Labs that stay up between commands: a process holds each, and answers at a Unix socket.
//!
//! The namespaces have no names; the holder's descriptors are all that keeps them. Its socket is named
//! after the lab and an id that no other lab ever had, and the processes that run in the lab carry
//! that id in their environment. So whoever finds a socket at which nobody answers knows what is left
//! and ends it.

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

/// The variable in the environment of processes in a lab: `NAME.ID`.
pub const VARIABLE: &str = "FABRICMARK_LAB";

/// Why a lab that is or should be up cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// It cannot be as was asked: what, and what can.
    #[error("{0}")]
    Refused(String),
    /// This machine lacks what it needs.
    #[error("{0}")]
    Missing(String),
    /// The holder does not speak as it should.
    #[error("lost the process that holds the lab: {0}")]
    Lost(#[from] io::Error),
    /// The lab cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
}
