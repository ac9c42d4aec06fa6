//! Reference lines of a chart: the goodput that TCP's window allows per RTT, and published figures.

use std::collections::BTreeMap;

use fabricmark_plan::{Chart, Factor, Figure, Point};
use fabricmark_record::Record;
use fabricmark_wire::Kind;
use fabricmark_wire::lfn::WINDOW_MAX;

use crate::number::{self, Scale};
use crate::published;
use crate::runs::ByPoint;

/// CSS class of published lines.
const PUBLISHED: &str = "fm-published";

/// A line through some levels of the horizontal axis.
pub(crate) struct Reference {
    pub label: String,
    /// CSS class: `fm-window`, `fm-asked`, `fm-published`.
    pub class: &'static str,
    /// Index of the level, and value in the unit of the axis.
    pub points: Vec<(usize, f64)>,
}

impl Reference {
    /// Value of a published constant, which is drawn across the whole chart.
    pub(crate) fn level(&self) -> Option<f64> {
        let &(_, first) = self.points.first()?;
        let is_level = self.points.iter().all(|&(_, value)| value == first);
        (is_level && self.class == PUBLISHED).then_some(first)
    }

    /// References of a chart over these levels of its x axis; window limits are those of the records.
    pub(crate) fn of(
        chart: &Chart,
        points: &[&Point],
        levels: &[String],
        runs: &ByPoint<'_>,
    ) -> Vec<Self> {
        let mut references = Vec::new();
        if chart.figure == Figure::Goodput && chart.x == Factor::Rtt {
            let unit = Scale::of(Figure::Goodput).size;
            let through = |limit: fn(&Record) -> Option<f64>| {
                let of = |point: &&Point| {
                    let place = levels.iter().position(|level| point.has(chart.x, level))?;
                    Some((place, limit(runs.get(point)?.counted.first()?)? / unit))
                };
                of_all(points.iter().filter_map(of))
            };
            let most = through(|record| by_window(record, Kind::Bound, true));
            let asked = through(|record| by_window(record, Kind::Conditional, false));
            for (points, class, label) in [
                (most, "fm-window", "TCP's largest window / RTT"),
                (asked, "fm-asked", "configured window / RTT"),
            ] {
                if let Some(points) = points.filter(|points| points.len() > 1) {
                    references.push(Self { label: label.to_owned(), class, points });
                }
            }
        }
        let published = chart.published.as_deref().and_then(|name| {
            let (label, value) = published::line(name, chart.figure)?;
            let value = value / Scale::of(chart.figure).size;
            let points = (0..levels.len()).map(|place| (place, value)).collect();
            let figure = format!("{} {}", number::fixed(value, 0), Scale::of(chart.figure).name);
            let label = format!("{label}: {figure} (published)");
            Some(Self { label, class: PUBLISHED, points })
        });
        references.extend(published);
        references
    }
}

/// A line, if all points of each level have the same value.
fn of_all(values: impl Iterator<Item = (usize, f64)>) -> Option<Vec<(usize, f64)>> {
    let mut line: BTreeMap<usize, f64> = BTreeMap::new();
    for (place, value) in values {
        let known = *line.entry(place).or_insert(value);
        if (known / value - 1.0).abs() > 1e-9 {
            return None;
        }
    }
    Some(line.into_iter().collect())
}

fn by_window(record: &Record, kind: Kind, is_largest: bool) -> Option<f64> {
    let largest = WINDOW_MAX.into();
    let ceiling = record.limits.ceilings.iter().find(|ceiling| {
        let window = ceiling.inputs.get("window_bytes");
        ceiling.kind == kind && window.is_some_and(|window| (*window == largest) == is_largest)
    });
    Some(ceiling?.goodput_bps.as_f64())
}
