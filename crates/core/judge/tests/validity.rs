//! Invariants of every record: for each rule a fabricated record that satisfies it, and one that violates it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_judge::{missed, outcome, violations};
use fabricmark_plan::{Figure, Pattern, Point};
use fabricmark_record::{
    Counts, CpuShares, CpuUsage, Drops, EmulatedWay, Emulation, Figures, Flow, Interval,
    KernelCounters, Limits, MachineUsage, Outcome, Pacing, ProcessUsage, Provenance, Record,
    Series, Sourced, Usage, Warning,
};
use fabricmark_stats::Histogram;
use fabricmark_testkit::{figures, point};
use fabricmark_units::Nanos;
use fabricmark_wire::{Ceiling, Path, Stack, goodput, rtt_floor, stream_goodput};

const MS: u64 = 1_000_000;

fn figure(value: f64) -> Option<Sourced> {
    Some(Sourced { value, provenance: Provenance::Emulated })
}

fn record(point: Point, flow: Flow, figures: Figures, limits: Limits) -> Record {
    let way = EmulatedWay {
        arrived: 100_000,
        departed: 100_000,
        departed_bytes: Some(130_000_000),
        late_mean_ns: Some(5_000),
        late_p99_ns: Some(50_000),
        ..EmulatedWay::default()
    };
    let emulation = Emulation {
        options: point.link_options().unwrap().to_string(),
        offloaded: true,
        forward: way,
        reverse: way,
        ..Emulation::default()
    };
    let emulation = Some(emulation);
    Record { flows: vec![flow], figures, limits, emulation, ..fabricmark_testkit::record(point) }
}

/// A second in which this share of a CPU was busy.
fn usage_of_cpu(cpu: u32, user: f64) -> Usage {
    let shares = CpuShares { user, idle: 1.0 - user, ..CpuShares::default() };
    let machine =
        MachineUsage { per_cpu: vec![CpuUsage { cpu, shares }], ..MachineUsage::default() };
    Usage { elapsed_ns: 1_000_000_000, machine: Some(machine), ..Usage::default() }
}

fn flow(sent: Counts, received: Counts) -> Flow {
    Flow { sent, received, ..fabricmark_testkit::flow() }
}

/// One second of TCP at 940 Mbit/s; a wire of 1 Gbit/s carries 949.28.
fn tcp_stream() -> Record {
    let point = point(
        "pattern=stream,transport=tcp,family=4,payload=65536,congestion=cubic,link=ethernet:1G,rtt=10ms",
    );
    let sent =
        Counts { calls: 2_000, bytes: 126_000_000, elapsed_ns: 1_060 * MS, ..Counts::default() };
    let received = Counts {
        calls: 2_000,
        bytes: 126_000_000,
        elapsed_ns: 1_000 * MS,
        ramp_bytes: 7_000_000,
        ramp_calls: 100,
        tail_bytes: 1_500_000,
        tail_calls: 20,
        ..Counts::default()
    };
    let stack = Stack::Tcp { family: point.family, option_bytes: 0 };
    let ceilings = stream_goodput(point.link, stack).into_iter().collect();
    let figures = figures([(Figure::Goodput, 940e6)]);
    record(point, flow(sent, received), figures, Limits { ceilings, rtt_floor: None })
}

/// An open loop of 400 datagrams of 1,000 bytes a second, one of which the path duplicated.
fn paced_datagrams() -> Record {
    let point = point(
        "pattern=stream,transport=udp,family=4,payload=1000,link=ethernet:10M,rtt=10ms,pace=fixed:400/s",
    );
    let sent = Counts { calls: 400, bytes: 400_000, elapsed_ns: 1_000 * MS, ..Counts::default() };
    let received = Counts { calls: 401, bytes: 401_000, elapsed_ns: 998 * MS, ..Counts::default() };
    let stack = Stack::Udp { family: point.family };
    let ceilings = goodput(point.link, stack, 1_000).into_iter().collect();
    let figures = figures([(Figure::Goodput, 3.208e6)]);
    let pacing = Pacing {
        departures: 400,
        late: 0,
        slip_ns: Histogram::new(),
        slip_without_pauses_ns: None,
        elapsed_ns: 1_000 * MS,
        covered_ns: 1_000 * MS,
    };
    let flow = Flow { duplicates: Some(1), pacing: Some(pacing), ..flow(sent, received) };
    record(point, flow, figures, Limits { ceilings, rtt_floor: None })
}

