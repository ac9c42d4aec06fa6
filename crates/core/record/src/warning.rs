//! Warnings that a reader of a record should know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A circumstance that may make a figure wrong, with the numbers that show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// More arrived than the wire allows; in records of versions that counted such a run.
    #[error(
        "goodput of {:.2} Mbit/s exceeds the {:.2} that the wire allows: a defect of fabricmark or \
         of the emulated link",
        goodput_bps / 1e6,
        allowed_bps / 1e6
    )]
    AboveCeiling {
        /// Measured goodput.
        goodput_bps: f64,
        /// The bound with its tolerances.
        allowed_bps: f64,
    },
    /// The clocks of ranks are synchronised less exactly than the times that are measured.
    #[error(
        "the clocks of the ranks are synchronised to {} ns, and an operation takes {} ns from the \
         first start to the last end",
        error_ns,
        operation_ns.round()
    )]
    ClockError {
        /// Maximum error of the difference of two clocks.
        error_ns: u64,
        /// Mean time of an operation.
        operation_ns: f64,
    },
    /// The receiver lagged behind the wire when counting started; in records of versions that counted what waited.
    #[error("the count includes up to {bytes} bytes that were queued before it began")]
    Backlog {
        /// Maximum number of these bytes.
        bytes: u64,
    },
    /// The emulator lost packets unintentionally.
    #[error(
        "the emulator dropped {packets} packets unintentionally: this machine is too slow for the \
         link"
    )]
    MissedPackets {
        /// Number of lost packets.
        packets: u64,
    },
    /// The emulated wire is faster than the emulator's accurate range; in records of earlier versions. Now the
    /// lateness of the emulator in the run itself decides.
    #[error(
        "the emulated link has {:.2} Gbit/s, but the emulator is accurate only up to {:.2}: it may \
         limit the result",
        asked_bps / 1e9,
        true_bps / 1e9
    )]
    BeyondCalibration {
        /// Rate of the wire.
        asked_bps: f64,
        /// Largest accurate rate, with super-packets or single packets as in this run.
        true_bps: f64,
    },
    /// Datagrams were lost and no counter explains it.
    #[error("{datagrams} datagrams were lost without a drop counter")]
    UnexplainedLoss {
        /// Number of lost datagrams.
        datagrams: u64,
    },
    /// Consecutive runs are correlated, so the printed interval is too narrow.
    #[error("consecutive runs are correlated (lag 1: {lag1:.2}): the interval is too narrow")]
    Correlated {
        /// Lag-1 autocorrelation.
        lag1: f64,
    },
    /// The sender did not hold the scheduled rate.
    #[error(
        "the sender reached {achieved_per_s:.1} departures/s, below the scheduled {}: the figures \
         are those of the lower rate",
        offered_per_s.map_or("rate".to_owned(), |offered| format!("{offered:.1}"))
    )]
    RateNotHeld {
        /// Scheduled departures per second; absent if the sender did not complete the first burst.
        offered_per_s: Option<f64>,
        /// Actual departures per second.
        achieved_per_s: f64,
    },
    /// Load threads that ran at the same time had fewer CPUs than there are threads.
    #[error("{}", shared_cpu(*threads, *processors))]
    SharedCpu {
        /// Number of load threads.
        #[serde(default = "two", alias = "ends")]
        threads: u32,
        /// Number of CPUs.
        #[serde(default = "one")]
        processors: u32,
    },
    /// The hypervisor ran other guests while a node's machine had work ([`crate::MachineUsage::stolen_share`]).
    #[error(
        "the hypervisor stole {:.1} % of the busy CPU time of node {node}: the figures are those \
         of a slower machine",
        100.0 * share
    )]
    StolenTime {
        /// Name of the node.
        node: String,
        /// Share of the runnable time that was certainly stolen.
        share: f64,
    },
    /// The kernel copied what was to be sent without a copy.
    #[error(
        "the kernel copied {copied} of {sends} zero-copy sends, as it does over loopback and veth"
    )]
    Copied {
        /// Number of sends with a copy.
        copied: u64,
        /// Number of sends.
        sends: u64,
    },
    /// The load thread could not be bound to a CPU.
    #[error("node {node} was not bound to a CPU: {reason}")]
    NotPinned {
        /// Name of the node.
        node: String,
        /// Reason.
        reason: String,
    },
    /// The kernel granted a smaller receive buffer than requested.
    #[error(
        "asked for a receive buffer of {asked_bytes} bytes, got {granted_bytes}: raise net.core.rmem_max"
    )]
    SmallBuffer {
        /// Bytes requested.
        asked_bytes: u64,
        /// Bytes granted.
        granted_bytes: u64,
    },
    /// The kernel granted a smaller send buffer than requested.
    #[error(
        "asked for a send buffer of {asked_bytes} bytes, got {granted_bytes}: raise net.core.wmem_max"
    )]
    SmallSendBuffer {
        /// Bytes requested.
        asked_bytes: u64,
        /// Bytes granted.
        granted_bytes: u64,
    },
    /// RTTs without kernel timestamps, so many that they may include those beyond a reported percentile.
    #[error(
        "{count} of {of} round trips lack a timestamp and are left out of kernel RTT and \
         application time"
    )]
    Unstamped {
        /// Number of RTTs without a timestamp.
        count: u64,
        /// Number of all RTTs.
        of: u64,
    },
    /// Requests without a response in time.
    #[error("{count} requests got no response")]
    LostRoundTrips {
        /// Number of these requests.
        count: u64,
    },
}

/// Default for records of versions in which a run had one part.
fn two() -> u32 {
    2
}

/// See [`two`].
fn one() -> u32 {
    1
}

fn shared_cpu(threads: u32, processors: u32) -> String {
    match (threads, processors) {
        (2, 1) => "both ends ran on one CPU (measure --cpu A,B names one for each)".to_owned(),
        (_, 1) => format!("{threads} load threads shared one CPU"),
        _ => format!("{threads} load threads shared {processors} CPUs"),
    }
}
