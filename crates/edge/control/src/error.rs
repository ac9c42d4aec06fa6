//! Why a plan did not come to its end.

use std::io;
use std::net::IpAddr;

use fabricmark_lab::{LabError, TopologyError};
use fabricmark_proto::ConversationError;
use fabricmark_store::StoreError;
use fabricmark_wire::Link;

use crate::carrier::AgentError;
use crate::memory::MemoryError;

/// Why a plan did not come to its end. Every finished run is kept.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The user asked for it.
    #[error("interrupted")]
    Interrupted,
    /// There is no lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The windows of the plan do not fit into memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A point asks for a link that was not built.
    #[error("no link {0} was built")]
    NoLink(Link),
    /// No way leads from one node of a topology to another.
    #[error("no way leads from `{0}` to `{1}` in the topology")]
    NoWay(String, String),
    /// The plan's topology is none.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Flows whose two ends are this host, although the plan is run between hosts.
    #[error(
        "the flows from `{0}` to `{1}` have both ends on this host: name the host of one with --to {1}=HOST"
    )]
    SameHost(String, String),
    /// No device of this machine has an address that an end is to have.
    #[error("no device of this machine has the address {0}: see `ip address`")]
    NoAddress(IpAddr),
    /// Records cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A worker is gone.
    #[error("the worker of node {node} {what} in mid-run ({how})")]
    WorkerLost {
        /// The node.
        node: String,
        /// What was noticed.
        what: String,
        /// What became of the process.
        how: String,
    },
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
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl PlanError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}