/// 95 RTTs of 10.5 ms in 997.5 ms.
fn ping_pong() -> Record {
    let point =
        point("pattern=ping-pong,transport=udp,family=4,payload=64,link=ethernet:1G,rtt=10ms");
    let mut rtt_ns = Histogram::new();
    (0..95).for_each(|_| rtt_ns.record(10_500_000));
    let mean_ns = rtt_ns.mean_ns().unwrap();
    let sent = Counts { calls: 95, bytes: 95 * 64, elapsed_ns: 997_500_000, ..Counts::default() };
    let path = Path { propagation_ns: Nanos(5 * MS), ..Path::direct(point.link) };
    let stack = Stack::Udp { family: point.family };
    let limits = Limits { ceilings: Vec::new(), rtt_floor: rtt_floor(&path, stack, 64, 64).ok() };
    let figures = figures([
        (Figure::TransactionRate, 95.0 / 0.9975),
        (Figure::Rtt, mean_ns),
        (Figure::HalfRtt, mean_ns / 2.0),
        (Figure::RttP50, 10_500_000.0),
        (Figure::RttP99, 10_500_000.0),
        (Figure::RttP999, 10_500_000.0),
    ]);
    let flow = Flow { rtt_ns: Some(rtt_ns), ..flow(sent, sent) };
    record(point, flow, figures, limits)
}

#[test]
fn records_of_sound_runs_have_nothing_untrue() {
    for record in [tcp_stream(), paced_datagrams(), ping_pong()] {
        assert_eq!(violations(&record, 0), [""; 0]);
    }
}

#[test]
fn a_request_of_a_probe_may_arrive_whose_response_is_lost() {
    let mut record = tcp_stream();
    let answered =
        Counts { calls: 436, bytes: 27_904, elapsed_ns: 1_000 * MS, ..Counts::default() };
    let arrived = Counts { calls: 437, bytes: 27_968, ..answered };
    record.flows.push(Flow { group: "probe".to_owned(), ..flow(answered, arrived) });
    assert_eq!(violations(&record, 0), [""; 0]);
}

#[test]
fn a_single_datagram_is_no_faster_than_the_wire() {
    // Due in 18 ms: a datagram of 27,302 bytes, which takes 34.9 ms on a wire of 6.64 Mbit/s; the next is due at 31.3
    // ms.
    let mut record = paced_datagrams();
    record.point = point(
        "pattern=stream,transport=udp,family=6,payload=27302,link=ethernet:6640K,rtt=0us,pace=fixed:6980K",
    );
    let stack = Stack::Udp { family: record.point.family };
    record.limits.ceilings = goodput(record.point.link, stack, 27_302).into_iter().collect();
    record.duration_ns = Nanos(18 * MS);
    record.figures.set(Figure::Goodput, figure(6.98e6));
    let flow = &mut record.flows[0];
    flow.sent = Counts { calls: 1, bytes: 27_302, elapsed_ns: 20 * MS, ..Counts::default() };
    flow.received = Counts { elapsed_ns: 0, ramp_calls: 1, ramp_bytes: 27_302, ..flow.sent };
    flow.duplicates = Some(0);
    let pacing = flow.pacing.as_mut().unwrap();
    (pacing.departures, pacing.elapsed_ns, pacing.covered_ns) = (1, 20 * MS, 31_291_690);
    let found = violations(&record, 0).join("; ");
    assert!(found.contains("exceeds the ceiling of 6.26"), "{found:?}");
}

