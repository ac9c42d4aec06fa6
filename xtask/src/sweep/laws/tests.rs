//! Tests each law with a record that satisfies it and one that breaks it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde_json::{Value, json};

use super::breaches;
use crate::sweep::point::Point;
use crate::sweep::record::Record;

fn histogram(times: &[u64]) -> Value {
    let mut counts = Histogram::<u64>::new(3).unwrap();
    times.iter().for_each(|&ns| counts.record(ns).unwrap());
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&counts, &mut bytes).unwrap();
    json!({ "sum_ns": times.iter().sum::<u64>(), "v2_base64": STANDARD.encode(bytes) })
}

fn value(value: impl Into<Value>) -> Value {
    json!({ "provenance": "emulated", "value": value.into() })
}

/// A node that was busy for 300 ms of 1.2 s on two CPUs.
fn node(name: &str) -> Value {
    json!({
        "name": name,
        "host": { "cpus": 2 },
        "usage": {
            "elapsed_ns": 1_200_000_000_u64,
            "process": { "cpu_ns": 300_000_000 },
            "machine": { "all": { "idle": 0.75, "user": 0.25, "steal": 0.0 } },
        },
    })
}

fn way(packets: u64) -> Value {
    json!({ "arrived": packets, "departed": packets, "dropped": 0, "missed": 0, "late_max_ns": 50_000 })
}

fn counts(calls: u64, bytes: u64, elapsed_ns: u64, ramp: u64) -> Value {
    let ramp_bytes = ramp * bytes / calls;
    json!({
        "calls": calls, "bytes": bytes, "elapsed_ns": elapsed_ns, "ramp_bytes": ramp_bytes, "ramp_calls": ramp,
        "waiting_bytes": 0,
    })
}

/// One second of datagrams of 1000 bytes over 10 Mbit/s and 20 ms, 500 per second: 4 Mbit/s.
fn stream() -> Value {
    let interval = |number: u64| {
        json!({
            "start_ns": number * 500_000_000, "end_ns": (number + 1) * 500_000_000, "bytes": 250_000, "calls": 250,
            "tcp": { "bytes_acked": number },
        })
    };
    let metres = 299_792_458.0 / 1.468 * 0.01;
    json!({
        "duration_ns": 1_000_000_000,
        "outcome": { "kind": "completed" },
        "place": { "warm_up": false },
        "point": {
            "pattern": "stream", "transport": "udp", "family": 4, "payload_bytes": 1000, "link": "ethernet:10M",
            "rtt_ns": 20_000_000, "emulate": null, "pace": "fixed:500/s", "flows": 1, "direction": "forward",
        },
        "emulation": { "forward": way(500), "reverse": way(0) },
        "nodes": [node("client"), node("server")],
        "flows": [{
            "group": "load", "from": "client", "to": "server",
            "sent": counts(500, 500_000, 998_000_000, 0),
            "received": counts(500, 500_000, 948_000_000, 26),
            "received_series": { "intervals": [interval(0), interval(1)] },
            "drops": { "lost": 0 }, "duplicates": 0,
            "fairness": { "jain": 1.0, "fewest": 500, "most": 500 },
            "pacing": {
                "departures": 500, "late": 1, "elapsed_ns": 1_000_000_000, "covered_ns": 1_000_000_000,
                "slip_ns": histogram(&[1000; 500]),
            },
        }],
        "figures": {
            "goodput_bps": value(4_000_000.0), "payloads_per_s": value(500.0), "sent_bps": value(4_008_016.0),
            "departure_lag_p50_ns": value(1000.0), "departure_lag_p99_ns": value(1000.0),
            "land_speed_bit_m_per_s": value(4e6 * metres),
            "sender_demand_us_per_kib": value(600.0), "loss_share": value(0.0),
        },
        "limits": { "ceilings": [{ "kind": "bound", "goodput_bps": { "value": 1e7 * 1000.0 / 1066.0 } }] },
        "warnings": [],
    })
}

