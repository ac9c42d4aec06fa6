//! What a reader of a record should know before trusting it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A circumstance that may spoil a figure, with the numbers that show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The receiver saw more than the wire allows, in records of versions that counted such a run.
    #[error(
        "{:.2} Mbit/s arrived where the wire allows {:.2}: a defect of the tool or of the emulated link",
        goodput_bps / 1e6,
        allowed_bps / 1e6
    )]
    AboveCeiling {
        /// What was measured.
        goodput_bps: f64,
        /// The bound with its tolerances.
        allowed_bps: f64,
    },
    /// The receiver lagged behind the wire when counting began, in records of versions that counted what waited.
    #[error("up to {bytes} bytes that had waited when counting began are counted")]
    Backlog {
        /// How much, at most.
        bytes: u64,
    },
    /// The emulator lost packets that it was not asked to lose.
    #[error(
        "the emulated link lost {packets} packets that it was not asked to lose: this machine is too slow for it"
    )]
    MissedPackets {
        /// How many.
        packets: u64,
    },
    /// The emulated wire is faster than what the emulator was true for. Of records of earlier versions:
    /// what decides now is whether the emulator was late in the run itself.
    #[error(
        "the emulated wire has {:.2} Gbit/s, and the emulator is true up to {:.2}: what is slower than the wire may be \
         so for the emulator's sake",
        asked_bps / 1e9,
        true_bps / 1e9
    )]
    BeyondCalibration {
        /// Rate of the wire.
        asked_bps: f64,
        /// The largest that was true, with packets as this run had them.
        true_bps: f64,
    },
    /// Datagrams were lost and no counter says where.
    #[error("{datagrams} datagrams were lost and no counter says where")]
    UnexplainedLoss {
        /// How many.
        datagrams: u64,
    },
    /// The run's figure follows the one of the run before, so intervals are narrower than the truth.
    #[error(
        "each run resembles the one before (correlation {lag1:.2}): the true interval is wider than the printed one"
    )]
    Correlated {
        /// Correlation of each run with the one before.
        lag1: f64,
    },
    /// The sender did not hold the rate of its pace.
    #[error(
        "the pace asks for {} departures a second and the sender reached {achieved_per_s:.1}: the figures are those of \
         the lower rate",
        offered_per_s.map_or("more".to_owned(), |offered| format!("{offered:.1}"))
    )]
    RateNotHeld {
        /// Departures each second that the pace intended; absent where the sender did not come to
        /// the end of the first burst.
        offered_per_s: Option<f64>,
        /// Departures each second that there were.
        achieved_per_s: f64,
    },
    /// Ends that ran at once had fewer processors than they are.
    #[error("{}", shared_cpu(*ends, *processors))]
    SharedCpu {
        /// How many ends.
        #[serde(default = "two")]
        ends: u32,
        /// How many processors.
        #[serde(default = "one")]
        processors: u32,
    },
    /// The hypervisor ran somebody else while a node's machine had work
    /// ([`crate::MachineUsage::stolen_share`]).
    #[error(
        "the hypervisor took {:.1} % of the time in which node {node} had work: its figures are those of a slower machine",
        100.0 * share
    )]
    StolenTime {
        /// The node.
        node: String,
        /// The part of the time to run that was surely taken.
        share: f64,
    },
    /// The load thread could not be bound to a processor.
    #[error("node {node} was not bound to a processor: {reason}")]
    NotPinned {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// The kernel granted less receive buffer than was asked for.
    #[error(
        "asked for a receive buffer of {asked_bytes} bytes, got {granted_bytes}: raise net.core.rmem_max"
    )]
    SmallBuffer {
        /// Bytes asked for.
        asked_bytes: u64,
        /// Bytes granted.
        granted_bytes: u64,
    },
    /// The kernel granted less send buffer than was asked for.
    #[error(
        "asked for a send buffer of {asked_bytes} bytes, got {granted_bytes}: raise net.core.wmem_max"
    )]
    SmallSendBuffer {
        /// Bytes asked for.
        asked_bytes: u64,
        /// Bytes granted.
        granted_bytes: u64,
    },
    /// Round trips that lack a stamp of their packets, so many that they may be those beyond a shown
    /// percentile.
    #[error(
        "{count} of {of} round trips lack a stamp and are in no figure of the kernel or of the application"
    )]
    Unstamped {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
    },
    /// Round trips that got no answer in time.
    #[error("{count} round trips got no answer")]
    LostRoundTrips {
        /// How many.
        count: u64,
    },
}

/// Records of versions before a run had several parts.
fn two() -> u32 {
    2
}

/// See [`two`].
fn one() -> u32 {
    1
}

fn shared_cpu(ends: u32, processors: u32) -> String {
    match (ends, processors) {
        (2, 1) => "both ends ran on one processor".to_owned(),
        _ => format!("{ends} ends ran on {processors} processors: each has waited for others"),
    }
}
