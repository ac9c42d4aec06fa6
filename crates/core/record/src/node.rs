//! The nodes of a run and what is known of them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::KernelCounters;
use crate::usage::Usage;

/// One end of a run: a carrier, optionally a namespace, and what its sockets are bound to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name in the run.
    pub name: String,
    /// How the coordinator reaches it.
    pub carrier: Carrier,
    /// Name of its network namespace, where it has one of its own.
    pub namespace: Option<String>,
    /// Address that its sockets are bound to.
    pub address: Option<IpAddr>,
    /// Network device that the address belongs to.
    pub device: Option<String>,
    /// What its end of the run knew and counted.
    pub side: Side,
    /// What was used there of processors and memory, from before the flows were opened to after the
    /// last byte was acknowledged.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// What the kernel counted there meanwhile.
    #[serde(default)]
    pub kernel: Option<KernelCounters>,
    /// The machine it ran on.
    pub host: HostFacts,
    /// How far its clock is from the coordinator's, where that is another machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset: Option<ClockOffset>,
}

/// How the coordinator reaches a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// A worker process on this machine, over a local socket.
    LocalSocket,
    /// An agent on a host, over TLS.
    Agent,
    /// A server of iperf3.
    Iperf3,
}

/// Circumstances at one end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The processor that the load thread was bound to.
    pub cpu: Option<u32>,
    /// Receive buffer that the kernel granted, in bytes (twice what was asked for, where the kernel
    /// counts its own overhead: socket(7)).
    pub receive_buffer_bytes: Option<u64>,
    /// Send buffer that the kernel granted, in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// The kernel's own pacing as granted, in bit/s; absent where nobody asked for it.
    #[serde(default)]
    pub pacing_rate_bps: Option<u64>,
    /// The clock that paces and round trips were read from.
    #[serde(default)]
    pub clock: Option<ClockFacts>,
}

/// What is known of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// Host name.
    pub hostname: String,
    /// Operating system, as it names itself.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors that this program may use.
    pub cpus: u32,
    /// Installed memory in bytes.
    pub memory_bytes: u64,
    /// Frequency governor of the first processor, where the kernel has one.
    pub governor: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Whether the processor says that it runs under a hypervisor.
    pub is_virtual: bool,
}

/// How far the clock of a node is from that of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// The node's monotonic clock less the coordinator's.
    pub offset_ns: i64,
    /// The true distance is no farther from that than this: half the shortest round trip, and what
    /// clocks may drift since.
    pub uncertainty_ns: u64,
    /// Shortest round trip of the control path.
    pub rtt_min_ns: u64,
    /// How much faster the node's clock runs, in parts per billion, where that is known better than to
    /// 100,000 of them.
    pub drift_ppb: Option<i64>,
    /// How far the drift may be from that.
    pub drift_uncertainty_ppb: Option<u64>,
}

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
