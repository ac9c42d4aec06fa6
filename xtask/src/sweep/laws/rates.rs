//! Laws of rates: nothing exceeds its wire, and every rate is a count over its time.

use super::{CLOCKS, Found, Law};
use crate::sweep::record::{Flow, Record};

pub const LAWS: &[Law] = &[
    ("goodput-within-wire", goodput_within_wire),
    ("exchanges-within-wire", exchanges_within_wire),
    ("run-within-wire", run_within_wire),
    ("limit-is-the-wire", limit_is_the_wire),
    ("rate-is-count-over-time", rate_is_count_over_time),
    ("directions-sum", directions_sum),
    ("land-speed", land_speed),
];

/// Bits that pass in excess of the rate: the token bucket of a wire without an emulator.
fn bucket_bits(record: &Record) -> f64 {
    match record.wire() {
        Some(wire) if !record.is_emulated() => 8.0 * wire.bucket_bytes(),
        _ => 0.0,
    }
}

/// Goodput of each direction, and the seconds over which it was counted.
fn goodputs(record: &Record) -> Vec<(&'static str, f64, f64)> {
    let is_burst = record.pattern() == "burst";
    let end = if is_burst { "sent" } else { "received" };
    let seconds: Vec<f64> = record.loads().map(|flow| flow.seconds(end)).collect();
    let both = ["forward_goodput_bps", "reverse_goodput_bps"].map(|name| record.figure(name));
    match (both, seconds.as_slice()) {
        ([Some(forward), Some(reverse)], [there, back]) => {
            vec![("forward", forward, *there), ("reverse", reverse, *back)]
        }
        (_, [one, ..]) => {
            record.figure("goodput_bps").into_iter().map(|bps| ("goodput", bps, *one)).collect()
        }
        _ => Vec::new(),
    }
}

/// Goodput is at most the line rate minus the overhead of frames.
fn goodput_within_wire(record: &Record, found: &mut Found) {
    let Some(wire) = record.wire() else { return };
    let bound = wire.goodput_bps(record.transport(), record.payload());
    for (name, bps, seconds) in goodputs(record) {
        // In a shorter time, the measured rate would be that of the token bucket.
        let bucket = match bucket_bits(record) {
            0.0 => 0.0,
            bits => (bits / seconds).min(0.02 * bound),
        };
        found.unless(bps <= bound * (1.0 + CLOCKS) + bucket, || {
            format!(
                "{name} {bps:.0} bit/s is {:.2} % of the wire's {bound:.0} over {:.1} ms (late {:.1} ms, warns \
                 {})",
                100.0 * bps / bound,
                1e3 * seconds,
                record.late_ns() / 1e6,
                record.warnings(),
            )
        });
    }
}

/// Requests and responses crossed the wire within the counted time, except for those in flight when it began.
fn exchanges_within_wire(record: &Record, found: &mut Found) {
    let Some(wire) = record.wire() else { return };
    let (Some(per_s), Some(flow)) = (record.figure("transactions_per_s"), record.loads().next())
    else {
        return;
    };
    let seconds = flow.seconds("sent");
    let under_way = match record.is_closed() {
        true => record.outstanding() * record.flow_count(),
        // An open loop may have any number in flight; they all belong to the run.
        false => flow.count("sent", "ramp_calls"),
    };
    let directions = match record.pattern() {
        "burst" => vec![],
        _ => vec![("requests", record.payload()), ("responses", record.response())],
    };
    for (name, bytes) in directions {
        let bound = wire.goodput_bps(record.transport(), bytes);
        let (moved, room) = (8.0 * bytes * per_s * seconds, bound * seconds * (1.0 + CLOCKS));
        let before = 8.0 * bytes * (under_way + 1.0) + bucket_bits(record);
        found.unless(moved <= room + before, || {
            format!(
                "{name} of {bytes} bytes: {moved:.0} bits in {seconds:.4} s, where the wire has {room:.0} and {before:.0} \
                 may have been under way"
            )
        });
    }
}

/// All bytes of a run crossed the wire within the observed time.
fn run_within_wire(record: &Record, found: &mut Found) {
    let (Some(wire), Some(watched_ns)) = (record.wire(), record.watched_ns()) else {
        return;
    };
    if !record.is_stream() {
        return;
    }
    let bound = wire.goodput_bps(record.transport(), record.payload());
    let room = bound * watched_ns / 1e9 * (1.0 + CLOCKS) + bucket_bits(record);
    for flow in record.loads() {
        let moved = 8.0 * flow.count("received", "bytes");
        found.unless(moved <= room, || {
            format!("{moved:.0} bits arrived in {:.1} ms that carry {room:.0}", watched_ns / 1e6)
        });
    }
}

