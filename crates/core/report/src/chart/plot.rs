//! Contents of a chart in the unit of its axis, before it is drawn.

use fabricmark_plan::{Chart, ChartKind, Factor, Figure, Level, Plan, Point};
use fabricmark_record::Provenance;
use fabricmark_units::{Nanos, Percent};

use super::reference::Reference;
use super::scale::Scale;
use crate::cell::Cell;
use crate::number;
use crate::runs::ByPoint;
use crate::{label, select};

/// A chart as values.
#[derive(Default)]
pub(crate) struct Plot {
    pub title: String,
    pub x_title: String,
    pub y_title: String,
    /// Whether the vertical axis is linear from 0, else logarithmic.
    pub is_linear: bool,
    pub x: Vec<XLevel>,
    pub series: Vec<Series>,
    /// `ceiling` or `floor`; empty if no dot has a limit.
    pub limit: &'static str,
    /// Values that the vertical axis covers besides those of the dots.
    pub covers: Vec<f64>,
    /// Lines that are not runs.
    pub references: Vec<Reference>,
    /// Legend entries beside the series and their limits.
    pub keys: Vec<Key>,
}

/// A legend entry.
#[derive(Clone)]
pub(crate) struct Key {
    /// SVG of its symbol, 32 wide, on the baseline of the text.
    pub sign: String,
    pub label: String,
}

/// A level on the horizontal axis.
pub(crate) struct XLevel {
    pub label: String,
    /// Position: the logarithm of a size or a duration, else its number.
    pub place: f64,
}

/// Points of one combination of levels.
pub(crate) struct Series {
    pub label: String,
    pub dots: Vec<Dot>,
}

/// One figure.
pub(crate) struct Dot {
    /// Index into [`Plot::x`].
    pub x: usize,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    pub limit: Option<f64>,
    /// Tooltip: figure, uncertainty and ratio to the limit, in lines.
    pub tip: String,
}

impl Dot {
    /// Values that the vertical axis must cover.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> + use<> {
        let (low, high) = self.interval.unwrap_or((self.value, self.value));
        [Some(self.value), Some(low), Some(high), self.limit].into_iter().flatten()
    }
}

impl Plot {
    /// `None` if no point of the plan belongs to the chart.
    pub(crate) fn of(plan: &Plan, chart: &Chart, runs: &ByPoint<'_>) -> Option<Self> {
        let points = select::points(plan, chart.figure, &chart.filter);
        let mut used = chart.series.clone();
        used.push(chart.x);
        let mut factors = select::missing_factors(&points, &used);
        factors.extend(&chart.series);
        let levels = select::levels(&points, chart.x);
        if levels.is_empty() {
            return None;
        }
        let series = select::combinations(&points, &factors)
            .into_iter()
            .map(|combination| {
                let of_series: Vec<&Point> = points
                    .iter()
                    .copied()
                    .filter(|point| select::levels_of(point, &factors) == combination)
                    .collect();
                let name = label::series(&factors, &combination);
                series(plan, chart, &of_series, &levels, &name, runs)
            })
            .collect();
        let figure = chart.figure.spec().label;
        let unit = number::Scale::of(chart.figure).name;
        Some(Self {
            title: if chart.title.is_empty() { figure.to_owned() } else { chart.title.clone() },
            x_title: match chart.x {
                Factor::Rtt => "RTT (ms)".to_owned(),
                x => label::heading(x),
            },
            y_title: format!("{figure} ({unit})"),
            x: x_levels(chart.x, &levels),
            series,
            covers: Self::covers(plan, chart, runs),
            limit: if chart.figure == Figure::Goodput { "ceiling" } else { "floor" },
            references: Reference::of(chart, &points, &levels, runs),
            ..Self::default()
        })
    }

    /// What the other charts with the same vertical axis plot.
    fn covers(plan: &Plan, chart: &Chart, runs: &ByPoint<'_>) -> Vec<f64> {
        let all = chart.axis.clone().map(|filter| Chart { filter, axis: None, ..chart.clone() });
        let plot = all.and_then(|chart| Self::of(plan, &chart, runs));
        plot.iter().flat_map(Self::dots).flat_map(Dot::values).collect()
    }

    pub(crate) fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.series.iter().flat_map(|series| &series.dots)
    }

    pub(crate) fn has_limits(&self) -> bool {
        self.dots().any(|dot| dot.limit.is_some())
    }
}