/// One second of requests of 100 bytes over TCP, 10 Mbit/s and 20 ms.
fn exchange() -> Value {
    let times = [20_500_000; 48];
    json!({
        "duration_ns": 1_000_000_000,
        "outcome": { "kind": "completed" },
        "place": { "warm_up": false },
        "point": {
            "pattern": "rr", "transport": "tcp", "family": 4, "payload_bytes": 100, "response_bytes": 100,
            "outstanding": 1, "link": "ethernet:10M", "rtt_ns": 20_000_000, "pace": "closed", "flows": 1,
        },
        "emulation": { "forward": way(60), "reverse": way(60) },
        "nodes": [node("client"), node("server")],
        "flows": [{
            "group": "load", "from": "client", "to": "server",
            "sent": counts(48, 4800, 1_000_000_000, 0),
            "received": counts(48, 4800, 1_000_000_000, 0),
            "rtt_ns": histogram(&times),
            "tcp": { "mss_bytes": 1448, "data_segments": 50, "retransmitted": 0, "srtt_ns": 20_400_000 },
            "quic": { "sent_packets": 10, "lost_packets": 1, "lost_bytes": 1400, "mtu_bytes": 1452, "srtt_ns": 20_000_000 },
        }],
        "figures": {
            "rtt_mean_ns": value(20_500_000.0), "rtt_p50_ns": value(20_500_000.0), "rtt_p99_ns": value(20_500_000.0),
            "rtt_p999_ns": value(20_500_000.0), "transactions_per_s": value(48.0),
            "kernel_rtt_p50_ns": value(20_300_000.0), "idle_rtt_p50_ns": value(20_300_000.0),
        },
        "limits": { "ceilings": [] },
        "warnings": [],
    })
}

/// The same as a closed-loop bidirectional TCP stream.
fn both() -> Value {
    let mut record = stream();
    let flow = |from: &str| {
        json!({
            "group": "load", "from": from, "sent": counts(4, 500_000, 1_000_000_000, 0),
            "received": counts(500, 500_000, 1_000_000_000, 0),
            "tcp": { "mss_bytes": 1448, "data_segments": 400, "retransmitted": 0, "srtt_ns": 20_400_000 },
        })
    };
    record["flows"] = json!([flow("client"), flow("server")]);
    record["point"]["transport"] = json!("tcp");
    record["point"]["direction"] = json!("both");
    record["point"]["pace"] = json!("closed");
    record["emulation"] = json!({ "forward": way(700), "reverse": way(700) });
    let metres = 299_792_458.0 / 1.468 * 0.01;
    record["figures"] = json!({
        "goodput_bps": value(8e6), "forward_goodput_bps": value(4e6), "reverse_goodput_bps": value(4e6),
        "payloads_per_s": value(1000.0), "sent_bps": value(8e6), "land_speed_bit_m_per_s": value(8e6 * metres),
    });
    record["limits"] = json!({ "ceilings": [{ "kind": "bound", "goodput_bps": { "value": 2e7 * 1460.0 / 1538.0 } }] });
    record
}

/// A record with other values at some paths.
fn with(mut record: Value, changes: &[(&str, Value)]) -> Value {
    for (path, value) in changes {
        match record.pointer_mut(path) {
            Some(place) => *place = value.clone(),
            None => {
                let (parent, key) = path.rsplit_once('/').unwrap();
                record.pointer_mut(parent).unwrap()[key] = value.clone();
            }
        }
    }
    record
}

/// The laws that a record breaks, without repetitions.
fn broken(record: &Value) -> Vec<&'static str> {
    let mut laws: Vec<_> =
        super::broken(&Record(record)).into_iter().map(|breach| breach.law).collect();
    laws.dedup();
    laws
}

#[test]
fn sound_records_keep_every_law() {
    for record in [stream(), exchange(), both()] {
        assert_eq!(super::broken(&Record(&record)), [], "{}", record["point"]);
    }
}

#[track_caller]
fn breaks(law: &str, record: Value, changes: &[(&str, Value)]) {
    let laws = broken(&with(record, changes));
    assert!(laws.contains(&law), "{law} is not among {laws:?}");
}

const GOODPUT: &str = "/figures/goodput_bps/value";
const MEAN: &str = "/figures/rtt_mean_ns/value";

#[test]
fn what_is_faster_than_its_wire_breaks_a_law() {
    let bound = 1e7 * 1460.0 / 1538.0;
    let above = |share: f64| vec![("/figures/forward_goodput_bps/value", json!(share * bound))];
    assert!(!broken(&with(both(), &above(1.0001))).contains(&"goodput-within-wire"));
    breaks("goodput-within-wire", both(), &above(1.0003));
    // A warning does not excuse a rate above the wire.
    let mut warned = above(1.0003);
    warned.push(("/warnings", json!([{ "kind": "backlog" }])));
    breaks("goodput-within-wire", both(), &warned);
    // 10 Mbit/s carry at most 12,000 requests of 100 bytes.
    breaks(
        "exchanges-within-wire",
        exchange(),
        &[("/figures/transactions_per_s/value", json!(13_000.0))],
    );
    breaks("run-within-wire", stream(), &[("/flows/0/received/bytes", json!(1_500_000))]);
    breaks(
        "limit-is-the-wire",
        stream(),
        &[("/limits/ceilings/0/goodput_bps/value", json!(9.5e6))],
    );
    breaks("limit-is-the-wire", stream(), &[("/limits/ceilings", json!([]))]);
    breaks("emulator-within-wire", stream(), &[("/emulation/forward/departed", json!(30_000))]);
}

