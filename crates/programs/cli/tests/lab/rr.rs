//! Transactions over a link that loses datagrams.

use fabricmark_plan::Figure;
use fabricmark_record::{Sourced, Warning};

use crate::support::{bench, counted, counted_run, expect};

const OPEN: &str = r#"
title = "open"
[factors]
pattern = ["rr"]
transport = ["udp"]
family = [4]
payload = [1000]
response = [2, 4]
pace = ["fixed:1500/s"]
link = ["ethernet:10M,mtu=1500"]
rtt = ["20ms"]
emulate = ["queue=50ms"]
[settings]
outstanding = 8192
[run]
duration = "2s"
warm_up = "50ms"
[stop]
runs = 2
"#;

#[test]
fn an_answer_of_a_few_bytes_finds_its_request_though_others_are_lost() {
    let Some(bench) = bench("answers of a few bytes") else { return };
    bench.plan(OPEN);
    bench.carries_out(&["run", "plan.toml"], &["2 points"]);
    let records = bench.records();
    for record in counted(&records) {
        let key = record.point.key();
        // 12.5 Mbit/s are offered to a wire of 10: the queue of 50 ms is full, and a fifth is lost. The median RTT has
        // 20 ms of delay, 50 ms of queueing, 0.8 ms of serialization, and the lateness of a busy machine.
        let ms = |figure: Option<Sourced>| figure.unwrap().value / 1e6;
        let median_ms = ms(record.figures.get(Figure::RttP50))
            - ms(record.figures.get(Figure::DepartureLagP50));
        assert!(median_ms < 150.0, "{key}: {median_ms} ms");
        let is_lost = |warning: &Warning| matches!(warning, Warning::LostRoundTrips { .. });
        assert!(record.warnings.iter().any(is_lost), "{key}: {:?}", record.warnings);
    }
}

#[test]
fn responses_that_share_a_wire_have_no_rate_above_it() {
    let Some(bench) = bench("responses that share a wire") else { return };
    // The offered 1 Gbit/s exceed the 9.49 Mbit/s that the wire leaves to TCP; four responses share it at a time.
    let answer = bench.measure(
        "rr lab:ethernet:10M --flows 4 --outstanding 2 --response 125511 --pace fixed:1000/s -t 1s",
    );
    let Some(record) = counted_run(&answer) else { return };
    let per_s = record["figures"]["transactions_per_s"]["value"].as_f64().unwrap();
    let mbps = 8e-6 * 125_511.0 * per_s;
    assert!((5.0..9.494).contains(&mbps), "{per_s} responses a second: {mbps} Mbit/s");
}

#[test]
fn an_open_loop_whose_answers_cannot_be_told_apart_is_refused_before_it_runs() {
    let Some(bench) = bench("answers that cannot be told apart") else { return };
    bench.plan(&OPEN.replace("[2, 4]", "[1]"));
    let words = ["response of 1 byte", "at least 4 bytes", "outstanding of at most 128"];
    expect(&bench.run(&["run", "plan.toml", "--check"]), 64, &words);
}

#[test]
fn flows_over_a_long_way_are_opened_together() {
    let Some(bench) = bench("many flows over a long way") else { return };
    // One after the other, they would take three RTTs each, in total longer than the time-out of a run.
    let line = "rr lab:veth --rtt 300ms --flows 24 --transport tls -t 700ms --warm-up 0s";
    let _ = counted_run(&bench.measure(line));
}
