//! What limited a run, from fabricated records.

use fabricmark_judge::{Route, bottleneck, limits};
use fabricmark_plan::{Figure, Testbed};
use fabricmark_record::{
    Bottleneck, Counts, CpuShares, CpuUsage, Drops, Emulation, Flow, MachineUsage, Pacing, Record,
    TcpCounters, ThreadTime, Usage, Warning,
};
use fabricmark_stats::Histogram;
use fabricmark_testkit::{figures, point};

const SECOND: u64 = 1_000_000_000;

const TCP: &str =
    "pattern=stream,transport=tcp,family=4,payload=65536,congestion=cubic,link=ethernet:1G";
const UDP: &str = "pattern=stream,transport=udp,family=4,payload=1000,link=ethernet:1G";
const ASK: &str = "pattern=rr,transport=udp,family=4,payload=64,link=ethernet:1G,rtt=0ms";

fn flow() -> Flow {
    let thread =
        |cpu_ns| Some(ThreadTime { cpu_ns, elapsed_ns: SECOND, run_delay_ns: Some(SECOND / 2) });
    Flow {
        sent: Counts { calls: 1_000, elapsed_ns: SECOND, ..Counts::default() },
        // Neither end is busy.
        sent_thread: thread(SECOND / 2),
        received_thread: thread(SECOND / 4),
        ..fabricmark_testkit::flow()
    }
}

/// A run over a wire of 1 Gbit/s with this goodput.
fn run(levels: &str, goodput_bps: f64, change: impl FnOnce(&mut Record, &mut Flow)) -> Record {
    let mut record = fabricmark_testkit::record(point(levels));
    record.limits = limits(&record.point, Route::of(Testbed::Lab));
    record.figures = figures([(Figure::Goodput, goodput_bps)]);
    let mut flow = flow();
    change(&mut record, &mut flow);
    record.flows = vec![flow];
    record
}

/// TCP counters of 10 ns with data to send; the arguments are parts of that time.
fn counters(rwnd_limited_ns: u64, sndbuf_limited_ns: u64) -> TcpCounters {
    TcpCounters {
        data_segments: 10_000,
        busy_ns: Some(10),
        rwnd_limited_ns: Some(rwnd_limited_ns),
        sndbuf_limited_ns: Some(sndbuf_limited_ns),
        ..TcpCounters::default()
    }
}

/// 1 % of the segments retransmitted, over 20 ms: 6 Mbit/s by Mathis's law with delayed ACKs.
fn lossy(congestion: &str) -> TcpCounters {
    TcpCounters {
        congestion: congestion.to_owned(),
        mss_bytes: 1_448,
        srtt_ns: 20_000_000,
        retransmitted: 100,
        ..counters(1, 1)
    }
}

fn busy(busy_ns: u64) -> Emulation {
    Emulation {
        options: "rate=1G".to_owned(),
        offloaded: true,
        busy_ns: Some(busy_ns),
        ..Emulation::default()
    }
}

fn pacing(elapsed_ns: u64) -> Pacing {
    let (departures, slip_ns) = (100, Histogram::new());
    let (late, slip_without_pauses_ns, covered_ns) = (0, None, SECOND);
    Pacing { departures, late, slip_ns, slip_without_pauses_ns, elapsed_ns, covered_ns }
}

