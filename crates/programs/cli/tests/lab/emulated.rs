//! Plans over links of the emulator.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;

use fabricmark_plan::{Figure, Offload, Pattern};
use fabricmark_record::{Interval, Outcome, Provenance, Record, Warning};
use fabricmark_tcpsim::{Windowed, shares_of_windows};
use fabricmark_units::{Bytes, Nanos};

use crate::support::{
    assert_unless_slowed, bench, counted, counted_run, expect, records_of, stdout, was_slowed,
};
use crate::users::{USER, users_may_have_namespaces};

/// A plan with these factors.
fn plan(factors: &str, duration: &str) -> String {
    format!(
        "title = 'emulated'\n[factors]\n{factors}\n[settings]\ncongestion = 'cubic'\n\
         [run]\nduration = '{duration}'\nwarm_up = '1ms'\n[stop]\nruns = 2\n"
    )
}

#[test]
fn what_an_emulated_link_did_is_in_the_record() {
    let Some(bench) = bench("emulated link") else { return };
    let factors = "pattern = ['stream', 'ping-pong']\ntransport = ['udp', 'tcp']\nfamily = [4, 6]\n\
                   payload = 512\nlink = 'ethernet:100M'\nrtt = '4ms'";
    bench.plan(&plan(factors, "300ms"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    let is_flood = |key: &str| key.contains("pattern=stream transport=udp");
    for record in counted(&records) {
        let key = record.point.key();
        let emulation = record.emulation.as_ref().unwrap();
        assert_eq!(emulation.options, "rtt=4ms link=ethernet:100M", "{key}");
        assert!(emulation.offloaded && record.point.offload == Some(Offload::On), "{key}");
        let (forward, reverse) = (emulation.forward, emulation.reverse);
        assert!(forward.arrived > 0 && reverse.arrived > 0 || key.contains("udp"), "{key}");
        // An unthrottled sender may be faster than the emulator; the record then has a warning.
        let is_said =
            record.warnings.iter().any(|warning| matches!(warning, Warning::MissedPackets { .. }));
        assert!(forward.missed + reverse.missed == 0 || is_flood(&key) && is_said, "{key}");
        assert!(forward.departed + forward.dropped <= forward.arrived, "{key}");
        assert!(forward.late_p99_ns.is_some(), "{key}");
        if let Some(rtt) = record.figures.get(Figure::Rtt) {
            let floor = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
            assert!(floor > 4e6 && rtt.value >= floor, "{key}: {} under {floor}", rtt.value);
            assert_eq!(rtt.provenance, Provenance::Emulated);
        }
        for flow in &record.flows {
            assert_eq!(flow.drops.unexplained, 0, "{key}");
        }
    }
}

#[test]
fn packets_that_a_link_was_asked_to_lose_are_counted_as_its_own() {
    let Some(bench) = bench("lossy link") else { return };
    let factors = "pattern = 'stream'\ntransport = 'udp'\nfamily = 4\npayload = 512\nlink = 'veth'\n\
                   emulate = 'loss=10%'\npace = 'fixed:5000/s'";
    bench.plan(&plan(factors, "200ms"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    for record in counted(&bench.records()) {
        let (emulation, drops) = (record.emulation.as_ref().unwrap(), record.flows[0].drops);
        assert!(!emulation.offloaded);
        assert!(emulation.forward.dropped > 0 && drops.lost > 0, "{drops:?}");
        assert_eq!(drops.unexplained, 0, "{drops:?}");
        let dropped = (emulation.forward.dropped + emulation.reverse.dropped) as f64;
        assert_eq!(record.figures.value(Figure::LinkDrops), Some(dropped));
    }
}

#[test]
fn losses_jitter_drops_and_fairness_are_figures_of_tables_and_charts() {
    let Some(bench) = bench("tables of losses") else { return };
    let factors = "pattern = 'stream'\ntransport = 'udp'\nfamily = 4\npayload = 512\nlink = 'veth'\n\
                   emulate = 'loss=10%'\npace = 'fixed:5000/s'\nflows = 2";
    let figures = ["loss", "jitter", "link-drops"];
    let tables = figures.map(|figure| {
        format!("[[table]]\nfigure = '{figure}'\ntitle = '{figure}'\ncolumns = ['family']\n")
    });
    let chart = "[[chart]]\nfigure = 'fairness'\ntitle = 'fairness'\nseries = ['family']\n";
    bench.plan(&format!("{}{}{chart}", plan(factors, "200ms"), tables.concat()));
    let output = bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let (records, shown) = (bench.records(), stdout(&output));
    let units = ["%", "µs", "packets dropped by the link, a run"];
    for (figure, unit) in figures.into_iter().zip(units) {
        assert!(shown.contains(&format!("{figure} ({unit})\n")), "no {figure} in {shown}");
    }
    for record in counted(&records) {
        let loss = record.figures.value(Figure::Loss).unwrap();
        let fairness = record.figures.value(Figure::Fairness).unwrap();
        // 2,000 datagrams; five standard deviations of a binomial share.
        assert!((loss - 0.1).abs() < 5.0 * (0.1 * 0.9 / 2000.0_f64).sqrt(), "{loss}");
        assert!((0.99..=1.0).contains(&fairness), "{fairness}");
        let table = shown.split_once("loss (%)\n").unwrap().1;
        let table = table.split_once("jitter (").unwrap().0;
        assert!(table.chars().any(|c| c.is_ascii_digit()), "{shown}");
    }
    let charts = fs::read_dir(bench.out().join("plan-1/charts")).unwrap();
    assert_eq!(charts.count(), 1);
}

/// One packet of 1500 bytes each millisecond for half a second, then two.
#[test]
fn a_plan_runs_over_a_link_with_a_mahimahi_trace() {
    let Some(bench) = bench("a link trace in a plan") else { return };
    let one = (1..=500).map(|ms| format!("{ms}\n"));
    let two = (501..=1_000).map(|ms| format!("{ms}\n{ms}\n"));
    let trace = one.chain(two).collect::<String>();
    fs::write(bench.folder.path().join("cell.up"), trace).unwrap();
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = 4\npayload = 65536\nlink = 'veth'\n\
                   emulate = 'trace=cell.up queue=50ms'";
    bench.plan(&plan(factors, "2s"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    for record in counted(&records) {
        // Of 1500 bytes 1448 are payload. At least the slower half counts; at most the two faster halves of the run do,
        // which have another packet each millisecond.
        let goodput_bps = record.figures.value(Figure::Goodput).unwrap();
        let seconds = record.flows[0].received.elapsed_ns as f64 / 1e9;
        let slow_bps = 1448.0 * 8.0 * 1000.0;
        let most_bps = slow_bps * (1.0 + 1.0 / seconds.max(1.0));
        assert!((0.99 * slow_bps..1.001 * most_bps).contains(&goodput_bps), "{goodput_bps}");
    }
    fs::remove_file(bench.folder.path().join("cell.up")).unwrap();
    expect(&bench.run(&["run", "plan.toml", "--fresh"]), 64, &["cannot read the trace", "cell.up"]);
}

/// The delay of a packet is 0.8 % above that of the one before it, so that it grows by 4 ms in each second: from 1 ms at the
/// start of the first run on.
#[test]
fn a_plan_that_asks_for_a_steady_state_fails_if_the_rate_of_each_run_falls() {
    let Some(bench) = bench("a steady state") else { return };
    let delays = (0..600).map(|packet| format!("{:.0}us\n", 1e3 * 1.008_f64.powi(packet)));
    fs::write(bench.folder.path().join("delays"), delays.collect::<String>()).unwrap();
    let factors = "pattern = 'rr'\ntransport = 'udp'\nfamily = 4\npayload = 200\nlink = 'veth'\n\
                   emulate = 'delay=trace:delays'";
    let plan = plan(factors, "1s").replace("[run]\n", "[run]\nsteady = '5%'\n");
    bench.plan(&plan);
    let output = bench.run(&["run", "plan.toml"]);
    expect(
        &output,
        67,
        &["report.html", "no valid run: ", "the rate fell by", "of a steady state"],
    );
    assert!(stdout(&output).contains("the rate fell by"), "{}", stdout(&output));
    for record in bench.records().iter().filter(|record| !record.place.warm_up) {
        let drift = record.steady.unwrap().drift.unwrap();
        assert!(drift < -0.05 && !record.counts(), "{drift}");
    }
    // The report of a plan without a valid run can be had again.
    expect(&bench.run(&["report", "latest"]), 0, &["report.html"]);
    fs::write(bench.folder.path().join("delays"), "2ms\n").unwrap();
    bench.plan(&plan.replace("5%", "90%"));
    bench.carries_out(&["run", "plan.toml", "--fresh"], &["report.html"]);
    for record in counted(&bench.records()) {
        assert!(record.steady.unwrap().drift.unwrap().abs() <= 0.9);
    }
}

#[test]
fn a_probe_counts_while_the_load_does_and_not_in_its_slow_start() {
    let Some(bench) = bench("a probe beside slow start") else { return };
    let answer = bench.measure("stream lab:ethernet:100M --rtt 50ms --probe -t 1s");
    let Some(run) = counted_run(&answer) else { return };
    let flows = run["flows"].as_array().unwrap();
    let probe = flows.iter().find(|flow| flow["group"] == "probe").unwrap();
    let elapsed_ns = |what: &str| probe[what]["elapsed_ns"].as_u64().unwrap();
    // Slow start takes six doublings and eight RTTs more, 0.7 s. The count starts with the last response before its end:
    // up to one RTT earlier, which is 0.1 s with a full queue and 0.2 s longer after a retransmission timeout.
    let omitted_ns = elapsed_ns("sent_thread") - elapsed_ns("sent");
    assert!(omitted_ns > 400_000_000, "{probe}");
}

/// Requests are further apart than the longest RTT, so that none waits for another: over a link that keeps the order it
/// would take longer than the trace says.
#[test]
fn traces_of_delays_and_losses_are_those_of_the_packets() {
    let Some(bench) = bench("delays and losses of packets") else { return };
    let file = |name, text| fs::write(bench.folder.path().join(name), text).unwrap();
    file("delays", "2ms\n6ms\n");
    file("fates", "0001\n");
    let factors = "pattern = ['stream', 'rr']\ntransport = 'udp'\nfamily = 4\npayload = 200\nlink = 'veth'\n\
                   pace = 'fixed:80/s'\nemulate = ['delay=trace:delays', 'loss=trace:fates']";
    bench.plan(&plan(factors, "1s"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    let mut shortest_ns: Option<f64> = None;
    for record in counted(&records) {
        let of = |figure| record.figures.value(figure).unwrap();
        match (record.point.pattern, record.point.emulate.as_deref().unwrap()) {
            (Pattern::Rr, "delay=trace:delays") => {
                // Each way takes alternately 2 and 6 ms, so that two requests take 16 ms together.
                let (mean_ns, p99_ns) = (of(Figure::Rtt), of(Figure::RttP99));
                let least_ns = 8e6 - 4e6 / record.flows[0].sent.calls as f64;
                assert!(mean_ns >= least_ns && p99_ns >= 8e6, "{mean_ns} {p99_ns}");
                // Requests take 4 and 12 ms, or all take 8 ms. Pauses of the machine move the mean, not the quartiles.
                let rtt = record.flows[0].rtt_ns.as_ref().unwrap();
                let quartile_ns = |q| rtt.quantile(q).unwrap() as f64;
                let middle_ns = (quartile_ns(0.25) + quartile_ns(0.75)) / 2.0;
                shortest_ns = Some(shortest_ns.map_or(middle_ns, |ns| ns.min(middle_ns)));
                assert!(middle_ns < 9e6 || was_slowed(record), "{middle_ns} {mean_ns}");
                let floor = record.limits.rtt_floor.as_ref();
                assert!(floor.is_none_or(|floor| floor.time_ns.as_f64() < 1e6), "{floor:?}");
            }
            (Pattern::Stream, "loss=trace:fates") => {
                // One of four, wherever in the trace the run begins.
                let (loss, sent) = (of(Figure::Loss), record.flows[0].sent.calls as f64);
                assert!((sent * loss - sent / 4.0).abs() < 1.0, "{loss} of {sent}");
            }
            _ => {}
        }
    }
    let is_short = shortest_ns.is_none_or(|ns| ns < 9e6);
    assert_unless_slowed(is_short, &records, &format!("{shortest_ns:?} ns"));
    file("fates", "0101x");
    expect(
        &bench.run(&["run", "plan.toml", "--fresh"]),
        64,
        &["fates: line 1: write 0 for a packet"],
    );
}

#[test]
fn a_window_beyond_that_of_tcp_is_skipped_once_with_the_reason() {
    let Some(bench) = bench("largest window") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = 6\npayload = 65536\n\
                   link = 'ethernet:100G'\nrtt = ['1ms', '400ms']\nwindow = '1bdp'";
    let text = plan(factors, "50ms");
    bench.plan(&text);
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    let reasons: Vec<&String> = records
        .iter()
        .filter_map(|record| match &record.outcome {
            Outcome::Skipped(reason) => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(
        reasons,
        ["a window of 5000000000 bytes exceeds TCP's maximum of 1073725440 (RFC 7323, section \
             2.3)"]
    );
    // A machine that is too slow for the other point reports that.
    let is_run =
        |record: &&Record| !record.place.warm_up && !matches!(record.outcome, Outcome::Skipped(_));
    assert!(records.iter().filter(is_run).count() >= 2);
}

/// At an RTT of 200 ms, Linux's default maximum of 6 MiB (tcp_rmem of tcp(7)) allows 252 Mbit/s.
#[test]
fn a_window_beyond_the_defaults_is_had_by_root_and_by_an_ordinary_user() {
    let Some(bench) = bench("wide window") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = 6\npayload = 65536\n\
                   link = 'ethernet:1G,mtu=9000'\nrtt = '200ms'\nwindow = '1bdp'";
    bench.plan(&plan(factors, "500ms"));
    let is_wide = |records: &[Record]| {
        for record in counted(records) {
            let goodput_bps = record.figures.get(Figure::Goodput).unwrap().value;
            assert!(goodput_bps > 400e6, "{goodput_bps}");
        }
    };
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    is_wide(&records);
    for record in counted(&records) {
        // The kernel reports twice the granted size (socket(7)).
        assert_eq!(record.nodes[1].side.receive_buffer_bytes, Some(50_000_000));
    }
    if !users_may_have_namespaces("wide window of an ordinary user") {
        return;
    }
    fs::remove_dir_all(bench.out()).unwrap();
    fs::create_dir(bench.out()).unwrap();
    chown(bench.out(), Some(USER), Some(USER)).unwrap();
    let output =
        bench.as_user_with_tun("666", &["run", "plan.toml", "--out", "out"]).output().unwrap();
    expect(&output, 0, &["report.html"]);
    is_wide(&bench.records());
}

/// By the kernel's first estimate of overhead, a buffer for a window of two BDPs holds nearly four BDPs of jumbo
/// segments, which would overflow a queue of one and a quarter.
#[test]
fn a_receiver_offers_the_window_that_was_asked_for_and_no_more() {
    let Some(bench) = bench("exact window") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = [4, 6]\npayload = 65536\n\
                   link = 'ethernet:1G,mtu=9000'\nrtt = '20ms'\nemulate = 'queue=350p'\nwindow = '2bdp'";
    bench.plan(&plan(factors, "300ms"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    for record in counted(&bench.records()) {
        let forward = record.emulation.as_ref().unwrap().forward;
        assert_eq!((forward.dropped, forward.missed), (0, 0), "{}", record.point.key());
        let goodput_bps = record.figures.get(Figure::Goodput).unwrap().value;
        assert_unless_slowed(goodput_bps > 900e6, [record], &format!("{goodput_bps} bit/s"));
    }
}

#[test]
fn a_bus_of_the_starting_host_bounds_what_its_wire_would_carry() {
    let Some(bench) = bench("host bus in a plan") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = [4, 6]\npayload = 65536\n\
                   link = 'ethernet:1G'\nbus = ['none', '100M']\nrtt = '0ms'";
    bench.plan(&plan(factors, "300ms"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    for record in counted(&bench.records()) {
        let goodput_bps = record.figures.get(Figure::Goodput).unwrap().value;
        // ACKs cross the bus, too.
        let (low, high) = if record.point.bus.is_some() { (60e6, 100e6) } else { (500e6, 1000e6) };
        assert!((low..high).contains(&goodput_bps), "{}: {goodput_bps}", record.point.key());
    }
}

#[test]
fn quic_leaves_no_more_to_a_slow_link_at_the_end_of_a_run_than_its_congestion_window() {
    let Some(bench) = bench("the end of QUIC") else { return };
    let factors = "pattern = 'stream'\ntransport = 'quic'\nfamily = 4\npayload = 4096\nflows = 4\ndirection = 'both'\n\
                   link = 'ethernet:10M'\nrtt = '80ms'\nemulate = 'loss=5e-3'";
    bench.plan(&plan(factors, "400ms"));
    bench.carries_out(&["run", "plan.toml"], &["1 point in 1 comparison group"]);
    let records = bench.records();
    for record in counted(&records) {
        assert_eq!(record.outcome, Outcome::Completed, "{:?}", record.warnings);
        for flow in &record.flows {
            // Slow start adds acknowledged bytes, at most those that the wire carried, to the window. At most twice
            // these and the initial windows of ten packets may be in flight.
            let carried = 10e6 / 8.0 * flow.sent.elapsed_ns as f64 / 1e9;
            let most = carried + 2.0 * (carried + 4.0 * 14_720.0) + 4.0 * 32_768.0;
            assert!((flow.sent.bytes as f64) < most, "{} of {most}", flow.sent.bytes);
        }
    }
}

#[test]
fn a_stream_that_recovers_from_a_loss_is_not_credited_with_what_crossed_the_wire_before() {
    let Some(bench) = bench("recovery at the beginning of a count") else { return };
    // Slow start fills the queue shortly before the count begins, and recovery takes several RTTs.
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = 4\npayload = '64KiB'\n\
                   link = ['ethernet:10M,mtu=1500', 'ethernet:100M,mtu=1500']\nrtt = '200ms'\n\
                   emulate = 'queue=500ms'";
    bench.plan(&plan(factors, "500ms"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    for record in counted(&records) {
        let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
        let share = record.figures.get(Figure::Goodput).unwrap().value / bound_bps;
        assert!((0.9..1.0002).contains(&share), "{share} of {}", record.point.key());
    }
}

#[test]
fn a_run_shorter_than_the_way_of_its_datagrams_waits_for_them() {
    let Some(bench) = bench("short run over a long way") else { return };
    let factors = "pattern = 'stream'\ntransport = 'udp'\nfamily = 4\npayload = 1000\n\
                   link = 'ethernet:100M'\nrtt = '400ms'\npace = 'fixed:1000/s'";
    bench.plan(&plan(factors, "150ms").replace("runs = 2", "runs = 5"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    let mut goodput_bps: Vec<f64> = Vec::new();
    for record in counted(&records) {
        assert_eq!(record.outcome, Outcome::Completed);
        // One departs at 0 and then one per millisecond. The sender may be descheduled for the last, and the clock that
        // ends the run may be late.
        assert!(record.flows[0].sent.calls >= 140, "{:?}", record.flows[0].sent);
        assert_eq!(record.flows[0].received.calls, record.flows[0].sent.calls);
        goodput_bps.push(record.figures.get(Figure::Goodput).unwrap().value);
    }
    // A pause of the machine of some milliseconds delays the last arrival of a run.
    goodput_bps.sort_unstable_by(f64::total_cmp);
    let median_bps = goodput_bps[goodput_bps.len() / 2];
    assert!((7.92e6..=8.08e6).contains(&median_bps), "{goodput_bps:?}");
}

#[test]
fn steps_of_ping_ping_take_one_way_whichever_end_begins_first() {
    let Some(bench) = bench("ping-ping over a long way") else { return };
    let factors = "pattern = 'ping-ping'\ntransport = 'tcp'\nfamily = 4\npayload = 64\n\
                   link = 'ethernet:100M'\nrtt = '100ms'";
    bench.plan(&plan(factors, "1s"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    for record in counted(&bench.records()) {
        assert_eq!(record.figures.get(Figure::RttP50), None);
        let [median, high] =
            [record.figures.get(Figure::StepP50), record.figures.get(Figure::StepP99)];
        let [median_ms, high_ms] = [median, high].map(|figure| figure.unwrap().value / 1e6);
        assert!((50.0..60.0).contains(&median_ms), "{median_ms} ms");
        assert!(high_ms < 75.0, "{high_ms} ms");
    }
}

#[test]
fn a_stream_of_mptcp_that_recovers_from_a_loss_is_counted_by_the_connection_below_it() {
    let Some(bench) = bench("recovery of MPTCP") else { return };
    let factors = "pattern = 'stream'\ntransport = 'mptcp'\nfamily = 4\npayload = '64KiB'\n\
                   link = 'ethernet:100M,mtu=1500'\nrtt = '100ms'";
    bench.plan(&plan(factors, "1s"));
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    let records = bench.records();
    for record in counted(&records) {
        let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
        let share = record.figures.get(Figure::Goodput).unwrap().value / bound_bps;
        assert!((0.5..1.0002).contains(&share), "{share}");
    }
}

/// Independent delays with a jitter of 2 ms differ by about 1 ms between consecutive datagrams; without jitter, only
/// the machine's own variation remains.
#[test]
fn the_jitter_of_a_link_is_that_of_the_stream_over_it() {
    let Some(bench) = bench("interarrival jitter") else { return };
    let jitter_ms = |options: &str| {
        let line = format!(
            "stream lab:veth --transport udp --payload 200 --pace fixed:100/s --rtt 60ms -t 1s {options}"
        );
        let answer = bench.measure(&line);
        let found = answer["settings"][0]["figures"]["jitter_ns"]["value"].as_f64().unwrap() / 1e6;
        (found, records_of(&answer))
    };
    // Packets keep their order, so that those a millisecond apart would have little jitter.
    let [(without, before), (with, after)] = ["", "--emulate jitter=10ms"].map(jitter_ms);
    let holds = (2.5..20.0).contains(&with) && without < with / 2.0;
    assert_unless_slowed(holds, before.iter().chain(&after), &format!("{without} and {with} ms"));
}

/// Two hosts with two routers between them: 1G, 100M with 20 ms, 1G.
#[test]
fn a_plan_runs_over_the_way_between_two_nodes_of_a_topology() {
    let Some(bench) = bench("a plan with a topology") else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/labs/dumbbell.toml");
    let plan = format!(
        "title = 't'\ntestbed = 'lab:{file}:client1,server2'\n[factors]\npattern = ['stream', 'ping-pong']\n\
         transport = ['tcp', 'udp']\nfamily = [4, 6]\npayload = 1000\n[settings]\ncongestion = 'cubic'\n\
         [run]\nduration = '300ms'\nwarm_up = '50ms'\n[stop]\nruns = 2\n\
         [[table]]\ntitle = 'goodput'\nfigure = 'goodput'\nrows = 'transport'\ncolumns = 'family'\n"
    );
    bench.plan(&plan);
    let output = bench.carries_out(&["run", "plan.toml"], &["plan-1"]);
    let shown = stdout(&output);
    assert!(shown.contains("dumbbell.toml from client1 to server2"), "{shown}");
    let records = bench.records();
    assert_unless_slowed(shown.contains("% of ceiling"), &records, &shown);
    for record in counted(&records) {
        let [client, server] = record.nodes.as_slice() else { panic!("two nodes") };
        assert_eq!(client.namespace.as_deref(), Some("client1"));
        assert_eq!(server.namespace.as_deref(), Some("server2"));
        let key = record.point.key();
        assert_eq!(record.point.rtt, Some(Nanos::from_millis(20)), "{key}");
        if let Some(goodput_bps) = record.figures.value(Figure::Goodput) {
            let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
            assert!((90e6..100e6).contains(&bound_bps), "{key}: {bound_bps}");
            assert!((0.8..1.0002).contains(&(goodput_bps / bound_bps)), "{key}: {goodput_bps}");
        } else {
            let floor_ns = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
            let rtt_ns = record.figures.value(Figure::Rtt).unwrap();
            assert!(floor_ns > 20e6 && rtt_ns >= floor_ns, "{key}: {rtt_ns} and {floor_ns}");
        }
        let emulation = record.emulation.as_ref().unwrap();
        assert!(emulation.forward.departed > 0 && emulation.reverse.departed > 0, "{key}");
    }
}

/// The shipped plan of three nodes: links of 1G and of 100M with 4 ms, joined by a router, and two groups of flows.
#[test]
fn two_groups_of_flows_run_at_once_over_the_wires_of_a_plan() {
    let Some(bench) = bench("groups of flows") else { return };
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/three-nodes.toml"));
    let plan = text.unwrap().replace("\"2s\"", "\"600ms\"").replace("runs = 6", "runs = 2");
    bench.plan(&plan);
    let output = bench.carries_out(
        &["run", "plan.toml"],
        &["4 points in 1 comparison group", "2 groups of flows at once"],
    );
    let shown = stdout(&output);
    for words in ["bulk", "requests", "the links of the plan"] {
        assert!(shown.contains(words), "no {words} in {shown}");
    }
    let records = bench.records();
    assert_unless_slowed(shown.contains("4 counted (2.4 s)"), &records, &shown);
    for record in counted(&records) {
        let key = record.point.key();
        let names: Vec<_> = record.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["client", "server"], "{key}");
        let [flow] = record.flows.as_slice() else { panic!("one part of {key}") };
        assert_eq!(Some(&flow.group), record.point.group.as_ref());
        match flow.group.as_str() {
            "bulk" => {
                let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
                let share = record.figures.value(Figure::Goodput).unwrap() / bound_bps;
                assert!((94e6..95e6).contains(&bound_bps), "of the slower wire: {bound_bps}");
                assert!((0.7..1.0002).contains(&share), "{key}: {share}");
            }
            _ => {
                let floor_ns = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
                let rtt_ns = record.figures.value(Figure::Rtt).unwrap();
                // 4 ms, and 130 bytes over both links in each direction.
                assert!((4.02e6..4.03e6).contains(&floor_ns), "{floor_ns}");
                // Two thirds of the bulk transfer's 100 packets of 1,514 bytes.
                assert!(rtt_ns > floor_ns + 4e6, "{key}: {rtt_ns} ns beside a full queue");
            }
        }
    }
    bench.carries_out(&["run", "plan.toml"], &["already has all"]);
}

/// The shipped plan in which one flow joins another, with shorter times.
#[test]
fn groups_that_start_one_after_the_other_count_the_time_in_which_all_run() {
    let Some(bench) = bench("a late group") else { return };
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/late-flow.toml"));
    let plan = text.unwrap().replace("\"3s\"", "\"600ms\"").replace("\"5s\"", "\"1s\"");
    let plan = plan.replace("\"100ms\"", "\"50ms\"").replace("runs = 6", "runs = 2");
    // Unlike BBR, every kernel has it.
    bench.plan(&plan.replace("\"bbr\"", "\"reno\""));
    bench.carries_out(&["run", "plan.toml"], &["2 groups of flows at once"]);
    let records = bench.records();
    for run in counted(&records).chunks(2) {
        let [early, late] = run else { panic!("two groups in each run") };
        assert_eq!(early.place.block, late.place.block);
        let [ramp, apart] = [late.omit_ns.0, late.start_ns.0];
        assert_eq!((early.start_ns.0, apart), (0, 600_000_000));
        let congestion = [early, late].map(|run| run.point.congestion.as_deref());
        assert_eq!(congestion, [Some("cubic"), Some("reno")]);
        assert_eq!(early.omit_ns.0, apart + ramp);
        let alignment = early.alignment.unwrap();
        assert!(alignment.starts_apart_ns < ramp, "{alignment:?}");
        // The early flow fills the link until the late one starts; what counts is the time of both.
        let bound_bps = early.limits.ceilings[0].goodput_bps.as_f64();
        let series = early.flows[0].received_series.as_ref().unwrap();
        let alone =
            series.intervals.iter().filter(|one| one.start_ns > apart / 2 && one.end_ns < apart);
        let alone_bps: Vec<f64> = alone.filter_map(Interval::rate_bps).collect();
        let alone_bps = alone_bps.iter().sum::<f64>() / alone_bps.len() as f64;
        let both_bps = [early, late].map(|record| record.figures.value(Figure::Goodput).unwrap());
        let late_series = late.flows[0].sent_series.as_ref().unwrap();
        // A blocking write counts once the kernel has taken all of it, an RTT after its first segments have left.
        let has_begun = |one: &&Interval| {
            let tcp = one.tcp.as_ref().unwrap();
            tcp.bytes_sent.unwrap() > tcp.mss_bytes.unwrap()
        };
        let first = late_series.intervals.iter().find(has_begun).unwrap();
        assert!((apart - 50_000_000..apart + 50_000_000).contains(&first.start_ns), "{first:?}");
        let ends = [early, late]
            .map(|run| run.flows[0].sent_series.as_ref().unwrap().intervals.last().unwrap().end_ns);
        assert!(ends[0].abs_diff(ends[1]) < 100_000_000, "{ends:?}");
        let told = format!("{alone_bps} of {bound_bps} alone, {both_bps:?} together");
        let holds = alone_bps > 0.85 * bound_bps && both_bps[0] < 0.95 * alone_bps;
        assert_unless_slowed(holds, [*early, *late], &told);
        assert!(both_bps.iter().sum::<f64>() < 1.05 * bound_bps, "{both_bps:?}");
    }
}

/// No part of this plan says which share each group gets: it follows from windows, RTTs and the queue that they fill.
#[test]
fn groups_with_different_windows_and_rtts_have_the_shares_that_the_model_predicts() {
    let Some(bench) = bench("shares of windows") else { return };
    bench.plan(
        "title = 't'\n[nodes.far]\n[nodes.router]\nforwards = true\n\
         [[wire]]\nbetween = ['client', 'router']\nlink = 'ethernet:1G'\nrtt = '4ms'\n\
         [[wire]]\nbetween = ['far', 'router']\nlink = 'ethernet:1G'\nrtt = '20ms'\n\
         [[wire]]\nbetween = ['router', 'server']\nlink = 'ethernet:25M'\nemulate = 'queue=1000p'\n\
         [[group]]\nname = 'near'\nwindow = '32KiB'\n\
         [[group]]\nname = 'far'\nfrom = 'far'\nwindow = '128KiB'\n\
         [factors]\npattern = 'stream'\ntransport = 'tcp'\npayload = 65536\nfamily = 4\n\
         [settings]\ncongestion = 'cubic'\n[run]\nduration = '5s'\n[stop]\nruns = 2\n",
    );
    bench.carries_out(&["run", "plan.toml"], &[]);
    let windowed =
        |window, rtt_ms| Windowed { window: Bytes(window), rtt: Nanos::from_millis(rtt_ms) };
    // 1,448 bytes of payload in a frame of 1,538.
    let capacity = 25e6 / 8.0 * 1448.0 / 1538.0;
    let rates = shares_of_windows(&[windowed(32 << 10, 4), windowed(128 << 10, 20)], capacity);
    let predicted = rates[0] / (rates[0] + rates[1]);
    assert!((0.25..0.26).contains(&predicted), "{predicted}");
    let records = bench.records();
    let is_near = |record: &&Record| record.point.key().contains("group=near");
    let counted = counted(&records);
    for near in counted.iter().copied().filter(is_near) {
        let is_beside = |record: &&Record| {
            record.place.block == near.place.block && record.point.key().contains("group=far")
        };
        let far = counted.iter().copied().find(is_beside).unwrap();
        let bps = [near, far].map(|record| record.figures.value(Figure::Goodput).unwrap());
        let share = bps[0] / (bps[0] + bps[1]);
        assert!((share / predicted - 1.0).abs() < 0.1, "{share}, predicted {predicted}");
    }
}

#[test]
fn datagrams_that_find_no_room_before_a_bus_are_lost_on_the_link_in_either_direction() {
    let Some(bench) = bench("a bus that is full") else { return };
    // 20,000 packets wait in the device before the bus, and 27,000 cross it: a sender needs 350 Mbit/s. One without a pace
    // takes the CPU of the emulator.
    for direction in ["forward", "reverse"] {
        let answer = bench.measure(&format!(
            "stream lab:ethernet:1G --bus 200M --transport udp --payload 1400 --rate 500M --direction {direction} -t 1500ms"
        ));
        let Some(record) = counted_run(&answer) else { continue };
        let drops = &record["flows"][0]["drops"];
        let sent = &record["flows"][0]["sent"];
        let is_full = drops["link"].as_u64().unwrap() > 0;
        assert_unless_slowed(is_full, &records_of(&answer), &format!("{drops} of {sent}"));
        assert_eq!(drops["unexplained"].as_u64().unwrap_or_default(), 0, "{drops}");
    }
}

/// Two networks of one client, whose bus carries less than both together.
#[test]
fn two_networks_at_once_get_the_bus_of_their_host_and_each_alone_its_own_ceiling() {
    let Some(bench) = bench("two networks at once") else { return };
    bench.plan(
        "title = 't'\n[nodes.client]\nbus = '100M'\n\
         [[wire]]\nname = 'eth'\nbetween = ['client', 'server']\nlink = 'ethernet:1G'\n\
         [[wire]]\nname = 'ib'\nbetween = ['server', 'client']\nlink = 'ipoib:1X-SDR'\n\
         [[group]]\nname = 'ethernet'\nvia = 'eth'\n[[group]]\nname = 'ipoib'\nvia = 'ib'\n[interference]\n\
         [factors]\npattern = 'stream'\ntransport = 'tcp'\nfamily = 4\npayload = '64KiB'\n\
         [settings]\ncongestion = 'cubic'\n[run]\nduration = '500ms'\n[stop]\nruns = 3\n",
    );
    let output = bench.carries_out(&["run", "plan.toml"], &["2 groups of flows at once"]);
    let text = stdout(&output);
    let records = bench.records();
    let holds =
        text.contains("Groups at once") && text.contains("utilisation of the shared host bus: 9");
    assert_unless_slowed(holds, &records, &text);
    // Of each group, alone and together: goodput by block. What is invalid is repeated in a later block.
    let mut runs: BTreeMap<(String, bool), BTreeMap<u32, f64>> = BTreeMap::new();
    for record in counted(&records) {
        let key = record.point.key();
        if let Some(alignment) = record.alignment {
            assert!(alignment.overlap_ns > 450_000_000, "{key}: {alignment:?}");
        }
        let group = record.point.group.clone().unwrap();
        let via = if group == "ipoib" { "ib" } else { "eth" };
        assert_eq!(record.nodes[0].device.as_deref(), Some(via), "{key}");
        let goodput_bps = record.figures.value(Figure::Goodput).unwrap();
        // That of the bus: 100 Mbit/s of packets of 1,500 or 2,044 bytes, less 40 bytes of headers.
        let payload_share = if group == "ipoib" { 2_004.0 / 2_044.0 } else { 1_460.0 / 1_500.0 };
        let bound_bps = record.limits.bound_bps().unwrap();
        assert!((bound_bps / (1e8 * payload_share) - 1.0).abs() < 1e-9, "{key}: {bound_bps}");
        let of_part = runs.entry((group, record.alignment.is_some())).or_default();
        of_part.insert(record.place.block, goodput_bps);
    }
    let of = |group: &str, is_together| &runs[&(group.to_owned(), is_together)];
    assert!(runs.len() == 4 && runs.values().all(|blocks| blocks.len() >= 3), "{runs:?}");
    for group in ["ethernet", "ipoib"] {
        let mut alone_bps: Vec<f64> = of(group, false).values().copied().collect();
        alone_bps.sort_by(f64::total_cmp);
        // With TCP timestamps packets have 52 bytes of headers, and acknowledgements take some of the bus.
        let (median_bps, best_bps) =
            (alone_bps[alone_bps.len() / 2], alone_bps[alone_bps.len() - 1]);
        assert!(best_bps >= 0.93e8 && median_bps < 0.975e8, "{group}: {runs:?}");
    }
    for (block, ethernet_bps) in of("ethernet", true) {
        let sum_bps = ethernet_bps + of("ipoib", true)[block];
        assert!((0.93e8..0.985e8).contains(&sum_bps), "block {block}: {sum_bps}");
    }
}

/// Flows of three hosts share the link between two routers, in both directions.
#[test]
fn groups_that_share_a_part_of_their_ways_count() {
    let Some(bench) = bench("groups that share a wire") else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/labs/dumbbell.toml");
    bench.plan(&format!(
        "title = 't'\ntestbed = 'lab:{file}'\n\
         [[group]]\nname = 'up'\nfrom = 'client1'\nto = 'server1'\n\
         [[group]]\nname = 'down'\nfrom = 'client2'\nto = 'server2'\ndirection = 'reverse'\n\
         [[group]]\nname = 'aside'\nfrom = 'client1'\nto = 'client2'\n\
         [factors]\npattern = 'stream'\ntransport = 'udp'\nfamily = 6\npayload = 1000\npace = 'fixed:1000/s'\n\
         [run]\nduration = '400ms'\nwarm_up = '50ms'\n[stop]\nruns = 2\n"
    ));
    bench.carries_out(&["run", "plan.toml"], &["3 groups of flows at once"]);
    let records = bench.records();
    for record in counted(&records) {
        let key = record.point.key();
        // 1,000 datagrams of 1,048 bytes a second for 0.4 s, whatever the other groups send.
        assert!((6e6..9e6).contains(&record.figures.value(Figure::Goodput).unwrap()), "{key}");
        let emulation = record.emulation.as_ref().unwrap();
        let way = if key.contains("reverse") { emulation.reverse } else { emulation.forward };
        assert!(way.departed_bytes.unwrap() >= 300 * 1_048, "{key}: {way:?}");
    }
}
