//! Why a plan did not finish.

use std::io;

use fabricmark_lab::LabError;
use fabricmark_proto::ConversationError;
use fabricmark_store::StoreError;

use crate::carrier::AgentError;

/// Why a plan did not finish. Every finished run is kept.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The user interrupted the plan.
    #[error("interrupted")]
    Interrupted,
    /// The lab cannot be built or used.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Records cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An agent cannot be used.
    #[error(transparent)]
    AgentLost(#[from] AgentError),
    /// A run failed in a way that the next one would fail, too.
    #[error("{0}")]
    Run(ConversationError),
    /// No run of any point measured anything.
    #[error("no valid run: {reason}")]
    Nothing {
        /// Why the last run does not count.
        reason: String,
        /// What kind of reason that is.
        cause: Cause,
    },
    /// The plan asks for something impossible.
    #[error("{0}")]
    Input(String),
    /// This machine lacks what the plan needs.
    #[error("{0}")]
    Missing(String),
    /// A system call failed, or a worker was lost.
    #[error("{0}")]
    Failed(String),
    /// A defect of this program.
    #[error("{0}")]
    Internal(String),
}

/// Why a run measured nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// This host lacks something that the run needs.
    Missing,
    /// The other end could not be reached.
    Unreachable,
    /// Something else.
    #[default]
    Other,
}

impl PlanError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("cannot {doing}: {error}"))
    }
}