#[test]
fn each_bottleneck_is_told_by_its_evidence() {
    let cpu = |node: &str, share| Bottleneck::Cpu { node: node.to_owned(), share };
    let cases: Vec<(&str, Record, Option<Bottleneck>)> = vec![
        ("nothing is full", run(UDP, 5e8, |_, _| ()), Some(Bottleneck::Waits { share: 0.5 })),
        ("nothing is known", run(UDP, 5e8, |_, flow| flow.received_thread = None), None),
        (
            "a round trip at its floor",
            run(ASK, 0.0, |record, _| {
                let floor_ns = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
                record.figures = figures([(Figure::Rtt, floor_ns / 0.96)]);
            }),
            Some(Bottleneck::Wire { share: 0.96 }),
        ),
        (
            "a pace that was kept",
            run(UDP, 5e8, |_, flow| flow.pacing = Some(pacing(SECOND))),
            Some(Bottleneck::Pace { share: 1.0 }),
        ),
        (
            "a pace that the sender could not keep",
            run(UDP, 5e8, |_, flow| {
                flow.pacing = Some(pacing(2 * SECOND));
                flow.sent_thread.as_mut().unwrap().cpu_ns = SECOND;
            }),
            Some(cpu("client", 1.0)),
        ),
        (
            // 512 Mbit/s are 62,500 KiB/s.
            "a relay whose CPU was busy",
            run(TCP, 5.12e8, |record, _| {
                record.figures = figures([(Figure::Goodput, 5.12e8), (Figure::RelayDemand, 15.2)]);
            }),
            Some(cpu("relay", 0.95)),
        ),
        (
            "a quota that was used up",
            run(UDP, 5e8, |record, _| {
                let throttled_ns = Some(SECOND / 2);
                record.nodes[1].usage =
                    Some(Usage { elapsed_ns: SECOND, throttled_ns, ..Usage::default() });
            }),
            Some(Bottleneck::Quota { node: "server".to_owned(), share: 0.5 }),
        ),
        (
            "an emulator that is always busy",
            run(UDP, 5e8, |record, _| record.emulation = Some(busy(SECOND))),
            Some(Bottleneck::Emulator { share: 1.0 }),
        ),
        (
            "a receiver that is always busy",
            run(UDP, 5e8, |_, flow| flow.received_thread.as_mut().unwrap().cpu_ns = SECOND),
            Some(cpu("server", 1.0)),
        ),
        (
            "two ends that share a processor",
            run(UDP, 5e8, |record, flow| {
                record.nodes.iter_mut().for_each(|node| node.side.cpu = Some(0));
                flow.sent_thread.as_mut().unwrap().cpu_ns = 3 * SECOND / 4;
            }),
            Some(cpu("client and server", 1.0)),
        ),
        (
            "a thread that spins is busy whatever limits",
            run(&format!("{ASK},wait=spin"), 0.0, |_, flow| {
                flow.sent_thread.as_mut().unwrap().cpu_ns = SECOND;
            }),
            None,
        ),
        (
            "a receiver whose window is full",
            run(TCP, 5e8, |_, flow| flow.tcp = Some(counters(9, 0))),
            Some(Bottleneck::Window { share: 0.9 }),
        ),
        (
            "a send buffer that is full",
            run(TCP, 5e8, |_, flow| flow.tcp = Some(counters(0, 8))),
            Some(Bottleneck::SendBuffer { share: 0.8 }),
        ),
        (
            "a send buffer of 64 KiB that is in flight over 20 ms, of which the kernel says nothing",
            run(&format!("{TCP},send_buffer=64KiB"), 26.2144e6, |record, flow| {
                record.nodes[0].side.send_buffer_bytes = Some(2 * 65_536);
                flow.tcp = Some(TcpCounters { srtt_ns: 20_000_000, ..counters(0, 0) });
            }),
            Some(Bottleneck::SendBuffer { share: 1.0 }),
        ),
        (
            "segments sent again, as many as the law allows at this rate",
            run(TCP, 5e6, |_, flow| flow.tcp = Some(lossy("cubic"))),
            Some(Bottleneck::Loss { share: 0.01 }),
        ),
        (
            "segments sent again, and a rate far above the law",
            run(TCP, 5e8, |_, flow| flow.tcp = Some(lossy("cubic"))),
            Some(Bottleneck::CongestionControl { share: 0.8 }),
        ),
        (
            "a congestion control that does not answer to losses",
            run(TCP, 5e6, |_, flow| flow.tcp = Some(lossy("bbr"))),
            Some(Bottleneck::CongestionControl { share: 0.8 }),
        ),
        (
            "a congestion window that still grows",
            run(TCP, 5e8, |_, flow| {
                flow.tcp = Some(TcpCounters { srtt_ns: 50_000_000, ..counters(0, 1) });
            }),
            Some(Bottleneck::CongestionControl { share: 0.9 }),
        ),
        (
            "datagrams that find the socket full",
            run(UDP, 5e8, |_, flow| {
                flow.drops = Drops { lost: 400, socket: 400, ..Drops::default() };
            }),
            Some(Bottleneck::ReceiveBuffer { share: 0.4 }),
        ),
        (
            "datagrams that are lost on the way",
            run(UDP, 5e8, |_, flow| {
                flow.drops = Drops { lost: 400, link: 400, ..Drops::default() }
            }),
            Some(Bottleneck::Loss { share: 0.4 }),
        ),
    ];
    for (what, record, expected) in cases {
        assert_eq!(bottleneck(&record), expected, "{what}");
    }
}

