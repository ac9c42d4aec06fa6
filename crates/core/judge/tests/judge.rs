//! Each figure and each warning, from fabricated reports of both ends.

use fabricmark_judge::{Findings, Part, Route, correlated, judge};
use fabricmark_plan::{Figure, Purpose, Testbed};
use fabricmark_proto::{EndReport, Ends, SequenceCounts, ZeroCopySends};
use fabricmark_record::{
    Counts, CpuShares, CpuUsage, Drops, MachineUsage, Pacing, Provenance, Side, TcpCounters, Usage,
    Warning,
};
use fabricmark_stats::Histogram;
use fabricmark_testkit::point;
use fabricmark_units::Nanos;

const MS: u64 = 1_000_000;

const TCP: &str = "pattern=stream,transport=tcp,family=4,payload=65536,congestion=cubic,link=veth";
const UDP: &str = "pattern=stream,transport=udp,family=4,payload=1000,link=veth";
const PING_PONG: &str = "pattern=ping-pong,transport=udp,family=4,payload=64,link=veth";
const EXCHANGE: &str = "pattern=rr,transport=udp,family=4,payload=64,link=veth";

/// One second in which `calls` payloads of 1,000 bytes were transferred; the first tenth is the ramp.
fn moved(calls: u64) -> EndReport {
    let counts = Counts {
        calls,
        bytes: 1_000 * calls,
        elapsed_ns: 1_000 * MS,
        ramp_calls: calls / 10,
        ramp_bytes: 100 * calls,
        ..Counts::default()
    };
    EndReport { counts, ..EndReport::default() }
}

/// `calls` responses in one second, after 1, 2, 3 ms ...
fn answered(calls: u64) -> EndReport {
    let mut rtt_ns = Histogram::new();
    (1..=calls).for_each(|ms| rtt_ns.record(ms * MS));
    let counts = Counts { calls, bytes: 64 * calls, elapsed_ns: 1_000 * MS, ..Counts::default() };
    EndReport { counts, rtt_ns: Some(rtt_ns), ..EndReport::default() }
}

fn part(purpose: Purpose, levels: &str, client: EndReport, server: EndReport) -> Part {
    let (point, ends) = (point(levels), Ends { client, server });
    Part {
        purpose,
        point,
        omit: Nanos(0),
        ends,
        active: None,
        slice_rates: Vec::new(),
        relay: None,
    }
}

fn of_parts(parts: &[Part]) -> Findings {
    judge(&parts[0].point, parts, Route::of(Testbed::Lab), Provenance::Measured, 0)
}

fn alone(levels: &str, client: EndReport, server: EndReport) -> Findings {
    of_parts(&[part(Purpose::Load, levels, client, server)])
}

/// One second on one CPU that was busy for a quarter of it.
fn a_quarter_busy() -> Option<Usage> {
    let shares = CpuShares { user: 0.25, idle: 0.75, ..CpuShares::default() };
    let machine = MachineUsage { all: shares, per_cpu: vec![CpuUsage { cpu: 0, shares }] };
    Some(Usage { elapsed_ns: 1_000 * MS, machine: Some(machine), ..Usage::default() })
}

#[test]
fn each_figure_of_a_stream_is_that_of_the_end_that_knows_it() {
    let tcp = TcpCounters { retransmitted: 7, ..TcpCounters::default() };
    let sender = EndReport { tcp: Some(tcp), usage: a_quarter_busy(), ..moved(1_000) };
    let receiver = EndReport { usage: a_quarter_busy(), ..moved(900) };
    for levels in [TCP.to_owned(), format!("{TCP},direction=reverse")] {
        let ends = (sender.clone(), receiver.clone());
        let (client, server) =
            if levels.ends_with("reverse") { (ends.1, ends.0) } else { (ends.0, ends.1) };
        let found = alone(&levels, client, server);
        let value = |figure| found.figures.get(figure).map(|figure| figure.value);
        for (figure, expected) in [
            // 900 payloads of 1,000 bytes, minus a tenth.
            (Figure::Goodput, Some(6.48e6)),
            (Figure::PayloadRate, Some(6.48e6 / 8.0 / 65_536.0)),
            (Figure::Retransmits, Some(7.0)),
            // 250 ms for 1,000,000 and 900,000 bytes.
            (Figure::SenderDemand, Some(256.0)),
            (Figure::ReceiverDemand, Some(250e3 / (900e3 / 1024.0))),
            (Figure::Rtt, None),
            (Figure::TransactionRate, None),
        ] {
            let same = |expected: f64| {
                value(figure).is_some_and(|value| (value / expected - 1.0).abs() < 1e-12)
            };
            assert!(expected.map_or(value(figure).is_none(), same), "{levels}: {figure:?}");
        }
        let (flow, sent_bps) =
            (&found.flows[0], found.figures.get(Figure::SendRate).unwrap().value);
        assert_eq!((flow.sent.calls, flow.received.calls, sent_bps), (1_000, 900, 8e6));
    }
}

