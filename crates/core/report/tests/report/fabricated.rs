//! A fabricated experiment like P1's, for tests only: no figure here was measured.

use fabricmark_plan::{Factor, Figure, Pattern, Plan, Point, Size, Transport, parse};
use fabricmark_record::{
    Bottleneck, Carrier, ClockFacts, Counts, CpuShares, CpuUsage, Drops, EnabledOffloads, Figures,
    Flow, HostFacts, Instrument, InterfaceFacts, Limits, MachineUsage, Node, Outcome, Place,
    ProcessUsage, Provenance, Record, SCHEMA_VERSION, Side, Sourced, TcpCounters, Technology,
    Usage, Warning,
};
use fabricmark_report::{Experiment, published_names};
use fabricmark_stats as stats;
use fabricmark_units::Stream;
use fabricmark_wire::{self as wire, Family, Path, Stack};

const PLAN: &str = include_str!("plan.toml");

/// An experiment that owns what [`Experiment`] borrows.
pub struct Fabricated {
    pub plan: Plan,
    pub records: Vec<Record>,
    pub quick: bool,
}

impl Fabricated {
    pub fn full() -> Self {
        Self::of(Size::Full, 7)
    }

    pub fn quick() -> Self {
        Self::of(Size::Quick, 7)
    }

    pub fn of(size: Size, seed: u64) -> Self {
        let names = published_names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self::of_plan(PLAN, size, &names, seed)
    }

    /// Records of another plan.
    pub fn of_plan(text: &str, size: Size, names: &[&str], seed: u64) -> Self {
        let plan = parse("p.toml", text, size, names).map_err(|e| e.to_string()).unwrap();
        let records = records(&plan, seed);
        Self { plan, records, quick: size == Size::Quick }
    }

    pub fn experiment(&self) -> Experiment<'_> {
        Experiment {
            name: "p1",
            plan: &self.plan,
            records: &self.records,
            instrument: Some(Instrument { stream_call_ns: 61.3, ping_pong_ns: 118.9 }),
            started: "2026-01-05T09:00:00Z",
            reproduce: "fabricmark run plans/p1.toml",
            planned_complete: true,
            quick: self.quick,
        }
    }
}

fn records(plan: &Plan, seed: u64) -> Vec<Record> {
    let mut stream = Stream::new(seed, "fabricated records");
    let mut records = Vec::new();
    for block in 0..u32::try_from(plan.stop.runs_min).unwrap() {
        let drift = 1.0 + 0.01 * stream.normal();
        for (index, point) in plan.points.iter().enumerate() {
            let place = Place {
                plan_digest: "digest".to_owned(),
                seed: plan.seed,
                block,
                place: u32::try_from(index).unwrap(),
                point: u32::try_from(index).unwrap(),
                warm_up: false,
            };
            if block == 0 {
                let place = Place { warm_up: true, ..place.clone() };
                records.push(record(plan, point, place, 0.5, &mut stream));
            }
            records.push(record(plan, point, place, drift, &mut stream));
        }
    }
    warn_of_correlation(plan, &mut records);
    records
}

/// Adds the coordinator's warning to the last run of each point with correlated runs.
fn warn_of_correlation(plan: &Plan, records: &mut [Record]) {
    for point in 0..u32::try_from(plan.points.len()).unwrap() {
        let is_its = |record: &&mut Record| record.place.point == point && !record.place.warm_up;
        let mut runs: Vec<&mut Record> = records.iter_mut().filter(is_its).collect();
        let values: Vec<f64> = runs.iter().filter_map(|run| run.deciding_value()).collect();
        let lag1 = stats::lag1(&values).filter(|&lag1| lag1 > stats::LAG1_WARNING);
        if let (Some(lag1), Some(last), true) = (lag1, runs.last_mut(), values.len() >= 10) {
            last.warnings.push(Warning::Correlated { lag1 });
        }
    }
}

/// Time of one payload through a host: a fixed cost and a cost per byte, in nanoseconds.
fn host_ns(point: &Point) -> f64 {
    let fixed = match (point.transport, point.family) {
        (Transport::Udp, Family::V4) => 950.0,
        (Transport::Udp, Family::V6) => 1_020.0,
        (_, Family::V4) => 420.0,
        (_, Family::V6) => 428.0,
    };
    fixed + 0.11 * point.payload.0 as f64
}

