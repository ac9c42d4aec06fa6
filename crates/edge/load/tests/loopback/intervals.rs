//! Events and intervals of a run while it is under way.

use fabricmark_load::{Control, Endpoint, Event};
use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_units::Nanos;

use crate::support::{both, prepare, run};

/// Runs both ends in intervals of 5 ms.
fn run_in_intervals(levels: &str) -> (EndReport, EndReport) {
    let in_intervals = |role| {
        let interval_ns = Some(Nanos::from_millis(5));
        Prepare { interval_ns, ..prepare(role, levels) }
    };
    let (start, answer) = both(in_intervals(Role::Client), in_intervals(Role::Server));
    (start.unwrap(), answer.unwrap())
}

#[test]
fn what_the_intervals_of_each_end_moved_adds_up_to_what_the_end_counted() {
    for levels in [
        "pattern=stream,transport=tcp,label=series",
        "pattern=stream,transport=tcp,label=series,direction=reverse,wait=spin",
        "pattern=stream,transport=tcp,label=series,path=splice,payload=100000",
        "pattern=stream,transport=tcp,label=series,flows=5",
        "pattern=stream,transport=udp,label=series",
        "pattern=stream,transport=udp,label=series,path=gso",
        "pattern=ping-pong,transport=tcp,label=series",
        "pattern=rr,transport=unix,label=series,outstanding=4,response=9",
        "pattern=rr,transport=tcp,label=series,flows=5",
        "pattern=stream,transport=tcp,label=series,flows=5,path=io-uring",
        "pattern=rr,transport=unix,label=series,flows=5,path=io-uring",
        "pattern=stream,transport=quic,label=series,flows=5",
        "pattern=crr,transport=tcp,label=series,response=9",
        "pattern=crr,transport=tcp,label=series,response=9,flows=5",
        "pattern=burst,transport=tcp,label=series,outstanding=4,response=9",
        "pattern=ping-ping,transport=tcp,label=series,payload=8000000,wait=spin",
    ] {
        let (start, answer) = run_in_intervals(levels);
        for end in [start, answer] {
            let series = end.series.unwrap();
            assert_eq!(series.interval_ns, 5_000_000);
            assert!(series.bytes() > 0, "{levels}");
            assert_eq!(series.bytes(), end.counts.bytes, "{levels}");
            assert_eq!(series.calls(), end.counts.calls, "{levels}");
            let has_tcp = levels.contains("tcp") && !levels.contains("crr");
            let sampled = series.intervals.iter().filter(|interval| interval.tcp.is_some()).count();
            assert_eq!(sampled, if has_tcp { series.intervals.len() } else { 0 }, "{levels}");
        }
    }
}

#[test]
fn a_run_without_intervals_has_no_series() {
    for levels in ["pattern=stream,transport=tcp,label=none", "pattern=ping-pong,transport=null"] {
        let (start, answer) = run(levels);
        assert_eq!((start.series, answer.series), (None, None), "{levels}");
    }
}

#[test]
fn each_interval_is_told_of_while_the_run_is_under_way() {
    let mut start = prepare(Role::Client, "pattern=stream,transport=null");
    start.interval_ns = Some(Nanos::from_millis(2));
    let (told, heard) = std::sync::mpsc::channel();
    let control = Control::telling(move |event| {
        if let Event::Interval(interval) = event {
            told.send(interval.clone()).unwrap();
        }
    });
    let report = Endpoint::prepare(start).unwrap().run(None, &control).unwrap();
    drop(control);
    let heard: Vec<_> = heard.iter().collect();
    assert_eq!(report.series.unwrap().intervals, heard);
    assert!(!heard.is_empty());
}

#[test]
fn an_interval_below_a_millisecond_is_refused() {
    let mut start = prepare(Role::Client, "pattern=stream,transport=null");
    start.interval_ns = Some(Nanos(999_999));
    let error = Endpoint::prepare(start).unwrap_err();
    assert!(matches!(error, Failure::Protocol(_)), "{error}");
}

#[test]
fn each_end_says_what_the_kernel_counted_beside_its_sockets() {
    let (start, answer) = run("pattern=ping-pong,transport=tcp,label=kernel");
    for kernel in [start.kernel.unwrap(), answer.kernel.unwrap()] {
        assert!(kernel.tcp_retransmitted_segments.is_some(), "{kernel:?}");
        assert!(kernel.softnet_dropped.is_some(), "{kernel:?}");
    }
}
