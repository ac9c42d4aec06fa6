//! What more flows gain: the largest rate over the numbers of flows, its gain over the fewest, and from which number on
//! more flows add nothing.

use fabricmark_plan::{Factor, Figure, Level, Point};
use fabricmark_stats::{Better, Estimate};

use crate::grid::PlainTable;
use crate::number::{self, Scale};
use crate::runs::{ByPoint, Runs};
use crate::table::Change;
use crate::{Experiment, label, results, select, summary};

/// The numbers of flows at one combination of all other levels.
#[derive(Clone, Debug)]
pub(crate) struct Scaling {
    figure: Figure,
    levels: Vec<(Factor, Level)>,
    fewest: (u32, Estimate),
    best: (u32, Estimate),
    /// From the fewest to the best; `None` if the fewest are the best.
    gain: Option<Estimate>,
    /// Fewest flows whose rate is below the best by no more than the tie band.
    saturates_at: u32,
}

/// One entry for each combination of levels with several numbers of flows, if more is better.
pub(crate) fn scaling(e: &Experiment<'_>) -> Vec<Scaling> {
    let runs = ByPoint::of(e.records);
    let points: Vec<&Point> = e.plan.points.iter().collect();
    // A group says more than the link that it uses.
    let of_groups: &[Factor] = if e.plan.groups.is_empty() { &[] } else { &[Factor::Group] };
    let mut varied = of_groups.to_vec();
    varied.extend(select::missing_factors(&points, &[&[Factor::Flows], of_groups].concat()));
    let mut found = Vec::new();
    for levels in select::combinations(&points, &varied) {
        let is_its = |point: &&&Point| select::levels_of(point, &varied) == levels;
        let mut of_levels: Vec<(&Point, &Runs<'_>)> = points
            .iter()
            .filter(is_its)
            .filter_map(|&point| Some((point, runs.get(point)?)))
            .collect();
        of_levels.sort_by_key(|(point, _)| point.flows);
        let levels = varied.iter().copied().zip(levels).collect();
        found.extend(Scaling::of(&of_levels, levels, e));
    }
    found
}

impl Scaling {
    fn of(
        points: &[(&Point, &Runs<'_>)],
        levels: Vec<(Factor, Level)>,
        e: &Experiment<'_>,
    ) -> Option<Self> {
        let rule = &e.plan.stop;
        let figure = Figure::deciding(points.first()?.0);
        let (better, tie) = figure.judged_by();
        if better != Better::Higher {
            return None;
        }
        let rates: Vec<(u32, &Runs<'_>, Estimate)> = points
            .iter()
            .filter_map(|(point, runs)| {
                Some((point.flows, *runs, rule.estimate(&runs.values(figure))?))
            })
            .collect();
        let (fewest, of_fewest, least) = rates.first().filter(|_| rates.len() > 1)?;
        let (best, of_best, most) = rates.iter().max_by(|a, b| a.2.value.total_cmp(&b.2.value))?;
        let is_near = |rate: &&(u32, &Runs<'_>, Estimate)| rate.2.value >= (1.0 - tie) * most.value;
        let gain = (fewest != best)
            .then(|| Change::paired(of_fewest, of_best, figure, rule).comparison.map(|c| c.change));
        Some(Self {
            figure,
            levels,
            fewest: (*fewest, least.clone()),
            best: (*best, most.clone()),
            gain: gain.flatten(),
            saturates_at: rates.iter().find(is_near)?.0,
        })
    }

    fn row(&self) -> Vec<String> {
        let levels = self.levels.iter().map(|(factor, level)| label::level(*factor, level));
        let unit = Scale::of(self.figure);
        let rate = |(flows, estimate): &(u32, Estimate)| {
            format!("{} {} ({flows})", number::estimate(estimate, unit), unit.name)
        };
        vec![
            levels.collect::<Vec<_>>().join(", "),
            rate(&self.fewest),
            rate(&self.best),
            self.gain.as_ref().map(|gain| number::change(gain).to_string()).unwrap_or_default(),
            self.saturates_at.to_string(),
        ]
    }
}

/// The entries as a table; none without entries.
pub(crate) fn tables(all: &[Scaling]) -> Vec<PlainTable> {
    if all.is_empty() {
        return Vec::new();
    }
    vec![PlainTable {
        title: "Gain by the number of flows".to_owned(),
        columns: vec!["", "fewest (flows)", "best (flows)", "gain", "saturates at"],
        rows: all.iter().map(Scaling::row).collect(),
        notes: vec![
            "saturates at: the fewest flows whose mean is below the best one by no more than the tie \
             band"
                .to_owned(),
        ],
    }]
}

/// The entries in `results.json`.
pub(crate) fn results(all: &[Scaling]) -> Vec<results::Scaling> {
    let of = |one: &Scaling| {
        let rate = |(flows, estimate): &(u32, Estimate)| results::AtFlows {
            flows: *flows,
            figure: [(one.figure.spec().key.to_owned(), estimate.into())].into(),
        };
        results::Scaling {
            levels: summary::levels(&one.levels),
            figure: one.figure,
            fewest: rate(&one.fewest),
            best: rate(&one.best),
            gain: one.gain.as_ref().map(Into::into),
            saturates_at_flows: one.saturates_at,
        }
    };
    all.iter().map(of).collect()
}