fn x_levels(factor: Factor, levels: &[Level]) -> Vec<XLevel> {
    if factor == Factor::Rtt {
        return durations(levels);
    }
    let level = |(place, level): (usize, &Level)| match level.parse() {
        Ok(bytes) if factor == Factor::Payload => XLevel::of_size(bytes),
        _ => XLevel { label: label::row(factor, level), place: place as f64 },
    };
    levels.iter().enumerate().map(level).collect()
}

/// Distance in decades from the smallest duration above 0 to 0, which has no logarithm.
const BELOW: f64 = 0.5;

/// Durations in milliseconds on a logarithmic axis; 0 is placed apart on the left.
fn durations(levels: &[Level]) -> Vec<XLevel> {
    let ms = |level: &Level| level.parse().ok().map(|Nanos(ns)| ns as f64 / 1e6);
    let above = levels.iter().filter_map(ms).filter(|&ms| ms > 0.0);
    let least = above.reduce(f64::min).unwrap_or(1.0).log10();
    let place = |level: &Level| match ms(level) {
        Some(ms) if ms > 0.0 => XLevel { label: Scale::written(ms), place: ms.log10() },
        Some(_) => XLevel { label: "0".to_owned(), place: least - BELOW },
        None => XLevel { label: "none".to_owned(), place: least - 2.0 * BELOW },
    };
    levels.iter().map(place).collect()
}

impl XLevel {
    /// A payload on a logarithmic axis, with a short label: `512`, `4Ki`.
    pub(crate) fn of_size(bytes: u64) -> Self {
        let label = match bytes {
            _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}Mi", bytes >> 20),
            _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}Ki", bytes >> 10),
            _ => bytes.to_string(),
        };
        // 0 is left of 1.
        Self { label, place: if bytes == 0 { -1.0 } else { (bytes as f64).log2() } }
    }
}

fn series(
    plan: &Plan,
    chart: &Chart,
    points: &[&Point],
    levels: &[Level],
    name: &str,
    runs: &ByPoint<'_>,
) -> Series {
    let mut provenance: Option<Provenance> = None;
    let mut dots = Vec::new();
    for (x, level) in levels.iter().enumerate() {
        let Some(point) = points.iter().find(|point| point.has(chart.x, level)) else {
            continue;
        };
        let cell = Cell::of(point, runs.get(point), chart.figure, &plan.stop);
        provenance = provenance.or(cell.provenance);
        let at = label::level(chart.x, level);
        let heading = if name.is_empty() { at.clone() } else { format!("{name}, {at}") };
        dots.extend(dot(&cell, x, &heading, chart));
    }
    let name = if name.is_empty() { chart.figure.spec().label } else { name };
    Series { label: format!("{name}{}", label::origin(provenance.as_slice())), dots }
}

fn dot(cell: &Cell<'_>, x: usize, heading: &str, chart: &Chart) -> Option<Dot> {
    let figure = chart.figure;
    let has_limits = chart.kind == ChartKind::Lines;
    let unit = number::Scale::of(figure);
    let estimate = cell.estimate.as_ref()?;
    let (origin, written) =
        (label::origin(cell.provenance.as_slice()), number::estimate(estimate, unit));
    let mut tip = format!("{heading}{origin}\n{written} {}", unit.name);
    if let Some(interval) = estimate.interval {
        let confidence = Percent(estimate.confidence);
        tip += &format!("\n{confidence} interval {}", number::interval(interval, unit));
    }
    tip += &format!("\n{}", number::count(estimate.n, "run"));
    if cell.invalid > 0 {
        tip += &format!(", {} more invalid", cell.invalid);
    }
    if let Some(limit) = &cell.limit {
        tip += &match figure {
            Figure::Goodput => format!("\n{} % of the ceiling", number::share(limit.share)),
            _ => format!("\n{} × the floor", number::fixed(limit.share, 1)),
        };
    }
    if cell.is_merged {
        tip += "\nTCP merged writes";
    }
    Some(Dot {
        x,
        value: estimate.value / unit.size,
        interval: estimate.interval.map(|i| (i.low / unit.size, i.high / unit.size)),
        limit: cell.limit.as_ref().filter(|_| has_limits).map(|limit| limit.value / unit.size),
        tip,
    })
}
