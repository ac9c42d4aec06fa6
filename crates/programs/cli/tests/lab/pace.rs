//! Open loops, from the plan file to the record.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use fabricmark_plan::{Figure, Pace};

use serde_json::Value;

use crate::agent::{Agent, Keys};
use crate::support::{bench, counted, expect, stdout};

/// A sender paces by the delivery rate while the rate of its link falls from 100 to 20 Mbit/s.
#[test]
fn a_schedule_that_follows_the_delivery_rate_follows_a_change_of_the_link() {
    let Some(bench) = bench("a change of the link") else { return };
    let up = "[hosts.client]\n[hosts.server]\n[links.trunk]\nbetween = ['client', 'server']\n\
              options = 'rate=100M rtt=10ms queue=200p'\n";
    bench.up(up);
    let keys = Keys::more();
    let inside = |node: &str, words: &[&str]| keys.inside(&bench, node, words);
    let agent = Agent::start_by(inside("server", &["agent", "--listen", "0.0.0.0:7477"]));
    let how = "measure stream 10.71.0.2 --congestion cubic --payload 8KiB --runs 1 --duration 9s \
               --pace follow-delivery:8KiB/1ms --interval 100ms --json";
    let words: Vec<&str> = how.split_whitespace().collect();
    let mut measuring = inside("client", &words).spawn().unwrap();
    let lines = BufReader::new(measuring.stdout.take().unwrap()).lines();
    let mut intervals = Vec::new();
    let mut change_took = Duration::ZERO;
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["end"] == "client" && line["interval"].is_object() {
            intervals.push(line);
            if intervals.len() == 20 {
                let began = Instant::now();
                expect(&bench.lab(&["link", "trunk", "rate=20M"]), 0, &[]);
                change_took = began.elapsed();
            }
        }
    }
    assert!(measuring.wait().unwrap().success());
    drop(agent);
    expect(&bench.lab(&["down"]), 0, &[]);
    let mean_mbps = |part: &[Value]| {
        let number = |one: &Value, key: &str| one["interval"][key].as_u64().unwrap();
        let bytes: u64 = part.iter().map(|one| number(one, "bytes")).sum();
        let ns: u64 = part.iter().map(|one| number(one, "end_ns") - number(one, "start_ns")).sum();
        8e3 * bytes as f64 / ns as f64
    };
    let before = &intervals[15..20];
    assert!(mean_mbps(before) > 60.0, "{} Mbit/s", mean_mbps(before));
    // After the change TCP recovers what the queue dropped, which takes longer on a busy machine. Then the queue drains, which
    // holds 120 ms when it is full, and stays so while the sender uses what is left.
    let changed = 21 + change_took.as_millis() as usize / 100;
    let srtt_ns = |one: &Value| one["interval"]["tcp"]["srtt_ns"].as_u64().unwrap();
    let has_drained = |one: &Value| srtt_ns(one) < 40_000_000;
    let drained = intervals[changed + 10..].iter().position(has_drained).unwrap();
    let after = &intervals[changed + 10 + drained..][..10];
    let used_mbps = mean_mbps(after);
    assert!((14.0..22.0).contains(&used_mbps), "{used_mbps} Mbit/s");
    // A pause of the machine is in one or two intervals, a queue in all.
    let mut srtts_ns: Vec<u64> = after.iter().map(srtt_ns).collect();
    srtts_ns.sort_unstable();
    assert!(srtts_ns[7] < 40_000_000, "{srtts_ns:?} ns");
}

const PACES: &str = r#"
title = "paces"
[factors]
pattern = ["stream", "rr"]
transport = ["udp"]
family = [4]
payload = [512]
link = ["loopback"]
pace = ["closed", "fixed:2000/s", "poisson:2000/s", "trace:departures.txt"]
[run]
duration = "30ms"
warm_up = "10ms"
[stop]
runs = 2
[[table]]
figure = "departure-lag-p99"
rows = "pace"
columns = ["pattern"]
"#;

#[test]
fn an_open_loop_leaves_its_slip_in_records_tables_and_exports() {
    let Some(bench) = bench("paces") else { return };
    bench.plan(PACES);
    // More than a socket buffer holds, so that the order is sent in parts.
    let departures: String = (0..100_000).map(|k| format!("{}us\n", 250 * k)).collect();
    fs::write(bench.folder.path().join("departures.txt"), departures).unwrap();
    let output = bench.carries_out(&["run", "plan.toml"], &["8 points"]);
    assert!(stdout(&output).contains("departure lag p99"), "{}", stdout(&output));
    let records = bench.records();
    for record in counted(&records) {
        let key = record.point.key();
        let is_open = record.point.pace != Pace::Closed;
        assert_eq!(record.figures.get(Figure::DepartureLagP99).is_some(), is_open, "{key}");
        let flow = &record.flows[0];
        assert_eq!(flow.pacing.is_some(), is_open, "{key}");
        let departed = flow.pacing.as_ref().map_or(0, |pacing| pacing.departures);
        assert_eq!(departed > 0, is_open, "{key}");
        assert!(record.nodes.iter().all(|node| node.side.clock.is_some()), "{key}");
    }
    let csv = stdout(&bench.run(&["export", "--format", "csv"]));
    assert!(
        csv.lines().next().is_some_and(|head| head.contains(",departure_lag_p99_ns,")),
        "{csv}"
    );
}
