//! Runs over time: lines of a chart of intervals, before they are drawn.

use fabricmark_plan::{Course, CourseChart, CourseOf, Direction, Figure, Plan, Point};
use fabricmark_record::{Flow, Record, Series};
use fabricmark_units::Nanos;
use fabricmark_wire::Kind;
use fabricmark_wire::lfn::{Acks, slow_start};

use crate::number;
use crate::runs::{ByPoint, Runs};
use crate::{label, select};

/// Maximum number of points per line: the plot is some 500 px wide.
const SPANS_MAX: usize = 400;

/// TCP's initial window in segments (RFC 6928).
const FIRST_FLIGHT: u64 = 10;

/// The lines of one chart.
pub(crate) struct CoursePlot {
    pub title: String,
    pub y_title: String,
    pub unit: &'static str,
    pub lines: Vec<Line>,
}

/// One point of the plan, or one direction of it, over time.
pub(crate) struct Line {
    pub label: String,
    pub spans: Vec<Span>,
    /// Duration of the part that does not count.
    pub left_out_s: f64,
    /// Modelled goodput in TCP's slow start; empty without a model.
    pub modelled: Vec<Span>,
}

/// A value during a time span, in the unit of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub from_s: f64,
    pub to_s: f64,
    pub value: f64,
}

impl CoursePlot {
    /// `None` if no record has intervals of the plotted quantity.
    pub(crate) fn of(plan: &Plan, chart: &CourseChart, runs: &ByPoint<'_>) -> Option<Self> {
        let points: Vec<&Point> =
            plan.points.iter().filter(|point| point.is_among(&chart.filter)).collect();
        let mut factors = chart.series.clone();
        factors.extend(select::missing_factors(&points, &factors));
        let of_point = |point: &&Point| {
            let name = label::series(&factors, &select::levels_of(point, &factors));
            runs.get(point).map(|runs| lines(chart, point, &name, runs)).unwrap_or_default()
        };
        let lines: Vec<Line> = points.iter().flat_map(of_point).collect();
        let (figure, unit) = words(chart.course);
        let title = if chart.title.is_empty() { figure } else { &chart.title };
        let y_title = format!("{figure} ({unit})");
        (!lines.is_empty()).then(|| Self { title: title.to_owned(), y_title, unit, lines })
    }

    /// End of the longest line.
    pub(crate) fn end_s(&self) -> f64 {
        let ends = self.lines.iter().filter_map(|line| Some(line.spans.last()?.to_s));
        ends.fold(0.0, f64::max)
    }
}

impl Line {
    /// Tooltip of a span, in lines.
    pub(crate) fn tip(&self, span: &Span, unit: &str) -> String {
        let time = |seconds| number::fixed(seconds, 3);
        let left_out = if span.to_s <= self.left_out_s { "\nnot counted" } else { "" };
        let (from, to) = (time(span.from_s), time(span.to_s));
        let decimals = match span.value {
            value if value >= 100.0 => 0,
            value if value >= 1.0 || value == 0.0 => 2,
            value => (1.0 - value.log10().floor()).clamp(2.0, 6.0) as usize,
        };
        let value = number::fixed(span.value, decimals);
        format!("{}\n{from} to {to} s\n{value} {unit}{left_out}", self.label)
    }
}

/// Name and unit of the plotted quantity.
fn words(course: Course) -> (&'static str, &'static str) {
    match course {
        Course::Goodput => ("goodput", "Mbit/s"),
        Course::Cwnd => ("congestion window", "MB"),
        Course::Rtt => ("smoothed RTT", "ms"),
        Course::Retransmits => ("retransmissions", "segments/s"),
        Course::SenderCpu => ("CPU time of the sender", "% of a CPU"),
        Course::ReceiverCpu => ("CPU time of the receiver", "% of a CPU"),
        Course::Interactions => ("interactions", "/s"),
    }
}

/// The line of a point, or of each direction of its streams.
fn lines(chart: &CourseChart, point: &Point, name: &str, runs: &Runs<'_>) -> Vec<Line> {
    let wanted = match chart.of {
        CourseOf::First => 1,
        CourseOf::Mean => runs.counted.len(),
    };
    let records: Vec<&Record> = runs.counted.iter().copied().take(wanted).collect();
    let name = if name.is_empty() { words(chart.course).0 } else { name };
    if chart.course == Course::Interactions {
        return interactions(&records, name).into_iter().collect();
    }
    let directions = directions(point);
    let of_direction = |direction| {
        let flows = records.iter().filter_map(|record| record.load().nth(direction));
        let flows: Vec<&Flow> = flows.collect();
        let flow = flows.first()?;
        let name = match directions {
            1 => name.to_owned(),
            _ => format!("{name}, {} to {}", flow.from, flow.to),
        };
        line(chart.course, point, &name, &records, &flows)
    };
    (0..directions).filter_map(of_direction).collect()
}

