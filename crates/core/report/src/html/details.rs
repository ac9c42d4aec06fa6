//! What stands behind the cells of a table: medians, probabilities, limits, loss.

use fabricmark_record::Drops;

use crate::cell::Cell;
use crate::number::{self, Scale};
use crate::table::{Group, Row, TableView};

/// A table of plain text.
pub(super) struct Detail {
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Detail {
    /// Without the columns that are empty in every row; nothing without rows.
    fn of(head: &[&'static str], rows: Vec<Vec<String>>) -> Option<Self> {
        let is_kept = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
        let kept: Vec<usize> = (0..head.len()).filter(is_kept).collect();
        let pick = |row: Vec<String>| kept.iter().map(|&column| row[column].clone()).collect();
        let head = kept.iter().map(|&column| head[column]).collect();
        let detail = Self { head, rows: rows.into_iter().map(pick).collect() };
        (!detail.rows.is_empty()).then_some(detail)
    }
}

pub(super) fn of_group(table: &TableView<'_>, group: &Group<'_>) -> Vec<Detail> {
    let changes = group.rows.iter().flat_map(|row| change_details(table, row)).collect();
    let cells = group
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().zip(&group.columns).map(move |cell| (row, cell)))
        .filter_map(|(row, (cell, column))| {
            Some(cell_detail(&row.label, column, cell.as_ref()?, table.unit))
        })
        .collect();
    let details = [Detail::of(&CHANGE_DETAILS, changes), Detail::of(&CELL_DETAILS, cells)];
    details.into_iter().flatten().collect()
}

/// The median with its interval, or why it has none.
pub(super) fn median(cell: &Cell<'_>, unit: Scale) -> String {
    let Some(median) = &cell.median else {
        return String::new();
    };
    let value = number::estimate(median, unit).value;
    match median.interval {
        Some(interval) => format!("{value} {}", number::interval(interval, unit)),
        None => format!("{value} (n = {} < {})", median.n, median.n_needed),
    }
}

/// Head of the details of cells; the rows are [`cell_detail`].
const CELL_DETAILS: [&str; 9] = [
    "row",
    "column",
    "runs",
    "median with interval",
    "limit",
    "writes per segment",
    "retransmitted segments, all runs",
    "lost packets",
    "lost",
];

fn cell_detail(row: &str, column: &str, cell: &Cell<'_>, unit: Scale) -> Vec<String> {
    let limit = cell.limit.as_ref().map_or_else(String::new, |limit| {
        format!("{} {} ({})", number::fixed(limit.value / unit.size, 2), unit.name, limit.kind)
    });
    let writes = cell.writes_per_segment.map_or_else(String::new, |n| number::fixed(n, 2));
    let lost = cell.loss.map_or_else(String::new, |loss| {
        let Drops { lost, .. } = loss.drops;
        format!(
            "{} of {} ({})",
            number::fixed(lost as f64, 0),
            number::fixed(loss.sent as f64, 0),
            loss.places()
        )
    });
    let count =
        |count: Option<u64>| count.map_or_else(String::new, |count| number::fixed(count as f64, 0));
    let runs = cell.estimate.as_ref().map_or(0, |estimate| estimate.n).to_string();
    vec![
        row.to_owned(),
        column.to_owned(),
        runs,
        median(cell, unit),
        limit,
        writes,
        count(cell.retransmitted),
        count(cell.lost_packets),
        lost,
    ]
}

/// Head of the details of comparisons; the rows are [`change_details`].
const CHANGE_DETAILS: [&str; 8] = [
    "row",
    "pairs",
    "change",
    "verdict",
    "p (paired t)",
    "p (Wilcoxon)",
    "p (Holm)",
    "smallest visible",
];

fn change_details(table: &TableView<'_>, row: &Row<'_>) -> Vec<Vec<String>> {
    row.changes
        .iter()
        .filter_map(|change| {
            let comparison = table.change(change)?;
            let change = number::change(&comparison.change);
            let visible = comparison.smallest_visible;
            Some(vec![
                row.label.clone(),
                comparison.change.n.to_string(),
                format!("{} {}", change.value, change.interval),
                comparison.verdict.to_string(),
                number::probability(comparison.p_t),
                number::probability(comparison.p_rank),
                number::probability(comparison.p_adjusted),
                visible.map_or_else(String::new, |v| format!("{} %", number::share(v))),
            ])
        })
        .collect()
}
