//! Tables as values, before anything is printed.

use fabricmark_plan::{Compare, Factor, Level, Table};
use fabricmark_stats::Comparison;

use crate::cell::Cell;
use crate::number::Scale;

/// A table of the plan, filled in.
pub(crate) struct TableView<'a> {
    pub spec: &'a Table,
    pub unit: Scale,
    pub groups: Vec<Group<'a>>,
    /// All comparisons of the table, corrected as one family; rows refer to them by index.
    pub comparisons: Vec<Comparison>,
    /// What is compared, a column each in every group.
    pub compared: Vec<&'a Compare>,
    /// Name of the published table beside it.
    pub published: Option<&'a str>,
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

/// What a row says of a comparison.
pub(crate) enum Change {
    /// Nothing: the plan has no such points, or too few runs count.
    None,
    /// The one of this index in [`TableView::comparisons`].
    Judged(usize),
    /// Too many runs are invalid for a verdict: how many, and why.
    Withheld(String),
}

impl Change {
    /// Why there is no verdict although there are runs.
    pub(crate) fn withheld(&self) -> Option<&str> {
        match self {
            Self::Withheld(why) => Some(why),
            Self::None | Self::Judged(_) => None,
        }
    }
}

impl<'a> Group<'a> {
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        self.rows.iter().flat_map(|row| row.cells.iter().flatten())
    }
}

impl TableView<'_> {
    /// The comparison behind one of [`Row::changes`].
    pub(crate) fn change(&self, change: &Change) -> Option<&Comparison> {
        match change {
            Change::Judged(index) => self.comparisons.get(*index),
            Change::None | Change::Withheld(_) => None,
        }
    }

    /// The title, or the figure's name where the plan gives none.
    pub(crate) fn title(&self) -> &str {
        match self.spec.title.as_str() {
            "" => self.spec.figure.spec().label,
            title => title,
        }
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
