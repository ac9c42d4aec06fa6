//! Details of the cells of a table: medians, p-values, limits and losses.

use fabricmark_stats::Comparison;

use crate::cell::Cell;
use crate::label;
use crate::number::{self, Scale};
use crate::table::{Group, Row, TableView};

/// A row of a detail table: each value with the heading of its column.
pub(super) type Detail = Vec<(&'static str, String)>;

/// Detail tables, without columns that are empty in all rows, and without tables that have no rows.
pub(super) fn of_group(table: &TableView<'_>, group: &Group<'_>) -> Vec<Vec<Detail>> {
    let changes = group.rows.iter().flat_map(change_details).collect();
    let of_row = |row: &Row<'_>| -> Vec<Detail> {
        let cells = row.cells.iter().zip(&group.columns);
        let of_cell = |(cell, column): (&Option<Cell<'_>>, &String)| {
            Some(cell_detail(&row.label, column, cell.as_ref()?, table.unit))
        };
        cells.filter_map(of_cell).collect()
    };
    let mut tables: Vec<Vec<Detail>> = vec![changes, group.rows.iter().flat_map(of_row).collect()];
    tables.retain(|rows| !rows.is_empty());
    for rows in &mut tables {
        let is_kept = |column: usize| rows.iter().any(|row: &Detail| !row[column].1.is_empty());
        let kept: Vec<bool> = (0..rows[0].len()).map(is_kept).collect();
        for row in rows {
            let mut kept = kept.iter();
            row.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
    tables
}

/// The median with its interval, or with the number of runs that an interval needs.
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

fn cell_detail(row: &str, column: &str, cell: &Cell<'_>, unit: Scale) -> Detail {
    let limit = cell.limit.as_ref().map_or_else(String::new, |limit| {
        format!("{} {} ({})", number::fixed(limit.value / unit.size, 2), unit.name, limit.kind)
    });
    let writes = cell.writes_per_segment.map_or_else(String::new, |n| number::fixed(n, 2));
    let lost = cell.loss.map_or_else(String::new, |loss| {
        let [lost, sent] = [loss.drops.lost, loss.sent].map(|n| number::fixed(n as f64, 0));
        format!("{lost} of {sent} ({})", loss.places())
    });
    let count =
        |count: Option<u64>| count.map_or_else(String::new, |count| number::fixed(count as f64, 0));
    let runs = cell.estimate.as_ref().map_or(0, |estimate| estimate.n).to_string();
    vec![
        ("row", row.to_owned()),
        ("column", column.to_owned()),
        ("runs", runs),
        ("median with interval", median(cell, unit)),
        ("limit", limit),
        ("limited by", cell.bottleneck.map_or_else(String::new, label::limited)),
        ("writes per segment", writes),
        ("retransmitted segments, all runs", count(cell.retransmitted)),
        ("lost packets", count(cell.lost_packets)),
        ("lost", lost),
    ]
}

fn change_details(row: &Row<'_>) -> Vec<Detail> {
    let comparisons = row.changes.iter().filter_map(|change| change.comparison.as_ref());
    let detail = |found: &Comparison| {
        let visible = found.smallest_visible.map(|share| format!("{} %", number::share(share)));
        vec![
            ("row", row.label.clone()),
            ("pairs", found.change.n.to_string()),
            ("change", number::compared(found).to_string()),
            ("verdict", found.verdict.to_string()),
            ("p (paired t)", number::probability(found.p_t)),
            ("p (Wilcoxon)", number::probability(found.p_rank)),
            ("p (Holm)", number::probability(found.p_adjusted)),
            ("MDE", visible.unwrap_or_default()),
        ]
    };
    comparisons.map(detail).collect()
}