fn directions(point: &Point) -> usize {
    if point.direction == Some(Direction::Both) { 2 } else { 1 }
}

fn line(
    course: Course,
    point: &Point,
    name: &str,
    records: &[&Record],
    flows: &[&Flow],
) -> Option<Line> {
    let courses: Vec<Vec<Span>> =
        flows.iter().map(|flow| spans(flow, course)).filter(|s| !s.is_empty()).collect();
    let left_out: Vec<f64> = flows.iter().filter_map(|flow| left_out_s(flow)).collect();
    let (first, flow) = (records.first()?, flows.first()?);
    let interval_s = flow.received_series.as_ref()?.interval_ns as f64 / 1e9;
    let end_s = courses.iter().filter_map(|spans| Some(spans.last()?.to_s)).reduce(f64::min)?;
    let spans = match courses.as_slice() {
        [only] if only.len() <= SPANS_MAX => only.clone(),
        several => mean(several, interval_s.max(end_s / SPANS_MAX as f64), end_s),
    };
    let modelled = match course {
        Course::Goodput if first.start_ns == Nanos(0) => {
            modelled(point, first, flow, interval_s, end_s)
        }
        _ => None,
    };
    let provenance = first.figures.get(Figure::Goodput).map(|figure| figure.provenance);
    Some(Line {
        label: format!("{name}{}", label::origin(provenance.as_slice())),
        spans,
        left_out_s: left_out.iter().sum::<f64>() / left_out.len().max(1) as f64,
        modelled: modelled.unwrap_or_default(),
    })
}

/// Web interactions in each second of a run of the bookstore.
fn interactions(records: &[&Record], name: &str) -> Option<Line> {
    let loads: Vec<_> =
        records.iter().filter_map(|record| Some(&record.shop.as_ref()?.load)).collect();
    let first = loads.first()?;
    let seconds = loads.iter().map(|load| load.per_second.len()).min()?;
    let span = |second: usize| {
        let sum: u32 = loads.iter().map(|load| load.per_second[second]).sum();
        let value = f64::from(sum) / loads.len() as f64;
        Span { from_s: second as f64, to_s: second as f64 + 1.0, value }
    };
    let provenance =
        records.first()?.figures.get(Figure::InteractionRate).map(|figure| figure.provenance);
    Some(Line {
        label: format!("{name}{}", label::origin(provenance.as_slice())),
        spans: (0..seconds).map(span).collect(),
        left_out_s: first.ramp_up_ns.0 as f64 / 1e9,
        modelled: Vec::new(),
    })
}

/// End of the part that does not count: when its last byte arrived.
fn left_out_s(flow: &Flow) -> Option<f64> {
    let ramp_bytes = flow.received.ramp_bytes;
    Some(flow.received_series.as_ref()?.moved_ns(ramp_bytes)? as f64 / 1e9)
}

/// Values of the intervals of a flow; intervals without a value are skipped.
fn spans(flow: &Flow, course: Course) -> Vec<Span> {
    let is_received = matches!(course, Course::Goodput | Course::ReceiverCpu);
    let series: Option<&Series> =
        if is_received { flow.received_series.as_ref() } else { flow.sent_series.as_ref() };
    let mut retransmitted = 0;
    let intervals = series.map(|series| series.intervals.as_slice()).unwrap_or_default();
    let of = intervals.iter().filter(|interval| interval.length_ns() > 0).filter_map(|interval| {
        let length_ns = interval.length_ns() as f64;
        let tcp = interval.tcp.as_ref();
        let value = match course {
            Course::Goodput => interval.rate_bps()? / 1e6,
            Course::Cwnd => (tcp?.cwnd_segments? * tcp?.mss_bytes?) as f64 / 1e6,
            Course::Rtt => tcp?.srtt_ns? as f64 / 1e6,
            Course::Retransmits => {
                let count = tcp?.retransmitted_segments?;
                let new = count.saturating_sub(retransmitted);
                retransmitted = count;
                new as f64 / length_ns * 1e9
            }
            Course::SenderCpu | Course::ReceiverCpu => interval.cpu_ns? as f64 / length_ns * 100.0,
            Course::Interactions => return None,
        };
        let (from_s, to_s) = (interval.start_ns as f64 / 1e9, interval.end_ns as f64 / 1e9);
        Some(Span { from_s, to_s, value })
    });
    of.collect()
}

