//! Laws of RTTs.

use super::pace::pace;
use super::{BUCKET, CLOCKS, Found, Law};
use crate::sweep::record::{Flow, Record, Times};
use crate::sweep::wire::Wire;

pub const LAWS: &[Law] = &[
    ("rtt-above-floor", rtt_above_floor),
    ("ping-ping-step-above-floor", step_above_floor),
    ("rtt-within-queues", rtt_within_queues),
    ("rtt-within-run", rtt_within_run),
    ("percentiles-ordered", percentiles_ordered),
    ("figures-are-those-of-the-histogram", figures_of_histogram),
    ("half-is-half", half_is_half),
    ("little", little),
    ("kernel-times-part-the-rtt", kernel_times),
    ("probe-above-floor", probe_above_floor),
];

/// Maximum time that a host may add to each step, in ns: it may be unresponsive for this long.
const HOST_NS: f64 = 60e6;

fn times<'a>(record: &Record<'a>) -> Option<(Flow<'a>, Times)> {
    let flow = record.loads().next()?;
    let times = flow.histogram("/rtt_ns")?;
    (!times.is_empty()).then_some((flow, times))
}

/// Minimum serialization time of a message on the record's wire, in ns.
fn message_ns(record: &Record, wire: Option<Wire>, bytes: f64) -> f64 {
    let Some(wire) = wire else { return 0.0 };
    let whole = wire.message_ns(record.transport(), bytes);
    if record.is_emulated() {
        return whole;
    }
    // A token bucket passes its content at once, including tokens saved before.
    (whole - 8e9 * wire.bucket_bytes() / wire.rate_bps).max(0.0)
}

/// Minimum RTT in ns; 0 if packets have random delays.
pub fn floor_ns(record: &Record) -> f64 {
    let rtt = record.rtt_ns().unwrap_or(0.0);
    if record.word("jitter").is_some() || record.word("delay").is_some() {
        return 0.0;
    }
    let wire = record.wire();
    let request = message_ns(record, wire, record.payload() * record.payloads_per_request());
    let response = match record.pattern() {
        "burst" => record.number("/point/response_bytes").unwrap_or(4.0),
        _ => record.response(),
    };
    let response = message_ns(record, wire, response);
    match record.pattern() {
        "crr" => {
            // Handshake RTTs before the first request: those of RFC 9293, RFC 8446 on top of it, RFC 9000.
            let shakes = match record.transport() {
                "tls" => 2.0,
                "tcp" | "mptcp" | "quic" | "sctp" => 1.0,
                _ => 0.0,
            };
            rtt * (1.0 + shakes) + request + response
        }
        _ => rtt + request + response,
    }
}

/// No RTT is below the floor of propagation and serialization; percentiles have the histogram's bucket error.
fn rtt_above_floor(record: &Record, found: &mut Found) {
    if record.pattern() == "ping-ping" {
        return;
    }
    times_above(record, floor_ns(record), found);
}

/// A step of ping-ping takes at least the one-way delay: the awaited payload was sent when this end's own was.
fn step_above_floor(record: &Record, found: &mut Found) {
    if record.pattern() != "ping-ping" || record.word("jitter").is_some() {
        return;
    }
    times_above(record, record.rtt_ns().unwrap_or(0.0) / 2.0, found);
}

fn times_above(record: &Record, floor: f64, found: &mut Found) {
    let names = [("mean_ns", 1.0), ("p50_ns", 1.0 - BUCKET), ("p99_ns", 1.0 - BUCKET)];
    for (name, share) in names {
        let Some(ns) = record.time_figure(name) else { continue };
        found.unless(ns >= floor * share * (1.0 - CLOCKS), || {
            format!("{name} {ns:.0} is below the floor of {floor:.0}")
        });
    }
    if let Some((_, times)) = times(record) {
        let min = times.min_ns();
        found.unless(min >= floor * (1.0 - BUCKET) * (1.0 - CLOCKS), || {
            format!("the shortest round trip {min:.0} is below the floor of {floor:.0}")
        });
    }
}

