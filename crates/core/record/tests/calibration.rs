//! Calibrations computed from fabricated runs; no figure here was measured.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_plan::Figure;
use fabricmark_record::{
    Calibration, CalibrationRow, Counts, CpuShares, CpuUsage, Drops, EmulatedWay, Emulation, Flow,
    HostFacts, MachineUsage, Node, Outcome, Place, Provenance, Quantity, Record, Sourced, Usage,
};
use fabricmark_stats::Histogram;
use fabricmark_testkit::point;

const STREAM: &str =
    "pattern=stream,transport=tcp,family=6,payload=65536,congestion=cubic,rtt=0ms,";
const DATAGRAMS: &str = "pattern=stream,transport=udp,family=6,payload=64,link=veth,rtt=0ms,";
const REQUESTS: &str = "pattern=rr,transport=udp,family=6,payload=64,link=veth,pace=fixed:500/s,";

/// A run of the point at `place` in a plan, without figures.
fn run(place: u32, block: u32, levels: &str) -> Record {
    let point = point(levels);
    let late = EmulatedWay { late_p99_ns: Some(7_000), ..EmulatedWay::default() };
    let emulation = Emulation {
        options: point.link_options().unwrap().to_string(),
        offloaded: true,
        forward: late,
        reverse: EmulatedWay { late_p99_ns: Some(9_000), ..late },
        ..Emulation::default()
    };
    let host = HostFacts {
        hostname: "bench".to_owned(),
        kernel: "6.12.0".to_owned(),
        cpus: 2,
        ..HostFacts::default()
    };
    let bare = fabricmark_testkit::record(point);
    let client = Node { host, ..bare.nodes[0].clone() };
    Record {
        place: Place {
            plan_digest: levels.split(',').next().unwrap().to_owned(),
            block,
            place,
            point: place,
            ..bare.place
        },
        started: format!("2026-01-05T09:00:0{block}Z"),
        nodes: vec![client],
        emulation: Some(emulation),
        ..bare
    }
}

fn flow(sent: u64, lost: u64, rtt_ns: Option<Histogram>) -> Flow {
    Flow {
        sent: Counts { calls: sent, ..Counts::default() },
        drops: Drops { lost, ..Drops::default() },
        rtt_ns,
        ..fabricmark_testkit::flow()
    }
}

fn figure(value: f64) -> Option<Sourced> {
    Some(Sourced { value, provenance: Provenance::Emulated })
}

/// Two runs over a link, with these goodputs.
fn streams(place: u32, link: &str, goodputs: [f64; 2]) -> Vec<Record> {
    let one = |(block, bps)| {
        let mut record = run(place, block, &format!("{STREAM}{link}"));
        record.figures.set(Figure::Goodput, figure(bps));
        record
    };
    (0..).zip(goodputs).map(one).collect()
}

/// Two runs of requests, with these mean RTTs and a 99th percentile 30 us above.
fn round_trips(place: u32, rtt: &str, means_ns: [f64; 2]) -> Vec<Record> {
    let one = |(block, mean_ns)| {
        let mut record = run(place, block, &format!("{REQUESTS}rtt={rtt}"));
        record.figures.set(Figure::Rtt, figure(mean_ns));
        record.figures.set(Figure::RttP99, figure(mean_ns + 30_000.0));
        record
    };
    (0..).zip(means_ns).map(one).collect()
}

fn rows_of(calibration: &Calibration, what: Quantity) -> Vec<&CalibrationRow> {
    calibration.rows.iter().filter(|row| row.what == what).collect()
}

fn near(found: f64, known: f64) -> bool {
    (found - known).abs() <= 1e-9 * known.abs().max(1.0)
}

