//! Whole examinations: of this machine, of machines built in a folder, and of garbage.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use fabricmark_host::doctor::{CHECKS, Finding, Settings, Severity, System, examine, text};
use proptest::prelude::*;
use tempfile::TempDir;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn silent(_: &str) -> Result<Settings, String> {
    Err("no such device".to_owned())
}

fn system(cpus: u32) -> System {
    System {
        cpus: (0..cpus).collect(),
        open_files: (1024, 4096),
        clock_reading_ns: 30.0,
        interval: Duration::ZERO,
        settings: silent,
    }
}

#[track_caller]
fn expect_every_check(findings: &[Finding]) {
    let made: BTreeSet<&str> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(made, CHECKS.iter().map(|check| check.name).collect());
    for finding in findings {
        assert!(!finding.title.is_empty() && !finding.evidence.is_empty(), "{finding:?}");
    }
}

#[track_caller]
fn only<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found: Vec<_> = findings.iter().filter(|finding| finding.check == check).collect();
    assert_eq!(found.len(), 1, "{check}: {found:?}");
    found[0]
}

/// A server of four cores with two threads each, with default settings.
fn server() -> TempDir {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    let cpu = "sys/devices/system/cpu";
    for number in 0..8 {
        let (own, other) = (number % 4, number % 4 + 4);
        let siblings = format!("{own},{other}\n");
        write(
            root,
            &[
                (&format!("{cpu}/cpu{number}/cpufreq/scaling_governor"), "powersave\n"),
                (&format!("{cpu}/cpu{number}/cpufreq/scaling_driver"), "intel_pstate\n"),
                (&format!("{cpu}/cpu{number}/topology/thread_siblings_list"), &siblings),
                (&format!("{cpu}/cpu{number}/cpuidle/state0/name"), "POLL\n"),
                (&format!("{cpu}/cpu{number}/cpuidle/state0/latency"), "0\n"),
                (&format!("{cpu}/cpu{number}/cpuidle/state0/disable"), "0\n"),
                (&format!("{cpu}/cpu{number}/cpuidle/state1/name"), "C6\n"),
                (&format!("{cpu}/cpu{number}/cpuidle/state1/latency"), "133\n"),
                (&format!("{cpu}/cpu{number}/cpuidle/state1/disable"), "0\n"),
            ],
        );
    }
    write(
        root,
        &[
            (&format!("{cpu}/smt/active"), "1\n"),
            (&format!("{cpu}/intel_pstate/no_turbo"), "0\n"),
            ("proc/cpuinfo", "flags\t\t: fpu tsc constant_tsc nonstop_tsc\n"),
            ("sys/class/dmi/id/sys_vendor", "Supermicro\n"),
            ("proc/stat", "cpu  100 0 50 9000 0 0 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n"),
            ("proc/77/stat", "77 (irqbalance) S 1 77 77 0 -1 0 0 0 0 0 7 3 0 0 20 0 1 0 5\n"),
            ("proc/sys/net/netfilter/nf_conntrack_count", "250\n"),
            ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
            (
                "proc/interrupts",
                "     CPU0 CPU1 CPU2 CPU3 CPU4 CPU5 CPU6 CPU7\n \
                 61: 900000 0 0 0 0 0 0 0 PCI-MSI eth0-TxRx-0\n \
                 62: 800000 0 0 0 0 0 0 0 PCI-MSI eth0-TxRx-1\n",
            ),
            ("proc/irq/61/smp_affinity_list", "0\n"),
            ("proc/irq/62/smp_affinity_list", "0\n"),
            ("sys/devices/pci/class", "0x020000\n"),
            ("sys/devices/pci/msi_irqs/61", ""),
            ("sys/devices/pci/msi_irqs/62", ""),
            ("sys/class/net/eth0/carrier", "1\n"),
            ("sys/class/net/eth0/speed", "10000\n"),
            ("sys/class/net/eth0/duplex", "full\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n"),
            ("sys/class/net/eth0/statistics/rx_packets", "1000000\n"),
            ("sys/class/net/eth0/statistics/rx_dropped", "7\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
        ],
    );
    symlink("../../../devices/pci", root.join("sys/class/net/eth0/device")).unwrap();
    folder
}

#[test]
fn a_server_out_of_its_box_is_found_wanting() {
    let folder = server();
    let findings = examine(folder.path(), &system(8));
    expect_every_check(&findings);
    for (check, severity) in [
        ("cpu-governor", Severity::Warning),
        ("cpu-turbo", Severity::Warning),
        ("cpu-idle", Severity::Warning),
        ("cpu-siblings", Severity::Warning),
        ("clock-source", Severity::NotObservable),
        ("tsc", Severity::Fine),
        ("virtual-machine", Severity::Fine),
        ("irqbalance", Severity::Warning),
        ("connection-tracking", Severity::Warning),
        ("link", Severity::Fine),
        ("mtu", Severity::Note),
        ("offloads", Severity::NotObservable),
        ("interrupt-placement", Severity::Warning),
        ("interface-errors", Severity::Warning),
        ("open-files", Severity::Warning),
    ] {
        let finding = only(&findings, check);
        assert_eq!(finding.severity, severity, "{finding:?}");
    }
    assert_eq!(
        only(&findings, "interrupt-placement").remedy.as_deref(),
        Some("for irq in 61 62; do echo 2-7 > /proc/irq/$irq/smp_affinity_list; done")
    );
}

#[test]
fn findings_come_with_the_gravest_first() {
    let folder = server();
    let findings = examine(folder.path(), &system(8));
    assert!(findings.is_sorted_by_key(|finding| finding.severity));
}

#[test]
fn an_empty_machine_is_not_observable_rather_than_fine() {
    let folder = TempDir::new().unwrap();
    let findings = examine(folder.path(), &system(2));
    expect_every_check(&findings);
    let judged = findings.iter().filter(|finding| finding.severity != Severity::NotObservable);
    // The clock and the limit of open files come from system calls; a module that is not loaded has no file.
    let names: Vec<&str> = judged.map(|finding| finding.check).collect();
    assert_eq!(names, ["open-files", "clock-cost", "connection-tracking"]);
}

#[test]
fn this_machine_is_examined_with_evidence_for_each_finding() {
    expect_every_check(&examine(Path::new("/"), &System::here()));
}

#[test]
fn text_keeps_to_its_columns_but_for_commands() {
    let folder = server();
    let findings = examine(folder.path(), &system(8));
    for is_all in [false, true] {
        let text = text(&findings, is_all, 80);
        for line in text.lines().filter(|line| !line.starts_with("  fix ")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(text.contains("The TSC is invariant"), is_all);
    }
}

#[test]
fn every_check_is_in_the_document_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/doctor.md");
    let document = fs::read_to_string(path).unwrap();
    let names: Vec<&str> =
        document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(names, CHECKS.map(|check| check.name));
}

/// The files that the checks read, one of each kind.
const FILES: [&str; 47] = [
    "dev/cpu_dma_latency",
    "proc/77/stat",
    "proc/cpuinfo",
    "proc/interrupts",
    "proc/irq/61/smp_affinity_list",
    "proc/loadavg",
    "proc/meminfo",
    "proc/modules",
    "proc/net/ip6_tables_names",
    "proc/net/ip_tables_names",
    "proc/net/softnet_stat",
    "proc/pressure/cpu",
    "proc/pressure/memory",
    "proc/stat",
    "proc/sys/net/core/default_qdisc",
    "proc/sys/net/core/netdev_max_backlog",
    "proc/sys/net/core/rmem_max",
    "proc/sys/net/core/wmem_max",
    "proc/sys/net/ipv4/ip_local_port_range",
    "proc/sys/net/ipv4/tcp_congestion_control",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_tw_reuse",
    "proc/sys/net/ipv4/tcp_wmem",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_max",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/net/eth0/device/class",
    "sys/class/net/eth0/device/msi_irqs/61",
    "sys/class/net/eth0/duplex",
    "sys/class/net/eth0/mtu",
    "sys/class/net/eth0/queues/rx-0/rps_cpus",
    "sys/class/net/eth0/queues/tx-0/xps_cpus",
    "sys/class/net/eth0/speed",
    "sys/class/net/eth0/statistics/rx_dropped",
    "sys/class/net/eth0/statistics/rx_packets",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/disable",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/latency",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/name",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/smt/active",
    "sys/devices/system/cpu/vulnerabilities/meltdown",
];

/// Garbage that parsers are likely to mishandle: random bytes, huge numbers, truncated words.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..8),
        "[ \n:,()/-]{1,3}".prop_map(String::into_bytes),
        any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        prop::sample::select(vec![
            "18446744073709551616",
            "cpu ",
            "cpu0",
            "CPU0",
            "CPU4294967295",
            "61:",
            "some ",
            "avg10=",
            "avg10=1e999",
            "flags :",
            "hypervisor",
            "MemTotal:",
            "MemAvailable:",
            "0-4294967295",
            "nf_tables",
            "powersave",
            "Mitigation",
            "77 (x) S",
            "half",
            "NaN",
        ])
        .prop_map(|word| word.as_bytes().to_vec()),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_garbage_in_these_files_stops_the_examination(
        contents in proptest::collection::vec(garbage(), FILES.len()),
        missing in proptest::collection::vec(proptest::bool::weighted(0.1), FILES.len()),
    ) {
        let folder = TempDir::new().unwrap();
        write(folder.path(), &[("sys/class/net/eth0/carrier", "1")]);
        for ((path, bytes), is_missing) in FILES.iter().zip(contents).zip(missing) {
            if !is_missing {
                let path = folder.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
        }
        let findings = examine(folder.path(), &system(3));
        expect_every_check(&findings);
        for columns in [0, 80] {
            let text = text(&findings, true, columns);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        }
    }
}
