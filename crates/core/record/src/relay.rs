//! What a relay between the ends of a run measured.

use serde::{Deserialize, Serialize};

/// Means over the connections that a relay has moved bytes of, in nanoseconds, and its CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayTimes {
    /// From the start of the first receive to the end of the last send.
    pub switching_ns: f64,
    /// From the start of the first receive to the end of the last one.
    pub receiving_ns: f64,
    /// Bytes per connection.
    pub bytes: f64,
    /// CPU time of the relay's process in microseconds per KiB of all bytes that it has moved.
    #[serde(default)]
    pub demand_us_per_kib: f64,
}

impl RelayTimes {
    /// From the end of the last receive to the end of the last send, in nanoseconds.
    pub fn switching_delay_ns(self) -> f64 {
        self.switching_ns - self.receiving_ns
    }
}
