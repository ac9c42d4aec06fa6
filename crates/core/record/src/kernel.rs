//! Kernel counters beside those of the sockets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernel counters that show where packets were lost, delayed or retransmitted. All but those of softnet are per
/// network namespace. A field is absent if the kernel does not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelCounters {
    /// Packets dropped because a CPU's backlog queue was full (`net.core.netdev_max_backlog`), on the whole machine
    /// (`/proc/net/softnet_stat`, column 2).
    pub softnet_dropped: Option<u64>,
    /// Times that the receive path stopped with work left because its budget of packets or time was used up
    /// (`net.core.netdev_budget`), on the whole machine (`/proc/net/softnet_stat`, column 3).
    pub softnet_time_squeezed: Option<u64>,
    /// Datagrams over IPv4 (`Udp:` in `/proc/net/snmp`).
    pub udp_v4: UdpCounters,
    /// Datagrams over IPv6 (`Udp6...` in `/proc/net/snmp6`).
    pub udp_v6: UdpCounters,
    /// Retransmitted segments over IPv4 and IPv6 (`RetransSegs` in `/proc/net/snmp`).
    pub tcp_retransmitted_segments: Option<u64>,
    /// Connections that found the queue of a listening socket full (`ListenOverflows` in
    /// `/proc/net/netstat`).
    pub tcp_listen_overflows: Option<u64>,
    /// Connections dropped by a listening socket, overflows included (`ListenDrops` in `/proc/net/netstat`).
    pub tcp_listen_drops: Option<u64>,
    /// Bytes of frames received by the device of the run (`/proc/net/dev`).
    #[serde(default)]
    pub device_received_bytes: Option<u64>,
}

/// Undelivered datagrams of one IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UdpCounters {
    /// Datagrams that arrived and were not delivered, `receive_buffer_errors` included (`InErrors`).
    pub in_errors: Option<u64>,
    /// Datagrams dropped because the socket's receive buffer was full (`RcvbufErrors`).
    pub receive_buffer_errors: Option<u64>,
    /// Datagrams not sent for lack of memory, in the send buffer or the device's queue (`SndbufErrors`).
    pub send_buffer_errors: Option<u64>,
}

/// `None` if either reading is absent; 0 if the counter was reset.
fn since(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(before?))
}

impl KernelCounters {
    /// Counts since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            softnet_dropped: since(before.softnet_dropped, self.softnet_dropped),
            softnet_time_squeezed: since(before.softnet_time_squeezed, self.softnet_time_squeezed),
            udp_v4: self.udp_v4.since(&before.udp_v4),
            udp_v6: self.udp_v6.since(&before.udp_v6),
            tcp_retransmitted_segments: since(
                before.tcp_retransmitted_segments,
                self.tcp_retransmitted_segments,
            ),
            tcp_listen_overflows: since(before.tcp_listen_overflows, self.tcp_listen_overflows),
            tcp_listen_drops: since(before.tcp_listen_drops, self.tcp_listen_drops),
            device_received_bytes: since(before.device_received_bytes, self.device_received_bytes),
        }
    }
}

impl UdpCounters {
    /// Counts since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            in_errors: since(before.in_errors, self.in_errors),
            receive_buffer_errors: since(before.receive_buffer_errors, self.receive_buffer_errors),
            send_buffer_errors: since(before.send_buffer_errors, self.send_buffer_errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_since_is_the_difference_where_both_readings_have_it() {
        let before = KernelCounters {
            softnet_dropped: Some(5),
            tcp_listen_drops: Some(9),
            udp_v6: UdpCounters { in_errors: Some(1), ..UdpCounters::default() },
            ..KernelCounters::default()
        };
        let now = KernelCounters {
            softnet_dropped: Some(7),
            softnet_time_squeezed: Some(3),
            tcp_listen_drops: Some(0),
            udp_v6: UdpCounters { in_errors: Some(4), ..UdpCounters::default() },
            ..KernelCounters::default()
        };
        let since = now.since(&before);
        assert_eq!(since.softnet_dropped, Some(2));
        assert_eq!(since.softnet_time_squeezed, None, "not known before");
        assert_eq!(since.tcp_listen_drops, Some(0), "reset");
        assert_eq!(since.udp_v6.in_errors, Some(3));
    }
}
