//! Tables as values, before they are printed.

use fabricmark_plan::{Compare, Factor, Figure, Level, Limit, Table};
use fabricmark_record::AT_CEILING;
use fabricmark_stats::{Comparison, Interval, StopRule, mean, paired_ratios, unpaired};

use crate::cell::{Cell, hard_limit};
use crate::label;
use crate::number::{self, Scale};
use crate::runs::{Runs, Withheld};

/// A table of the plan with its results.
pub(crate) struct TableView<'a> {
    pub spec: &'a Table,
    pub unit: Scale,
    pub groups: Vec<Group<'a>>,
    /// Comparisons; each is a column in every group.
    pub compared: Vec<&'a Compare>,
    pub notes: Vec<String>,
}

/// Columns that share the levels of all factors but the innermost.
pub(crate) struct Group<'a> {
    /// `ethernet:1G (emulated)`
    pub title: String,
    pub levels: Vec<(Factor, Level)>,
    /// Headings of the side-by-side cells.
    pub columns: Vec<String>,
    pub rows: Vec<Row<'a>>,
}

/// Cells of one combination of levels of the row factors.
pub(crate) struct Row<'a> {
    pub label: String,
    pub levels: Vec<(Factor, Level)>,
    /// One per column; `None` if the plan has no such point.
    pub cells: Vec<Option<Cell<'a>>>,
    /// One per comparison in [`TableView::compared`].
    pub changes: Vec<Change>,
    /// One per column, in base units.
    pub published: Vec<Option<f64>>,
}

/// Change from the runs of one point to those of another.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// `None` if there are too few valid runs, or it is withheld.
    pub comparison: Option<Comparison>,
    /// Why a comparison of existing runs is withheld.
    pub withheld: Option<Withheld>,
    /// Whether further runs may change the verdict: the plan has both points, neither was given up, and no run has 0.
    pub is_open: bool,
    /// Change of the limits; `None` if one of the points has no limit.
    pub of_limits: Option<LimitChange>,
    /// Whether the change over rounds of slices is outside the interval of the change of whole runs: disturbed slices
    /// shift the means.
    pub is_beyond_means: bool,
}

/// The change that the wire alone would cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitChange {
    /// Change from the first point's ceiling or floor to that of the second, as a fraction of the first.
    pub change: f64,
    /// Whether both points reach [`AT_CEILING`] of their ceilings, so that the wire explains their difference.
    pub is_reached: bool,
}

impl LimitChange {
    fn of(a: &Runs<'_>, b: &Runs<'_>, figure: Figure) -> Option<Self> {
        let limit = |runs: &Runs<'_>| Some(hard_limit(runs.counted.first()?, figure)?.1);
        let (of_a, of_b) = (limit(a)?, limit(b)?);
        let reaches = |runs: &Runs<'_>, limit: f64| {
            let mean = mean(&runs.values(figure), 0.95);
            mean.is_some_and(|mean| mean.value >= AT_CEILING * limit)
        };
        let is_ceiling = figure.spec().limit == Limit::Ceiling;
        let is_reached = is_ceiling && reaches(a, of_a) && reaches(b, of_b);
        Some(Self { change: of_b / of_a - 1.0, is_reached })
    }
}

impl Change {
    /// Compares runs of the same block.
    pub(crate) fn paired(a: &Runs<'_>, b: &Runs<'_>, figure: Figure, rule: &StopRule) -> Self {
        let (ratios, (better, tie)) = (a.log_ratios(b, figure), figure.judged_by());
        let of_limits = LimitChange::of(a, b, figure);
        let found = paired_ratios(&ratios, rule, better, tie);
        let of_wholes = paired_ratios(&a.log_ratios_of_wholes(b, figure), rule, better, tie);
        let wholes = of_wholes.and_then(|wholes| wholes.change.interval);
        let is_beyond = |(interval, found): (Interval, &Comparison)| {
            !(interval.low..=interval.high).contains(&found.change.value)
        };
        let is_beyond_means = wholes.zip(found.as_ref()).is_some_and(is_beyond);
        let withheld = a.withheld(b).or_else(|| a.zeros(b, figure));
        let comparison = found.filter(|_| withheld.is_none());
        let has_zeros = matches!(withheld, Some(Withheld::Zeros { .. }));
        let is_open = !has_zeros && !a.is_given_up(rule) && !b.is_given_up(rule);
        Self { comparison, withheld, is_open, of_limits, is_beyond_means }
    }

    /// Compares the deciding figures of all runs as independent samples.
    pub(crate) fn unpaired(a: &Runs<'_>, b: &Runs<'_>, figure: Figure, confidence: f64) -> Self {
        let (better, tie) = figure.judged_by();
        let found = unpaired(&a.deciding(), &b.deciding(), confidence, better, tie);
        let withheld = a.withheld(b);
        let comparison = found.filter(|_| withheld.is_none());
        Self { comparison, withheld, ..Self::default() }
    }

    /// Whether the comparison is withheld because runs have 0.
    pub(crate) fn has_zeros(&self) -> bool {
        matches!(self.withheld, Some(Withheld::Zeros { .. }))
    }

    /// Why the comparison is withheld.
    pub(crate) fn reason(&self) -> Option<String> {
        self.withheld.as_ref().map(ToString::to_string)
    }

    /// The change, and the verdict or why there is none.
    pub(crate) fn written(&self) -> [String; 2] {
        match &self.comparison {
            Some(found) => [number::compared(found).to_string(), label::judged(found)],
            None => [String::new(), self.reason().unwrap_or_default()],
        }
    }
}

impl<'a> Group<'a> {
    /// Whether any row has a comparison.
    pub(crate) fn is_compared(&self) -> bool {
        self.rows.iter().any(|row| !row.changes.is_empty())
    }

    /// Whether a column names the bottleneck of each cell: if there are no comparisons, and any bottleneck is known.
    pub(crate) fn names_bottlenecks(&self) -> bool {
        !self.is_compared() && self.cells().any(|cell| cell.bottleneck.is_some())
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        self.rows.iter().flat_map(|row| row.cells.iter().flatten())
    }
}

impl TableView<'_> {
    /// The title, or the name of the figure if the plan has no title.
    pub(crate) fn title(&self) -> &str {
        match self.spec.title.as_str() {
            "" => self.spec.figure.spec().label,
            title => title,
        }
    }

    /// The titles of the table and of one of its groups.
    pub(crate) fn about(&self, group: &Group<'_>) -> String {
        let words = [self.title(), &group.title].into_iter().filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }

    /// Kind of the limit: `ceiling` or `floor`.
    pub(crate) fn limit_name(&self) -> &'static str {
        if self.spec.figure.spec().limit == Limit::Ceiling { "ceiling" } else { "floor" }
    }

    /// Caption of the cells: `RTT/2, µs`; only the unit if the title names the figure.
    pub(crate) fn caption(&self) -> String {
        let figure = self.spec.figure.spec().label;
        if self.title().to_lowercase().contains(&figure.to_lowercase()) {
            self.unit.name.to_owned()
        } else {
            format!("{figure}, {}", self.unit.name)
        }
    }
}