/// The record's bound is that of the wire: not above it, and at least half of it, because no transport's headers take
/// half of a stream of full packets.
fn limit_is_the_wire(record: &Record, found: &mut Found) {
    let (Some(wire), true) = (record.wire(), record.is_stream()) else { return };
    let ways = if record.text("/point/direction") == "both" { 2.0 } else { 1.0 };
    let mine = ways * wire.goodput_bps(record.transport(), record.payload());
    let Some(kind) = record.0.pointer("/limits/ceilings/0/kind") else {
        let is_known = matches!(record.transport(), "tcp" | "udp" | "tls" | "quic" | "mptcp");
        return found.unless(!is_known, || "no ceiling stands in the record".to_owned());
    };
    let theirs = record.number("/limits/ceilings/0/goodput_bps/value").unwrap_or(f64::NAN);
    let least = match record.transport() {
        "udp" => mine * (1.0 - 1e-9),
        // A window's bound may be below the wire's.
        _ if record.rtt_ns().is_some_and(|rtt| rtt > 0.0) => 0.0,
        _ => mine * 0.5,
    };
    let most = match record.transport() {
        "udp" | "tcp" | "tls" => mine * (1.0 + 1e-9),
        // The bound assumes datagrams of the link's MTU, larger than those that are sent.
        "quic" => ways * wire.rate_bps,
        // A bound that ignores options and short headers is still a bound.
        _ => mine * 1.05,
    };
    let is_bound = kind.as_str() == Some("bound");
    found.unless(is_bound && (least..=most).contains(&theirs), || {
        format!("the record says {kind} {theirs:.0} bit/s, the sizes of headers {mine:.0}")
    });
}

/// A rate is the count after the ramp over its time.
fn rate_is_count_over_time(record: &Record, found: &mut Found) {
    if !record.is_closed() {
        // Over the schedule's window: see the laws of open loops.
        return;
    }
    let is_stream = record.is_stream();
    let end = if is_stream { "received" } else { "sent" };
    let rate = |name: &str| {
        let of_one = |flow: Flow| {
            (flow.seconds(end) > 0.0).then(|| flow.counted(end, name) / flow.seconds(end))
        };
        record.loads().map(of_one).sum::<Option<f64>>()
    };
    let mut expected = vec![];
    if is_stream || record.pattern() == "burst" {
        expected.push(("goodput_bps", rate("bytes").map(|bytes| 8.0 * bytes)));
        let payloads = match is_stream {
            true => rate("bytes").map(|bytes| bytes / record.payload()),
            false => rate("calls").map(|calls| calls * record.payloads_per_request()),
        };
        expected.push(("payloads_per_s", payloads));
    }
    if !is_stream {
        expected.push(("transactions_per_s", rate("calls")));
    }
    for (name, mine) in expected {
        let (Some(theirs), Some(mine)) = (record.figure(name), mine) else { continue };
        found.unless((theirs - mine).abs() <= 1e-6 * mine.max(1e-9), || {
            format!("{name} is {theirs}, and the counts say {mine}")
        });
    }
}

/// Goodput of a bidirectional stream is the sum of both directions.
fn directions_sum(record: &Record, found: &mut Found) {
    let is_both = record.text("/point/direction") == "both" && record.is_stream();
    if !is_both {
        return;
    }
    let figure = |name| record.figure(name);
    match [figure("goodput_bps"), figure("forward_goodput_bps"), figure("reverse_goodput_bps")] {
        [Some(sum), Some(forward), Some(reverse)] => {
            found.unless((sum - forward - reverse).abs() <= 1e-6 * sum, || {
                format!("{forward} and {reverse} are not {sum}")
            });
        }
        [None, ..] => {}
        all => found.unless(false, || format!("a direction is missing: {all:?}")),
    }
}

/// Goodput times the distance that light in fibre travels in RTT/2, at most 30,000 km.
fn land_speed(record: &Record, found: &mut Found) {
    let all =
        [record.figure("land_speed_bit_m_per_s"), record.figure("goodput_bps"), record.rtt_ns()];
    let [Some(theirs), Some(bps), Some(rtt_ns)] = all else { return };
    let metres = (299_792_458.0 / 1.468 * rtt_ns / 2e9).min(3e7);
    found.unless((theirs / (bps * metres) - 1.0).abs() < 1e-3, || {
        format!(
            "{theirs:.4e} bit m/s, where {bps:.0} bit/s over {metres:.0} m are {:.4e}",
            bps * metres
        )
    });
}
