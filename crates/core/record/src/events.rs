//! Events that the processor and the kernel counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events of one process that the processor or the kernel counted (perf_event_open(2)): of threads
/// that ran at the first reading, and of those that they started since.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Processor cycles.
    pub cycles: EventCount,
    /// Instructions carried out.
    pub instructions: EventCount,
    /// Misses of the last level of cache, as the processor's maker defines them.
    pub cache_misses: EventCount,
    /// Times that a thread left a processor.
    pub context_switches: EventCount,
    /// Times that a thread went on on another processor.
    pub migrations: EventCount,
    /// Page faults.
    pub page_faults: EventCount,
}

/// How often an event happened, or why that is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventCount {
    /// It was counted.
    Counted {
        /// How often it happened. Where the processor had too few counters and `running` is below
        /// 1, this is the count of that part over `running`.
        count: u64,
        /// Whether what the kernel did for the process is in it; without the privilege it is not
        /// (`/proc/sys/kernel/perf_event_paranoid` of 2 and more).
        with_kernel: bool,
        /// The part of the time in which it was counted, at most 1.
        running: f64,
    },
    /// It was not counted.
    Absent {
        /// Why: `no PMU` where the processor, or its hypervisor, offers no counters.
        reason: String,
    },
}

impl Default for EventCount {
    fn default() -> Self {
        Self::Absent { reason: "not read".to_owned() }
    }
}

impl EventCount {
    /// The count, where there is one.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Counted { count, .. } => Some(*count),
            Self::Absent { .. } => None,
        }
    }
}