/// Datagrams wait no longer than the queues hold: their mean RTT is at most the floor, both queues, and the time of the
/// hosts.
fn rtt_within_queues(record: &Record, found: &mut Found) {
    let (Some(wire), Some(mean)) = (record.wire(), record.figure("rtt_mean_ns")) else {
        return;
    };
    let is_plain = record.is_emulated()
        && record.transport() == "udp"
        && matches!(record.pattern(), "rr" | "ping-pong")
        && !record.has_chance()
        && !["up", "pause", "schedule", "rate"].iter().any(|key| record.word(key).is_some())
        && record.text("/point/bus").is_empty()
        && wire.rate_bps <= 1e9;
    if !is_plain {
        return;
    }
    let longest = record.payload().max(record.response());
    let message_ns = wire.message_ns("udp", longest);
    let rtt = record.rtt_ns().unwrap_or(0.0);
    let burst_ns = match pace(record) {
        // If the offered load exceeds the wire, requests wait at the server's socket.
        Some(pace) if pace.per_s * message_ns > 1e9 => return,
        Some(pace) => pace.at_once * message_ns,
        // Without a delay, senders wait at their device, where all outstanding requests may be queued.
        None if rtt == 0.0 => 2.0 * record.outstanding() * record.flow_count() * message_ns,
        None => 0.0,
    };
    let packet_ns = 8e9 * wire.frame(wire.mtu) / wire.rate_bps;
    let queue = record.word("queue").unwrap_or_default();
    let queue_ns = match queue.strip_suffix('p') {
        Some(packets) => packets.parse::<f64>().unwrap_or(f64::INFINITY) * packet_ns,
        None if queue.is_empty() => (1.25 * rtt).max(1000.0 * packet_ns) + packet_ns,
        None => record.word_ns("queue").unwrap_or(f64::INFINITY),
    };
    let slip = record.figure("departure_lag_p99_ns").unwrap_or(0.0);
    let room = floor_ns(record)
        + 2.0 * queue_ns
        + 4.0 * packet_ns
        + burst_ns
        + slip
        + record.late_ns()
        + HOST_NS;
    found.unless(mean <= room, || {
        format!(
            "mean {mean:.0} ns, where wire and delay take {:.0}, each queue {queue_ns:.0}, departures were {slip:.0} \
             late",
            floor_ns(record)
        )
    });
}

/// No RTT is longer than the run was observed.
fn rtt_within_run(record: &Record, found: &mut Found) {
    let (Some((_, times)), Some(watched)) = (times(record), record.watched_ns()) else {
        return;
    };
    let longest = times.max_ns();
    // The observed time includes RTTs that count from a scheduled departure.
    found.unless(longest <= watched * (1.0 + BUCKET), || {
        format!("a round trip of {longest:.0} ns in a run of {watched:.0}")
    });
}

fn percentiles_ordered(record: &Record, found: &mut Found) {
    let families = [
        ["rtt_p50_ns", "rtt_p99_ns", "rtt_p999_ns"].as_slice(),
        &["step_p50_ns", "step_p99_ns", "step_p999_ns"],
        &["departure_lag_p50_ns", "departure_lag_p99_ns"],
        &["idle_rtt_p50_ns", "idle_rtt_p99_ns"],
        &["loaded_rtt_p50_ns", "loaded_rtt_p99_ns"],
        &["kernel_rtt_p50_ns", "kernel_rtt_p99_ns"],
        &["application_p50_ns", "application_p99_ns"],
    ];
    for names in families {
        let values: Vec<f64> = names.iter().filter_map(|name| record.figure(name)).collect();
        found.unless(values.is_sorted(), || format!("{names:?} are {values:?}"));
    }
    if let Some((_, times)) = times(record) {
        let (min, mean, max) = (times.min_ns(), times.mean_ns(), times.max_ns());
        let is_between = min * (1.0 - BUCKET) <= mean && mean <= max * (1.0 + BUCKET);
        found.unless(is_between, || format!("mean {mean} is not in {min} to {max}"));
    }
}

/// The figures agree with the histogram in the record.
fn figures_of_histogram(record: &Record, found: &mut Found) {
    let Some((flow, times)) = times(record) else { return };
    let quantiles = [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)];
    for (name, quantile) in quantiles {
        let mine = times.quantile_ns(quantile);
        let theirs = record.time_figure(name).unwrap_or(f64::NAN);
        found.unless((theirs - mine).abs() <= BUCKET * mine, || {
            format!("{name} is {theirs}, and the histogram has {mine}")
        });
    }
    let (mine, theirs) = (times.mean_ns(), record.time_figure("mean_ns").unwrap_or(f64::NAN));
    found.unless((theirs - mine).abs() <= 1e-6 * mine, || {
        format!("mean_ns is {theirs}, and the histogram's sum over its count {mine}")
    });
    let counted = flow.counted("sent", "calls");
    // A time of ping-ping is the mean of two steps.
    let expected = if record.pattern() == "ping-ping" { (counted / 2.0).floor() } else { counted };
    found.unless(times.len() == expected, || {
        format!("{} round trips of {counted} exchanges that count", times.len())
    });
}

