//! Bursts over a link with a ceiling, from the plan file to the record.

use crate::support::{above_the_wire, bench, counted, stdout};
use fabricmark_plan::Figure;

const BURSTS: &str = r#"
title = "bursts"
[factors]
pattern = ["burst"]
transport = ["tcp", "udp"]
family = [4]
payload = [1000]
outstanding = [8]
link = ["ethernet:100M"]
[settings]
congestion = "cubic"
[run]
duration = "60ms"
warm_up = "10ms"
[stop]
runs = 2
[[table]]
figure = "goodput"
rows = "payload"
columns = ["transport"]
[[table]]
figure = "rtt-p99"
rows = "payload"
columns = ["transport"]
"#;

#[test]
fn the_goodput_of_bursts_stays_below_the_ceiling_of_their_link() {
    let Some(bench) = bench("bursts") else { return };
    bench.plan(BURSTS);
    let output = bench.carries_out(&["run", "plan.toml"], &["2 points"]);
    assert!(stdout(&output).contains("RTT p99"), "{}", stdout(&output));
    let records = bench.records();
    for record in counted(&records) {
        let key = record.point.key();
        let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
        assert!(bound_bps > 90e6 && bound_bps < 100e6, "{key}: {bound_bps}");
        assert!(
            record.figures.get(Figure::Goodput).is_some_and(|goodput| goodput.value > 0.0),
            "{key}"
        );
        assert_eq!(above_the_wire(record), None, "{key}");
        assert!(record.deciding_value().is_some(), "{key}");
    }
}

#[test]
fn a_server_outlives_a_client_that_has_its_amount() {
    let Some(bench) = bench("bursts of an amount") else { return };
    // The client closes its sockets while bursts of other flows are still in the queue.
    let line = "burst lab:ethernet:15600K,mtu=1500 --rtt 0ms --transport udp --payload 1101 --response 1042 \
                --outstanding 91 --flows 8 --count 671 --runs 2 -t 2s";
    let answer = bench.measure(line);
    let records = answer["records"].as_array().unwrap();
    assert!(records.len() >= 2, "{answer}");
    for record in records {
        let reason = record["outcome"]["reason"].as_str().unwrap_or_default();
        assert!(!reason.contains("refused"), "{reason}");
    }
}
