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
pub use message::{NodeReport, PathReport, Report, SharedReport};
pub use place::Place;

use std::io;
use std::path::PathBuf;

use crate::tool::LabError;

/// The variable in the environment of processes in a lab: `NAME.ID`.
pub const VARIABLE: &str = "FABRICMARK_LAB";

/// Why a lab that is or should be up cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// There is no place for sockets.
    #[error(
        "no folder for the sockets of labs: set XDG_RUNTIME_DIR to a folder of your own, or be root"
    )]
    NoPlace,
    /// The folder of the sockets cannot be used.
    #[error("cannot use {path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A name cannot be one.
    #[error(
        "`{0}` cannot be the name of a lab: use 1 to 40 letters, digits, dashes; --name gives another"
    )]
    Name(String),
    /// There is one already.
    #[error(
        "a lab `{0}` is up: `fabricmark lab down --lab {0}` ends it, --name gives the new one another name"
    )]
    IsUp(String),
    /// None of this name.
    #[error("no lab `{name}` is up{others}")]
    NoSuchLab {
        /// The name.
        name: String,
        /// What is up.
        others: String,
    },
    /// None at all.
    #[error("no lab is up: `fabricmark lab up FILE` makes one")]
    NoLab,
    /// More than one.
    #[error("several labs are up ({0}): say which with --lab NAME")]
    Several(String),
    /// More than a holder reads.
    #[error(
        "{bytes} bytes of topology and traces are more than the 1048576 that a lab takes at once: cut \
         the traces, they repeat"
    )]
    Long {
        /// So much it would be.
        bytes: usize,
    },
    /// The holder says no.
    #[error("{0}")]
    Refused(String),
    /// The machine lacks what the holder needs.
    #[error("{0}")]
    Missing(String),
    /// The holder does not speak as it should.
    #[error("lost the process that holds the lab: {0}")]
    Lost(io::Error),
    /// The lab cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
}
