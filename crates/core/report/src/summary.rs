//! Builds [`Results`] from tables and other views.

use fabricmark_plan::{Factor, Figure, Kind, Level};
use fabricmark_stats::Estimate;
use fabricmark_units::Bytes;
use serde_json::{Value, json};

use crate::cell::{self, Cell};
use crate::results::{self, LevelValue, Levels, Quantity, Results, RowComparison};
use crate::table::{Group, Row, TableView};
use crate::view::tables;
use crate::{Experiment, answer, facts, models, scaling, sharing, shop};

/// [`Results`] as JSON.
pub fn summary_json(e: &Experiment<'_>) -> Value {
    let tables = tables(e);
    let method = facts::method(e).into_iter();
    json!(Results {
        name: e.name.to_owned(),
        title: e.plan.presentation.title.clone(),
        about: e.plan.presentation.about.clone(),
        started: e.started.to_owned(),
        reproduce: e.reproduce.to_owned(),
        quick: e.quick,
        complete: e.planned_complete,
        seed: e.plan.seed,
        plan_digest: facts::digest(e),
        instrument: e.instrument,
        answers: answer::answers(e, &tables),
        tables: tables.iter().map(table).collect(),
        scaling: scaling::results(&scaling::scaling(e)),
        sharing: sharing::results(&sharing::sharing(e)),
        models: models::results(&models::models(e)),
        shop: shop::results(&shop::shops(e)),
        method: method.map(|(name, fact)| (name.to_lowercase(), fact)).collect(),
    })
}

fn table(table: &TableView<'_>) -> results::Table {
    results::Table {
        title: table.title().to_owned(),
        figure: table.spec.figure,
        rows: table.spec.rows.clone(),
        published: table.spec.published.clone(),
        groups: table.groups.iter().map(|part| group(table, part)).collect(),
        notes: table.notes.clone(),
    }
}

fn group(table: &TableView<'_>, group: &Group<'_>) -> results::Group {
    results::Group {
        title: group.title.clone(),
        levels: levels(&group.levels),
        rows: group.rows.iter().map(|part| row(table, part)).collect(),
    }
}

fn row(table: &TableView<'_>, row: &Row<'_>) -> results::Row {
    let figure = table.spec.figure;
    let comparisons =
        table.compared.iter().zip(&row.changes).map(|(compare, change)| RowComparison {
            factor: compare.factor,
            baseline: compare.baseline.clone(),
            candidate: compare.candidate.clone(),
            result: change.comparison.as_ref().map(Into::into),
            withheld: change.reason(),
            change_of_limits: change.of_limits.map(|limits| limits.change),
        });
    let cells = row.cells.iter().zip(&row.published).filter_map(|(found, &published)| {
        Some(cell(found.as_ref()?, figure, table.unit.key, published))
    });
    results::Row {
        levels: levels(&row.levels),
        cells: cells.collect(),
        comparisons: comparisons.collect(),
    }
}

fn cell(cell: &Cell<'_>, figure: Figure, unit: &str, published: Option<f64>) -> results::Cell {
    let levels: Vec<(Factor, Level)> =
        Factor::ALL.into_iter().map(|factor| (factor, cell.point.level(factor))).collect();
    let estimate =
        |estimate: &Option<Estimate>| Some(Quantity::Estimate(estimate.as_ref()?.into()));
    let quantities = [
        (figure.spec().key.to_owned(), estimate(&cell.estimate)),
        (format!("median_{unit}"), estimate(&cell.median)),
        (format!("limit_{unit}"), cell.limit.as_ref().map(limit)),
        (format!("message_limit_{unit}"), cell.message_limit.as_ref().map(limit)),
        (format!("published_{unit}"), published.map(Quantity::Published)),
    ];
    let present = quantities.into_iter().filter_map(|(key, value)| Some((key, value?)));
    results::Cell {
        levels: self::levels(&levels),
        quantities: present.collect(),
        provenance: cell.provenance,
        missing: cell.missing.clone(),
        invalid_runs: (cell.invalid > 0).then_some(cell.invalid),
        merged: cell.is_merged.then_some(true),
        writes_per_segment: cell.writes_per_segment,
        retransmitted: cell.retransmitted,
        lost_packets: cell.lost_packets,
        loss: cell.loss.map(|loss| results::Loss {
            sent: loss.sent,
            share: loss.share(),
            drops: loss.drops,
        }),
        limited_by: cell.bottleneck.cloned(),
    }
}

pub(crate) fn levels(levels: &[(Factor, Level)]) -> Levels {
    let present = levels.iter().filter(|(_, level)| !level.is_empty());
    let entry = |(factor, level): &(Factor, Level)| match (factor.spec().kind, level.parse()) {
        (Kind::Size(..), Ok(Bytes(bytes))) => (format!("{factor}_bytes"), LevelValue::Bytes(bytes)),
        _ => (factor.to_string(), LevelValue::Text(level.clone())),
    };
    present.map(entry).collect()
}

fn limit(limit: &cell::Limit) -> Quantity {
    Quantity::Limit(results::Limit {
        value: limit.value,
        kind: limit.kind,
        formula: limit.formula.clone(),
        measured_over_limit: limit.share,
    })
}