fn limits(point: &Point) -> Limits {
    let Point { link, family, payload, .. } = *point;
    let is_tcp = point.transport == Transport::Tcp;
    let tcp = |option_bytes| Stack::Tcp { family, option_bytes };
    let udp = Stack::Udp { family };
    match (point.pattern, is_tcp) {
        (Pattern::Stream, false) => Limits {
            ceilings: wire::goodput(link, udp, payload.0).into_iter().collect(),
            rtt_floor: None,
        },
        (Pattern::Stream, true) => Limits {
            ceilings: [
                wire::stream_goodput(link, tcp(0)),
                wire::stream_goodput(link, tcp(12)),
                wire::goodput(link, tcp(12), payload.0),
            ]
            .into_iter()
            .flatten()
            .collect(),
            rtt_floor: None,
        },
        (_, _) => {
            let stack = if is_tcp { tcp(0) } else { udp };
            let path = Path::direct(link);
            Limits {
                ceilings: Vec::new(),
                rtt_floor: wire::rtt_floor(&path, stack, payload.0, payload.0).ok(),
            }
        }
    }
}

fn record(plan: &Plan, point: &Point, place: Place, drift: f64, stream: &mut Stream) -> Record {
    let has_wire = point.link.has_wire();
    let provenance = if has_wire { Provenance::Emulated } else { Provenance::Measured };
    let figure = |value: f64| Some(Sourced { value, provenance });
    let limits = limits(point);
    let payload = point.payload.0;
    let seconds = plan.duration_ns.as_secs_f64();
    let mut figures = Figures::default();
    let noise = drift * (1.0 + 0.012 * stream.normal());
    let mut drops = Drops::default();
    let (mut tcp, mut bottleneck) = (None, None);
    let calls;
    match point.pattern {
        Pattern::Stream => {
            let host = 8e9 * payload as f64 / host_ns(point) * noise;
            let ceiling = limits.ceilings.first().map(|ceiling| ceiling.goodput_bps.as_f64());
            let near = 0.9995 - 0.0002 * stream.unit();
            let goodput = ceiling.map_or(host, |ceiling| host.min(ceiling * near));
            let overload = if point.transport == Transport::Udp { host / goodput } else { 1.0 };
            let sent = if overload > 1.02 { goodput * 1.004 } else { goodput };
            figures.set(Figure::Goodput, figure(goodput));
            bottleneck = match ceiling {
                Some(ceiling) if goodput < host => {
                    Some(Bottleneck::Wire { share: goodput / ceiling })
                }
                // The bottleneck of the longest payload is unknown.
                _ => (payload < 32_768)
                    .then(|| Bottleneck::Cpu { node: "a".to_owned(), share: 0.97 }),
            };
            figures.set(Figure::SendRate, figure(sent));
            calls = (sent * seconds / 8.0 / payload as f64) as u64;
            if sent > goodput {
                let lost = calls / 250;
                drops = Drops { lost, link: lost, ..Drops::default() };
            }
            if point.transport == Transport::Tcp {
                let writes = (1448.0 / payload as f64).max(1.0);
                tcp = Some(TcpCounters {
                    congestion: "cubic".to_owned(),
                    mss_bytes: 1448,
                    data_segments: (calls as f64 / writes) as u64,
                    writes_per_segment: writes,
                    merging: writes,
                    ..TcpCounters::default()
                });
            }
        }
        _ => {
            let floor = limits.rtt_floor.as_ref().map_or(0.0, |floor| floor.time_ns.as_f64());
            let rtt = floor + (16_000.0 + 9.0 * host_ns(point)) * noise;
            figures.set(Figure::Rtt, figure(rtt));
            figures.set(Figure::HalfRtt, figure(rtt / 2.0));
            figures.set(Figure::RttP50, figure(rtt * 0.97));
            figures.set(Figure::RttP99, figure(rtt * (1.5 + 0.2 * stream.unit())));
            figures.set(Figure::RttP999, figure(rtt * (3.0 + stream.unit())));
            calls = (1e9 * seconds / rtt) as u64;
        }
    }
    let mut warnings = Vec::new();
    if point.transport == Transport::Udp && payload == 32_768 && place.block == 2 {
        warnings.push(Warning::SmallBuffer { asked_bytes: 4 << 20, granted_bytes: 425_984 });
    }
    let key = (point.level(Factor::Transport), payload, has_wire);
    let outcome = match (key.0.as_str(), key.1, key.2, u8::from(point.family)) {
        ("udp", 64, true, 6) if place.block == 3 && !place.warm_up => {
            Outcome::Invalid("the receiving worker ended early".to_owned())
        }
        ("tcp", 4, true, 4) if point.pattern == Pattern::PingPong => {
            Outcome::Skipped("no emulated link: /dev/net/tun is missing".to_owned())
        }
        _ => Outcome::Completed,
    };
    let bytes = calls * payload;
    let us_per_kib = usage().service_demand_us_per_kib(bytes);
    if let (Pattern::Stream, Some(demand)) = (point.pattern, us_per_kib) {
        figures.set(Figure::SenderDemand, figure(demand));
    }
    if outcome != Outcome::Completed {
        figures = Figures::default();
    }
    let elapsed_ns = plan.duration_ns.0;
    Record {
        schema: SCHEMA_VERSION,
        program: "0.1.0".to_owned(),
        place,
        point: point.clone(),
        testbed: plan.testbed,
        duration_ns: plan.duration_ns,
        omit_ns: fabricmark_units::Nanos(0),
        start_ns: fabricmark_units::Nanos(0),
        steady: None,
        slice_ns: None,
        slice_rates: None,
        started: "2026-01-05T09:00:00Z".to_owned(),
        alignment: None,
        emulation: None,
        mpi: None,
        shop: None,
        bottleneck,
        nodes: ["a", "b"].map(node).to_vec(),
        flows: vec![Flow {
            sent_thread: None,
            received_thread: None,
            sent_threads: Vec::new(),
            received_threads: Vec::new(),
            group: "main".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            sent: Counts {
                calls,
                bytes,
                elapsed_ns,
                ramp_bytes: payload,
                ramp_calls: 1,
                ..Counts::default()
            },
            received: Counts {
                calls: calls - drops.lost,
                bytes: (calls - drops.lost) * payload,
                elapsed_ns,
                ramp_bytes: payload,
                ramp_calls: 1,
                ..Counts::default()
            },
            sent_series: None,
            received_series: None,
            drops,
            reordered: None,
            duplicates: None,
            fairness: None,
            rtt_ns: None,
            kernel_times: None,
            pacing: None,
            tcp,
            quic: None,
        }],
        figures,
        limits,
        warnings,
        outcome,
    }
}

