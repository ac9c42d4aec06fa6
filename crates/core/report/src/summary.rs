//! The report as JSON: base units, with the unit in the key.

use fabricmark_plan::{Factor, Figure, Kind, Level};
use fabricmark_stats::{Comparison, Estimate};
use fabricmark_units::Bytes;
use serde_json::{Map, Value, json};

use crate::cell::{Cell, Limit, Loss};
use crate::table::{Group, Row, TableView};
use crate::view::tables;
use crate::{Experiment, answer, facts, models, scaling, sharing, shop};

/// Tables, cells and comparisons with all estimates, without single runs.
pub fn summary_json(e: &Experiment<'_>) -> Value {
    let tables = tables(e);
    let pairs = |facts: Vec<facts::Fact>| -> Map<String, Value> {
        facts.into_iter().map(|(name, fact)| (name.to_lowercase(), json!(fact))).collect()
    };
    json!({
        "name": e.name,
        "title": e.plan.presentation.title,
        "about": e.plan.presentation.about,
        "started": e.started,
        "reproduce": e.reproduce,
        "quick": e.quick,
        "complete": e.planned_complete,
        "seed": e.plan.seed,
        "plan_digest": facts::digest(e),
        "instrument": e.instrument,
        "answers": answer::answers(e, &tables)
            .into_iter()
            .map(|answer| json!({ "about": answer.about, "text": answer.text }))
            .collect::<Vec<_>>(),
        "tables": tables.iter().map(table).collect::<Vec<_>>(),
        "scaling": scaling::json(&scaling::scaling(e)),
        "sharing": sharing::json(&sharing::sharing(e)),
        "models": models::json(&models::models(e)),
        "shop": shop::json(&shop::shops(e)),
        "method": pairs(facts::method(e)),
    })
}

fn table(table: &TableView<'_>) -> Value {
    json!({
        "title": table.title(),
        "figure": table.spec.figure,
        "rows": table.spec.rows,
        "published": table.spec.published,
        "groups": table.groups.iter().map(|part| group(table, part)).collect::<Vec<_>>(),
        "notes": table.notes,
    })
}

fn group(table: &TableView<'_>, group: &Group<'_>) -> Value {
    json!({
        "title": group.title,
        "levels": levels(&group.levels),
        "rows": group.rows.iter().map(|part| row(table, part)).collect::<Vec<_>>(),
    })
}

fn row(table: &TableView<'_>, row: &Row<'_>) -> Value {
    let figure = table.spec.figure;
    let comparisons = table.compared.iter().zip(&row.changes).map(|(compare, change)| {
        json!({
            "factor": compare.factor,
            "baseline": compare.baseline,
            "candidate": compare.candidate,
            "result": change.comparison.as_ref().map(comparison),
            "withheld": change.withheld,
            "change_of_limits": change.of_limits.map(|limits| limits.change),
        })
    });
    let cells = row.cells.iter().zip(&row.published).filter_map(|(found, &published)| {
        Some(cell(found.as_ref()?, figure, table.unit.key, published))
    });
    json!({
        "levels": levels(&row.levels),
        "cells": cells.collect::<Vec<_>>(),
        "comparisons": comparisons.collect::<Vec<_>>(),
    })
}

fn cell(cell: &Cell<'_>, figure: Figure, unit: &str, published: Option<f64>) -> Value {
    let levels: Vec<(Factor, Level)> =
        Factor::ALL.into_iter().map(|factor| (factor, cell.point.level(factor))).collect();
    let loss = |loss: Loss| json!({"sent": loss.sent, "share": loss.share(), "drops": loss.drops});
    let fields = [
        ("levels".to_owned(), self::levels(&levels)),
        (figure.spec().key.to_owned(), json!(cell.estimate.as_ref().map(estimate))),
        (format!("median_{unit}"), json!(cell.median.as_ref().map(estimate))),
        ("provenance".to_owned(), json!(cell.provenance)),
        ("missing".to_owned(), json!(cell.missing)),
        ("invalid_runs".to_owned(), json!((cell.invalid > 0).then_some(cell.invalid))),
        (format!("limit_{unit}"), json!(cell.limit.as_ref().map(limit))),
        (format!("message_limit_{unit}"), json!(cell.message_limit.as_ref().map(limit))),
        ("merged".to_owned(), json!(cell.is_merged.then_some(true))),
        ("writes_per_segment".to_owned(), json!(cell.writes_per_segment)),
        ("retransmitted".to_owned(), json!(cell.retransmitted)),
        ("lost_packets".to_owned(), json!(cell.lost_packets)),
        ("loss".to_owned(), json!(cell.loss.map(loss))),
        ("limited_by".to_owned(), json!(cell.bottleneck)),
        (format!("published_{unit}"), json!(published)),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

pub(crate) fn levels(levels: &[(Factor, Level)]) -> Value {
    let present = levels.iter().filter(|(_, level)| !level.is_empty());
    let entry = |(factor, level): &(Factor, Level)| match (factor.spec().kind, level.parse()) {
        (Kind::Size(..), Ok(Bytes(bytes))) => (format!("{factor}_bytes"), json!(bytes)),
        _ => (factor.to_string(), json!(level)),
    };
    present.map(entry).collect::<Map<_, _>>().into()
}

pub(crate) fn estimate(estimate: &Estimate) -> Value {
    json!({
        "value": estimate.value,
        "low": estimate.interval.map(|interval| interval.low),
        "high": estimate.interval.map(|interval| interval.high),
        "n": estimate.n,
        "n_needed": estimate.n_needed,
        "confidence": estimate.confidence,
    })
}

fn limit(limit: &Limit) -> Value {
    json!({
        "value": limit.value,
        "kind": limit.kind,
        "formula": limit.formula,
        "measured_over_limit": limit.share,
    })
}

/// A comparison with all p-values; changes are fractions.
pub(crate) fn comparison(comparison: &Comparison) -> Value {
    json!({
        "change": estimate(&comparison.change),
        "verdict": comparison.verdict,
        "p_t": comparison.p_t,
        "p_rank": comparison.p_rank,
        "p_holm": comparison.p_adjusted,
        "smallest_visible_change": comparison.smallest_visible,
        "tie_band": comparison.tie_band,
    })
}
