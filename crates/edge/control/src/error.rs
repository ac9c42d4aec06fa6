//! Why a plan did not come to its end.

use std::io;

use fabricmark_lab::LabError;
use fabricmark_proto::ConversationError;
use fabricmark_store::StoreError;

use crate::carrier::AgentError;

/// Why a plan did not come to its end. Every finished run is kept.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The user asked for it.
    #[error("interrupted")]
    Interrupted,
    /// There is no lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Records cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An agent cannot be used.
    #[error(transparent)]
    AgentLost(#[from] AgentError),
    /// A run failed in a way that the next one would, too.
    #[error("{0}")]
    Run(ConversationError),
    /// No run of any point counts.
    #[error("no run counts: {reason}")]
    Nothing {
        /// Why the last one does not.
        reason: String,
        /// Whether this host lacks what the last one needs.
        is_missing: bool,
    },
    /// The plan asks for something that cannot be.
    #[error("{0}")]
    Input(String),
    /// This machine lacks what the plan needs.
    #[error("{0}")]
    Missing(String),
    /// A system call failed, or a worker is gone.
    #[error("{0}")]
    Failed(String),
    /// A fault of this program.
    #[error("{0}")]
    Internal(String),
}

impl PlanError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("cannot {doing}: {error}"))
    }
}
