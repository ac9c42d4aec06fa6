//! `fabricmark run`: from a plan to records, tables and a page.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use fabricmark_plan::{Figure, Pattern};
use fabricmark_record::{Provenance, Warning};
use fabricmark_wire::Link;

use crate::schema::Published;
use crate::support::{
    PLAN, POINTS, above_the_wire, assert_unless_slowed, bench, counted, expect, program, stderr,
    stdout,
};

#[test]
fn a_plan_ends_with_tables_a_page_charts_and_records() {
    let Some(bench) = bench("main job") else { return };
    // Longer runs: on a busy machine a receiver may be descheduled for a whole short run.
    bench.plan(&PLAN.replace("30ms", "100ms").replace("10ms", "100ms"));
    let output = bench.carries_out(
        &["run", "plan.toml"],
        &["16 points in 8 comparison groups", "report ", "report.html"],
    );
    let tables = stdout(&output);
    for word in ["TCP goodput", "IPv6 against IPv4", "ethernet:1G (emulated)", "null transport"] {
        assert!(tables.contains(word), "no {word:?} in {tables}");
    }
    assert!(!stderr(&output).contains('\r'), "progress is for terminals");
    let folder = bench.out().join("plan-1");
    for file in ["report.html", "results.json", "runs.csv", "charts/01-tcp-goodput.svg"] {
        assert!(folder.join(file).is_file(), "no {file}");
    }
    let results = fs::read_to_string(folder.join("results.json")).unwrap();
    Published::named("results").holds(&results.parse().unwrap());
    let records = bench.records();
    // Three runs and a warm-up each; invalid runs are repeated.
    assert!(records.len() >= POINTS * 4);
    assert_eq!(records.iter().filter(|record| record.place.warm_up).count(), POINTS);
    assert!(counted(&records).len() >= POINTS * 2);
    for record in counted(&records) {
        let expected =
            if record.point.link.has_wire() { Provenance::Emulated } else { Provenance::Measured };
        let figures = &record.figures;
        let figure = figures.get(Figure::Goodput).or(figures.get(Figure::Rtt)).unwrap();
        assert_eq!(figure.provenance, expected);
        let is_stream = figures.get(Figure::Goodput).is_some();
        assert_eq!(record.flows[0].sent_series, None, "nobody asked for intervals");
        let has_ceiling = !record.limits.ceilings.is_empty();
        assert_eq!(has_ceiling, is_stream && record.point.link.has_wire());
    }
}

#[test]
fn no_payload_beats_its_bound_and_no_loss_is_unexplained() {
    let Some(bench) = bench("bounds") else { return };
    let plan = PLAN
        .replace("[\"stream\", \"ping-pong\"]", "[\"stream\"]")
        .replace("[512]", "[4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]")
        .replace("[\"veth\", \"ethernet:1G\"]", "[\"ethernet:1G\", \"ethernet:100M,vlan=1\"]")
        .replace("30ms", "100ms")
        .replace("warm_up = \"10ms\"", "warm_up = \"0s\"")
        .replace("runs = 3", "runs = 2");
    bench.plan(&plan);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let records = bench.records();
    // Invalid runs are repeated.
    assert!(records.len() >= 2 * 2 * 14 * 2 * 2);
    for record in records {
        let is_bad = |warning: &&Warning| matches!(warning, Warning::UnexplainedLoss { .. });
        let bad = record.warnings.iter().find(is_bad);
        assert_eq!((bad, above_the_wire(&record)), (None, None), "{}", record.point.key());
    }
}

#[test]
fn a_large_write_fills_the_emulated_wire() {
    let Some(bench) = bench("filled wire") else { return };
    let plan = PLAN
        .replace("[\"stream\", \"ping-pong\"]", "[\"stream\"]")
        .replace("[512]", "[32768]")
        .replace("[\"veth\", \"ethernet:1G\"]", "[\"ethernet:100M\"]")
        .replace("30ms", "800ms");
    bench.plan(&plan);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let link: Link = "ethernet:100M".parse().unwrap();
    // The best of three runs of a point, because a pause of the machine slows single runs: a token bucket does not catch
    // up.
    let mut best = BTreeMap::<String, f64>::new();
    let records = bench.records();
    for record in records.iter().filter(|record| !record.place.warm_up) {
        assert_eq!(record.point.link, link);
        let goodput = record.figures.get(Figure::Goodput).unwrap().value;
        // The last ceiling is that of TCP with timestamps, or UDP's bound.
        let ceiling = record.limits.ceilings.last().unwrap().goodput_bps.as_f64();
        let share = best.entry(record.point.key()).or_default();
        *share = share.max(goodput / ceiling);
    }
    assert_eq!(best.len(), 4);
    for (key, share) in best {
        let of_point = records.iter().filter(|record| record.point.key() == key);
        assert_unless_slowed(share > 0.95, of_point, &format!("{key}: {share}"));
    }
}

