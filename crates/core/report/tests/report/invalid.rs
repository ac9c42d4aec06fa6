//! Invalid runs are shown and counted, but are in no figure.

use fabricmark_papers::claims::Figures;
use fabricmark_plan::{Figure, Pattern, Point, Size, Transport};
use fabricmark_record::{Outcome, Record};
use fabricmark_report::{
    Experiment, GateResult, Kept, Measured, RateUnit, charts, compare, csv, html, json_lines,
    measured_text, summary_json, text,
};
use fabricmark_wire::Family;
use serde_json::Value;

use crate::fabricated::Fabricated;

const REASON: &str = "goodput is above the bound";

/// One point: a TCP stream of 1,024 bytes over IPv6 and gigabit Ethernet.
fn is_meant(record: &Record) -> bool {
    is_point_meant(&record.point)
}

fn is_point_meant(point: &Point) -> bool {
    point.pattern == Pattern::Stream
        && point.transport == Transport::Tcp
        && point.family == Family::V6
        && point.payload.0 == 1024
        && point.link.has_wire()
}

/// Ten runs of each point, all valid except the first `invalid` of one point, whose goodput is ten times what the
/// wire allows.
fn with_invalid(invalid: u32) -> Fabricated {
    let mut experiment = Fabricated::of(Size::Full, 7);
    for record in &mut experiment.records {
        if record.place.warm_up || record.outcome != Outcome::Completed {
            record.outcome = Outcome::Completed;
        }
        if is_meant(record) && !record.place.warm_up && record.place.block < invalid {
            if let Some(goodput) = record.figures.get_mut(Figure::Goodput) {
                goodput.value *= 10.0;
            }
            let bound = 10 + record.place.block;
            record.outcome = Outcome::Invalid(format!("{REASON}, {bound} Mbit/s"));
        }
    }
    experiment
}

/// Ten valid runs of each point, of which the first `zeros` of one point have a goodput of 0.
fn with_zeros(zeros: u32) -> Fabricated {
    let mut experiment = with_invalid(0);
    for record in experiment.records.iter_mut().filter(|record| is_meant(record)) {
        if let Some(goodput) = record.figures.get_mut(Figure::Goodput)
            && record.place.block < zeros
        {
            goodput.value = 0.0;
        }
    }
    experiment
}

/// [`with_invalid`] without the invalid runs.
fn without(invalid: u32) -> Fabricated {
    let mut experiment = with_invalid(invalid);
    experiment.records.retain(|record| record.outcome == Outcome::Completed);
    experiment
}