#[test]
fn an_overloaded_open_loop_that_counts_nothing_says_that_the_omitted_time_is_at_fault() {
    let mut record = paced_datagrams();
    record.point =
        point("pattern=rr,transport=udp,family=4,payload=64,link=ethernet:10M,pace=fixed:1000/s");
    (record.figures, record.emulation) = (Figures::default(), None);
    record.flows[0].sent = Counts { calls: 20, ramp_calls: 20, ..Counts::default() };
    record.omit_ns = Nanos(300 * MS);
    assert_eq!(
        violations(&record, 0),
        ["all 20 responses that arrived belong to the omitted time; use a lower rate, or omit \
             less time"]
    );
}

#[test]
fn an_open_loop_of_exchanges_is_no_faster_than_the_wire() {
    let found = |per_s: f64| {
        let mut record = ping_pong();
        record.point = point(
            "pattern=rr,transport=tcp,family=4,payload=64,response=125511,outstanding=2,flows=4,\
             link=ethernet:10M,congestion=cubic,pace=fixed:10/s",
        );
        record.limits = Limits::default();
        let flow = &mut record.flows[0];
        flow.sent = Counts { calls: 10, bytes: 640, elapsed_ns: 900 * MS, ..Counts::default() };
        flow.received = flow.sent;
        flow.pacing = Some(Pacing {
            departures: 10,
            late: 0,
            slip_ns: Histogram::new(),
            slip_without_pauses_ns: None,
            elapsed_ns: 900 * MS,
            covered_ns: 1_000 * MS,
        });
        record.figures.set(Figure::TransactionRate, figure(per_s));
        violations(&record, 0)
    };
    assert_eq!(found(9.4), [""; 0]);
    assert!(found(10.0).join("; ").contains("are 10.04 Mbit/s, above the ceiling of 9.49"));
}

#[test]
fn a_run_without_a_figure_says_what_arrived_where_the_rest_went_and_that_the_emulator_was_at_fault()
{
    let mut record = tcp_stream();
    record.figures = Figures::default();
    let flow = &mut record.flows[0];
    flow.received = Counts { calls: 19, bytes: 622_592, ..Counts::default() };
    flow.drops = Drops { lost: 1_981, reassembly: 1_981, ..Drops::default() };
    record.emulation.as_mut().unwrap().forward.missed = 20_000;
    assert_eq!(
        violations(&record, 0),
        [
            "the 622592 bytes arrived in too short a time to compute a rate: 1981 reassembly \
             failures; use a longer duration or a larger amount",
            "the emulator dropped 20000 of 220000 packets for lack of time: this machine is too slow for the link; \
             use a lower rate",
        ]
    );
    record.flows[0].received = Counts::default();
    record.flows[0].drops = Drops { lost: 3, link: 3, ..Drops::default() };
    record.emulation = None;
    assert_eq!(violations(&record, 0), ["nothing arrived: 3 packets dropped by the link"]);
}

#[test]
fn an_emulator_that_lost_packets_is_a_warning_unless_a_sender_floods_the_wire() {
    let lost = |mut record: Record| {
        let emulation = record.emulation.as_mut().unwrap();
        (emulation.forward.missed, emulation.reverse.missed) = (2, 3);
        missed(&record)
    };
    assert_eq!(missed(&tcp_stream()), None);
    assert_eq!(lost(tcp_stream()), Some(Warning::MissedPackets { packets: 5 }));
    assert_eq!(lost(paced_datagrams()), Some(Warning::MissedPackets { packets: 5 }));
    let mut flood = paced_datagrams();
    flood.figures.set(Figure::Goodput, figure(9.4e6));
    assert_eq!(lost(flood), None);
}

