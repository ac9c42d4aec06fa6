//! Emulated IPoIB against InfiniBand's ceilings and floors.

use fabricmark_plan::{Figure, Pattern, Point};
use fabricmark_record::{Outcome, Provenance, Record, Warning};
use fabricmark_wire::Kind;

use crate::support::{Bench, above_the_wire, bench, stdout};

/// In datagram mode (MTU 2044) 1,988 bytes fit one packet; 32,768 fit one only in connected mode.
const PLAN: &str = r#"
title = "IPoIB"
[factors]
pattern = ["stream", "ping-pong"]
transport = ["tcp", "udp"]
family = [4, 6]
payload = [1988, 32768]
link = ["ipoib:4X-SDR", "ipoib:4X-SDR,mode=connected,mtu=65520"]
[settings]
congestion = "cubic"
[run]
duration = "500ms"
warm_up = "20ms"
[stop]
runs = 2
[[table]]
title = "UDP goodput"
figure = "goodput"
where = { transport = "udp" }
columns = ["link", "family"]
"#;

fn records(bench: &Bench, plan: &str) -> Vec<Record> {
    bench.plan(plan);
    bench.carries_out(&["run", "plan.toml"], &[]);
    bench.records()
}

/// A warning that no emulated link may cause, however busy the machine is.
fn defect(record: &Record) -> Option<&Warning> {
    record.warnings.iter().find(|warning| matches!(warning, Warning::UnexplainedLoss { .. }))
}

#[test]
fn both_modes_stay_within_their_ceilings_and_above_their_floors() {
    let Some(bench) = bench("IPoIB in both modes") else { return };
    let records = records(&bench, PLAN);
    assert!(records.len() >= 2 * 2 * 2 * 2 * 2 * 3);
    // A warm-up of 20 ms is shorter than the machine may be unresponsive.
    for record in records.iter().filter(|record| !record.place.warm_up) {
        let key = record.point.key();
        // A machine that is too slow for the link reports that.
        if let Outcome::Invalid(reason) = &record.outcome {
            let is_slow =
                reason.contains("the emulator") && !reason.contains("the emulator received");
            assert!(is_slow, "{key}: {reason}");
            continue;
        }
        assert_eq!(record.outcome, Outcome::Completed, "{key}");
        assert_eq!((defect(record), above_the_wire(record)), (None, None), "{key}");
        let emulation = record.emulation.as_ref().unwrap();
        assert_eq!(emulation.options, format!("link={}", record.point.link), "{key}");
        let figures = &record.figures;
        let figure = figures.get(Figure::Goodput).or(figures.get(Figure::HalfRtt)).unwrap();
        assert_eq!(figure.provenance, Provenance::Emulated, "{key}");
        if record.point.pattern == Pattern::PingPong {
            let floor = record.limits.rtt_floor.as_ref().unwrap();
            assert_eq!(floor.kind, Kind::Bound, "{key}");
            let least_ns = record.flows[0].rtt_ns.as_ref().unwrap().min().unwrap();
            assert!(least_ns as f64 >= floor.time_ns.as_f64(), "{key}: {least_ns} ns");
        } else {
            let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
            assert!(bound_bps > 7e9 && bound_bps < 8e9, "{key}: {bound_bps}");
        }
    }
    let shown = stdout(&bench.run(&["report"]));
    // A point with invalid runs may have too few others for a figure.
    let is_sound = |point: &Point| {
        let runs = records.iter().filter(|record| !record.place.warm_up && record.point == *point);
        runs.map(|record| &record.outcome).all(|outcome| *outcome == Outcome::Completed)
    };
    for point in records.iter().map(|record| &record.point).filter(|point| is_sound(point)) {
        let link = point.link.to_string();
        assert!(shown.contains(&link) && shown.contains("(emulated)"), "no {link:?} in {shown}");
    }
}

#[test]
fn a_packet_of_connected_mode_crosses_as_one() {
    let Some(bench) = bench("packets of connected mode") else { return };
    let plan = PLAN
        .replace("[\"stream\", \"ping-pong\"]", "[\"ping-pong\"]")
        .replace("[1988, 32768]", "[32768]");
    for record in records(&bench, &plan).iter().filter(|record| !record.place.warm_up) {
        let key = record.point.key();
        let is_connected = record.point.link.mtu() == 65_520;
        let counts = record.flows[0].sent;
        let asked = counts.calls + counts.ramp_calls;
        let forward = record.emulation.as_ref().unwrap().forward;
        // In datagram mode each datagram has 17 fragments and a TCP segment at most 2,004 bytes; TCP adds ACKs in both.
        let each = forward.arrived as f64 / asked as f64;
        let expected = if is_connected { 0.5..4.0 } else { 8.0..40.0 };
        assert!(expected.contains(&each), "{key}: {counts:?} {forward:?}");
        assert_eq!(forward.dropped + forward.missed, 0, "{key}: {forward:?}");
    }
}

#[test]
fn senders_wait_for_a_wire_at_their_device() {
    let Some(bench) = bench("waiting for IPoIB") else { return };
    let plan = PLAN
        .replace("[\"stream\", \"ping-pong\"]", "[\"stream\"]")
        .replace("[\"tcp\", \"udp\"]", "[\"udp\"]")
        .replace("[1988, 32768]", "[32768]")
        .replace("4X-SDR", "1X-SDR")
        .replace("congestion = \"cubic\"", "");
    for record in records(&bench, &plan) {
        let key = record.point.key();
        assert_eq!((defect(&record), above_the_wire(&record)), (None, None), "{key}");
        let forward = record.emulation.as_ref().unwrap().forward;
        // Even if the emulator is descheduled, its queue holds all that a sender submits meanwhile.
        assert_eq!(forward.dropped, 0, "{key}: the queue of the link overflowed: {forward:?}");
    }
}

#[test]
fn what_a_slow_link_far_away_cannot_carry_is_dropped_and_counted() {
    let Some(bench) = bench("overloaded IPoIB") else { return };
    let plan = PLAN
        .replace("[\"stream\", \"ping-pong\"]", "[\"stream\"]")
        .replace("[\"tcp\", \"udp\"]", "[\"udp\"]")
        .replace("\"ipoib:4X-SDR\", ", "")
        .replace("4X-SDR", "1X-SDR")
        .replace("congestion = \"cubic\"", "rtt = \"1ms\"\nemulate = \"queue=100p\"");
    let records = records(&bench, &plan);
    for record in &records {
        let key = record.point.key();
        assert_eq!((defect(record), above_the_wire(record)), (None, None), "{key}");
        assert!(record.emulation.as_ref().unwrap().options.contains("queue=100p"), "{key}");
    }
    // A sender that was descheduled during a run does not overload the link.
    assert!(records.iter().any(|record| record.flows[0].drops.link > 0));
}