/// Usage of a quarter of the time of four CPUs.
fn usage() -> Usage {
    let shares = CpuShares { system: 0.25, idle: 0.75, ..CpuShares::default() };
    let per_cpu = (0..4).map(|cpu| CpuUsage { cpu, shares }).collect();
    Usage {
        elapsed_ns: 400_000_000,
        process: ProcessUsage { cpu_ns: 390_000_000, ..ProcessUsage::default() },
        machine: Some(MachineUsage { all: shares, per_cpu }),
        ..Usage::default()
    }
}

/// A different clock for each end.
fn clock(node: &str) -> ClockFacts {
    let (name, read_cost_ns, uncertainty_ppm) = match node {
        "a" => ("TSC", 15.2, Some(0.5)),
        _ => ("CLOCK_MONOTONIC", 21.0, None),
    };
    ClockFacts { name: name.to_owned(), read_cost_ns, uncertainty_ppm }
}

fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        carrier: Carrier::LocalSocket,
        namespace: Some(format!("fm-{name}")),
        address: None,
        device: Some("veth0".to_owned()),
        interface: Some(InterfaceFacts {
            technology: Technology::Veth,
            driver: Some("veth".to_owned()),
            firmware: None,
            speed_bps: None,
            lanes: None,
            signalling: None,
            ipoib_mode: None,
            mtu_bytes: Some(1500),
            qdisc: Some("noqueue".to_owned()),
            offloads: EnabledOffloads {
                tso: Some(true),
                gro: Some(name == "a"),
                ..EnabledOffloads::default()
            },
            coalescing: None,
            rx_ring: None,
            tx_ring: None,
            rx_queues: Some(1),
            tx_queues: Some(1),
        }),
        side: Side { cpu: Some(2), clock: Some(clock(name)), ..Side::default() },
        usage: Some(usage()),
        kernel: None,
        host: HostFacts {
            hostname: "bench".to_owned(),
            os: "Debian GNU/Linux 13".to_owned(),
            kernel: "6.12.0".to_owned(),
            cpu: "Example CPU 3.0 GHz".to_owned(),
            cpus: 4,
            memory_bytes: 16 << 30,
            governor: None,
            clock_source: Some("tsc".to_owned()),
            is_virtual: true,
        },
        clock_offset: None,
    }
}

/// Compares with a stored text; `UPDATE_SNAPSHOTS=1` rewrites it.
pub fn assert_snapshot(name: &str, stored: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        write(&path, found);
    } else {
        let first = stored.lines().zip(found.lines()).find(|(stored, found)| stored != found);
        assert!(stored == found, "{name} differs, first in {first:#?}; see UPDATE_SNAPSHOTS=1");
    }
}

/// Writes a file to look at, or for later runs to compare with.
#[expect(clippy::disallowed_methods, reason = "tests may write files")]
pub fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
