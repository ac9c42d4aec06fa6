//! Kernel counters, from `/proc/net` of the calling thread's network namespace.

use std::fs;

use fabricmark_record::{KernelCounters, UdpCounters};

/// Kernel counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Counters that a record contains; `None` for those that cannot be read.
    pub counters: KernelCounters,
    /// Packets that the device dropped on receipt, including those of its backlog queue.
    pub device_drops: u64,
    /// Reassembly failures, IPv4 and IPv6 (RFC 4293, ipSystemStatsReasmFails: not a number of datagrams).
    pub reassembly_failures: u64,
}

impl Snapshot {
    /// Reads the counters of this thread's namespace, and those of one device.
    pub fn now(device: &str) -> Self {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
        };
        let [devices, snmp, snmp6] = ["dev", "snmp", "snmp6"].map(read);
        Self {
            counters: KernelCounters {
                device_received_bytes: device_column(&devices, device, 0),
                ..parse(&read("softnet_stat"), &snmp, &snmp6, &read("netstat"))
            },
            device_drops: device_column(&devices, device, 3).unwrap_or(0),
            reassembly_failures: parse_snmp(&snmp, "Ip:", "ReasmFails").unwrap_or(0)
                + parse_snmp6(&snmp6, "Ip6ReasmFails").unwrap_or(0),
        }
    }

    /// The increase since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let since = u64::saturating_sub;
        Self {
            counters: self.counters.since(&before.counters),
            device_drops: since(self.device_drops, before.device_drops),
            reassembly_failures: since(self.reassembly_failures, before.reassembly_failures),
        }
    }
}

fn parse(softnet: &str, snmp: &str, snmp6: &str, netstat: &str) -> KernelCounters {
    const DROPPED: usize = 1;
    const TIME_SQUEEZED: usize = 2;
    KernelCounters {
        softnet_dropped: parse_softnet(softnet, DROPPED),
        softnet_time_squeezed: parse_softnet(softnet, TIME_SQUEEZED),
        udp_v4: UdpCounters {
            in_errors: parse_snmp(snmp, "Udp:", "InErrors"),
            receive_buffer_errors: parse_snmp(snmp, "Udp:", "RcvbufErrors"),
            send_buffer_errors: parse_snmp(snmp, "Udp:", "SndbufErrors"),
        },
        udp_v6: UdpCounters {
            in_errors: parse_snmp6(snmp6, "Udp6InErrors"),
            receive_buffer_errors: parse_snmp6(snmp6, "Udp6RcvbufErrors"),
            send_buffer_errors: parse_snmp6(snmp6, "Udp6SndbufErrors"),
        },
        tcp_retransmitted_segments: parse_snmp(snmp, "Tcp:", "RetransSegs"),
        tcp_listen_overflows: parse_snmp(netstat, "TcpExt:", "ListenOverflows"),
        tcp_listen_drops: parse_snmp(netstat, "TcpExt:", "ListenDrops"),
        device_received_bytes: None,
    }
}

/// Sum of a column over all CPUs: a line each, of hexadecimal numbers of 32 bits (net/core/net-procfs.c,
/// softnet_seq_show). `None` if a line lacks the column.
fn parse_softnet(text: &str, column: usize) -> Option<u64> {
    let mut sum = None;
    for line in text.lines() {
        let word = line.split_whitespace().nth(column)?;
        let count = u32::from_str_radix(word, 16).ok()?;
        sum = Some(sum.unwrap_or(0) + u64::from(count));
    }
    sum
}

/// A column, from 0, of `  veth1: bytes packets errs drop ...`.
fn device_column(text: &str, device: &str, column: usize) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