#[test]
fn delays_are_told_without_what_the_hosts_take_in_the_same_block() {
    let mut records = round_trips(0, "0ms", [40_000.0, 50_000.0]);
    records.extend(round_trips(1, "10ms", [10_050_000.0, 10_070_000.0]));
    records.extend(round_trips(2, "400ms", [400_041_000.0, 400_051_000.0]));
    let calibration = Calibration::of(&records, 0.95).unwrap();
    let own = rows_of(&calibration, Quantity::HostTime);
    assert!(near(own[0].delivered, (4e4_f64 * 5e4).sqrt()) && own[0].holds.is_none());
    let delays = rows_of(&calibration, Quantity::Delay);
    assert_eq!((delays[0].delivered, delays[0].error), (10_015_000.0, Some(15_000.0)));
    assert_eq!((delays[1].delivered, delays[1].low), (400_001_000.0, None));
    assert!(delays.iter().all(|row| row.holds == Some(true)));
    // Histograms of 400 ms are coarser than the goal, so lateness of the later direction is used.
    let p99 = rows_of(&calibration, Quantity::DelayP99);
    assert_eq!((p99.len(), p99[0].error), (1, Some(45_000.0)));
    let late = rows_of(&calibration, Quantity::LateP99);
    assert_eq!((late.len(), late[0].delivered), (1, 9_000.0));
    assert_eq!(calibration.delay_error_p99_ns, Some(45_000.0));
}

#[test]
fn the_true_rate_is_the_largest_within_half_a_percent() {
    // 9000 bytes of IP on a wire of 9038 carry 8928 of a stream over IPv6 with timestamps.
    let ceiling = |rate: f64| rate * 8928.0 / 9038.0;
    let share = |rate: f64, share: f64| [ceiling(rate) * share, ceiling(rate) * share];
    let mut records = streams(0, "link=ethernet:1G,mtu=9000", share(1e9, 0.9999));
    records.extend(streams(1, "link=ethernet:10G,mtu=9000", share(1e10, 1.003)));
    records.extend(streams(2, "link=ethernet:20G,mtu=9000", share(2e10, 0.8)));
    records.extend(streams(3, "link=ethernet:1G,mtu=9000,offload=off", share(1e9, 0.996)));
    records.extend(streams(4, "link=ethernet:5G,mtu=9000,offload=off", share(5e9, 0.99)));
    let calibration = Calibration::of(&records, 0.95).unwrap();
    let found: Vec<_> = rows_of(&calibration, Quantity::Rate)
        .iter()
        .map(|row| (row.offloaded, row.holds.unwrap()))
        .collect();
    let expected = [(true, true), (true, true), (true, false), (false, true), (false, false)];
    assert_eq!(found, expected);
    assert!(near(calibration.rows[1].asked.unwrap(), ceiling(1e10)));
    assert!((calibration.rows[1].error.unwrap() - 0.003).abs() < 1e-9);
    assert_eq!(calibration.true_rate(true), Some(1e10));
    assert_eq!(calibration.true_rate(false), Some(1e9));
}

#[test]
fn a_rate_that_none_reached_is_unknown() {
    let records = streams(0, "link=ethernet:1G,mtu=9000", [5e8, 5e8]);
    assert_eq!(Calibration::of(&records, 0.95).unwrap().true_rate_bps, None);
}

