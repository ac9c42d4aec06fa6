//! Comparisons of two sets of records.

use crate::fabricated::{Fabricated, assert_snapshot};
use fabricmark_plan::{Figure, Size};
use fabricmark_record::Record;
use fabricmark_report::{ComparisonReport, GateResult, compare};
use fabricmark_units::Percent;

fn records() -> Vec<Record> {
    let mut records = Fabricated::quick().records;
    records.retain(|record| record.point.payload.0 == 1024);
    records
}

/// The records with every goodput multiplied by `factor`.
fn scaled(factor: f64) -> Vec<Record> {
    let mut records = records();
    for record in &mut records {
        if let Some(goodput) = record.figures.get_mut(Figure::Goodput) {
            goodput.value *= factor;
        }
    }
    records
}

fn against(candidate: &[Record], gate: Option<f64>) -> ComparisonReport {
    let gate = gate.map(Percent);
    compare(("yesterday", &records()), ("today", candidate), 0.95, gate)
}

#[test]
fn a_slower_point_fails_the_gate_when_it_is_slower_by_more_than_the_gate() {
    let slower = scaled(0.9);
    assert_eq!(against(&slower, None).gate, GateResult::Worse);
    assert_eq!(against(&slower, Some(0.05)).gate, GateResult::Worse);
    assert_eq!(against(&slower, Some(0.15)).gate, GateResult::Pass);
}

#[test]
fn a_loss_within_the_tie_band_fails_a_narrower_gate_and_one_that_the_gate_is_inside_of_cannot_tell()
{
    let slightly = against(&scaled(0.985), Some(0.0001));
    assert_eq!(slightly.gate, GateResult::Worse);
    let is_tie = |verdict| {
        slightly
            .rows
            .iter()
            .any(|row| row.change.comparison.as_ref().is_some_and(|found| found.verdict == verdict))
    };
    assert!(is_tie(fabricmark_stats::Verdict::Same));
    // Any loss at all.
    assert_eq!(against(&scaled(0.985), Some(0.0)).gate, GateResult::Worse);
    assert_eq!(against(&scaled(0.9), Some(0.1)).gate, GateResult::Inconclusive);
}

#[test]
fn records_against_themselves_pass_a_gate_wider_than_their_noise() {
    assert_eq!(against(&records(), Some(0.1)).gate, GateResult::Pass);
}

#[test]
fn noise_that_reaches_beyond_the_gate_cannot_tell() {
    assert_eq!(against(&records(), Some(0.001)).gate, GateResult::Inconclusive);
    assert_eq!(against(&[], None).gate, GateResult::Inconclusive);
}

#[test]
fn a_faster_set_passes() {
    let faster = scaled(1.2);
    assert!(against(&faster, Some(0.1)).rows.iter().all(|row| row.change.comparison.is_some()));
    assert_eq!(against(&faster, Some(0.1)).gate, GateResult::Pass);
}

#[test]
fn points_of_one_set_only_are_named() {
    let all = Fabricated::of(Size::Quick, 7).records;
    let report = against(&all, None);
    assert_eq!((report.rows.len(), report.unmatched.len()), (16, 32));
}

#[test]
fn the_table_of_a_comparison_is_the_stored_one() {
    let report = against(&scaled(0.97), Some(0.02));
    assert_snapshot("compare.txt", include_str!("../snapshots/compare.txt"), &report.text());
    assert_eq!(report.json()["rows"].as_array().map(Vec::len), Some(16));
}