#[test]
fn half_a_round_trip_is_a_figure_of_ping_pong_alone() {
    let found = alone(PING_PONG, answered(9), answered(9)).figures;
    let value = |figure| found.get(figure).unwrap().value;
    assert_eq!((value(Figure::Rtt), value(Figure::HalfRtt)), (5e6, 2.5e6));
    assert_eq!(value(Figure::TransactionRate), 9.0);
    assert!((value(Figure::RttP50) / 5e6 - 1.0).abs() < 1e-3, "{}", value(Figure::RttP50));
    assert_eq!(alone(EXCHANGE, answered(9), answered(9)).figures.get(Figure::HalfRtt), None);
}

#[test]
fn an_open_loop_is_counted_over_its_schedule() {
    let pacing = Pacing {
        departures: 9,
        late: 0,
        slip_ns: Histogram::new(),
        slip_without_pauses_ns: None,
        elapsed_ns: 1_700 * MS,
        covered_ns: 1_800 * MS,
    };
    let client = EndReport { pacing: Some(pacing), ..answered(9) };
    let found = alone(&format!("{EXCHANGE},pace=fixed:5/s"), client, answered(9));
    assert_eq!(found.figures.get(Figure::TransactionRate).unwrap().value, 5.0);
}

#[test]
fn a_stream_both_ways_is_the_sum_of_its_directions() {
    let levels = |direction| format!("{TCP},direction={direction}");
    let found = of_parts(&[
        part(Purpose::Load, &levels("forward"), moved(1_000), moved(1_000)),
        part(Purpose::Load, &levels("reverse"), moved(500), moved(500)),
    ]);
    let bps = |figure: Option<fabricmark_record::Sourced>| figure.unwrap().value;
    assert_eq!(bps(found.figures.get(Figure::Goodput)), 10.8e6);
    assert_eq!(bps(found.figures.get(Figure::ForwardGoodput)), 7.2e6);
    assert_eq!(bps(found.figures.get(Figure::ReverseGoodput)), 3.6e6);
    let datagrams = |direction| format!("{UDP},pace=fixed:1000/s,direction={direction}");
    let jitter = |jitter_ns| EndReport { jitter_ns, ..moved(1_000) };
    let of_both = |one, other| {
        let found = of_parts(&[
            part(Purpose::Load, &datagrams("forward"), moved(1_000), jitter(one)),
            part(Purpose::Load, &datagrams("reverse"), jitter(other), moved(1_000)),
        ]);
        found.figures.value(Figure::Jitter)
    };
    assert_eq!(of_both(Some(10.0), Some(30.0)), Some(20.0));
    assert_eq!(of_both(Some(10.0), None), None);
    let ends: Vec<_> = found.flows.iter().map(|flow| (&*flow.from, &*flow.to)).collect();
    assert_eq!(ends, [("client", "server"), ("server", "client")]);
}

#[test]
fn a_drop_of_the_link_explains_the_loss_of_one_direction() {
    let levels = |direction| format!("{UDP},pace=fixed:1000/s,direction={direction}");
    let both_ways = |arrived: [u64; 2], link_drops| {
        let [there, back] = arrived.map(moved);
        let parts = [
            part(Purpose::Load, &levels("forward"), moved(1_000), there),
            part(Purpose::Load, &levels("reverse"), back, moved(1_000)),
        ];
        let route = Route::of(Testbed::Lab);
        let found = judge(&parts[0].point, &parts, route, Provenance::Measured, link_drops);
        let drops: Vec<_> = found.flows.iter().map(|flow| flow.drops).collect();
        (drops[0].link + drops[1].link, drops[0].unexplained + drops[1].unexplained)
    };
    assert_eq!(both_ways([900, 950], 150), (150, 0));
    assert_eq!(both_ways([900, 900], 100), (100, 100));
}

#[test]
fn what_a_machine_did_for_a_load_and_a_probe_is_the_demand_of_neither() {
    let busy = |report| EndReport { usage: a_quarter_busy(), ..report };
    let load = part(Purpose::Load, TCP, busy(moved(1_000)), busy(moved(1_000)));
    assert!(of_parts(std::slice::from_ref(&load)).figures.get(Figure::SenderDemand).is_some());
    let probe = |purpose| part(purpose, PING_PONG, answered(9), answered(9));
    let found = of_parts(&[load, probe(Purpose::ProbeIdle), probe(Purpose::Probe)]).figures;
    assert_eq!(found.get(Figure::SenderDemand), None);
    let [idle, loaded] = [Figure::IdleRttP50, Figure::LoadedRttP50].map(|figure| found.get(figure));
    assert!(idle.is_some() && idle == loaded);
}