#[test]
fn an_emulator_passes_the_packets_of_probes_for_as_long_as_these_last() {
    let probe = |group: &str, ns: u64| json!({ "group": group, "from": "client", "to": "server", "sent": counts(9_000, 576_000, ns, 0) });
    let mut record = with(exchange(), &[("/emulation/forward/departed", json!(30_000))]);
    assert!(broken(&record).contains(&"emulator-within-wire"));
    // 30,000 packets of 84 bytes take 2.016 s.
    let flows = record["flows"].as_array_mut().unwrap();
    flows.extend([probe("probe-idle", 1_000_000_000), probe("probe", 1_100_000_000)]);
    assert!(!broken(&record).contains(&"emulator-within-wire"));
}

#[test]
fn rates_that_are_not_their_counts_break_a_law() {
    breaks("rate-is-count-over-time", both(), &[(GOODPUT, json!(8.1e6))]);
    breaks(
        "rate-is-count-over-time",
        exchange(),
        &[("/figures/transactions_per_s/value", json!(49.0))],
    );
    breaks("directions-sum", both(), &[("/figures/forward_goodput_bps/value", json!(5e6))]);
    breaks("directions-sum", both(), &[("/figures/reverse_goodput_bps", Value::Null)]);
    breaks("land-speed", both(), &[("/figures/land_speed_bit_m_per_s/value", json!(8.2e12))]);
}

#[test]
fn round_trips_that_cannot_be_break_a_law() {
    let short = [(MEAN, json!(19_999_000.0))];
    breaks("rtt-above-floor", exchange(), &short);
    breaks("rtt-above-floor", exchange(), &[("/flows/0/rtt_ns", histogram(&[10_000_000; 48]))]);
    // A step of ping-ping takes at least the one-way delay.
    let step = |ns: u64| {
        [
            ("/point/pattern", json!("ping-ping")),
            ("/flows/0/rtt_ns", histogram(&[ns; 48])),
            ("/figures/step_mean_ns", value(ns as f64)),
        ]
    };
    breaks("ping-ping-step-above-floor", exchange(), &step(200_000));
    assert!(!broken(&with(exchange(), &step(10_300_000))).contains(&"ping-ping-step-above-floor"));
    // Jitter may also shorten the delay of a packet.
    let mut jittered = vec![("/point/emulate", json!("jitter=1ms"))];
    jittered.extend(short);
    assert!(!broken(&with(exchange(), &jittered)).contains(&"rtt-above-floor"));
    let datagrams = [
        ("/point/transport", json!("udp")),
        ("/point/emulate", json!("queue=50ms")),
        (MEAN, json!(245_000_000.0)),
    ];
    breaks("rtt-within-queues", exchange(), &datagrams);
    assert!(
        !broken(&with(
            exchange(),
            &[datagrams[0].clone(), datagrams[1].clone(), (MEAN, json!(72e6))]
        ))
        .contains(&"rtt-within-queues")
    );
    // Requests whose responses exceed the wire wait at the server's socket.
    let mut flood = datagrams.to_vec();
    flood.push(("/point/pace", json!("fixed:20000/s")));
    assert!(!broken(&with(exchange(), &flood)).contains(&"rtt-within-queues"));
    breaks("rtt-within-run", exchange(), &[("/flows/0/rtt_ns", histogram(&[1_300_000_000]))]);
    breaks(
        "percentiles-ordered",
        exchange(),
        &[("/figures/rtt_p50_ns/value", json!(20_600_000.0))],
    );
    breaks(
        "percentiles-ordered",
        exchange(),
        &[("/flows/0/rtt_ns/sum_ns", json!(48 * 21_000_000_u64))],
    );
    breaks("figures-are-those-of-the-histogram", exchange(), &[(MEAN, json!(20_600_000.0))]);
    let half = |ns: f64| {
        [("/point/pattern", json!("ping-pong")), ("/figures/half_rtt_mean_ns", value(ns))]
    };
    assert!(!broken(&with(exchange(), &half(10_250_000.0))).contains(&"half-is-half"));
    breaks("half-is-half", exchange(), &half(10_260_000.0));
    breaks("half-is-half", exchange(), &[("/point/pattern", json!("ping-pong"))]);
    breaks(
        "kernel-times-part-the-rtt",
        exchange(),
        &[("/figures/kernel_rtt_p50_ns/value", json!(21e6))],
    );
    breaks(
        "kernel-times-part-the-rtt",
        exchange(),
        &[("/figures/kernel_rtt_p50_ns/value", json!(19e6))],
    );
    breaks("probe-above-floor", exchange(), &[("/figures/idle_rtt_p50_ns/value", json!(10e6))]);
}

