//! Groups the runs of a calibration by point, and computes a row for each requested property.

use std::collections::BTreeMap;

use fabricmark_plan::{Figure, Offload, Pattern, Point};
use fabricmark_stats::{Estimate, Interval, geometric_mean, mean, median, proportion};
use fabricmark_wire::{Stack, frame, stream_goodput};

use super::{CalibrationRow, DELAY_GOAL_NS, EmulatedWay, Quantity, RATE_GOAL, THE_EMULATOR, Unit};
use crate::record::{Outcome, Record};

/// Longest RTT whose 99th percentile is read from RTTs, in ns: their histogram is exact to a thousandth, which is a
/// tenth of the goal at this RTT. For longer ones the lateness is used.
const RESOLVED_NS: f64 = 100.0 * DELAY_GOAL_NS;

/// Runs needed for an interval of a mean. Student's interval of two runs is meaningless at the confidence of a
/// calibration: at 99 % it is 64 standard errors to either side.
const RUNS_MIN: usize = 3;

/// Purpose of a point in a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Delay,
    Loaded,
    Rate,
    Loss,
    Jitter,
    Highest,
}

/// The valid runs of a point.
pub(super) struct Group<'a> {
    pub(super) kind: Kind,
    pub(super) point: &'a Point,
    pub(super) options: String,
    pub(super) runs: Vec<&'a Record>,
}

impl Group<'_> {
    /// Values of all runs that have one.
    pub(super) fn values(&self, value: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| value(run)).collect()
    }

    /// Rate of the wire in bit/s.
    pub(super) fn rate_bps(&self) -> Option<f64> {
        self.point.link_options()?.rate_bps()
    }

    pub(super) fn is_offloaded(&self) -> bool {
        self.point.offload == Some(Offload::On)
    }
}