#[test]
fn losses_hold_where_the_share_asked_for_lies_in_the_exact_interval() {
    let lossy = |place, emulate: &str, lost: &[u64]| {
        let one = move |(block, lost): (u32, &u64)| {
            let mut record = run(place, block, &format!("{DATAGRAMS}emulate={emulate}"));
            record.flows.push(flow(10_000, *lost, None));
            record
        };
        (0..).zip(lost).map(one).collect::<Vec<_>>()
    };
    let mut records = lossy(0, "loss=1e-2", &[90, 110]);
    records.extend(lossy(1, "loss=1e-3", &[30, 20]));
    records.extend(lossy(2, "loss=ge:1e-3,0.099", &[10, 205, 100]));
    let calibration = Calibration::of(&records, 0.95).unwrap();
    let rows = rows_of(&calibration, Quantity::Loss);
    // binomtest(200, 20000).proportion_ci(0.95) of SciPy 1.17.
    assert!((rows[0].low.unwrap() - 0.008_667).abs() < 1e-6, "{:?}", rows[0]);
    assert!((rows[0].high.unwrap() - 0.011_477).abs() < 1e-6, "{:?}", rows[0]);
    assert_eq!((rows[0].holds, rows[1].holds), (Some(true), Some(false)));
    // Losses in bursts are not independent, so the runs are the samples. Student's interval of these three starts
    // below 0, and is too wide to be useful.
    assert!(near(rows[2].asked.unwrap(), 0.01) && near(rows[2].delivered, 0.010_5));
    assert_eq!((rows[2].low, rows[2].holds), (Some(0.0), Some(false)));
}

#[test]
fn jitter_is_the_spread_of_round_trips_over_the_square_root_of_two() {
    let emulate = "emulate=jitter=1ms dist=normal order=free,rtt=20ms";
    let one = |block| {
        let mut record = run(0, block, &format!("{REQUESTS}{emulate}"));
        let mut rtt_ns = Histogram::new();
        // Their standard deviation is sqrt(2) ms.
        [19_000_000, 21_000_000].into_iter().for_each(|ns| rtt_ns.record(ns));
        record.flows.push(flow(2, 0, Some(rtt_ns)));
        record
    };
    let calibration = Calibration::of(&[one(0), one(1)], 0.95).unwrap();
    let [row] = calibration.rows.as_slice() else { panic!("{:?}", calibration.rows) };
    assert_eq!((row.what, row.asked), (Quantity::Jitter, Some(1e6)));
    assert!(row.error.unwrap().abs() < 1e-3, "{row:?}");
}

#[test]
fn a_probe_beside_a_stream_and_the_highest_rate_are_told() {
    let probed = "link=veth,mtu=9000,probe=udp,pacing_rate=5G";
    let levels = format!("{}{probed},rtt=10ms", STREAM.replace("rtt=0ms,", ""));
    let mut record = run(0, 0, &levels);
    record.figures.set(Figure::LoadedRttP99, figure(10_250_000.0));
    record.figures.set(Figure::Goodput, figure(4.9e9));
    let mut records = vec![record];
    records.extend(streams(1, "link=veth,mtu=9000", [2e10, 2.2e10]));
    records.extend(streams(2, "link=veth,mtu=9000,offload=off", [4e9, 4e9]));
    let calibration = Calibration::of(&records, 0.95).unwrap();
    assert_eq!(calibration.loaded_delay_error_p99_ns, Some(250_000.0));
    let holds = |what| rows_of(&calibration, what)[0].holds;
    assert_eq!(holds(Quantity::LoadedDelayP99), Some(false));
    assert_eq!(holds(Quantity::LoadedLateP99), Some(true));
    assert_eq!(holds(Quantity::LoadedRate), None);
    assert!(near(calibration.highest_rate_bps.unwrap(), (2e10_f64 * 2.2e10).sqrt()));
    assert_eq!(calibration.delay_error_p99_ns, None);
}

#[test]
fn what_does_not_count_says_nothing() {
    let mut records = streams(0, "link=ethernet:1G,mtu=9000", [1e9, 1e9]);
    records[0].place.warm_up = true;
    records[1].outcome = Outcome::Invalid("nothing arrived".to_owned());
    assert_eq!(Calibration::of(&records, 0.95), None);
    let mut plain = streams(0, "link=ethernet:1G,mtu=9000", [1e9, 1e9]);
    plain.iter_mut().for_each(|record| record.emulation = None);
    assert_eq!(Calibration::of(&plain, 0.95), None);
}

