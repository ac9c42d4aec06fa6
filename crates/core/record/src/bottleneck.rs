//! What limited a run.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of a ceiling from which on it limits: our choice.
pub const AT_CEILING: f64 = 0.95;

/// What limited a run, with the number that shows it as a share from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Bottleneck {
    /// The wire: goodput is at a ceiling, or RTT at the floor.
    Wire {
        /// Goodput over the ceiling, or the RTT floor over the mean RTT.
        share: f64,
    },
    /// The pace of the plan.
    Pace {
        /// Share of the scheduled departures that were made.
        share: f64,
    },
    /// The CPU quota of a node's control group.
    Quota {
        /// Name of the node.
        node: String,
        /// Share of the run's time in which the quota was used up.
        share: f64,
    },
    /// The thread of the link emulator.
    Emulator {
        /// Share of the run's time in which it was busy.
        share: f64,
    },
    /// The CPU of a node's load thread.
    Cpu {
        /// Name of the node; both names if they share a CPU.
        node: String,
        /// Share of the run's time in which load threads had the CPU, or other processes or the hypervisor took it from them.
        share: f64,
    },
    /// The receive window.
    Window {
        /// Share of the time with data to send in which the window was full.
        share: f64,
    },
    /// The send buffer.
    SendBuffer {
        /// Share of the time with data to send in which the buffer was full, or the share of a requested buffer that
        /// was in flight, whichever is larger.
        share: f64,
    },
    /// The receive buffer of a datagram socket, which overflowed.
    ReceiveBuffer {
        /// Share of the sent datagrams that were dropped there.
        share: f64,
    },
    /// Lost packets.
    Loss {
        /// Share of the packets that were lost or retransmitted.
        share: f64,
    },
    /// The congestion control: it paces, or has not opened its window.
    CongestionControl {
        /// Share of the time with data to send in which neither receive window nor send buffer was full.
        share: f64,
    },
    /// Waiting: the ends wait for each other and no CPU is busy.
    Waits {
        /// Share of the run's time in which the busier end's CPU was busy.
        share: f64,
    },
}

impl Bottleneck {
    /// The number that shows it, from 0 to 1.
    pub fn share(&self) -> f64 {
        match self {
            Self::Wire { share }
            | Self::Pace { share }
            | Self::Quota { share, .. }
            | Self::Emulator { share }
            | Self::Cpu { share, .. }
            | Self::Window { share }
            | Self::SendBuffer { share }
            | Self::ReceiveBuffer { share }
            | Self::Loss { share }
            | Self::CongestionControl { share }
            | Self::Waits { share } => *share,
        }
    }

    /// Name within a sentence: `the wire`.
    pub fn in_a_sentence(&self) -> String {
        match self {
            Self::Loss { .. } | Self::Waits { .. } => self.to_string(),
            Self::Wire { .. }
            | Self::Pace { .. }
            | Self::Quota { .. }
            | Self::Emulator { .. }
            | Self::Cpu { .. }
            | Self::Window { .. }
            | Self::SendBuffer { .. }
            | Self::ReceiveBuffer { .. }
            | Self::CongestionControl { .. } => format!("the {self}"),
        }
    }

    /// What the share refers to, as text after the percentage: `of the ceiling`.
    pub fn evidence(&self) -> &'static str {
        match self {
            Self::Wire { .. } => "of the ceiling or floor",
            Self::Pace { .. } => "of the scheduled departures",
            Self::Quota { .. } => "of the time throttled",
            Self::Emulator { .. } => "of the time busy",
            Self::Cpu { .. } => "of the time busy",
            Self::Window { .. } => "of the time full",
            Self::SendBuffer { .. } => "full",
            Self::ReceiveBuffer { .. } => "of the datagrams dropped there",
            Self::Loss { .. } => "of the packets",
            Self::CongestionControl { .. } => "of the time no window or buffer was full",
            Self::Waits { .. } => "of the time a CPU was busy",
        }
    }
}

/// Name: `wire`, `CPU of server`.
impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire { .. } => f.write_str("wire"),
            Self::Pace { .. } => f.write_str("pace"),
            Self::Quota { node, .. } => write!(f, "CPU quota of {node}"),
            Self::Emulator { .. } => f.write_str("emulator"),
            Self::Cpu { node, .. } => write!(f, "CPU of {node}"),
            Self::Window { .. } => f.write_str("receive window"),
            Self::SendBuffer { .. } => f.write_str("send buffer"),
            Self::ReceiveBuffer { .. } => f.write_str("receive buffer"),
            Self::Loss { .. } => f.write_str("loss"),
            Self::CongestionControl { .. } => f.write_str("congestion control"),
            Self::Waits { .. } => f.write_str("waits"),
        }
    }
}