#[test]
fn littles_law_bounds_what_one_slot_does() {
    // 48 RTTs of 20.5 ms are 984 ms: more than 900 ms hold, and less than half of 2 s.
    breaks("little", exchange(), &[("/flows/0/sent/elapsed_ns", json!(900_000_000))]);
    breaks("little", exchange(), &[("/flows/0/sent/elapsed_ns", json!(2_100_000_000_u64))]);
    assert!(
        !broken(&with(exchange(), &[("/flows/0/sent/elapsed_ns", json!(980_000_000))]))
            .contains(&"little")
    );
}

#[test]
fn books_that_do_not_balance_break_a_law() {
    breaks("figures-are-numbers", stream(), &[(GOODPUT, Value::Null)]);
    breaks("figures-are-numbers", stream(), &[(GOODPUT, json!(0.0))]);
    breaks("figures-are-numbers", stream(), &[("/flows/0/sent/bytes", json!(u64::MAX - 1))]);
    breaks("figures-are-there", stream(), &[("/figures/goodput_bps", Value::Null)]);
    breaks("figures-are-there", exchange(), &[("/flows", json!([]))]);
    breaks("received-within-sent", stream(), &[("/flows/0/received/bytes", json!(501_000))]);
    breaks("received-within-sent", stream(), &[("/flows/0/duplicates", json!(1))]);
    breaks(
        "counted-within-received",
        stream(),
        &[("/flows/0/received/ramp_bytes", json!(500_001))],
    );
    breaks(
        "counted-within-received",
        stream(),
        &[("/flows/0/received/waiting_bytes", json!(500_001))],
    );
    breaks("bytes-are-calls-times-payload", stream(), &[("/flows/0/received/calls", json!(499))]);
    breaks("bytes-are-calls-times-payload", exchange(), &[("/flows/0/sent/bytes", json!(4801))]);
    breaks("loss-is-accounted", stream(), &[("/flows/0/drops/lost", json!(1))]);
    breaks("loss-is-accounted", stream(), &[("/figures/loss_share", value(0.01))]);
    let first = "/flows/0/received_series/intervals/0";
    breaks("intervals-sum", stream(), &[(&format!("{first}/bytes"), json!(249_000))]);
    breaks("intervals-join", stream(), &[(&format!("{first}/end_ns"), json!(499_999_999))]);
    breaks("intervals-join", stream(), &[(&format!("{first}/tcp/bytes_acked"), json!(2))]);
    breaks("tcp-counters", exchange(), &[("/flows/0/tcp/retransmitted", json!(51))]);
    breaks("tcp-counters", exchange(), &[("/flows/0/tcp/data_segments", json!(2))]);
    breaks("tcp-counters", exchange(), &[("/flows/0/tcp/srtt_ns", json!(1_000_000))]);
    breaks("tcp-counters", exchange(), &[("/flows/0/tcp/mss_bytes", json!(1461))]);
    breaks("quic-counters", exchange(), &[("/flows/0/quic/lost_packets", json!(11))]);
    breaks("quic-counters", exchange(), &[("/flows/0/quic/mtu_bytes", json!(1473))]);
    breaks("fairness", stream(), &[("/flows/0/fairness/jain", json!(1.1))]);
    breaks("fairness", stream(), &[("/flows/0/fairness/fewest", json!(501))]);
}