#[test]
fn an_experiment_is_shown_exported_by_the_published_schema_and_compared_again() {
    let Some(bench) = bench("show again") else { return };
    bench.plan(PLAN);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let shown = bench.run(&["report", "plan-1"]);
    expect(&shown, 0, &["report.html"]);
    assert!(stdout(&shown).contains("TCP goodput"));
    let json = stdout(&bench.run(&["report", "--json"]));
    assert_eq!(json, fs::read_to_string(bench.out().join("plan-1/results.json")).unwrap());
    let csv = stdout(&bench.run(&["export", "--format", "csv"]));
    // Three runs and a warm-up of each point; invalid runs are repeated.
    let runs = bench.records().len();
    assert!(runs >= POINTS * 4);
    assert_eq!(csv.lines().count(), runs + 1, "a head and a row a run");
    let lines = stdout(&bench.run(&["export", "--format", "json"]));
    assert_eq!(lines.lines().count(), runs);
    let schema = Published::named("record");
    lines.lines().for_each(|line| schema.holds(&line.parse().unwrap()));
    // An experiment is never worse than itself, but three short runs may be inconclusive.
    let compared = bench.run(&["compare", "plan-1", "plan-1", "--gate", "5%"]);
    assert!(matches!(compared.status.code(), Some(0 | 2)), "{}", stderr(&compared));
    assert!(stdout(&compared).contains("payload=512"));
    let json = stdout(&bench.run(&["compare", "plan-1", "plan-1", "--json"]));
    Published::named("compare").holds(&json.parse().unwrap());
    let missing = bench.run(&["compare", "plan-1", "plan-9"]);
    expect(&missing, 64, &["no experiment `plan-9`", "plan-1"]);
}

#[test]
fn a_terminal_shows_what_is_running_and_how_much_is_left() {
    let Some(bench) = bench("progress") else { return };
    bench.plan(&PLAN.replace("runs = 3", "runs = 2"));
    // `script` gives the program a terminal.
    let line = format!("{} run plan.toml --out {}", program().display(), bench.out().display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(bench.folder.path())
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    for word in ["of 48 runs", "at least", "warm-up stream", "IPv6", "last ", "Mbit/s"] {
        assert!(shown.contains(word), "no {word:?} in {shown}");
    }
}

#[test]
fn the_null_transport_can_be_planned_like_any_other() {
    let Some(bench) = bench("null transport") else { return };
    let plan = PLAN
        .replace("[\"tcp\", \"udp\"]", "[\"null\"]")
        .replace("congestion = \"cubic\"", "")
        .replace("transport = \"tcp\"", "transport = \"null\"");
    bench.plan(&plan);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let records = bench.records();
    assert!(counted(&records).len() >= POINTS / 2 * 2);
    for record in counted(&records) {
        assert!(record.figures.get(Figure::Goodput).is_none(), "nothing arrives over nothing");
    }
}

#[test]
fn a_run_keeps_what_it_used_and_its_intervals_where_they_are_asked_for() {
    let Some(bench) = bench("usage and intervals") else { return };
    let plan = PLAN
        .replace("[\"veth\", \"ethernet:1G\"]", "[\"veth\", \"loopback\"]")
        .replace("runs = 3", "runs = 2")
        .replace("duration = \"30ms\"", "duration = \"100ms\"\ninterval = \"10ms\"");
    bench.plan(&plan);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let records = bench.records();
    assert!(counted(&records).len() >= POINTS);
    for record in counted(&records) {
        let key = record.point.key();
        for node in &record.nodes {
            let usage = node.usage.as_ref().unwrap();
            assert!(usage.process.cpu_ns > 0 && usage.elapsed_ns >= record.duration_ns.0, "{key}");
            assert!(node.kernel.unwrap().tcp_retransmitted_segments.is_some(), "{key}");
        }
        let [flow] = record.flows.as_slice() else { panic!("one group of flows") };
        let is_tcp = flow.tcp.is_some();
        let [sent, received] = [&flow.sent_series, &flow.received_series].map(|series| {
            let series = series.as_ref().unwrap();
            assert_eq!(series.interval_ns, 10_000_000);
            assert!(series.intervals.iter().all(|one| one.tcp.is_some() == is_tcp), "{key}");
            series.bytes()
        });
        assert_eq!(received, flow.received.bytes, "{key}");
        assert_eq!(sent, flow.sent.bytes, "{key}");
        let figures = &record.figures;
        let demands = match record.point.pattern {
            Pattern::Stream => {
                [figures.get(Figure::SenderDemand), figures.get(Figure::ReceiverDemand)]
            }
            _ => [figures.get(Figure::ClientDemand), figures.get(Figure::ServerDemand)],
        };
        // A warm-up may be shorter than a tick of the kernel's CPU accounting.
        assert!(record.place.warm_up || demands.iter().all(Option::is_some), "{key}");
    }
}