/// Runs grouped by point, in the order of their plans.
pub(super) fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let mut plans: Vec<&str> = Vec::new();
    let mut groups: Vec<((usize, u32), Group<'_>)> = Vec::new();
    for record in records.iter().filter(|record| counts(record)) {
        let Some(kind) = kind(&record.point) else { continue };
        let digest = record.place.plan_digest.as_str();
        if !plans.contains(&digest) {
            plans.push(digest);
        }
        match groups.iter_mut().find(|(_, group)| *group.point == record.point) {
            Some((_, group)) => group.runs.push(record),
            None => {
                let plan = plans.iter().position(|plan| *plan == digest).unwrap_or_default();
                let options = record
                    .point
                    .link_options()
                    .map(|options| options.to_string())
                    .unwrap_or_default();
                let group = Group { kind, point: &record.point, options, runs: vec![record] };
                groups.push(((plan, record.place.point), group));
            }
        }
    }
    groups.sort_by_key(|(place, _)| *place);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Runs that are invalid because the emulator was late count here, since its lateness is what a calibration measures.
fn counts(record: &Record) -> bool {
    let is_measured = match &record.outcome {
        Outcome::Completed => true,
        Outcome::Invalid(reason) => reason.starts_with(THE_EMULATOR),
        Outcome::Skipped(_) => false,
    };
    record.emulation.is_some() && !record.place.warm_up && is_measured
}

fn kind(point: &Point) -> Option<Kind> {
    let options = point.link_options()?;
    Some(match point.pattern {
        _ if options.losses().is_some() => Kind::Loss,
        _ if options.jitter().is_some() => Kind::Jitter,
        Pattern::Stream if point.probe.is_some() => Kind::Loaded,
        Pattern::Stream if options.rate_bps().is_some() => Kind::Rate,
        Pattern::Stream => Kind::Highest,
        Pattern::Rr | Pattern::PingPong => Kind::Delay,
        Pattern::PingPing | Pattern::Crr | Pattern::Burst | Pattern::Mpi | Pattern::Shop => {
            return None;
        }
    })
}

/// Rows of all points, in order.
pub(super) fn rows(groups: &[Group<'_>], confidence: f64) -> Vec<CalibrationRow> {
    let host_ns: BTreeMap<u32, f64> = groups
        .iter()
        .filter(|group| group.kind == Kind::Delay && asked_ns(group) == 0.0)
        .flat_map(|group| &group.runs)
        .filter_map(|run| Some((run.place.block, run.figures.get(Figure::Rtt)?.value)))
        .collect();
    let of = |group: &Group<'_>| match group.kind {
        Kind::Delay => delay(group, &host_ns, confidence),
        Kind::Loaded => loaded(group, confidence),
        Kind::Rate => rate(group, confidence).into_iter().collect(),
        Kind::Loss => loss(group, confidence).into_iter().collect(),
        Kind::Jitter => jitter(group, confidence).into_iter().collect(),
        Kind::Highest => highest(group, confidence).into_iter().collect(),
    };
    groups.iter().flat_map(of).collect()
}

/// The mean; without an interval if there are too few runs.
fn mean_of(values: &[f64], confidence: f64) -> Option<Estimate> {
    mean(values, confidence).map(with_enough)
}

/// The same for quantities that cannot be negative: a rate, a time, a spread.
fn positive_mean(values: &[f64], confidence: f64) -> Option<Estimate> {
    geometric_mean(values, confidence).map(with_enough)
}

fn with_enough(mut estimate: Estimate) -> Estimate {
    if estimate.n < RUNS_MIN {
        estimate.interval = None;
    }
    estimate.n_needed = RUNS_MIN;
    estimate
}

/// A row without a goal.
fn row(
    group: &Group<'_>,
    what: Quantity,
    unit: Unit,
    asked: Option<f64>,
    found: &Estimate,
) -> CalibrationRow {
    let error = asked.map(|asked| match unit {
        Unit::Nanoseconds if what != Quantity::Jitter => found.value - asked,
        _ => found.value / asked - 1.0,
    });
    CalibrationRow {
        what,
        options: group.options.clone(),
        offloaded: group.is_offloaded(),
        asked,
        delivered: found.value,
        low: found.interval.map(|interval| interval.low),
        high: found.interval.map(|interval| interval.high),
        unit,
        error,
        holds: None,
    }
}

/// Sets whether the error is at most `goal`.
fn within(goal: f64, row: CalibrationRow) -> CalibrationRow {
    CalibrationRow { holds: row.error.map(|error| error.abs() <= goal), ..row }
}

/// Sets whether the requested value lies in the interval of the delivered value, and the interval is at most twice
/// the requested value wide.
fn in_interval(row: CalibrationRow) -> CalibrationRow {
    let holds = match (row.asked, row.low, row.high) {
        (Some(asked), Some(low), Some(high)) => {
            Some(low <= asked && asked <= high && high - low <= 2.0 * asked)
        }
        _ => None,
    };
    CalibrationRow { holds, ..row }
}

fn asked_ns(group: &Group<'_>) -> f64 {
    group.point.rtt.unwrap_or_default().0 as f64
}

/// RTT over an idle link, minus the host RTT in the same block.
fn delay(group: &Group<'_>, host_ns: &BTreeMap<u32, f64>, confidence: f64) -> Vec<CalibrationRow> {
    let asked = asked_ns(group);
    let found = |what, asked, estimate: Option<Estimate>| {
        Some(row(group, what, Unit::Nanoseconds, asked, &estimate?))
    };
    let rtt_ns = |run: &Record| Some(run.figures.get(Figure::Rtt)?.value);
    if asked == 0.0 {
        let own = positive_mean(&group.values(rtt_ns), confidence);
        return found(Quantity::HostTime, None, own).into_iter().collect();
    }
    let host_ns = |run: &Record| host_ns.get(&run.place.block);
    let means = group.values(|run| Some(rtt_ns(run)? - host_ns(run)?));
    let middle = found(Quantity::Delay, Some(asked), mean_of(&means, confidence));
    let p99 = if asked <= RESOLVED_NS {
        let values =
            group.values(|run| Some(run.figures.get(Figure::RttP99)?.value - host_ns(run)?));
        found(Quantity::DelayP99, Some(asked), median(&values, confidence))
    } else {
        found(Quantity::LateP99, Some(0.0), median(&group.values(late_ns), confidence))
    };
    [middle, p99].into_iter().flatten().map(|row| within(DELAY_GOAL_NS, row)).collect()
}

/// 99th percentile of the lateness in the later direction.
fn late_ns(run: &Record) -> Option<f64> {
    let emulation = run.emulation.as_ref()?;
    let late = |way: &EmulatedWay| way.late_p99_ns;
    let latest = [&emulation.forward, &emulation.reverse].into_iter().filter_map(late).max()?;
    Some(latest as f64)
}

/// RTT beside a stream, the emulator's part of it, and the rate of the stream.
fn loaded(group: &Group<'_>, confidence: f64) -> Vec<CalibrationRow> {
    let p99 = group.values(|run| Some(run.figures.get(Figure::LoadedRttP99)?.value));
    let of = |what, asked, values: &[f64]| {
        let found = median(values, confidence)?;
        Some(within(DELAY_GOAL_NS, row(group, what, Unit::Nanoseconds, Some(asked), &found)))
    };
    let delay = of(Quantity::LoadedDelayP99, asked_ns(group), &p99);
    let late = of(Quantity::LoadedLateP99, 0.0, &group.values(late_ns));
    let pacing = group.point.pacing_rate.map(|rate| rate.0 as f64);
    let load = positive_mean(&group.values(goodput_bps), confidence)
        .map(|found| row(group, Quantity::LoadedRate, Unit::BitsPerSecond, pacing, &found));
    [delay, late, load].into_iter().flatten().collect()
}

fn goodput_bps(run: &Record) -> Option<f64> {
    Some(run.figures.get(Figure::Goodput)?.value)
}

/// Goodput against the ceiling of TCP with timestamps, which Linux sends.
fn rate(group: &Group<'_>, confidence: f64) -> Option<CalibrationRow> {
    let stack = Stack::Tcp { family: group.point.family, option_bytes: frame::TCP_TIMESTAMPS };
    let ceiling = stream_goodput(group.point.link, stack).ok()?.goodput_bps.as_f64();
    let found = positive_mean(&group.values(goodput_bps), confidence)?;
    Some(within(RATE_GOAL, row(group, Quantity::Rate, Unit::BitsPerSecond, Some(ceiling), &found)))
}

/// Share lost on the path, without drops of sockets. Binomial if losses are independent; otherwise the runs are the
/// samples.
fn loss(group: &Group<'_>, confidence: f64) -> Option<CalibrationRow> {
    let losses = group.point.link_options()?.losses()?;
    let counts = |run: &Record| {
        let flow = run.load().next()?;
        Some((flow.drops.lost.saturating_sub(flow.drops.socket), flow.sent.calls))
    };
    let found = if losses.are_independent() {
        let all = group.runs.iter().filter_map(|run| counts(run));
        let (lost, sent) = all.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        proportion(lost, sent, confidence)?
    } else {
        let share = |run: &Record| counts(run).map(|(lost, sent)| lost as f64 / sent.max(1) as f64);
        let found = mean_of(&group.values(share), confidence)?;
        let possible = |Interval { low, high }| Interval { low: low.max(0.0), high: high.min(1.0) };
        Estimate { interval: found.interval.map(possible), ..found }
    };
    Some(in_interval(row(group, Quantity::Loss, Unit::Share, Some(losses.mean()), &found)))
}

/// Standard deviation of the RTT over the square root of two: its two delays are independent and equally distributed.
fn jitter(group: &Group<'_>, confidence: f64) -> Option<CalibrationRow> {
    let asked = group.point.link_options()?.jitter()?.0 as f64;
    let one_way = |run: &Record| {
        let rtt_ns = run.load().next()?.rtt_ns.as_ref()?.deviation_ns()?;
        Some(rtt_ns / std::f64::consts::SQRT_2)
    };
    let found = positive_mean(&group.values(one_way), confidence)?;
    Some(in_interval(row(group, Quantity::Jitter, Unit::Nanoseconds, Some(asked), &found)))
}

fn highest(group: &Group<'_>, confidence: f64) -> Option<CalibrationRow> {
    let found = positive_mean(&group.values(goodput_bps), confidence)?;
    Some(row(group, Quantity::HighestRate, Unit::BitsPerSecond, None, &found))
}
