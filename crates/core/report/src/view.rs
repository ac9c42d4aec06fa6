//! The view model: tables as values, before they are printed.

use fabricmark_plan::{Compare, Factor, Level, Plan, Point, Table};
use fabricmark_stats::holm;

use crate::Experiment;
use crate::cell::Cell;
use crate::number::Scale;
use crate::published::Published;
use crate::runs::ByPoint;
use crate::table::{Change, Group, Row, TableView};
use crate::{label, notes, select};

/// All tables of a plan.
pub(crate) fn tables<'a>(e: &Experiment<'a>) -> Vec<TableView<'a>> {
    let runs = ByPoint::of(e.records);
    let presentation = &e.plan.presentation;
    let tables = presentation.tables.iter().map(|spec| table(e.plan, spec, &runs));
    // --quick may remove all points of a table, which is not an error of the plan.
    tables.filter(|table| !e.quick || !table.groups.is_empty()).collect()
}

fn table<'a>(plan: &'a Plan, spec: &'a Table, runs: &ByPoint<'a>) -> TableView<'a> {
    let points = select::points(plan, spec.figure, &spec.filter);
    let axes = Axes::of(plan, spec, &points);
    let mut groups: Vec<Group<'a>> = select::combinations(&points, &axes.groups)
        .into_iter()
        .map(|levels| axes.group(plan, spec, &points, levels, runs))
        .collect();
    let changes = groups.iter_mut().flat_map(|group| &mut group.rows).flat_map(|r| &mut r.changes);
    holm(changes.filter_map(|change| change.comparison.as_mut()));
    let notes = notes::of_table(spec, &groups, runs);
    let unit = Scale::of(spec.figure);
    TableView { spec, unit, groups, compared: axes.compared, notes }
}

/// Assigns the factors of a table to rows, groups and side-by-side columns.
struct Axes<'a> {
    groups: Vec<Factor>,
    side: Option<Factor>,
    compared: Vec<&'a Compare>,
}

impl<'a> Axes<'a> {
    fn of(plan: &'a Plan, spec: &Table, points: &[&Point]) -> Self {
        let compared_factor = spec.compared(plan.compare.iter().map(|compare| compare.factor));
        let mut used = spec.columns.clone();
        used.extend(&spec.rows);
        let mut groups = select::missing_factors(points, &used);
        let side = compared_factor.or_else(|| spec.columns.last().copied());
        groups.extend(spec.columns.iter().filter(|&&factor| Some(factor) != side));
        let is_here = |factor, level: &Level| points.iter().any(|point| point.has(factor, level));
        let compared = plan.compare.iter().filter(|compare| {
            Some(compare.factor) == compared_factor
                && is_here(compare.factor, &compare.baseline)
                && is_here(compare.factor, &compare.candidate)
        });
        let compared = compared.collect();
        Self { groups, side, compared }
    }

    fn group(
        &self,
        plan: &Plan,
        spec: &'a Table,
        all: &[&'a Point],
        levels: Vec<Level>,
        runs: &ByPoint<'a>,
    ) -> Group<'a> {
        let points: Vec<&Point> = all
            .iter()
            .copied()
            .filter(|point| select::levels_of(point, &self.groups) == levels)
            .collect();
        let side = match self.side {
            Some(factor) => select::levels(&points, factor),
            None => vec![Level::new()],
        };
        let at = |row: &[Level], side: &Level| {
            points.iter().copied().find(|point| {
                select::levels_of(point, &spec.rows) == row
                    && self.side.is_none_or(|factor| point.has(factor, side))
            })
        };
        let published =
            spec.published.as_deref().and_then(|name| Published::named(name, spec.figure));
        let rows: Vec<Row<'a>> = select::rows(&points, &spec.rows)
            .into_iter()
            .map(|levels| Row {
                label: label::rows(&spec.rows, &levels),
                cells: side
                    .iter()
                    .map(|side| at(&levels, side))
                    .map(|point| point.map(|p| Cell::of(p, runs.get(p), spec.figure, &plan.stop)))
                    .collect(),
                changes: self
                    .compared
                    .iter()
                    .map(|compare| {
                        let both = [&compare.baseline, &compare.candidate];
                        let [Some(a), Some(b)] = both.map(|side| at(&levels, side)) else {
                            return Change::default();
                        };
                        match runs.get(a).zip(runs.get(b)) {
                            Some((a, b)) => Change::paired(a, b, spec.figure, &plan.stop),
                            None => {
                                let runs = [a, b].map(|point| runs.get(point));
                                let mut known = runs.into_iter().flatten();
                                let is_open = !known.any(|runs| runs.is_given_up(&plan.stop));
                                Change { is_open, ..Change::default() }
                            }
                        }
                    })
                    .collect(),
                published: side
                    .iter()
                    .map(|side| published?.value(spec.figure, at(&levels, side)?))
                    .collect(),
                levels: spec.rows.iter().copied().zip(levels).collect(),
            })
            .collect();
        let mut columns: Vec<String> = match self.side {
            Some(factor) => side.iter().map(|level| label::level(factor, level)).collect(),
            None => vec![spec.figure.spec().label.to_owned()],
        };
        let levels: Vec<(Factor, Level)> = self.groups.iter().copied().zip(levels).collect();
        let mut title = self.title(plan, spec, &points, &levels);
        let origin = |place: usize| {
            let cells = rows.iter().filter_map(|row| row.cells[place].as_ref());
            label::origin(&label::distinct(cells.filter_map(|cell| cell.provenance)))
        };
        let origins: Vec<String> = (0..columns.len()).map(origin).collect();
        match origins.first() {
            Some(first) if !title.is_empty() && origins.iter().all(|origin| origin == first) => {
                title.push_str(first);
            }
            _ => {
                for (column, origin) in columns.iter_mut().zip(&origins) {
                    column.push_str(origin);
                }
            }
        }
        Group { title, levels, columns, rows }
    }

    /// Title of a group: its levels, and always its link, since a figure without its link is meaningless.
    fn title(
        &self,
        plan: &Plan,
        spec: &Table,
        points: &[&Point],
        levels: &[(Factor, Level)],
    ) -> String {
        let mut words: Vec<String> =
            levels.iter().map(|(factor, level)| label::level(*factor, level)).collect();
        let links = select::levels(points, Factor::Link);
        let is_named = spec.rows.contains(&Factor::Link)
            || self.side == Some(Factor::Link)
            || self.groups.contains(&Factor::Link);
        if let Some(tiers) = label::tiers(plan, points, levels) {
            words.extend(tiers);
            return words.join(", ");
        }
        match (label::topology(plan), links.as_slice()) {
            (Some(topology), _) => words.push(topology),
            (None, [link]) if !is_named => words.push(link.clone()),
            (None, _) => {}
        }
        words.join(", ")
    }
}
