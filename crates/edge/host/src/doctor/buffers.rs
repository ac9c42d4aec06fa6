//! Whether socket buffers and the receive backlog are large enough for the BDP of a fast or long path.

use super::finding::{Check, Evidence, Finding, Found};
use super::tree::{File, Tree};

pub(super) const SOCKET_BUFFERS: Check = Check {
    name: "socket-buffers",
    why: "These limits apply to SO_RCVBUF and SO_SNDBUF of unprivileged processes. Small buffers \
          lose bursts of datagrams at the receiver and limit the TCP window.",
};

pub(super) const TCP_BUFFERS: Check = Check {
    name: "tcp-buffers",
    why: "TCP sends at most one window per RTT, and these buffers limit the window.",
};

pub(super) const BACKLOG: Check = Check {
    name: "backlog",
    why: "Packets of virtual links and steered packets wait in a queue per CPU. Packets that do \
          not fit are dropped, and no socket counts them.",
};

/// Reference path: 10 Gbit/s, the usual link between hosts that are measured ...
const PATH_BPS: f64 = 10e9;

/// ... with an RTT of 10 ms, about 1000 km of fibre.
const PATH_RTT_S: f64 = 0.01;

/// BDP of the reference path: 12.5 MB.
const PATH_BYTES: f64 = PATH_BPS * PATH_RTT_S / 8.0;

/// BDP of the reference path in full Ethernet frames of 1,538 bytes on the wire.
const PATH_FRAMES: u64 = 8127;

/// TCP advertises half of its receive buffer as window and reserves half for overhead (`tcp_adv_win_scale` 1,
/// ip-sysctl in the kernel); the overhead in a send buffer is about the same.
const TCP_BYTES_PER_WINDOW_BYTE: f64 = 2.0;

/// Limits set by the suggested commands: the next power of two above what the path needs.
const SOCKET_BYTES: u64 = 1 << 24;
const TCP_BYTES: u64 = 1 << 25;

pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        socket_buffers(&tree.files_in("/proc/sys/net/core", ["rmem_max", "wmem_max"])),
        tcp_buffers(&tree.files_in("/proc/sys/net/ipv4", ["tcp_rmem", "tcp_wmem"])),
        backlog(
            &tree.file("/proc/sys/net/core/netdev_max_backlog"),
            &tree.file("/proc/net/softnet_stat"),
        ),
    ]
}

/// Judges a window by the longest RTT at which it fills 10 Gbit/s.
fn judged(found: Found, what: &str, window_bytes: f64, command: String) -> Finding {
    let (window_mb, rtt_ms) = (window_bytes / 1e6, window_bytes * 8.0 / PATH_BPS * 1e3);
    let reach = format!("enough for 10 Gbit/s up to an RTT of {rtt_ms:.1} ms");
    let title = format!("{what} {window_mb:.1} MB: {reach}");
    if window_bytes < PATH_BYTES {
        found.warning(title).fixed_by(command)
    } else {
        found.fine(title)
    }
}

/// Judges the limits of SO_RCVBUF and SO_SNDBUF. The kernel doubles them for its overhead (socket(7)), so the
/// whole value counts as window.
fn socket_buffers(limits: &[File; 2]) -> Finding {
    let found = SOCKET_BUFFERS.found_all(limits);
    let [Some(receive_max), Some(send_max)] = limits.each_ref().map(File::count) else {
        return found.not_observable("Socket buffer limits: cannot be read");
    };
    let [receive, send] = [receive_max, send_max].map(|bytes| bytes.max(SOCKET_BYTES));
    let command = format!("sysctl -w net.core.rmem_max={receive} net.core.wmem_max={send}");
    judged(found, "Socket buffers are limited to", receive_max.min(send_max) as f64, command)
}

/// Judges the maximum of `min default max`, the limit of TCP autotuning.
fn tcp_buffers(limits: &[File; 2]) -> Finding {
    let found = TCP_BUFFERS.found_all(limits);
    let [receive, send] = limits.each_ref().map(File::counts);
    let (&[receive_min, receive_default, receive_max], &[send_min, send_default, send_max]) =
        (&receive[..], &send[..])
    else {
        return found.not_observable("TCP buffer limits: cannot be read");
    };
    let window = receive_max.min(send_max) as f64 / TCP_BYTES_PER_WINDOW_BYTE;
    let [receive, send] = [receive_max, send_max].map(|bytes| bytes.max(TCP_BYTES));
    let command = format!(
        "sysctl -w net.ipv4.tcp_rmem=\"{receive_min} {receive_default} {receive}\" \
         net.ipv4.tcp_wmem=\"{send_min} {send_default} {send}\""
    );
    judged(found, "The TCP window is limited to about", window, command)
}

