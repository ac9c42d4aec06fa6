//! Bottleneck detection in labs whose bottleneck is known.

use crate::support::{assert_unless_slowed, bench, counted, program, records_of, skip, stderr};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fabricmark_plan::Figure;
use fabricmark_record::{Record, Warning};

#[test]
fn what_limits_a_stream_is_named_where_it_is_known() {
    let Some(bench) = bench("bottlenecks") else { return };
    let long = "lab:ethernet:100M --rtt 20ms --congestion cubic";
    for (expected, ends) in [
        ("wire", "lab:ethernet:100M --transport udp --payload 1000 -t 300ms".to_owned()),
        ("wire", format!("{long} -t 1s")),
        ("pace", "lab:veth --transport udp --payload 64 --pace fixed:1000/s -t 300ms".to_owned()),
        ("cpu", "lab:veth --transport udp --payload 64 -t 1s".to_owned()),
        ("window", format!("{long} --receive-buffer 16KiB -t 1s")),
        ("send-buffer", format!("{long} --send-buffer 16KiB -t 1s")),
        ("loss", format!("{long} --emulate loss=0.01 -t 2s")),
    ] {
        let records = records_of(&bench.measure(&format!("stream {ends} --runs 3")));
        let goodput_bps = |record: &&Record| record.figures.value(Figure::Goodput).unwrap_or(0.0);
        // The pause of a process makes single runs slower.
        let best =
            counted(&records).into_iter().max_by(|a, b| goodput_bps(a).total_cmp(&goodput_bps(b)));
        let found =
            serde_json::to_value(best.and_then(|record| record.bottleneck.as_ref())).unwrap();
        assert_unless_slowed(found["kind"] == expected, &records, &format!("{ends}: {found}"));
    }
}

#[test]
fn both_ends_share_the_cpu_that_an_emulator_between_them_leaves() {
    let Some(bench) = bench("both ends on one CPU") else { return };
    let output = Command::new("taskset")
        .args(["-c", "0,1"])
        .arg(program())
        .args("measure stream lab:veth --rtt 1ms -t 200ms --json".split(' '))
        .env("XDG_STATE_HOME", bench.folder.path())
        .output()
        .unwrap();
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let record = records_of(&answer).pop().unwrap();
    let shared = Warning::SharedCpu { threads: 2, processors: 1 };
    assert!(record.warnings.contains(&shared), "{:?}", record.warnings);
}

/// A control group with a quota of a fifth of a CPU; removed on drop.
struct Quota(PathBuf);

impl Quota {
    fn new() -> Option<Self> {
        let name = format!("fabricmark-{}", std::process::id());
        let version_2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let mount = if version_2 { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" };
        let group = Path::new(mount).join(name);
        fs::create_dir(&group).ok()?;
        let quota = Self(group);
        let set = |file: &str, text: &str| fs::write(quota.0.join(file), text);
        let is_set = match version_2 {
            true => set("cpu.max", "20000 100000"),
            false => {
                set("cpu.cfs_period_us", "100000").and_then(|()| set("cpu.cfs_quota_us", "20000"))
            }
        };
        is_set.is_ok().then_some(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_of_a_control_group_is_named() {
    let Some(bench) = bench("a quota") else { return };
    let Some(quota) = Quota::new() else { return skip("a quota", "no control group can be made") };
    let line = "echo $$ > \"$1/cgroup.procs\" && shift && exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", line, "sh"])
        .args([quota.0.as_path(), program()])
        .args("measure stream loopback --transport udp --payload 64 -t 1s --json".split(' '))
        .env("XDG_STATE_HOME", bench.folder.path())
        .output()
        .unwrap();
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let found = &answer["settings"][0]["limited_by"];
    assert_eq!(found["kind"], "quota", "{found}");
}