/// The row of that point in the JSON table of TCP goodput.
fn row(experiment: &Fabricated) -> Value {
    let summary = summary_json(&experiment.experiment());
    let tables = summary["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["title"] == "TCP goodput").unwrap();
    let groups = table["groups"].as_array().unwrap().iter();
    let mut wired = groups.filter(|group| group["title"].as_str().unwrap().starts_with("ethernet"));
    let rows = wired.next().unwrap()["rows"].as_array().unwrap();
    rows.iter().find(|row| row["levels"]["payload_bytes"] == 1024).unwrap().clone()
}

/// The line of that point in the terminal's table of TCP goodput.
fn line(experiment: &Fabricated) -> String {
    let found = text(&experiment.experiment(), 150);
    let (_, table) = found.split_once("\nTCP goodput (").unwrap();
    let (_, wired) = table.split_once("ethernet:1G (emulated)").unwrap();
    wired.lines().find(|line| line.trim_start().starts_with("1,024 ")).unwrap().to_owned()
}

#[test]
fn an_invalid_run_enters_no_mean_verdict_chart_or_claim() {
    let (with, without) = (with_invalid(1), without(1));
    let cell = |experiment: &Fabricated| {
        let mut row = row(experiment);
        row["cells"][1].as_object_mut().unwrap().remove("invalid_runs");
        row
    };
    assert_eq!(cell(&with), cell(&without));
    let curves = |experiment: &Fabricated| -> Vec<String> {
        let charts = charts(&experiment.experiment());
        charts.into_iter().map(|chart| chart.svg.replace(", 1 more invalid", "")).collect()
    };
    assert!(curves(&with) == curves(&without));
    let claims =
        |experiment: &Fabricated| Figures::measured(&experiment.records, &experiment.plan.stop);
    assert_eq!(claims(&with), claims(&without));
    let deciding = |experiment: &Fabricated| -> Vec<f64> {
        let own = experiment.records.iter().filter(|record| is_meant(record));
        own.filter_map(Record::deciding_value).collect()
    };
    assert_eq!(deciding(&with), deciding(&without));
}

#[test]
fn a_cell_with_invalid_runs_is_marked_and_a_note_counts_them_by_reason() {
    let with = with_invalid(3);
    assert!(line(&with).contains('‡'), "{}", line(&with));
    assert_eq!(row(&with)["cells"][1]["invalid_runs"], 3);
    let found = text(&with.experiment(), 150);
    let notes =
        ["‡ some runs of the point are invalid", "3 runs, for example: invalid: goodput is above"];
    let page = html(&with.experiment());
    for note in notes {
        assert!(found.contains(note) && page.contains(note), "{note}: {found}");
    }
    assert!(!text(&without(3).experiment(), 150).contains('‡'));
}

#[test]
fn an_export_has_invalid_runs_with_their_reasons() {
    let records = with_invalid(2).records;
    assert_eq!(csv(&records).matches(REASON).count(), 2);
    assert_eq!(json_lines(&records).matches(REASON).count(), 2);
}

#[test]
fn a_comparison_of_which_more_than_a_tenth_of_the_runs_is_invalid_says_so_instead_of_a_verdict() {
    for (invalid, is_judged) in [(0, true), (1, true), (2, false), (10, false)] {
        let experiment = with_invalid(invalid);
        let row = row(&experiment);
        let comparison = &row["comparisons"][0];
        assert_eq!(comparison["result"].is_object(), is_judged, "{invalid}: {comparison}");
        let said = format!("{invalid} of 10 runs invalid");
        assert_eq!(line(&experiment).contains(&said), !is_judged, "{}", line(&experiment));
        let page = html(&experiment.experiment());
        assert_eq!(page.contains(&format!("{said}: {REASON}, 10 Mbit/s")), !is_judged);
        let withheld = comparison["withheld"].as_str().unwrap_or_default();
        assert_eq!(withheld.starts_with(&format!("{said}: {REASON}")), !is_judged, "{withheld}");
    }
}

#[test]
fn the_answer_counts_rows_that_are_not_judged_for_their_invalid_runs() {
    let answer = |invalid| {
        let found = text(&with_invalid(invalid).experiment(), 500);
        let line = found.lines().find(|line| line.starts_with("TCP goodput, ethernet")).unwrap();
        line.to_owned()
    };
    assert!(answer(2).contains("too many invalid runs in 1 of 14 rows"), "{}", answer(2));
    assert!(!answer(1).contains("invalid"), "{}", answer(1));
}

/// With an invalid run, a comparison lacks a run; with a run of 0, no further run can decide it.
#[test]
fn a_comparison_that_no_run_can_decide_does_not_count_as_undecided() {
    let incomplete = |mut fabricated: Fabricated| -> String {
        let is_of_one_row =
            |point: &Point| is_point_meant(&Point { family: Family::V6, ..point.clone() });
        fabricated.plan.points.retain(is_of_one_row);
        fabricated.records.retain(|record| is_of_one_row(&record.point));
        fabricated.plan.stop.decides = true;
        let experiment = Experiment { planned_complete: false, ..fabricated.experiment() };
        text(&experiment, 500)
    };
    let (lacks_one, has_zero) = (incomplete(with_invalid(1)), incomplete(with_zeros(1)));
    assert!(lacks_one.contains("1 comparison is undecided"), "{lacks_one}");
    assert!(has_zero.contains("Planned runs are missing"), "{has_zero}");
}

#[test]
fn the_mark_of_a_setting_with_invalid_runs_is_explained() {
    let shown = |invalid| {
        let mut fabricated = with_invalid(invalid);
        let either = |point: &Point| is_point_meant(&Point { family: Family::V6, ..point.clone() });
        fabricated.plan.points.retain(either);
        fabricated.records.retain(|record| either(&record.point));
        let names: Vec<String> =
            fabricated.plan.points.iter().map(|point| format!("{:?}", point.family)).collect();
        assert_eq!(names.len(), 2);
        let experiment = fabricated.experiment();
        let measured = Measured { experiment, names: &names, requirements: &[] };
        measured_text(&measured, RateUnit::MBIT, 200)
    };
    let text = shown(1);
    assert_eq!(text.matches('‡').count(), 2, "{text}");
    assert!(text.contains("‡ some runs of the point are invalid and do not count"), "{text}");
    assert!(!shown(0).contains('‡'));
}

#[test]
fn a_threshold_that_the_few_valid_runs_of_many_meet_is_not_kept() {
    let kept = |invalid| {
        let mut fabricated = with_invalid(invalid);
        fabricated.records.retain(is_meant);
        fabricated.plan.points = vec![fabricated.records[0].point.clone()];
        let (names, requirements) = (["one".to_owned()], ["goodput>=1M".parse().unwrap()]);
        let experiment = fabricated.experiment();
        let measured = Measured { experiment, names: &names, requirements: &requirements };
        (
            measured.kept(),
            measured_text(&measured, RateUnit::MBIT, 200).contains("6 of 10 runs are invalid"),
        )
    };
    assert_eq!([0, 5].map(kept), [(Kept::Yes, false); 2]);
    assert_eq!(kept(6), (Kept::Inconclusive, true));
    assert_eq!(kept(10), (Kept::No, false));
}

#[test]
fn two_experiments_are_not_judged_where_more_than_a_tenth_of_the_runs_of_either_is_invalid() {
    let good = with_invalid(0).records;
    for (invalid, is_judged) in [(1, true), (2, false)] {
        let poor = with_invalid(invalid).records;
        for (baseline, candidate) in [(&good, &poor), (&poor, &good)] {
            let report = compare(("a", baseline), ("b", candidate), 0.95, None);
            let row = report.rows.iter().find(|row| row.change.withheld.is_some());
            assert_eq!(row.is_none(), is_judged);
            let Some(row) = row else { continue };
            assert!(row.change.comparison.is_none());
            assert_eq!(report.gate, GateResult::Inconclusive);
            let why = format!("{invalid} of 10 runs invalid: {REASON}, 10 Mbit/s");
            let rows = &report.json()["rows"];
            assert!(rows.as_array().unwrap().iter().any(|row| row["withheld"] == why.as_str()));
            assert!(report.text().contains("1 with too many invalid runs"));
        }
    }
}

#[test]
fn no_claim_is_judged_on_a_point_of_which_more_than_a_tenth_of_the_runs_is_invalid() {
    let cells = |invalid: u32| -> usize {
        let experiment = with_invalid(invalid);
        let figures = Figures::measured(&experiment.records, &experiment.plan.stop);
        figures.columns.iter().map(|column| column.cells.len()).sum()
    };
    assert_eq!(cells(1), cells(0));
    assert_eq!(cells(2), cells(0) - 1);
}

/// As for figures that are often 0, such as retransmits and losses.
#[test]
fn values_of_0_have_no_verdict_by_the_runs_without_them() {
    let experiment = with_zeros(2);
    let comparison = row(&experiment)["comparisons"][0].clone();
    assert!(comparison["result"].is_null(), "{comparison}");
    let withheld = comparison["withheld"].as_str().unwrap();
    assert!(withheld.starts_with("0 in 2 of 10 runs"), "{withheld}");
    let found = text(&experiment.experiment(), 500);
    let line = found.lines().find(|line| line.starts_with("TCP goodput, ethernet")).unwrap();
    assert!(line.contains("no ratio in 1 of 14 rows, because a run has 0"), "{line}");
}
