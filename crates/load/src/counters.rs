//! What the kernel of this namespace counted beside the sockets.

use std::fs;

use fabricmark_proto::EndReport;
use fabricmark_record::KernelCounters;

use crate::kernel;
use crate::proc_net::{device_column, parse_snmp, parse_snmp6};

/// Counters of the namespace before a run.
pub(crate) struct Surroundings {
    device_drops: u64,
    reassembly_failures: u64,
    kernel: KernelCounters,
}

impl Surroundings {
    /// Reads them; `device` is the one that the run's packets arrive at.
    pub(crate) fn read(device: &str) -> Self {
        Self {
            device_drops: device_drops(device),
            reassembly_failures: reassembly_failures(),
            kernel: kernel::counters(device),
        }
    }

    /// Notes what was counted since.
    pub(crate) fn since(&self, device: &str, report: &mut EndReport) {
        let now = Self::read(device);
        report.device_drops = now.device_drops.saturating_sub(self.device_drops);
        report.reassembly_failures =
            now.reassembly_failures.saturating_sub(self.reassembly_failures);
        report.kernel = Some(now.kernel.since(&self.kernel));
    }
}

/// Packets that a device dropped on receipt, its backlog queue included (`/proc/net/dev`).
fn device_drops(device: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    device_column(&text, device, 3).unwrap_or(0)
}

/// Failures of reassembly, IPv4 and IPv6 (RFC 4293, ipSystemStatsReasmFails: not a count of datagrams).
fn reassembly_failures() -> u64 {
    let v4 = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    parse_snmp(&v4, "Ip:", "ReasmFails").unwrap_or(0)
        + parse_snmp6(&v6, "Ip6ReasmFails").unwrap_or(0)
}
