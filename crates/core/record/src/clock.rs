//! The clock that a run was timed with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// `CLOCK_MONOTONIC` (clock_gettime(2)) or `TSC`, the processor's time-stamp counter.
    pub name: String,
    /// What one reading costs: the median of batches of readings.
    pub read_cost_ns: f64,
    /// How far the clock's rate may be from that of CLOCK_MONOTONIC, in parts per million; absent
    /// where it is that clock.
    pub uncertainty_ppm: Option<f64>,
}
