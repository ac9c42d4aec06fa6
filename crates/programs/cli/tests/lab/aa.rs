//! A/A test of the whole pipeline: identical levels may differ significantly no more often than the confidence allows.

use fabricmark_record::{Outcome, Record};

use crate::support::{assert_unless_slowed, bench, stdout};

const AA: &str = r#"
title = "A/A"
[factors]
pattern = ["stream", "ping-pong"]
transport = ["tcp", "udp"]
payload = [16, 64, 256, 1024, 4096]
label = ["a", "b"]
[settings]
family = 6
link = "ethernet:1G"
congestion = "cubic"
[run]
duration = "50ms"
warm_up = "20ms"
[stop]
runs = 10
[[compare]]
factor = "label"
baseline = "a"
candidate = "b"
[[table]]
figure = "goodput"
columns = ["transport", "label"]
[[table]]
figure = "half-rtt"
columns = ["transport", "label"]
"#;

#[test]
fn twenty_comparisons_of_a_level_with_itself_stay_within_binomial_limits() {
    let Some(bench) = bench("A/A") else { return };
    bench.plan(AA);
    bench.carries_out(&["run", "plan.toml"], &[]);
    let results: serde_json::Value =
        serde_json::from_str(&stdout(&bench.run(&["report", "--json"]))).unwrap();
    let mut p_values = Vec::new();
    collect(&results, &mut p_values);
    if p_values.len() < 20 {
        // A comparison needs blocks in which the runs of both levels are valid.
        let records = bench.records();
        let invalid: Vec<&Record> =
            records.iter().filter(|record| record.outcome != Outcome::Completed).collect();
        let reasons: Vec<&Outcome> = invalid.iter().map(|record| &record.outcome).collect();
        let told = format!("{} of 20 comparisons: {reasons:?}", p_values.len());
        assert_unless_slowed(false, invalid, &told);
    }
    assert!((10..=20).contains(&p_values.len()), "{p_values:?}");
    let rejected = p_values.iter().filter(|&&p| p < 0.05).count();
    // P(X > 5) = 0.0003 for X ~ Bin(20, 0.05).
    assert!(rejected <= 5, "{rejected} of 20: {p_values:?}");
}

/// The unadjusted p-value of every comparison.
fn collect(value: &serde_json::Value, p_values: &mut Vec<f64>) {
    match value {
        serde_json::Value::Object(fields) => {
            p_values.extend(fields.get("p_t").and_then(serde_json::Value::as_f64));
            fields.values().for_each(|value| collect(value, p_values));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, p_values)),
        _ => {}
    }
}
