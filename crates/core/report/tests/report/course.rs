//! Charts of runs over time.

use crate::fabricated::Fabricated;
use fabricmark_plan::Size;
use fabricmark_record::{Interval, Series, TcpSample};
use fabricmark_report::{ChartFile, charts};
use fabricmark_wire::Ceiling;

const PLAN: &str = r#"title = "t"
[factors]
pattern = "stream"
transport = "tcp"
family = [4, 6]
payload = "64KiB"
link = "ethernet:1G,mtu=9000"
rtt = "100ms"
[settings]
congestion = "cubic"
[run]
interval = "100ms"
[stop]
runs = 2
[[chart]]
title = "goodput through time"
kind = "series"
[[chart]]
kind = "series"
figure = "cwnd"
[[chart]]
kind = "series"
figure = "receiver-cpu"
runs = "mean"
[[chart]]
kind = "series"
figure = "retransmits"
where = { family = 6 }
"#;

/// One second in intervals of 0.1 s, each with a megabyte more than the one before; half of it does not count.
fn series(cpu_ns: u64) -> Series {
    let interval = |number: u64| Interval {
        start_ns: number * 100_000_000,
        end_ns: (number + 1) * 100_000_000,
        bytes: number * 1_000_000,
        calls: number,
        cpu_ns: Some(cpu_ns),
        lost: None,
        jitter_ns: None,
        tcp: Some(TcpSample {
            mss_bytes: Some(8_000),
            cwnd_segments: Some(10 * (number + 1)),
            retransmitted_segments: Some(3 * number),
            ..TcpSample::default()
        }),
    };
    Series { interval_ns: 100_000_000, intervals: (0..10).map(interval).collect() }
}

fn drawn() -> Vec<ChartFile> {
    let mut fabricated = Fabricated::of_plan(PLAN, Size::Full, &[], 7);
    for (number, record) in fabricated.records.iter_mut().enumerate() {
        let flow = &mut record.flows[0];
        flow.sent_series = Some(series(0));
        // 20 % of a CPU in block 0, 60 % in later blocks.
        let cpu_ns = if record.place.block == 0 { 20_000_000 } else { 60_000_000 };
        flow.received_series = Some(series(cpu_ns));
        flow.received.ramp_bytes = 10_000_000;
        assert!(number < 6);
    }
    charts(&fabricated.experiment())
}

#[test]
fn a_run_is_drawn_through_time_with_what_does_not_count_and_the_model_beside() {
    let charts = drawn();
    let [goodput, ..] = charts.as_slice() else { panic!("no charts") };
    assert_eq!(goodput.name, "01-goodput-through-time.svg");
    for text in [
        "goodput (Mbit/s)",
        "time (s)",
        ">IPv6 (emulated)<",
        "IPv4 (emulated)&#10;0.300 to 0.400 s&#10;240 Mbit/s&#10;not counted",
        "IPv4 (emulated)&#10;0.500 to 0.600 s&#10;400 Mbit/s\"",
        "not counted<",
        "slow start (modelled)",
    ] {
        assert!(goodput.svg.contains(text), "no {text} in {}", goodput.svg);
    }
    assert_eq!(goodput.svg.matches("<rect class=\"fm-left-out\" data-series").count(), 2);
    assert_eq!(goodput.svg.matches("<path class=\"fm-model fm-s").count(), 2);
}

#[test]
fn each_figure_through_time_is_that_of_its_end() {
    let charts = drawn();
    let [_, cwnd, cpu, retransmits] = charts.as_slice() else { panic!("not four charts") };
    assert_eq!(cwnd.title, "congestion window");
    assert!(cwnd.svg.contains("0.900 to 1.000 s&#10;0.80 MB"), "100 segments of 8,000 bytes");
    assert!(!cwnd.svg.contains("modelled"));
    assert!(cpu.svg.contains("&#10;40.00 % of a CPU"), "the mean of two runs: {}", cpu.svg);
    assert!(retransmits.svg.contains("0.000 to 0.100 s&#10;0.00 segments/s"));
    assert!(retransmits.svg.contains("0.100 to 0.200 s&#10;30.00 segments/s"));
    assert!(!retransmits.svg.contains("IPv4"), "the filter leaves IPv6 alone");
}

#[test]
fn streams_in_both_directions_at_once_have_a_line_each() {
    // So short that slow start ends within the second.
    let alone = PLAN.replace("rtt = \"100ms\"", "rtt = \"50ms\"");
    let both = alone.replace("congestion", "direction = \"both\"\ncongestion");
    let drawn = |plan: &str, directions: &[(&str, &str)]| {
        let mut fabricated = Fabricated::of_plan(plan, Size::Full, &[], 7);
        for record in &mut fabricated.records {
            let flow = |(from, to): &(&str, &str)| {
                let mut flow = record.flows[0].clone();
                (flow.from, flow.to) = ((*from).to_owned(), (*to).to_owned());
                let mut series = series(0);
                if *from == "server" {
                    series.intervals.iter_mut().for_each(|interval| interval.bytes /= 2);
                }
                flow.received_series = Some(series);
                flow
            };
            record.flows = directions.iter().map(flow).collect();
            if directions.len() == 2 {
                let ceilings = std::mem::take(&mut record.limits.ceilings);
                record.limits.ceilings = ceilings.into_iter().map(Ceiling::both_ways).collect();
            }
        }
        charts(&fabricated.experiment()).swap_remove(0).svg
    };
    let alone = drawn(&alone, &[("client", "server")]);
    let both = drawn(&both, &[("client", "server"), ("server", "client")]);
    for text in [
        "IPv4, client to server (emulated)&#10;0.300 to 0.400 s&#10;240 Mbit/s",
        "IPv4, server to client (emulated)&#10;0.300 to 0.400 s&#10;120 Mbit/s",
    ] {
        assert!(both.contains(text), "no {text} in {both}");
    }
    // A direction has the rate of the link, not the sum of both.
    let model = |svg: &str| {
        let (_, path) = svg.split_once("class=\"fm-model fm-s0\"").unwrap();
        path.split_once('>').unwrap().0.to_owned()
    };
    assert_eq!(model(&both), model(&alone));
}
