//! What the kernel of this namespace counted beside the sockets.

use std::fs;

use fabricmark_proto::EndReport;
use fabricmark_record::KernelCounters;

use crate::kernel;

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

/// A column, from 0, of `  veth1: bytes packets errs drop ...`.
pub(crate) fn device_column(text: &str, device: &str, column: usize) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

/// A line of names, then a line of values, both headed by the protocol.
pub(crate) fn parse_snmp(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let column = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// A name and a value on each line.
pub(crate) fn parse_snmp6(text: &str, name: &str) -> Option<u64> {
    let mut words = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next()? == name).then_some(words))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_device_are_read_by_their_column() {
        let text = "Inter-|   Receive\n face |bytes packets errs drop\n    lo: 1 2 3 4\n veth1: 10 20 30 40 50\n";
        assert_eq!(device_column(text, "veth1", 3), Some(40));
        assert_eq!(device_column(text, "veth1", 0), Some(10));
        assert_eq!(device_column(text, "lo", 4), None);
        assert_eq!(device_column(text, "veth", 3), None);
    }

    #[test]
    fn failures_are_read_by_the_name_of_their_column() {
        let v4 = "Ip: Forwarding ReasmFails\nIp: 1 7\nTcp: RtoMin\nTcp: 2\n";
        assert_eq!(parse_snmp(v4, "Ip:", "ReasmFails"), Some(7));
        let v6 = "Ip6InReceives   5\nIp6ReasmFails   9\n";
        assert_eq!(parse_snmp6(v6, "Ip6ReasmFails"), Some(9));
    }
}