#[test]
fn a_part_of_a_random_schedule_may_have_more_departures_than_its_mean() {
    // In 0.5 s the mean is 200 departures, and the standard deviation 14.
    let counted = |pace: &str, departures: u64| {
        let mut record = paced_datagrams();
        record.point.pace = pace.parse().unwrap();
        let received = &mut record.flows[0].received;
        (received.ramp_calls, received.ramp_bytes) = (400 - departures, 1_000 * (400 - departures));
        (received.calls, received.bytes, received.elapsed_ns) = (400, 400_000, 500 * MS);
        record.figures.set(Figure::Goodput, figure(8_000.0 * departures as f64 / 0.5));
        violations(&record, 0)
    };
    assert_eq!(counted("poisson:400/s", 220), [""; 0]);
    assert_eq!(counted("poisson:400/s", 290).len(), 1);
    assert_eq!(counted("fixed:400/s", 201), [""; 0]);
    assert_eq!(counted("fixed:400/s", 220).len(), 1);
    assert_eq!(counted("burst:50KB/125ms", 240), [""; 0]);
    assert_eq!(counted("burst:50KB/125ms", 270).len(), 1);
}

#[test]
fn the_last_step_of_ping_ping_may_be_short_and_have_no_pair() {
    let mut record = ping_pong();
    record.point.pattern = Pattern::PingPing;
    // Two pairs of steps of 10.5 ms, and a fifth step of 10.1 ms.
    let mut steps_ns = Histogram::new();
    (0..2).for_each(|_| steps_ns.record(10_500_000));
    let mean_ns = steps_ns.mean_ns().unwrap();
    let elapsed_ns = 52_100_000;
    record.flows[0].rtt_ns = Some(steps_ns);
    record.flows[0].sent = Counts { calls: 5, bytes: 320, elapsed_ns, ..Counts::default() };
    record.figures = figures([(Figure::TransactionRate, 5.0 / 0.0521), (Figure::Step, mean_ns)]);
    assert_eq!(violations(&record, 0), [""; 0]);
    record.figures.set(Figure::TransactionRate, figure(7.0 / 0.0521));
    assert_eq!(violations(&record, 0).len(), 1);
}

#[test]
fn of_several_slots_a_twentieth_may_have_been_under_way_when_counting_began() {
    let found = |outstanding: f64| {
        let mut record = ping_pong();
        record.point.flows = 11;
        record.flows[0].rtt_ns.as_mut().unwrap().record(300 * MS);
        record.figures.set(Figure::TransactionRate, figure(outstanding / 0.0105));
        violations(&record, 0)
    };
    assert_eq!(found(11.5), [""; 0]);
    assert!(found(11.7)[0].contains("expected 11; use a longer duration"));
}

#[test]
fn several_slots_that_wait_for_the_last_answer_of_one_have_no_rate() {
    let found = |duration_ms: u64, outstanding: f64| {
        let mut record = ping_pong();
        record.point = point(
            "pattern=ping-pong,transport=quic,family=4,payload=64,link=ethernet:1G,rtt=10ms,flows=15,\
             congestion=cubic",
        );
        record.duration_ns = Nanos(duration_ms * MS);
        record.figures.set(Figure::TransactionRate, figure(outstanding / 0.0105));
        violations(&record, 0)
    };
    // Idle time allowed: 2 %, plus 50 ms and two RTTs of 997.5 ms.
    assert_eq!(found(900, 13.7), [""; 0]);
    assert!(found(900, 13.5)[0].contains("expected 15; use a longer duration"));
    // At most a twentieth of the time is spent waiting.
    assert_eq!(found(950, 4.0), [""; 0]);
}