/// Mean of several lines in steps of equal length, weighted by time.
fn mean(courses: &[Vec<Span>], step_s: f64, end_s: f64) -> Vec<Span> {
    let steps = (end_s / step_s).round().max(1.0) as usize;
    let in_step = |spans: &[Span], from_s: f64, to_s: f64| {
        let parts = spans.iter().map(|span| {
            let overlap = (span.to_s.min(to_s) - span.from_s.max(from_s)).max(0.0);
            (overlap, overlap * span.value)
        });
        let (time, sum) = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (time > 0.0).then(|| sum / time)
    };
    (0..steps)
        .filter_map(|step| {
            let (from_s, to_s) = (step as f64 * step_s, (step + 1) as f64 * step_s);
            let values: Option<Vec<f64>> =
                courses.iter().map(|spans| in_step(spans, from_s, to_s)).collect();
            let values = values?;
            let value = values.iter().sum::<f64>() / values.len().max(1) as f64;
            Some(Span { from_s, to_s, value })
        })
        .collect()
}

/// Slow start from ten segments, doubling every RTT, up to the goodput that wire and window allow: what arrives in
/// each round trip, half an RTT after it was sent. `None` if it takes less than an interval.
fn modelled(
    point: &Point,
    record: &Record,
    flow: &Flow,
    interval_s: f64,
    end_s: f64,
) -> Option<Vec<Span>> {
    let rtt = point.rtt.filter(|&rtt| rtt > Nanos(0))?;
    let rtt_s = rtt.0 as f64 / 1e9;
    let mss_bytes = flow.tcp.as_ref()?.mss_bytes;
    let window_or_bound = record.limits.ceilings.iter().filter(|ceiling| {
        ceiling.kind == Kind::Bound || ceiling.inputs.contains_key("window_bytes")
    });
    let most_bps = window_or_bound.map(|ceiling| ceiling.goodput_bps.as_f64()).reduce(f64::min)?;
    // The ceiling of streams in both directions is that of their sum.
    let most_bps = most_bps / directions(point) as f64;
    let window_bytes = (most_bps * rtt_s / 8.0) as u64;
    let rounds = slow_start(window_bytes, mss_bytes, FIRST_FLIGHT, Acks::Each, rtt)?.rounds;
    if f64::from(rounds) * rtt_s < interval_s {
        return None;
    }
    let first_bps = (FIRST_FLIGHT * mss_bytes) as f64 * 8.0 / rtt_s;
    let mut spans: Vec<Span> = (0..rounds)
        .map(|round| {
            let from_s = (f64::from(round) + 0.5) * rtt_s;
            let value = (first_bps * 2f64.powi(round as i32)).min(most_bps) / 1e6;
            Span { from_s, to_s: from_s + rtt_s, value }
        })
        .collect();
    let open_s = (f64::from(rounds) + 0.5) * rtt_s;
    spans.push(Span { from_s: open_s, to_s: end_s.max(open_s), value: most_bps / 1e6 });
    spans.retain(|span| span.from_s < end_s);
    Some(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_s: f64, to_s: f64, value: f64) -> Span {
        Span { from_s, to_s, value }
    }

    #[test]
    fn the_mean_of_runs_is_taken_moment_by_moment() {
        let one = vec![span(0.0, 1.0, 10.0), span(1.0, 2.0, 20.0)];
        // Its first interval ended late.
        let other = vec![span(0.0, 1.5, 30.0), span(1.5, 2.0, 50.0)];
        let found = mean(&[one, other], 1.0, 2.0);
        assert_eq!(found, [span(0.0, 1.0, 20.0), span(1.0, 2.0, 30.0)]);
    }

    #[test]
    fn a_long_course_is_thinned_without_losing_what_was_moved() {
        let long: Vec<Span> =
            (0..1000).map(|i| span(f64::from(i), f64::from(i + 1), f64::from(i % 10))).collect();
        let thinned = mean(&[long], 2.5, 1000.0);
        assert_eq!(thinned.len(), 400);
        let sum: f64 = thinned.iter().map(|span| span.value * 2.5).sum();
        assert!((sum - 4500.0).abs() < 1e-6, "{sum}");
    }
}