#[test]
fn a_stream_at_its_ceiling_is_limited_by_the_wire_whatever_else_is_full() {
    let bound_bps = run(UDP, 0.0, |_, _| ()).limits.bound_bps().unwrap();
    let busy = |_: &mut Record, flow: &mut Flow| {
        flow.sent_thread.as_mut().unwrap().cpu_ns = SECOND;
        flow.drops = Drops { lost: 400, socket: 0, link: 400, ..Drops::default() };
    };
    let found = bottleneck(&run(UDP, 0.97 * bound_bps, busy));
    assert!(matches!(found, Some(Bottleneck::Wire { share }) if (share - 0.97).abs() < 1e-9));
    let below = bottleneck(&run(UDP, 0.94 * bound_bps, busy));
    assert!(matches!(below, Some(Bottleneck::Cpu { .. })), "{below:?}");
}

/// The sender's thread ran for half of the time, and was ready to run in the other half.
#[test]
fn a_cpu_that_other_processes_have_limits_and_one_that_wakes_up_slowly_does_not() {
    let on_cpu = |user| {
        let cpu = CpuUsage { cpu: 3, shares: CpuShares { user, ..CpuShares::default() } };
        let machine = Some(MachineUsage { per_cpu: vec![cpu], ..MachineUsage::default() });
        let usage = Some(Usage { elapsed_ns: SECOND, machine, ..Usage::default() });
        bottleneck(&run(UDP, 5e8, |record, _| {
            record.nodes[0].side.cpu = Some(3);
            record.nodes[0].usage = usage;
        }))
    };
    let node = || "client".to_owned();
    assert_eq!(on_cpu(1.0), Some(Bottleneck::Cpu { node: node(), share: 1.0 }));
    assert_eq!(on_cpu(0.5), Some(Bottleneck::Waits { share: 0.5 }));
}

/// Forward, the sender runs for half of the time and the receiver for a quarter; in reverse 1.2 times as long.
#[test]
fn the_directions_of_a_stream_add_up_on_the_cpus_that_they_share() {
    let both_ways = |warnings: Vec<Warning>| {
        let levels = format!("{UDP},direction=both");
        let mut record = run(&levels, 5e8, |record, _| record.warnings = warnings);
        let forward = &record.flows[0];
        let busier = |thread: Option<ThreadTime>| {
            thread.map(|thread| ThreadTime { cpu_ns: thread.cpu_ns * 6 / 5, ..thread })
        };
        let reverse = Flow {
            from: forward.to.clone(),
            to: forward.from.clone(),
            sent_thread: busier(forward.sent_thread),
            received_thread: busier(forward.received_thread),
            ..forward.clone()
        };
        record.flows.push(reverse);
        bottleneck(&record)
    };
    assert_eq!(both_ways(vec![]), Some(Bottleneck::Waits { share: 0.6 }));
    let shared = Warning::SharedCpu { threads: 4, processors: 2 };
    // The server sends with 0.6 and receives with 0.25 of a CPU.
    assert_eq!(both_ways(vec![shared]), Some(Bottleneck::Waits { share: 0.85 }));
}

#[test]
fn the_send_buffer_of_one_direction_is_filled_by_the_rate_of_that_direction() {
    // 20 Mbit/s each way over 20 ms: 50 kB in flight, of a buffer of 256 KiB.
    let levels = format!("{TCP},direction=both,send_buffer=256KiB");
    let mut record = run(&levels, 40e6, |record, flow| {
        record.nodes[0].side.send_buffer_bytes = Some(512 << 10);
        flow.tcp = Some(TcpCounters { srtt_ns: 20_000_000, ..counters(1, 1) });
    });
    record.figures = figures([(Figure::Goodput, 40e6), (Figure::ForwardGoodput, 20e6)]);
    let found = bottleneck(&record);
    assert!(matches!(found, Some(Bottleneck::CongestionControl { .. })), "{found:?}");
}

#[test]
fn the_ceiling_of_single_writes_limits_only_writes_that_are_not_merged() {
    let levels = TCP.replace("65536", "100");
    let writes_bps = run(&levels, 0.0, |_, _| ()).limits.ceilings[2].goodput_bps.as_f64();
    let merged = |merging| {
        let tcp = TcpCounters { merging, ..counters(0, 0) };
        bottleneck(&run(&levels, 0.99 * writes_bps, |_, flow| flow.tcp = Some(tcp)))
    };
    assert!(matches!(merged(1.0), Some(Bottleneck::Wire { .. })));
    assert!(matches!(merged(3.0), Some(Bottleneck::Waits { .. })));
}