/// Judges packets dropped since boot: the second field, in hexadecimal, of each CPU's line in softnet_stat
/// (`softnet_seq_show` in the kernel's net/core/net-procfs.c).
fn backlog(limit: &File, softnet: &File) -> Finding {
    let found = BACKLOG.found(limit);
    let dropped: Option<Vec<u64>> = softnet.text().map(|text| {
        let words = text.lines().filter_map(|line| line.split_whitespace().nth(1));
        words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect()
    });
    let Some(dropped) = dropped.filter(|drops| !drops.is_empty()) else {
        let evidence = Evidence::new(&softnet.path, "no drop counters");
        return found.found(evidence).not_observable("Backlog drops: cannot be read");
    };
    let dropped = dropped.into_iter().fold(0, u64::saturating_add);
    // Twice the current limit, within bounds; the lower bound suffices for the reference path.
    let size = limit.count().unwrap_or(0).saturating_mul(2).clamp(10_000, 1_000_000);
    let command = format!("sysctl -w net.core.netdev_max_backlog={size}");
    let evidence = Evidence::new(format!("{}, 2nd column", softnet.path), dropped.to_string());
    let found = found.found(evidence);
    if dropped > 0 {
        found
            .warning(format!("The backlog overflowed: {dropped} packets dropped since boot"))
            .fixed_by(command)
    } else if limit.count().is_some_and(|frames| frames < PATH_FRAMES) {
        found.note("The backlog is shorter than 10 ms of frames at 10 Gbit/s").fixed_by(command)
    } else {
        found.fine("The backlog dropped no packets since boot")
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Warning};
    use super::*;

    #[test]
    fn socket_buffers_are_judged_by_the_smaller_limit() {
        let judge = |receive: &str, send: &str| {
            socket_buffers(&[File::of("/rmem_max", receive), File::of("/wmem_max", send)])
        };
        let finding = judge("212992", "16777216");
        assert_eq!(finding.severity, Warning);
        let title = "Socket buffers are limited to 0.2 MB: enough for 10 Gbit/s up to an RTT of \
                     0.2 ms";
        assert_eq!(finding.title, title);
        let command = "sysctl -w net.core.rmem_max=16777216 net.core.wmem_max=33554432";
        assert_eq!(judge("212992", "33554432").remedy.as_deref(), Some(command));
        assert_eq!(judge("16777216", "16777216").severity, Fine);
        assert_eq!(judge("16777216", "").severity, NotObservable);
    }

    #[test]
    fn the_remedy_for_tcp_raises_the_largest_number_only() {
        let judge = |receive: &str, send: &str| {
            tcp_buffers(&[File::of("/tcp_rmem", receive), File::of("/tcp_wmem", send)])
        };
        let finding = judge("4096\t131072\t67108864", "4096\t16384\t4194304");
        assert_eq!(finding.severity, Warning);
        let command = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\" \
                       net.ipv4.tcp_wmem=\"4096 16384 33554432\"";
        assert_eq!(finding.remedy.as_deref(), Some(command));
        assert_eq!(judge("4096 131072 33554432", "4096 16384 33554432").severity, Fine);
        assert_eq!(judge("4096 131072", "x").severity, NotObservable);
    }

    #[test]
    fn drops_of_all_processors_are_added() {
        let limit = File::of("/netdev_max_backlog", "1000");
        let judge = |text: &str| backlog(&limit, &File::of("/softnet_stat", text));
        let finding = judge("39c42f71 0000000a 000000fd\n075d0b76 00000006 0000006d\n");
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.title, "The backlog overflowed: 16 packets dropped since boot");
        assert_eq!(finding.remedy.as_deref(), Some("sysctl -w net.core.netdev_max_backlog=10000"));
        assert_eq!(judge("39c42f71 00000000 000000fd").severity, Note);
        assert_eq!(judge("").severity, NotObservable);
        let long = File::of("/netdev_max_backlog", "10000");
        assert_eq!(backlog(&long, &File::of("/softnet_stat", "1 0 0")).severity, Fine);
    }
}
