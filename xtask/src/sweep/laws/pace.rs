//! Laws of open loops, and of the counted time.

use super::{Found, Law};
use crate::sweep::point::nanos;
use crate::sweep::record::{Flow, Record};
use crate::sweep::wire::rate_bps;

pub const LAWS: &[Law] = &[
    ("departures-keep-the-pace", departures_keep_the_pace),
    ("achieved-within-offered", achieved_within_offered),
    ("achieved-is-offered-where-nothing-was-lost", achieved_is_offered),
    ("pacing-counts", pacing_counts),
    ("count-is-long", count_is_long),
    ("count-within-run", count_within_run),
];

/// A pace: mean departures per second, and the maximum burst.
pub(super) struct Pace {
    pub(super) per_s: f64,
    pub(super) at_once: f64,
    is_random: bool,
}

pub(super) fn pace(record: &Record) -> Option<Pace> {
    let (kind, rest) = record.text("/point/pace").split_once(':')?;
    let payload = record.payload();
    let rate = || match rest.strip_suffix("/s") {
        Some(per_s) => per_s.parse().ok(),
        None => Some(rate_bps(rest)? / 8.0 / payload),
    };
    match kind {
        "fixed" => Some(Pace { per_s: rate()?, at_once: 1.0, is_random: false }),
        "poisson" => Some(Pace { per_s: rate()?, at_once: 1.0, is_random: true }),
        "burst" => {
            let (bytes, period) = rest.split_once('/')?;
            let per_period = size(bytes)? / payload;
            let per_s = per_period * 1e9 / nanos(period)? as f64;
            Some(Pace { per_s, at_once: per_period.ceil() + 1.0, is_random: false })
        }
        _ => None,
    }
}

/// A size such as `64KiB` or `1500`.
fn size(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "Ki" | "KiB" => 1024.0,
        "Mi" | "MiB" => 1_048_576.0,
        "Gi" | "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

impl Pace {
    /// Maximum deviation from a mean of `count`: one burst, and six standard deviations if the pace is random.
    fn tolerance(&self, count: f64) -> f64 {
        2.0 * self.at_once + 1.0 + if self.is_random { 6.0 * count.sqrt() + 6.0 } else { 0.0 }
    }
}

/// The departures match the pace over the covered part of the schedule; too few departures cause a warning.
fn departures_keep_the_pace(record: &Record, found: &mut Found) {
    let Some(pace) = pace(record) else { return };
    for flow in record.loads() {
        let Some(departures) = flow.number("/pacing/departures") else {
            found.unless(false, || "an open loop without its departures".to_owned());
            continue;
        };
        let elapsed = flow.number("/pacing/elapsed_ns").unwrap_or(0.0);
        let covered = flow.number("/pacing/covered_ns").unwrap_or(0.0);
        let meant = pace.per_s * covered / 1e9;
        found.unless((departures - meant).abs() <= pace.tolerance(meant), || {
            format!("{departures} departures in {covered} ns of a schedule with {meant:.1}")
        });
        let asked = pace.per_s * elapsed / 1e9;
        let is_short = departures < 0.95 * asked - pace.tolerance(asked);
        let is_limited = is_limited(record);
        found.unless(!is_short || record.warns("rate-not-held") || is_limited, || {
            format!("{departures} of {asked:.1} departures in {elapsed} ns, and no warning of it")
        });
    }
}

/// Whether an amount ended the run. The record does not say so; such runs are recognised by their length.
fn is_limited(record: &Record) -> bool {
    let elapsed = |flow: Flow| flow.number("/pacing/elapsed_ns").unwrap_or(f64::INFINITY);
    record.loads().any(|flow| elapsed(flow) < 0.95 * record.duration_ns())
}

/// Achieved and offered rate per second, each over the schedule's window, and the flow.
fn achieved<'a>(record: &Record<'a>) -> Option<(f64, f64, Flow<'a>)> {
    let mut flows = record.loads();
    let (flow, None) = (flows.next()?, flows.next()) else { return None };
    let departures = flow.number("/pacing/departures")?;
    let covered = flow.number("/pacing/covered_ns")?.max(flow.number("/pacing/elapsed_ns")?);
    let achieved = match record.is_stream() {
        true => record.figure("goodput_bps")? / 8.0 / record.payload(),
        false => record.figure("transactions_per_s")?,
    };
    (covered > 0.0).then_some((achieved, 1e9 * departures / covered, flow))
}

/// Tolerance in departures per second: a departure at each edge of the counted time, a burst, randomness.
fn room(record: &Record, pace: &Pace) -> f64 {
    // A twentieth of the run is its ramp; omitted time is not part of the duration.
    let seconds = 0.9 * record.duration_ns() / 1e9;
    pace.tolerance(pace.per_s * seconds) / seconds
}

