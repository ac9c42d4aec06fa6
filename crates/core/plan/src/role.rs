//! The two ends of a flow.

use serde::{Deserialize, Serialize};

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Opens the flows: sends requests, and a stream unless it flows in reverse.
    Client,
    /// Listens for the flows: responds, and receives a stream unless it flows in reverse.
    Server,
}

impl Role {
    /// The name of its node.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}
