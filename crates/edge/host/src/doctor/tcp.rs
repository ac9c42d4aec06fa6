//! TCP defaults: congestion control, qdisc, and the range of local ports.

use super::finding::{Check, Finding};
use super::tree::{File, Tree};

pub(super) const CONGESTION: Check = Check {
    name: "congestion-control",
    why: "TCP uses this congestion control if nothing else is set, and hosts differ in it.",
};

pub(super) const QDISC: Check = Check {
    name: "queueing-discipline",
    why: "New interfaces use this queueing discipline, which affects bursts, pacing and the delay \
          under load.",
};

pub(super) const LOCAL_PORTS: Check = Check {
    name: "local-ports",
    why: "A closed connection occupies its port for a minute (TIME_WAIT). Without a free port, new \
          connections to the same server fail.",
};

/// Time that a closed connection occupies its port, in seconds (TCP_TIMEWAIT_LEN in include/net/tcp.h).
const TIME_WAIT_S: u64 = 60;

pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        setting(
            CONGESTION,
            "congestion control",
            &tree.file("/proc/sys/net/ipv4/tcp_congestion_control"),
        ),
        setting(QDISC, "queueing discipline", &tree.file("/proc/sys/net/core/default_qdisc")),
        local_ports(&tree.files_in("/proc/sys/net/ipv4", ["ip_local_port_range", "tcp_tw_reuse"])),
    ]
}

/// Reports a setting; some exist only in the initial network namespace.
fn setting(check: Check, what: &str, file: &File) -> Finding {
    let found = check.found(file);
    match file.text() {
        Some(name) => found.note(format!("Default {what}: {name}")),
        None => found.not_observable(format!("Default {what}: not visible in this namespace")),
    }
}

/// Judges the range of ephemeral ports and whether ports in TIME-WAIT are reused: never (0), after a second (1),
/// after a second on loopback only (2) (ip-sysctl in the kernel).
fn local_ports(files: &[File; 2]) -> Finding {
    let (found, [range, reuse]) = (LOCAL_PORTS.found_all(files), files);
    let (&[first, last], Some(reuse)) = (&range.counts()[..], reuse.number()) else {
        return found.not_observable("Local ports: cannot be read");
    };
    let ports = last.saturating_sub(first).saturating_add(1);
    if reuse == 1 {
        found.fine(format!("{ports} local ports, reused after 1 s"))
    } else {
        let rate = ports / TIME_WAIT_S;
        found
            .warning(format!("{ports} local ports: at most {rate} new connections/s to one server"))
            .fixed_by(
                "sysctl -w net.ipv4.tcp_tw_reuse=1 net.ipv4.ip_local_port_range=\"1024 65535\"",
            )
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Warning};
    use super::*;

    #[test]
    fn ports_in_time_wait_limit_the_connections_a_second() {
        let judge = |range: &str, reuse: &str| {
            local_ports(&[File::of("/range", range), File::of("/reuse", reuse)])
        };
        let finding = judge("32768\t60999", "2");
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.title, "28232 local ports: at most 470 new connections/s to one server");
        assert_eq!(judge("32768 60999", "1").severity, Fine);
        assert_eq!(judge("60999 32768", "0").severity, Warning);
        assert_eq!(judge("", "0").severity, NotObservable);
    }

    #[test]
    fn a_setting_that_this_namespace_does_not_show_is_said_to_be_so() {
        let judge = |file: &File| setting(QDISC, "queueing discipline", file);
        let finding = judge(&File::of("/default_qdisc", "fq_codel"));
        assert_eq!(
            (finding.severity, finding.title.as_str()),
            (Note, "Default queueing discipline: fq_codel")
        );
        assert_eq!(judge(&File::missing("/default_qdisc")).severity, NotObservable);
    }
}