/// A line of names, then a line of values, both prefixed by the protocol.
fn parse_snmp(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let column = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// A name and a value per line.
fn parse_snmp6(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let mut words = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use proptest::prelude::*;

    use super::*;

    const SOFTNET: &str = "\
38dd1cd3 00000002 000000f0 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
0728dc41 0000000a 00000067 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001
";

    const SNMP: &str = "\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs
Tcp: 1 200 120000 -1 25347 25296 0 29361 0 35460112 35443864 11503 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
Udp: 632641 0 12 632653 11 3 1
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
UdpLite: 9 9 9 9 9 9 9
";

    const SNMP6: &str = "\
Udp6InDatagrams                 \t470420
Udp6InErrors                    \t37140
Udp6RcvbufErrors                \t37139
Udp6SndbufErrors                \t7
UdpLite6InErrors                \t9
";

    const NETSTAT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops
TcpExt: 0 4 6
IpExt: InNoRoutes
IpExt: 5
";

    #[test]
    fn each_counter_is_read_from_its_place() {
        let expected = KernelCounters {
            softnet_dropped: Some(12),
            softnet_time_squeezed: Some(0xf0 + 0x67),
            udp_v4: UdpCounters {
                in_errors: Some(12),
                receive_buffer_errors: Some(11),
                send_buffer_errors: Some(3),
            },
            udp_v6: UdpCounters {
                in_errors: Some(37_140),
                receive_buffer_errors: Some(37_139),
                send_buffer_errors: Some(7),
            },
            tcp_retransmitted_segments: Some(11_503),
            tcp_listen_overflows: Some(4),
            tcp_listen_drops: Some(6),
            device_received_bytes: None,
        };
        assert_eq!(parse(SOFTNET, SNMP, SNMP6, NETSTAT), expected);
    }

    #[test]
    fn a_counter_that_the_kernel_does_not_have_is_absent() {
        assert_eq!(parse("", "", "", ""), KernelCounters::default());
        let old = SNMP.replace("RcvbufErrors", "Another");
        assert_eq!(parse("", &old, "", "").udp_v4.receive_buffer_errors, None);
        assert_eq!(parse_softnet("00000001 00000002\n00000001\n", 1), None);
    }

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

    #[test]
    fn a_datagram_that_finds_no_room_is_counted() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        socket2::SockRef::from(&to).set_recv_buffer_size(4_096).unwrap();
        let before = Snapshot::now("lo");
        // More than the buffer holds, without a receiver.
        for _ in 0..100 {
            from.send(&[0; 1_000]).unwrap();
        }
        let counted = Snapshot::now("lo").since(&before).counters;
        assert!(counted.udp_v4.receive_buffer_errors >= Some(50), "{counted:?}");
        assert!(counted.udp_v4.in_errors >= Some(50), "{counted:?}");
        // The headers of IP and UDP have 28 bytes.
        assert!(counted.device_received_bytes >= Some(100 * 1_028), "{counted:?}");
        assert!(counted.udp_v6.in_errors.is_some() && counted.softnet_dropped.is_some());
        assert!(counted.tcp_listen_drops.is_some(), "{counted:?}");
        assert!(counted.tcp_retransmitted_segments.is_some(), "{counted:?}");
    }

    proptest! {
        #[test]
        fn no_text_stops_the_reading(text in "(Udp: |Tcp: |TcpExt: |Udp6InErrors|[0-9a-f]{1,9}|InErrors|ListenDrops|[ \n]|.){0,60}") {
            parse(&text, &text, &text, &text);
        }

        #[test]
        fn a_counter_is_read_wherever_its_column_stands(
            values in prop::collection::vec(any::<u64>(), 1..20),
            place in any::<prop::sample::Index>(),
        ) {
            let place = place.index(values.len());
            let name = |at: usize| if at == place { "ListenDrops".into() } else { format!("N{at}") };
            let names: Vec<String> = (0..values.len()).map(name).collect();
            let words: Vec<String> = values.iter().map(u64::to_string).collect();
            let text = format!("TcpExt: {}\nTcpExt: {}\n", names.join(" "), words.join(" "));
            prop_assert_eq!(parse("", "", "", &text).tcp_listen_drops, Some(values[place]));
        }
    }
}
