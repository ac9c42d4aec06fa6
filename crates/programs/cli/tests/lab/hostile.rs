//! Killed workers, ports in use, full disks: one clear message, the right exit code, and no record lost.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;

use fabricmark_record::Outcome;

use crate::support::{PLAN, POINTS, bench, expect, program, signal, stderr, workers};

/// [`PLAN`] over one of its two links, so that there are two workers.
fn over_veth() -> String {
    PLAN.replace("[\"veth\", \"ethernet:1G\"]", "[\"veth\"]")
}

#[test]
fn a_worker_killed_in_mid_run_ends_the_plan_and_nothing_is_lost() {
    let Some(bench) = bench("killed worker") else { return };
    bench.plan(&over_veth());
    for victim in 0..2 {
        let mut child = bench.start(&["run", "plan.toml"]);
        let before = bench.records().len();
        bench.wait_for_records(&mut child, before + 3);
        signal(workers(child.id())[victim], "KILL");
        let output = child.wait_with_output().unwrap();
        let node = ["client", "server"][victim];
        let words = ["worker", node, "killed by signal 9", "are stored", "same command"];
        expect(&output, 67, &words);
        assert!(bench.records().len() >= before + 3);
    }
    bench.carries_out(&["run", "plan.toml"], &["resuming plan-1"]);
    assert!(bench.records().len() >= POINTS / 2 * 4);
}

#[test]
fn points_whose_data_port_is_taken_in_mid_plan_are_left_with_what_they_have_and_the_reason() {
    let Some(bench) = bench("taken port") else { return };
    let udp = over_veth()
        .replace("[\"tcp\", \"udp\"]", "[\"udp\"]")
        .replace("congestion = \"cubic\"", "");
    let udp = udp.replace("where = { transport = \"tcp\" }", "");
    bench.plan(&udp.replace("[run]", "[run]\nport = 5301"));
    let mut child = bench.start(&["run", "plan.toml"]);
    bench.wait_for_records(&mut child, 2);
    let server = workers(child.id())[1];
    let namespace = File::open(format!("/proc/{server}/ns/net")).unwrap();
    // The port is free between two runs; this thread binds it then and keeps it.
    let _taken = thread::scope(|scope| {
        scope
            .spawn(|| {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network).unwrap();
                loop {
                    if let Ok(socket) = UdpSocket::bind("[::]:5301") {
                        return socket;
                    }
                }
            })
            .join()
            .unwrap()
    });
    let output = child.wait_with_output().unwrap();
    expect(&output, 0, &[]);
    let records = bench.records();
    let completed = records.iter().filter(|run| run.outcome == Outcome::Completed).count();
    assert!(completed >= 1, "{}", stderr(&output));
    let mut refused = Vec::new();
    for record in &records {
        let Outcome::Skipped(reason) = &record.outcome else { continue };
        for words in ["cannot bind udp", ":5301", "in use", "set another port"] {
            assert!(reason.contains(words), "{reason}");
        }
        let point = record.place.point;
        let after = records.iter().filter(|run| run.place.point == point);
        let last = after.map(|run| run.place.block).max();
        assert_eq!(last, Some(record.place.block), "point {point} was tried again");
        refused.push(point);
    }
    refused.dedup();
    assert!(!refused.is_empty(), "the port was not taken in time");
    let page = fs::read_to_string(bench.out().join("plan-1/report.html"));
    assert!(page.unwrap().contains("cannot bind udp"));
}

#[test]
fn a_full_disk_in_mid_run_is_named_and_the_plan_goes_on_when_there_is_room() {
    let Some(bench) = bench("full disk") else { return };
    bench.plan(PLAN);
    let disk = bench.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    // In a private mount namespace, the file system is unmounted when the shell ends.
    let script = r#"
        mount -t tmpfs -o size=4m tmpfs "$2" || exit 9
        head -c 3947000 /dev/zero > "$2/filler"
        "$1" run plan.toml --out "$2"; echo "first: $?" >&2
        rm "$2/filler"
        "$1" run plan.toml --out "$2"; echo "second: $?" >&2
        "$1" export --out "$2" | wc -l
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(program())
        .arg(&disk)
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    let words =
        ["no space is left", "free some space", "first: 67", "resuming plan-1", "second: 0"];
    expect(&output, 0, &words);
    let rows = String::from_utf8_lossy(&output.stdout);
    let rows = rows.trim().lines().last().unwrap().trim().to_owned();
    // Invalid runs are repeated.
    assert!(rows.parse::<usize>().unwrap() > POINTS * 4, "{rows}");
    let kept = stderr(&output);
    let kept = kept.lines().find_map(|line| line.strip_prefix("resuming plan-1: ")).unwrap();
    let kept: usize = kept.split(' ').next().unwrap().parse().unwrap();
    assert!(kept > 0, "the disk was full before the first record");
}

#[test]
fn a_disk_without_room_for_a_store_is_named() {
    let Some(bench) = bench("a disk without room") else { return };
    bench.plan(PLAN);
    fs::create_dir(bench.folder.path().join("disk")).unwrap();
    let script = r#"mount -t tmpfs -o size=64k tmpfs disk && "$1" run plan.toml --out disk"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(program())
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    expect(&output, 67, &["no space is left for disk/store.sqlite", "free some space"]);
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let Some(bench) = bench("missing program") else { return };
    bench.plan(PLAN);
    // A mount namespace in which /usr/sbin and /sbin are empty, and a PATH without `tc`.
    let script = r#"
        mount -t tmpfs tmpfs /usr/sbin && { [ -L /sbin ] || mount -t tmpfs tmpfs /sbin; }
        PATH=/nonexistent "$1" run plan.toml --out out
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "/bin/sh", "-c", script, "sh"])
        .arg(program())
        .current_dir(bench.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    expect(&output, 66, &["is missing", "apt-get install iproute2"]);
}
