//! Open loops, from the plan file to the record.

use std::fs;

use fabricmark_plan::{Figure, Pace};

use crate::support::{bench, counted, expect, stdout};

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
    let output = bench.run(&["run", "plan.toml"]);
    expect(&output, 0, &["8 points"]);
    assert!(stdout(&output).contains("departure lag p99"), "{}", stdout(&output));
    let records = bench.records();
    assert!(counted(&records).count() >= 8);
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