fn half_is_half(record: &Record, found: &mut Found) {
    let (half, mean) = (record.figure("half_rtt_mean_ns"), record.figure("rtt_mean_ns"));
    let is_kept = match (record.pattern(), half, mean) {
        ("ping-pong", Some(half), Some(mean)) => (2.0 * half - mean).abs() <= 1e-9 * mean,
        ("ping-pong", half, mean) => half.is_some() || mean.is_none(),
        _ => half.is_none(),
    };
    found.unless(is_kept, || {
        format!("half a round trip of {}: {half:?} of {mean:?}", record.pattern())
    });
}

/// Little's law of a closed loop. Upper bound: the RTTs of one slot do not overlap and end within the counted time, so
/// their sum is at most slots x time, plus 5 % for requests in flight when the count began; with more, the rate would
/// not be that of the counted time. Lower bound: hosts take time between a response and the next request, but less
/// than half of the time if RTTs are milliseconds, nothing was lost and the run holds about twenty RTTs.
fn little(record: &Record, found: &mut Found) {
    const EDGE: f64 = 0.05;
    let Some((flow, times)) = times(record) else { return };
    if !record.is_closed() {
        return;
    }
    let slots = record.outstanding() * record.flow_count();
    let elapsed = flow.count("sent", "elapsed_ns");
    let room = slots * elapsed * (1.0 + EDGE) + 1e3 * slots;
    let steps = if record.pattern() == "ping-ping" { 2.0 } else { 1.0 };
    let sum_ns = steps * times.sum_ns;
    found.unless(sum_ns <= room, || {
        format!(
            "{} round trips of {:.0} ns take {:.0}, where {slots} slots have {:.0}",
            times.len(),
            times.mean_ns(),
            sum_ns,
            slots * elapsed,
        )
    });
    let mean = times.mean_ns();
    let is_long = mean > 2e6 && elapsed > 20.0 * mean && times.len() > 20.0 * slots;
    let is_whole = !record.warns("lost-round-trips") && record.pattern() != "burst";
    if is_long && is_whole {
        let used = sum_ns / (slots * elapsed);
        found.unless(used >= 0.5, || {
            format!(
                "round trips of {mean:.0} ns fill {used:.3} of {slots} slots over {elapsed:.0} ns"
            )
        });
    }
}

/// The kernel's part and the rest add up to the RTT; the kernel's part includes the wire.
fn kernel_times(record: &Record, found: &mut Found) {
    let (Some(kernel), Some(rtt)) =
        (record.figure("kernel_rtt_p50_ns"), record.figure("rtt_p50_ns"))
    else {
        return;
    };
    let floor = match record.is_emulated() {
        true if !record.has_chance() => record.rtt_ns().unwrap_or(0.0),
        _ => 0.0,
    };
    let is_kept =
        kernel <= rtt * (1.0 + BUCKET) && kernel >= floor * (1.0 - BUCKET) * (1.0 - CLOCKS);
    found.unless(is_kept, || {
        format!("kernel {kernel:.0} of {rtt:.0} ns, over a delay of {floor:.0}")
    });
}

/// A probe of 64 bytes has the same delay.
fn probe_above_floor(record: &Record, found: &mut Found) {
    if record.word("jitter").is_some() {
        return;
    }
    let mut floor = record.rtt_ns().unwrap_or(0.0);
    if let (Some(wire), true) = (record.wire(), record.is_emulated()) {
        floor += 2.0 * wire.message_ns("tcp", 64.0);
    }
    let names = ["idle_rtt_p50_ns", "idle_rtt_p99_ns", "loaded_rtt_p50_ns", "loaded_rtt_p99_ns"];
    for name in names {
        let Some(ns) = record.figure(name) else { continue };
        found.unless(ns >= floor * (1.0 - BUCKET) * (1.0 - CLOCKS), || {
            format!("{name} {ns:.0} is below the floor of {floor:.0}")
        });
    }
}
