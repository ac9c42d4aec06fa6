//! Tables as values, before anything is printed.

use fabricmark_plan::{Compare, Factor, Figure, Level, Limit, Table};
use fabricmark_stats::{Comparison, Interval, StopRule, mean, paired_ratios, unpaired};

use crate::cell::{Cell, hard_limit};
use crate::label;
use crate::number::{self, Scale};
use crate::runs::Runs;

/// A table of the plan, filled in.
pub(crate) struct TableView<'a> {
    pub spec: &'a Table,
    pub unit: Scale,
    pub groups: Vec<Group<'a>>,
    /// What is compared, a column each in every group.
    pub compared: Vec<&'a Compare>,
    pub notes: Vec<String>,
}

/// Columns that share the levels of all factors but the innermost.
pub(crate) struct Group<'a> {
    /// `ethernet:1G (emulated)`
    pub title: String,
    pub levels: Vec<(Factor, Level)>,
    /// Headings of the cells that stand side by side.
    pub columns: Vec<String>,
    pub rows: Vec<Row<'a>>,
}

/// The cells of one level of the row factor.
pub(crate) struct Row<'a> {
    pub label: String,
    pub level: Level,
    /// One for each column; nothing where the plan has no such point.
    pub cells: Vec<Option<Cell<'a>>>,
    /// One for each of [`TableView::compared`].
    pub changes: Vec<Change>,
    /// One for each column, in base units.
    pub published: Vec<Option<f64>>,
}

/// What the runs of two points say about the second against the first.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Absent where too few runs count, and where it is withheld.
    pub comparison: Option<Comparison>,
    /// Why there is no comparison although there are runs: more than a tenth of the runs of a side
    /// is invalid.
    pub withheld: Option<String>,
    /// Absent where one of the points has no limit.
    pub of_limits: Option<LimitChange>,
    /// Whether the change over the rounds of slices is outside the interval of that of the whole runs: disturbed slices shift the means.
    pub is_beyond_means: bool,
}

/// What the wire alone would make of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitChange {
    /// The change from the ceiling or floor of the first point to that of the second, as a fraction of the first.
    pub change: f64,
    /// Whether both points reach [`AT_CEILING`] of their ceilings, so that the wire explains their difference.
    pub is_reached: bool,
}

/// Share of its ceiling from which on a flow counts as limited by it: a choice.
const AT_CEILING: f64 = 0.95;

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
    /// Run against run of each block.
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
        Self { of_limits, is_beyond_means, ..Self::unless_withheld(a, b, found) }
    }

    /// The deciding figures of all runs of one against those of the other.
    pub(crate) fn unpaired(a: &Runs<'_>, b: &Runs<'_>, figure: Figure, confidence: f64) -> Self {
        let (better, tie) = figure.judged_by();
        Self::unless_withheld(a, b, unpaired(&a.deciding(), &b.deciding(), confidence, better, tie))
    }

    fn unless_withheld(a: &Runs<'_>, b: &Runs<'_>, comparison: Option<Comparison>) -> Self {
        let withheld = a.withheld(b);
        Self { comparison: comparison.filter(|_| withheld.is_none()), withheld, ..Self::default() }
    }

    /// The change, and the verdict or why there is none.
    pub(crate) fn written(&self) -> [String; 2] {
        match &self.comparison {
            Some(found) => [number::change(&found.change).to_string(), label::judged(found)],
            None => [String::new(), self.withheld.clone().unwrap_or_default()],
        }
    }
}

impl<'a> Group<'a> {
    /// Whether any row compares something.
    pub(crate) fn is_compared(&self) -> bool {
        self.rows.iter().any(|row| !row.changes.is_empty())
    }

    /// Whether a column says what limited each cell: where nothing is compared, and it is known of one.
    pub(crate) fn names_bottlenecks(&self) -> bool {
        !self.is_compared() && self.cells().any(|cell| cell.bottleneck.is_some())
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        self.rows.iter().flat_map(|row| row.cells.iter().flatten())
    }
}

impl TableView<'_> {
    /// The title, or the figure's name where the plan gives none.
    pub(crate) fn title(&self) -> &str {
        match self.spec.title.as_str() {
            "" => self.spec.figure.spec().label,
            title => title,
        }
    }

    /// The title and that of one of the groups.
    pub(crate) fn about(&self, group: &Group<'_>) -> String {
        let words = [self.title(), &group.title].into_iter().filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }

    /// What limits the figure: `ceiling` or `floor`.
    pub(crate) fn limit_name(&self) -> &'static str {
        if self.spec.figure.spec().limit == Limit::Ceiling { "ceiling" } else { "floor" }
    }

    /// What the cells are: `half a round trip, µs`; the unit alone where the title says the rest.
    pub(crate) fn caption(&self) -> String {
        let figure = self.spec.figure.spec().label;
        if self.title().to_lowercase().contains(figure) {
            self.unit.name.to_owned()
        } else {
            format!("{figure}, {}", self.unit.name)
        }
    }
}
