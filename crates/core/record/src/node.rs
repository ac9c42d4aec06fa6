//! The nodes of a run, and facts about them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interface::InterfaceFacts;
use crate::kernel::KernelCounters;
use crate::usage::Usage;

/// One end of a run: a carrier, optionally a namespace, and the address of its sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Name in the run.
    pub name: String,
    /// How the coordinator reaches the node.
    pub carrier: Carrier,
    /// Name of its own network namespace, if any.
    pub namespace: Option<String>,
    /// Address that its sockets are bound to.
    pub address: Option<IpAddr>,
    /// Network device of the address.
    pub device: Option<String>,
    /// Settings of that device, at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceFacts>,
    /// Parameters and facts of its end of the run.
    pub side: Side,
    /// CPU and memory used, from before the flows opened until the last byte was acknowledged.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Kernel counters over the same time.
    #[serde(default)]
    pub kernel: Option<KernelCounters>,
    /// The machine.
    pub host: HostFacts,
    /// Offset of its clock from the coordinator's, if that is on another machine.
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
    /// An iperf3 server.
    Iperf3,
}

/// Parameters and facts of one end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// CPU that the load thread was bound to.
    pub cpu: Option<u32>,
    /// Receive buffer granted by the kernel, in bytes (twice the requested size if the kernel counts its own
    /// overhead: socket(7)).
    pub receive_buffer_bytes: Option<u64>,
    /// Send buffer granted by the kernel, in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// Kernel pacing rate as granted, in bit/s; absent if not requested.
    #[serde(default)]
    pub pacing_rate_bps: Option<u64>,
    /// Clock used for pacing and RTTs.
    #[serde(default)]
    pub clock: Option<ClockFacts>,
}

/// Facts about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// Host name.
    pub hostname: String,
    /// Name of the operating system, as it reports itself.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs that this program may use.
    pub cpus: u32,
    /// Installed memory in bytes.
    pub memory_bytes: u64,
    /// Frequency governor of the first CPU, if the kernel has one.
    pub governor: Option<String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Whether the CPU reports a hypervisor.
    pub is_virtual: bool,
}

/// Offset of a node's clock from the coordinator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// The node's monotonic clock minus the coordinator's.
    pub offset_ns: i64,
    /// Maximum error of the offset: half the shortest RTT, plus possible drift since.
    pub uncertainty_ns: u64,
    /// Shortest RTT of the control path.
    pub rtt_min_ns: u64,
    /// How much faster the node's clock runs, in parts per billion; absent if not known to within 100,000.
    pub drift_ppb: Option<i64>,
    /// Maximum error of the drift.
    pub drift_uncertainty_ppb: Option<u64>,
}

/// Facts about a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// `CLOCK_MONOTONIC` (clock_gettime(2)) or `TSC`, the CPU's time-stamp counter.
    pub name: String,
    /// Cost of one reading in ns: the median of batches of readings.
    pub read_cost_ns: f64,
    /// Maximum deviation of the clock's rate from CLOCK_MONOTONIC, in parts per million; absent if it is that clock.
    pub uncertainty_ppm: Option<f64>,
}