#[test]
fn open_loops_that_do_not_keep_their_pace_break_a_law() {
    let departures = "/flows/0/pacing/departures";
    breaks("departures-keep-the-pace", stream(), &[(departures, json!(520))]);
    let short = [
        (departures, json!(250)),
        ("/flows/0/pacing/covered_ns", json!(500_000_000)),
        ("/warnings", json!([{ "kind": "rate-not-held" }])),
    ];
    assert!(!broken(&with(stream(), &short)).contains(&"departures-keep-the-pace"));
    breaks("departures-keep-the-pace", stream(), &short[..2]);
    let fast = (GOODPUT, json!(4.1e6));
    breaks("achieved-within-offered", stream(), std::slice::from_ref(&fast));
    // A packet due before the count that left 30 ms late is counted.
    let late = ("/flows/0/pacing/slip_ns", histogram(&[30_000_000; 500]));
    breaks("achieved-within-offered", stream(), &[fast.clone(), late.clone()]);
    let omitted = [fast, late, ("/omit_ns", json!(1_000_000))];
    assert!(!broken(&with(stream(), &omitted)).contains(&"achieved-within-offered"));
    breaks("achieved-is-offered-where-nothing-was-lost", stream(), &[(GOODPUT, json!(3.8e6))]);
    let lost = [(GOODPUT, json!(3.8e6)), ("/flows/0/drops/lost", json!(25))];
    let name = "achieved-is-offered-where-nothing-was-lost";
    assert!(!broken(&with(stream(), &lost)).contains(&name));
    breaks("pacing-counts", stream(), &[("/flows/0/pacing/late", json!(501))]);
    breaks("pacing-counts", stream(), &[("/flows/0/pacing/slip_ns", histogram(&[1000; 499]))]);
    breaks("pacing-counts", stream(), &[("/flows/0/sent/calls", json!(501))]);
    let short = ("/flows/0/received/elapsed_ns", json!(2_000_000));
    breaks("count-is-long", stream(), &[short.clone(), ("/point/pace", json!("closed"))]);
    assert!(!broken(&with(stream(), &[short])).contains(&"count-is-long"));
    breaks("count-within-run", stream(), &[("/flows/0/received/elapsed_ns", json!(1_300_000_000))]);
}

/// `burst:BYTES/PERIOD` of 64 KB per 200 ms is 2.56 Mbit/s, whatever the duration of the run.
#[test]
fn a_burst_is_offered_over_its_whole_period() {
    let burst = |bps: f64| {
        let pacing = json!({
            "departures": 192, "late": 0, "elapsed_ns": 500_000_000, "covered_ns": 600_000_000,
            "slip_ns": histogram(&[1000; 192]),
        });
        let changes = [
            ("/duration_ns", json!(500_000_000)),
            ("/point/pace", json!("burst:64KB/200ms")),
            ("/flows/0/pacing", pacing),
            ("/flows/0/sent/calls", json!(192)),
            (GOODPUT, json!(bps)),
        ];
        broken(&with(stream(), &changes)).contains(&"achieved-within-offered")
    };
    assert!(!burst(2_560_000.0));
    assert!(burst(2_079_000_000.0));
}

#[test]
fn packets_and_processors_that_cannot_be_break_a_law() {
    breaks("emulator-balances", stream(), &[("/emulation/forward/departed", json!(540))]);
    breaks("emulator-balances", stream(), &[("/emulation/forward/missed", json!(1))]);
    let flood = [("/emulation/forward/missed", json!(1)), (GOODPUT, json!(1e7 * 1000.0 / 1066.0))];
    assert!(!broken(&with(stream(), &flood)).contains(&"emulator-balances"));
    breaks(
        "emulator-carried-what-arrived",
        stream(),
        &[("/emulation/forward/departed", json!(499))],
    );
    breaks(
        "emulator-carried-what-arrived",
        exchange(),
        &[("/emulation/reverse/departed", json!(3))],
    );
    breaks(
        "cpu-within-machine",
        stream(),
        &[("/nodes/0/usage/process/cpu_ns", json!(2_500_000_000_u64))],
    );
    breaks("cpu-within-machine", stream(), &[("/nodes/1/usage/machine/all/idle", json!(0.8))]);
    breaks(
        "demand-within-machine",
        stream(),
        &[("/figures/sender_demand_us_per_kib/value", json!(6000.0))],
    );
}

#[test]
fn a_record_is_of_the_point_that_was_asked_for_and_the_summary_says_the_same() {
    let options = [("transport", "udp"), ("payload", "1000"), ("rtt", "20ms"), ("duration", "1s")];
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let point =
        Point { pattern: "stream".to_owned(), target: "lab:ethernet:10M".to_owned(), options };
    let document = json!({ "records": [stream()], "settings": [{ "figures": { "goodput_bps": { "value": 4e6 } } }] });
    assert_eq!(breaches(&point, &document), []);
    let laws = |point: &Point, document: &Value| -> Vec<&str> {
        breaches(point, document).iter().map(|breach| breach.law).collect()
    };
    assert_eq!(laws(&point.with("rtt", "20us"), &document), ["point-is-as-asked"]);
    assert_eq!(laws(&point.with("transport", "tcp"), &document), ["point-is-as-asked"]);
    let other = with(document, &[("/settings/0/figures/goodput_bps/value", json!(4.1e6))]);
    assert_eq!(laws(&point, &other), ["summary-is-the-record"]);
    // Runs that the program itself declares invalid are not checked.
    let invalid = with(other, &[("/records/0/outcome/kind", json!("invalid"))]);
    assert_eq!(breaches(&point, &invalid), []);
}
