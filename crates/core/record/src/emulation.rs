//! What an emulator did during a run, where the link of the run was emulated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::Calibrated;

/// How reasons begin for which a run does not count and that are the emulator's.
pub const THE_EMULATOR: &str = "the emulator";

/// An emulated link during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Emulation {
    /// What it was asked to do in both directions, as link words.
    pub words: String,
    /// Whether super-packets crossed it whole, so that no single frame was seen.
    pub offloaded: bool,
    /// The processor that its thread was bound to.
    pub cpu: Option<u32>,
    /// How true the emulator is on this machine; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
    /// From the node that opens flows.
    pub there: EmulatedWay,
    /// To it.
    pub back: EmulatedWay,
}

/// One direction of an emulated link during a run, in packets of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmulatedWay {
    /// Came from the sending device; segments of super-packets count each.
    pub arrived: u64,
    /// Written to the receiving device.
    pub departed: u64,
    /// Bytes of these; absent in records of versions that did not count them.
    #[serde(default)]
    pub departed_bytes: Option<u64>,
    /// Dropped as it was asked for: by loss, a full queue, an outage.
    pub dropped: u64,
    /// What was not asked for: dropped by the sending device before the emulator took it, or refused by
    /// the receiving one. 0 in a healthy run.
    pub missed: u64,
    /// Super-packets that came, of several segments each.
    pub super_packets: u64,
    /// Median of how much later than due they were written, in ns.
    pub late_p50_ns: Option<u64>,
    /// 99th percentile of it.
    pub late_p99_ns: Option<u64>,
    /// The latest of all.
    pub late_max_ns: Option<u64>,
}