#[test]
fn datagrams_are_lost_where_a_counter_says_so_and_unexplained_elsewhere() {
    let sequence = Some(SequenceCounts { unique: 900, reordered: 3, duplicates: 5 });
    let server = EndReport {
        sequence,
        socket_drops: 40,
        device_drops: 20,
        reassembly_failures: 10,
        ..moved(905)
    };
    let parts = [part(Purpose::Load, UDP, moved(1_000), server)];
    let found = judge(&parts[0].point, &parts, Route::of(Testbed::Lab), Provenance::Measured, 5);
    let flow = &found.flows[0];
    let drops = Drops { lost: 100, socket: 40, link: 25, reassembly: 10, unexplained: 25 };
    assert_eq!((flow.drops, flow.reordered, flow.duplicates), (drops, Some(3), Some(5)));
    assert_eq!(found.warnings, [Warning::UnexplainedLoss { datagrams: 25 }]);
    // A link that others use counts what it dropped of them, too.
    let shared = Route { has_others: true, ..Route::of(Testbed::Lab) };
    let found = judge(&parts[0].point, &parts, shared, Provenance::Measured, 7_000);
    assert_eq!(found.flows[0].drops.link, 100);
}

#[test]
fn cpus_of_equal_numbers_on_two_machines_are_not_shared() {
    let on_cpu =
        |cpu| EndReport { side: Side { cpu: Some(cpu), ..Side::default() }, ..moved(1_000) };
    let found = |is_one_machine| {
        let part = part(Purpose::Load, TCP, on_cpu(0), on_cpu(0));
        let route = Route { is_one_machine, ..Route::of(Testbed::Hosts) };
        judge(&part.point.clone(), &[part], route, Provenance::Measured, 0).warnings
    };
    assert_eq!(found(true), [Warning::SharedCpu { threads: 2, processors: 1 }]);
    assert_eq!(found(false), []);
}

#[test]
fn each_warning_has_its_cause() {
    let on_cpu =
        |cpu| EndReport { side: Side { cpu: Some(cpu), ..Side::default() }, ..moved(1_000) };
    let granted = |bytes| EndReport {
        side: Side {
            receive_buffer_bytes: Some(bytes),
            send_buffer_bytes: Some(bytes),
            ..Side::default()
        },
        ..moved(1_000)
    };
    let stolen = || {
        let shares = CpuShares { user: 0.5, steal: 0.5, ..CpuShares::default() };
        let machine = MachineUsage { all: shares, per_cpu: vec![CpuUsage { cpu: 0, shares }] };
        let usage = Usage { elapsed_ns: 1_000 * MS, machine: Some(machine), ..Usage::default() };
        EndReport { usage: Some(usage), ..moved(1_000) }
    };
    let loose = || EndReport { not_pinned: Some("no CPU 9".to_owned()), ..moved(1_000) };
    let lost = EndReport { lost_round_trips: 2, ..answered(9) };
    let zero_copy = Some(ZeroCopySends { sends: 9, copied: 4 });
    let copied = EndReport { zero_copy, ..moved(1_000) };
    let buffers = format!("{TCP},receive_buffer=64KiB,send_buffer=64KiB");
    let cases = [
        (TCP, on_cpu(0), on_cpu(1), vec![]),
        (TCP, on_cpu(0), on_cpu(0), vec![Warning::SharedCpu { threads: 2, processors: 1 }]),
        // The kernel reports twice what it granted (socket(7)).
        (&buffers, granted(131_072), granted(131_072), vec![]),
        (
            &buffers,
            granted(65_536),
            granted(65_536),
            vec![
                Warning::SmallBuffer { asked_bytes: 65_536, granted_bytes: 32_768 },
                Warning::SmallSendBuffer { asked_bytes: 65_536, granted_bytes: 32_768 },
            ],
        ),
        (
            TCP,
            loose(),
            moved(1_000),
            vec![Warning::NotPinned { node: "client".to_owned(), reason: "no CPU 9".to_owned() }],
        ),
        (TCP, copied, moved(1_000), vec![Warning::Copied { copied: 4, sends: 9 }]),
        (EXCHANGE, lost, answered(9), vec![Warning::LostRoundTrips { count: 2 }]),
    ];
    for (levels, client, server, expected) in cases {
        assert_eq!(alone(levels, client, server).warnings, expected, "{levels}");
    }
    let found = alone(TCP, moved(1_000), stolen()).warnings;
    let is_stolen =
        |warning: &Warning| matches!(warning, Warning::StolenTime { node, .. } if node == "server");
    assert!(found.len() == 1 && is_stolen(&found[0]), "{found:?}");
}

#[test]
fn ten_values_that_rise_together_are_correlated_and_nine_are_too_few() {
    let rising: Vec<f64> = (0..10).map(f64::from).collect();
    assert!(matches!(correlated(&rising), Some(Warning::Correlated { lag1 }) if lag1 > 0.3));
    assert_eq!(correlated(&rising[..9]), None);
    let by_turns: Vec<f64> = (0..10).map(|k| f64::from(k % 2)).collect();
    assert_eq!(correlated(&by_turns), None);
}
