//! Bursts over a link with a ceiling, from the plan file to the record.

use fabricmark_record::Warning;

use crate::support::{bench, expect, stdout};

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
    let output = bench.run(&["run", "plan.toml"]);
    expect(&output, 0, &["2 points"]);
    assert!(stdout(&output).contains("99th percentile of the round trip"), "{}", stdout(&output));
    let records = bench.records();
    assert_eq!(records.len(), 2 * 3);
    for record in records {
        let key = record.point.key();
        let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
        assert!(bound_bps > 90e6 && bound_bps < 100e6, "{key}: {bound_bps}");
        assert!(record.figures.goodput_bps.is_some_and(|goodput| goodput.value > 0.0), "{key}");
        let is_above = |warning: &Warning| matches!(warning, Warning::AboveCeiling { .. });
        assert!(!record.warnings.iter().any(is_above), "{key}: {:?}", record.warnings);
        assert!(record.deciding_value().is_some(), "{key}");
    }
}