#[test]
fn it_counts_for_one_program_kernel_and_number_of_processors() {
    let records = streams(0, "link=ethernet:1G,mtu=9000", [9.88e8, 9.88e8]);
    let calibration = Calibration::of(&records, 0.95).unwrap();
    assert_eq!(calibration.at, "2026-01-05T09:00:01Z");
    assert!(calibration.counts_for("0.1.0", "6.12.0", 2));
    assert!(!calibration.counts_for("0.2.0", "6.12.0", 2));
    assert!(!calibration.counts_for("0.1.0", "6.12.1", 2));
    assert!(!calibration.counts_for("0.1.0", "6.12.0", 4));
    let text = serde_json::to_string(&calibration).unwrap();
    assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), calibration);
}

/// Usage of one CPU over a second, of which the hypervisor took a share.
fn stolen(share: f64) -> Usage {
    let shares = CpuShares { user: 1.0 - share, steal: share, ..CpuShares::default() };
    let per_cpu = vec![CpuUsage { cpu: 0, shares }];
    let machine = Some(MachineUsage { all: shares, per_cpu });
    Usage { elapsed_ns: 1_000_000_000, machine, ..Usage::default() }
}

#[test]
fn it_says_how_busy_others_were_at_most_while_it_was_made() {
    let mut records = streams(0, "link=ethernet:1G,mtu=9000", [9.88e8, 9.88e8]);
    let of = |records: &[Record], looks: &[f64]| {
        Calibration::of(records, 0.95).unwrap().beside(looks).in_short()
    };
    assert_eq!(of(&records, &[]).busy_share, None);
    let looked = of(&records, &[0.02, 0.06, 0.04]);
    assert_eq!((looked.busy_share, looked.too_busy()), (Some(0.06), None));
    records[1].nodes[0].usage = Some(stolen(0.31));
    let taken = of(&records, &[0.02, 0.06, 0.04]).too_busy().unwrap();
    assert!((taken - 0.3).abs() < 0.01, "a tick less than was taken: {taken}");
    assert_eq!(of(&records, &[0.5]).too_busy(), Some(0.5));
}

#[test]
fn no_interval_of_a_rate_reaches_below_zero_and_two_runs_have_none() {
    let link = "link=ethernet:20G,mtu=9000";
    let of = |goodputs: &[f64]| {
        let one = |(block, bps): (u32, &f64)| {
            let mut record = run(0, block, &format!("{STREAM}{link}"));
            record.figures.set(Figure::Goodput, figure(*bps));
            record
        };
        let records: Vec<Record> = (0..).zip(goodputs).map(one).collect();
        let calibration = Calibration::of(&records, 0.99).unwrap();
        rows_of(&calibration, Quantity::Rate)[0].clone()
    };
    // A busy machine: Student's interval of the plain mean of both is -306 to 338 Gbit/s.
    let two = of(&[1.1e10, 2.1e10]);
    assert_eq!((two.low, two.high), (None, None));
    let three = of(&[1.1e10, 2.1e10, 0.4e10]);
    let (low, high) = (three.low.unwrap(), three.high.unwrap());
    assert!(0.0 < low && low < three.delivered && three.delivered < high, "{three:?}");
    assert!(near(three.delivered, (1.1e10_f64 * 2.1e10 * 0.4e10).cbrt()), "{three:?}");
}

#[test]
fn the_options_and_directions_of_earlier_records_are_read() {
    let emulation = run(0, 0, &format!("{STREAM}link=ethernet:1G")).emulation.unwrap();
    let text = serde_json::to_string(&emulation).unwrap();
    let earlier = [("options", "words"), ("forward", "there"), ("reverse", "back")];
    let earlier = earlier.iter().fold(text, |text, (now, was)| {
        let [now, was] = [now, was].map(|key| format!("\"{key}\":"));
        assert!(text.contains(&now), "no {now} in {text}");
        text.replace(&now, &was)
    });
    assert_eq!(serde_json::from_str::<Emulation>(&earlier).unwrap(), emulation);
}