/// The achieved rate does not exceed the offered rate.
fn achieved_within_offered(record: &Record, found: &mut Found) {
    let (Some(pace), Some((achieved, offered, flow))) = (pace(record), achieved(record)) else {
        return;
    };
    if is_limited(record) {
        return;
    }
    // Departures due before the count that left during it are counted.
    let slip_ns = flow.histogram("/pacing/slip_ns").map_or(0.0, |slip| slip.max_ns());
    let is_late = record.number("/omit_ns").is_some_and(|omit_ns| omit_ns > 0.0);
    let late = if is_late { pace.per_s * slip_ns / record.duration_ns() } else { 0.0 };
    let room = room(record, &pace) + late;
    // A sender that falls behind is slower at first, while its congestion control probes for bandwidth.
    let offered = if record.warns("rate-not-held") { pace.per_s } else { offered };
    found.unless(achieved <= offered.min(pace.per_s) * (1.0 + 1e-3) + room, || {
        format!(
            "{achieved:.2} a second achieved, {offered:.2} offered, {:.2} asked, {room:.2} of room",
            pace.per_s
        )
    });
}

/// If nothing was lost or stalled and the sender kept up, the achieved rate is the offered one.
fn achieved_is_offered(record: &Record, found: &mut Found) {
    let (Some(pace), Some((achieved, offered, flow))) = (pace(record), achieved(record)) else {
        return;
    };
    let is_udp = record.transport() == "udp";
    let lost = flow.number("/drops/lost").unwrap_or(0.0);
    let dropped = ["forward", "reverse"]
        .iter()
        .filter_map(|way| record.number(&format!("/emulation/{way}/dropped")))
        .sum::<f64>();
    let slip = record.figure("departure_lag_p99_ns").unwrap_or(0.0);
    let has_room = record.wire().is_none_or(|wire| {
        let bytes = record.payload().max(if record.is_stream() { 0.0 } else { record.response() });
        let load = 8.0 * bytes * offered * record.flow_count().max(1.0);
        load < 0.5 * wire.goodput_bps(record.transport(), bytes)
    });
    let is_quiet = is_udp
        && lost + dropped == 0.0
        && slip < 0.02 * record.duration_ns()
        && has_room
        && !is_limited(record)
        && !record.warns("lost-round-trips")
        && !record.has_chance();
    if !is_quiet {
        return;
    }
    // Responses in flight at the end of the run are not counted.
    let under_way = match record.is_stream() {
        true => 0.0,
        false => offered * record.figure("rtt_p99_ns").unwrap_or(0.0) / record.duration_ns(),
    };
    let room = room(record, &pace) + under_way + 0.02 * offered;
    found.unless(achieved >= offered - room, || {
        format!(
            "{achieved:.2} a second achieved of {offered:.2} offered, and nothing was lost ({room:.2} of room)"
        )
    });
}

fn pacing_counts(record: &Record, found: &mut Found) {
    for flow in record.loads() {
        let number = |name: &str| flow.number(&format!("/pacing/{name}"));
        let (Some(departures), Some(late)) = (number("departures"), number("late")) else {
            continue;
        };
        found.unless(late <= departures, || format!("{late} of {departures} were late"));
        if let Some(slip) = flow.histogram("/pacing/slip_ns") {
            found.unless(slip.len() == departures, || {
                format!("{} slips of {departures} departures", slip.len())
            });
        }
        let calls = flow.count("sent", "calls");
        let is_kept = match record.is_stream() {
            // A byte stream may take a payload in several writes.
            true if record.transport() != "udp" => calls >= departures,
            true => calls == departures,
            false => calls <= departures,
        };
        found.unless(is_kept, || format!("{calls} calls of {departures} departures"));
    }
}

/// A figure covers a substantial part of its run, not a moment. Runs ended by an amount are excluded, recognised by the
/// sender's time.
fn count_is_long(record: &Record, found: &mut Found) {
    let end = if record.is_stream() { "received" } else { "sent" };
    for flow in record.loads() {
        let (counted, sent) = (flow.count(end, "elapsed_ns"), flow.count("sent", "elapsed_ns"));
        let was_whole = sent >= 0.9 * record.duration_ns();
        let has_figure = record.figure("goodput_bps").is_some() || !record.is_stream();
        // An open loop counts over its schedule, which may have a single departure.
        let is_kept = !record.is_closed() || counted >= 0.25 * record.duration_ns();
        found.unless(is_kept || !was_whole || !has_figure, || {
            format!(
                "{counted:.0} ns are counted of a run of {:.0}: {} of {} calls (warns {})",
                record.duration_ns(),
                flow.counted(end, "calls"),
                flow.count(end, "calls"),
                record.warnings()
            )
        });
    }
}

/// The counted time is within the observed time.
fn count_within_run(record: &Record, found: &mut Found) {
    let Some(watched) = record.watched_ns() else { return };
    for flow in record.loads() {
        for end in ["sent", "received"] {
            let elapsed = flow.count(end, "elapsed_ns");
            found.unless(elapsed <= watched * 1.001 + 1e6, || {
                format!("{end}: {elapsed:.0} ns counted of {watched:.0} watched")
            });
        }
    }
}
