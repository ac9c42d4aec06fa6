//! What kept a run from being faster.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kept a run from being faster, and the number that shows it, a share of 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Bottleneck {
    /// The wire.
    Wire {
        /// Of the ceiling that was reached, or the floor of the mean round trip.
        share: f64,
    },
    /// The pace that the plan asks for.
    Pace {
        /// Of the intended departures that there were.
        share: f64,
    },
    /// The quota of a node's control group.
    Quota {
        /// The node.
        node: String,
        /// Of the run's time in which the quota was used up.
        share: f64,
    },
    /// The thread of the emulator of links.
    Emulator {
        /// Of the run's time in which it was busy.
        share: f64,
    },
    /// The processor of a node's load thread.
    Cpu {
        /// The node; both, where they share a processor.
        node: String,
        /// Of the run's time in which load threads, or the hypervisor's other guests, had the processor.
        share: f64,
    },
    /// The receiver's window.
    Window {
        /// Of the time with data to send in which the window was full.
        share: f64,
    },
    /// The send buffer.
    SendBuffer {
        /// Of the time with data to send in which the buffer was full, or, where its length was asked for, of the buffer
        /// that was in flight, whichever is more.
        share: f64,
    },
    /// The receiver's socket buffer, which overflowed.
    ReceiveBuffer {
        /// Of the sent datagrams that found it full.
        share: f64,
    },
    /// Lost packets.
    Loss {
        /// Of the packets that were lost, or sent again.
        share: f64,
    },
    /// The congestion control: it has not opened its window, or paces.
    CongestionControl {
        /// Of the time with data to send in which neither window nor send buffer was full.
        share: f64,
    },
    /// The ends wait for each other: no processor is busy.
    Waits {
        /// Of the run's time in which the busier end's processor was busy.
        share: f64,
    },
}

impl Bottleneck {
    /// Its share.
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

    /// Its name in a sentence: `the wire`.
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

    /// What its share is a part of, behind the percentage: `of the ceiling`.
    pub fn evidence(&self) -> &'static str {
        match self {
            Self::Wire { .. } => "of the ceiling or floor",
            Self::Pace { .. } => "of the intended departures",
            Self::Quota { .. } => "of the time the quota was used up",
            Self::Emulator { .. } => "of the time its thread was busy",
            Self::Cpu { .. } => "of the time its processor was busy",
            Self::Window { .. } => "of the time it was full",
            Self::SendBuffer { .. } => "full",
            Self::ReceiveBuffer { .. } => "of the datagrams found it full",
            Self::Loss { .. } => "of the packets",
            Self::CongestionControl { .. } => "of the time nothing else was full",
            Self::Waits { .. } => "of the time a processor was busy",
        }
    }
}

/// Its name: `wire`, `CPU of server`.
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