/// A record, a change to it, and a part of the resulting violation.
type Case = (fn() -> Record, fn(&mut Record), &'static str);

fn usage(cpu_ns: u64) -> Usage {
    let process = ProcessUsage { cpu_ns, ..ProcessUsage::default() };
    let machine = MachineUsage { per_cpu: vec![Default::default(); 2], ..MachineUsage::default() };
    Usage { elapsed_ns: 1_000 * MS, process, machine: Some(machine), ..Usage::default() }
}

fn series(bytes: u64) -> Option<Series> {
    let interval = Interval { end_ns: 1_000 * MS, bytes, ..Interval::default() };
    Some(Series { interval_ns: 1_000 * MS, intervals: vec![interval] })
}

#[test]
fn what_cannot_be_is_said_with_its_numbers() {
    let cases: &[Case] = &[
        (
            tcp_stream,
            |record| record.figures.set(Figure::Goodput, figure(949.5e6)),
            "goodput of 949.50 Mbit/s exceeds the ceiling of 949.28 by 0.02 %",
        ),
        (
            tcp_stream,
            |record| {
                cpu_of_the_emulator_had_others(record);
                record.figures.set(Figure::Goodput, figure(950e6));
            },
            "ceiling of 949.28 by 0.08 %: the emulator waited for a CPU for 200 ms; stop other processes",
        ),
        (
            tcp_stream,
            |record| {
                let ceilings = record.limits.ceilings.drain(..);
                record.limits.ceilings = ceilings.map(Ceiling::both_ways).collect();
                record.figures.set(Figure::ReverseGoodput, figure(950e6));
            },
            "goodput of 950.00 Mbit/s exceeds the ceiling of 949.28 by 0.08 %",
        ),
        (
            // A medium that both directions share.
            tcp_stream,
            |record| record.figures.set(Figure::ReverseGoodput, figure(950e6)),
            "goodput of 950.00 Mbit/s exceeds the ceiling of 949.28 by 0.08 %",
        ),
        (
            tcp_stream,
            |record| record.flows[0].received.bytes += 1,
            "126000000 bytes were sent, but 126000001 received",
        ),
        (tcp_stream, |record| record.flows[0].received.bytes -= 1, "but only 125999999 received"),
        (
            tcp_stream,
            |record| record.flows[0].received.tail_bytes = 126_000_000,
            "126000000 after it exceed the 126000000 received",
        ),
        (
            tcp_stream,
            |record| record.flows[0].received.elapsed_ns = 249 * MS,
            "only 249.0 of 1000.0 ms",
        ),
        (
            tcp_stream,
            |record| record.flows[0].received.uncertain_bytes = 1_200_000,
            "1200000 of 117500000 bytes are uncertain",
        ),
        (
            tcp_stream,
            |record| record.flows[0].sent_series = series(1),
            "but the intervals add up to 1",
        ),
        (
            tcp_stream,
            |record| record.flows[0].received_series = series(2),
            "bytes were received, but the intervals add up to 2",
        ),
        (
            tcp_stream,
            |record| record.emulation.as_mut().unwrap().forward.departed_bytes = Some(125_999_999),
            "the emulator delivered 125999999 in the forward direction",
        ),
        (
            tcp_stream,
            |record| record.emulation.as_mut().unwrap().forward.missed = 300,
            "dropped 300 of 200300 packets for lack of time",
        ),
        (
            tcp_stream,
            |record| {
                cpu_of_the_emulator_had_others(record);
                record.emulation.as_mut().unwrap().forward.missed = 300;
            },
            "packets for lack of time: it waited for a CPU for 200 ms; stop other processes",
        ),
        (
            tcp_stream,
            |record| {
                cpu_of_the_emulator_had_others(record);
                record.emulation.as_mut().unwrap().forward.late_p99_ns = Some(100_000_000);
            },
            "late (p99), too much for a count of 1000.0 ms: it waited for a CPU for 200 ms; stop",
        ),
        (
            tcp_stream,
            |record| record.emulation.as_mut().unwrap().reverse.departed = 102_100,
            "the emulator received 100000 packets in the reverse direction, but delivered or dropped 102100: the link was not empty",
        ),
        (
            tcp_stream,
            |record| record.emulation.as_mut().unwrap().forward.late_p99_ns = Some(21 * MS),
            "the emulator was 21.0 ms late (p99)",
        ),
        (
            tcp_stream,
            |record| record.nodes[0].usage = Some(usage(2_030 * MS)),
            "node client used 2030000000 ns",
        ),
        (
            paced_datagrams,
            |record| record.figures.set(Figure::Goodput, figure(3.3e6)),
            "412.500 payloads or responses/s arrived, but only 400.000 were scheduled",
        ),
        (
            paced_datagrams,
            |record| record.flows[0].received.bytes = 402_000,
            "400000 bytes were sent, but 402000",
        ),
        (
            paced_datagrams,
            |record| record.flows[0].duplicates = None,
            "but 401000 received; duplicates cannot be detected in payloads this short",
        ),
        (
            paced_datagrams,
            |record| record.flows[0].received.elapsed_ns = 1_030 * MS,
            "data sent in 1000.0 ms took 1030.0 ms to arrive",
        ),
        (
            tcp_stream,
            |record| {
                let mut back = record.flows[0].clone();
                (back.received.ramp_bytes, back.from) = (back.received.bytes, "server".to_owned());
                record.flows.push(back);
            },
            "no bytes from the server",
        ),
        (
            paced_datagrams,
            |record| {
                let kernel = KernelCounters {
                    device_received_bytes: Some(412_227),
                    ..KernelCounters::default()
                };
                record.nodes[1].kernel = Some(kernel);
            },
            "the device of node server received 412227",
        ),
        (
            paced_datagrams,
            // 401 datagrams with 28 bytes of headers each.
            |record| record.emulation.as_mut().unwrap().forward.departed_bytes = Some(412_227),
            "needs at least 412228 bytes of IP",
        ),
        (
            ping_pong,
            |record| record.figures.set(Figure::RttP99, figure(10_400_000.0)),
            "percentiles of the RTT are not in order",
        ),
        (
            ping_pong,
            |record| record.figures.set(Figure::HalfRtt, figure(5_000_000.0)),
            "RTT/2 of 5000000 ns",
        ),
        (
            ping_pong,
            |record| record.flows[0].rtt_ns.as_mut().unwrap().record(9_900_000),
            "us is below the floor of 10001.888 us",
        ),
        (
            ping_pong,
            |record| record.figures.set(Figure::TransactionRate, figure(110.0)),
            "110.000 transactions/s x a mean RTT of 10.500 ms = 1.155 outstanding, expected 1",
        ),
        (
            ping_pong,
            |record| record.emulation.as_mut().unwrap().reverse.late_mean_ns = Some(400_000),
            "the emulator was 405 us late (mean), too much for a mean RTT of 10500 us",
        ),
        (
            ping_pong,
            |record| {
                let exchanges = record.flows[0].sent.calls;
                let emulation = record.emulation.as_mut().unwrap();
                (emulation.cpu, emulation.cpu_ns) = (Some(1), Some(0));
                emulation.run_delay_ns = Some(400_000 * exchanges);
                record.nodes[0].usage = Some(usage_of_cpu(1, 1.0));
            },
            "waited for a CPU for 400 us in each RTT, too much for a mean RTT of 10500 us; stop other processes",
        ),
    ];
    for (sound, change, said) in cases {
        let mut record = sound();
        change(&mut record);
        let found = violations(&record, 0).join("; ");
        assert!(found.contains(said), "no {said:?} in {found:?}");
    }
}

#[test]
fn waits_for_a_cpu_are_a_cause_only_if_the_emulator_would_not_have_been_too_late_without_them() {
    let of_a_group = |mut record: Record| {
        record.point.group = Some("requests".to_owned());
        record
    };
    let cases = [
        (ping_pong(), 20_000, false),
        (ping_pong(), 100_000, true),
        // With several groups, a wait may have delayed another one: it is no violation by itself, but may be the cause.
        (of_a_group(ping_pong()), 20_000, false),
        (of_a_group(ping_pong()), 100_000, true),
        (of_a_group(ping_pong()), 400_000, true),
    ];
    for (mut record, waited_ns, is_cause) in cases {
        record.nodes[0].usage = Some(usage_of_cpu(1, 1.0));
        let exchanges = record.flows[0].sent.calls;
        let emulation = record.emulation.as_mut().unwrap();
        emulation.reverse.late_mean_ns = Some(400_000);
        (emulation.cpu, emulation.cpu_ns) = (Some(1), Some(0));
        emulation.run_delay_ns = Some(waited_ns * exchanges);
        let found = violations(&record, 0).join("; ");
        assert!(
            found.contains("was 405 us late (mean), too much for a mean RTT of 10500 us"),
            "{found}"
        );
        assert_eq!(found.contains("waited for a CPU"), is_cause, "{found}");
    }
}

/// Others had the emulator's CPU in 20 % of the run, while it waited.
fn cpu_of_the_emulator_had_others(record: &mut Record) {
    let usage = usage_of_cpu(1, 1.0);
    let emulation = record.emulation.as_mut().unwrap();
    (emulation.cpu, emulation.cpu_ns) = (Some(1), Some(usage.elapsed_ns / 2));
    emulation.run_delay_ns = Some(usage.elapsed_ns / 5);
    record.nodes[0].usage = Some(usage);
}

#[test]
fn a_token_bucket_may_pass_at_once() {
    let mut record = tcp_stream();
    record.figures.set(Figure::Goodput, figure(949.7e6));
    assert_eq!(violations(&record, 65_536), [""; 0]);
    // 65,536 bytes in 10 ms are 52 Mbit/s, 5.5 % of the wire.
    record.flows[0].received.elapsed_ns = 10 * MS;
    record.figures.set(Figure::Goodput, figure(990e6));
    let found = violations(&record, 65_536).join("; ");
    assert!(
        found.contains("the token bucket passes 65536 bytes at once; use a longer duration"),
        "{found}"
    );
}

#[test]
fn counts_of_a_peer_that_cannot_be_are_said_and_overflow_nothing() {
    let max = u64::MAX;
    for mut record in [tcp_stream(), paced_datagrams()] {
        let received = Counts {
            calls: max - 1,
            bytes: max - 1,
            ramp_bytes: max,
            ramp_calls: max,
            tail_bytes: max,
            tail_calls: max,
            uncertain_bytes: max,
            ..record.flows[0].received
        };
        record.flows[0].received = received;
        record.flows[0].duplicates = Some(max);
        record.emulation.as_mut().unwrap().forward.missed = 1;
        let found = violations(&record, 0).join("; ");
        assert!(found.contains("exceed the 18446744073709551614 received"), "{found}");
        assert_eq!((received.counted_bytes(), received.counted_calls()), (0, 0));
    }
}

#[test]
fn a_warm_up_only_needs_a_figure() {
    let broken = |is_warm_up: bool| {
        let mut record = tcp_stream();
        record.place.warm_up = is_warm_up;
        record.figures.set(Figure::Goodput, figure(990e6));
        record
    };
    assert_eq!(outcome(&tcp_stream()), Outcome::Completed);
    assert!(
        matches!(outcome(&broken(false)), Outcome::Invalid(why) if why.contains("exceeds the ceiling"))
    );
    assert_eq!(outcome(&broken(true)), Outcome::Completed);
    let silent = Record { figures: Figures::default(), ..broken(true) };
    assert!(matches!(outcome(&silent), Outcome::Invalid(why) if why.starts_with("the 126000000")));
}

#[test]
fn what_was_due_before_the_count_may_arrive_in_it() {
    let claims = |ramp_calls: u64| {
        let mut record = paced_datagrams();
        record.figures.set(Figure::Goodput, figure(3.3e6));
        // 400 payloads a second: 200 were due in the first half of one.
        record.omit_ns = Nanos(500 * MS);
        let received = &mut record.flows[0].received;
        (received.ramp_calls, received.ramp_bytes) = (ramp_calls, 1_000 * ramp_calls);
        violations(&record, 0).iter().any(|text| text.contains("only 400.000 were scheduled"))
    };
    assert!(claims(200));
    assert!(!claims(180));
}
