//! Complete outputs for the terminal and exports.

use crate::fabricated::{Fabricated, assert_snapshot};
use fabricmark_plan::{Figure, Size};
use fabricmark_record::{Alignment, Outcome, Provenance, Sourced};
use fabricmark_report::{csv, json_lines, summary_json, text};

#[test]
fn the_report_of_a_full_plan_is_the_stored_one() {
    let full = Fabricated::full();
    let found = text(&full.experiment(), 150);
    assert_snapshot("full-150.txt", include_str!("../snapshots/full-150.txt"), &found);
}

#[test]
fn the_report_of_a_quick_plan_is_the_stored_one() {
    let quick = Fabricated::quick();
    let found = text(&quick.experiment(), 100);
    assert_snapshot("quick-100.txt", include_str!("../snapshots/quick-100.txt"), &found);
}

#[test]
fn groups_that_fit_stand_beside_each_other() {
    let quick = Fabricated::quick();
    let found = text(&quick.experiment(), 250);
    assert_snapshot("quick-250.txt", include_str!("../snapshots/quick-250.txt"), &found);
}

#[test]
fn the_summary_is_the_stored_one() {
    let quick = Fabricated::quick();
    let found = serde_json::to_string_pretty(&summary_json(&quick.experiment())).unwrap() + "\n";
    assert_snapshot("quick.json", include_str!("../snapshots/quick.json"), &found);
}

/// Full segments of 1,448 bytes hold 1.02 payloads of 1,400: fewer than the counters tell apart from noise.
#[test]
fn a_goodput_above_the_ceiling_of_separate_writes_shows_that_writes_were_merged() {
    let plan = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\npayload = 1400\nfamily = 4\n\
                [settings]\nlink = 'ethernet:1G'\ncongestion = 'cubic'\n[stop]\nruns = 4\n";
    let mut made = Fabricated::of_plan(plan, Size::Full, &[], 7);
    let mut merged = |share: f64| {
        for record in &mut made.records {
            let separate =
                |ceiling: &&fabricmark_wire::Ceiling| ceiling.inputs.contains_key("payload_bytes");
            let ceiling = record.limits.ceilings.iter().find(separate).unwrap();
            let value = share * ceiling.goodput_bps.as_f64();
            record
                .figures
                .set(Figure::Goodput, Some(Sourced { value, provenance: Provenance::Emulated }));
            for flow in &mut record.flows {
                flow.tcp.as_mut().unwrap().merging = 1.02;
            }
        }
        text(&made.experiment(), 100).contains("/ merged")
    };
    assert_eq!([merged(0.999), merged(1.0001), merged(1.001)], [false, false, true]);
}

#[test]
fn the_gain_of_more_flows_and_where_they_saturate_are_shown() {
    let plan = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\npayload = [64, 65536]\nfamily = 4\n\
                flows = [1, 2, 4, 8]\n[settings]\nlink = 'ethernet:10G'\ncongestion = 'cubic'\n[stop]\nruns = 4\n";
    let mut made = Fabricated::of_plan(plan, Size::Full, &[], 7);
    for record in &mut made.records {
        let small = record.point.payload.0 == 64;
        // Small payloads gain up to 8 flows; large ones are within 2 % of the best from 2 flows on.
        let gbps = match (small, record.point.flows) {
            (true, flows) => 0.5 * f64::from(flows),
            (false, 1) => 8.0,
            (false, 2) => 9.85,
            (false, 4) => 10.0,
            (false, _) => 9.9,
        };
        let value = 1e9 * gbps * (1.0 + 0.001 * f64::from(record.place.block));
        let provenance = Provenance::Emulated;
        record.figures.set(Figure::Goodput, Some(Sourced { value, provenance }));
        record.outcome = Outcome::Completed;
    }
    let summary = summary_json(&made.experiment());
    let rows = summary["scaling"].as_array().unwrap();
    let found: Vec<(u64, u64, u64)> = rows
        .iter()
        .map(|row| {
            let percent = 100.0 * row["gain"]["value"].as_f64().unwrap();
            let flows = |value: &serde_json::Value| value.as_u64().unwrap();
            (
                flows(&row["best"]["flows"]),
                flows(&row["saturates_at_flows"]),
                percent.round() as u64,
            )
        })
        .collect();
    assert_eq!(found, [(8, 8, 700), (4, 2, 25)]);
    assert_eq!(
        (&rows[0]["fewest"]["flows"], &rows[0]["fewest"]["goodput_bps"]["n"]),
        (&1.into(), &4.into())
    );
    let found = text(&made.experiment(), 150);
    assert!(found.contains("Gain by the number of flows"), "{found}");
}

#[test]
fn groups_that_run_at_once_are_shown_with_their_sum_and_what_each_has_alone() {
    let text_of = "title = 't'\n[[group]]\nname = 'ethernet'\n[[group]]\nname = 'ipoib'\n[interference]\n\
                   [factors]\npattern = 'stream'\ntransport = 'tcp'\npayload = 65536\nfamily = 4\n\
                   link = 'ethernet:10G'\n[settings]\ncongestion = 'cubic'\n[stop]\nruns = 4\n";
    let mut made = Fabricated::of_plan(text_of, Size::Full, &[], 7);
    // Gbit/s of each group alone, then together.
    let gbps = [9.0, 6.0, 6.0, 3.0];
    for record in &mut made.records {
        let spread = 1.0 + 0.01 * f64::from(record.place.block);
        let value = 1e9 * spread * gbps[record.place.point as usize];
        let provenance = Provenance::Emulated;
        record.figures.set(Figure::Goodput, Some(Sourced { value, provenance }));
        record.outcome = Outcome::Completed;
        let started = u64::from(record.place.block);
        record.alignment = (record.place.point > 1).then_some(Alignment {
            starts_apart_ns: 100_000 * started,
            ends_apart_ns: 50_000,
            overlap_ns: 990_000_000 + started,
            uncertainty_ns: 0,
        });
    }
    let found = text(&made.experiment(), 150);
    let (_, found) = found.split_once("Groups at once").unwrap();
    let (found, _) = found.split_once("CPUs of").unwrap();
    assert_snapshot("sharing.txt", include_str!("../snapshots/sharing.txt"), found);
    let summary = summary_json(&made.experiment());
    let group = &summary["sharing"][0]["groups"][0];
    for key in ["together_goodput_bps", "alone_goodput_bps"] {
        assert_eq!(group[key]["n"], 4, "{group}");
    }
    let sum = &summary["sharing"][0]["sum"];
    let value = |pointer: &str| sum.pointer(pointer).unwrap().as_f64().unwrap();
    // (6 + 3)^2 / (2 (36 + 9)).
    assert!((value("/jain/value") - 0.9).abs() < 1e-6);
    assert!((value("/ratio/value/value") - 2.0).abs() < 1e-9);
    assert!((value("/against_alone/0/change/value")).abs() < 1e-9, "9 against 9");
    assert!((value("/against_alone/1/change/value") - 0.5).abs() < 1e-9, "9 against 6");
}

#[test]
fn the_rows_of_a_spreadsheet_are_the_stored_ones() {
    let quick = Fabricated::quick();
    let found = csv(&quick.records[..60]);
    assert_snapshot("quick.csv", include_str!("../snapshots/quick.csv"), &found);
}

#[test]
fn every_record_is_a_line_that_names_its_place() {
    let quick = Fabricated::quick();
    let lines = json_lines(&quick.records);
    let back: Vec<fabricmark_record::Record> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(back.len(), quick.records.len());
    for (back, record) in back.iter().zip(&quick.records) {
        assert_eq!((&back.place, &back.point), (&record.place, &record.point));
    }
}

#[test]
fn the_order_of_records_changes_nothing() {
    let mut quick = Fabricated::quick();
    let before = text(&quick.experiment(), 120);
    quick.records.reverse();
    assert_eq!(text(&quick.experiment(), 120), before);
}

#[test]
fn no_record_at_all_still_gives_every_table() {
    let mut quick = Fabricated::quick();
    quick.records.clear();
    let found = text(&quick.experiment(), 120);
    assert_eq!(found.matches("not run yet").count(), 54, "{found}");
}

#[test]
fn a_point_whose_runs_all_failed_shows_why() {
    let mut quick = Fabricated::quick();
    for record in &mut quick.records {
        record.outcome = Outcome::Invalid("peer gone".to_owned());
    }
    let found = text(&quick.experiment(), 120);
    assert!(found.contains("invalid: peer gone") && found.contains("60 runs: invalid"), "{found}");
}

#[test]
fn a_plan_without_a_comparison_says_what_was_reached_and_what_limited_it() {
    let mut quick = Fabricated::quick();
    quick.plan.compare.clear();
    let found = text(&quick.experiment(), 120);
    let answers: Vec<&str> = found.lines().skip(2).take_while(|line| !line.is_empty()).collect();
    assert_eq!(
        answers,
        [
            "UDP goodput, veth: Limited by the CPU of a in 4 of 6 cells, unknown in 2.",
            "UDP goodput, ethernet:1G (emulated): 99.9\u{a0}% of the ceiling; limited by the wire.",
            "UDP latency, ethernet:1G (emulated): 1.1 to 14.0 times the floor.",
            "TCP goodput, veth: Limited by the CPU of a in 4 of 6 cells, unknown in 2.",
            "TCP goodput, ethernet:1G (emulated): 99.9\u{a0}% of the ceiling; limited by the wire.",
            "TCP latency, ethernet:1G (emulated): 1.1 to 10.5 times the floor.",
            "TCP tail: 1.7 to 17.2 times the floor.",
        ]
    );
    let headings = found.lines().filter(|line| line.contains("limited by  "));
    assert!(headings.count() >= 4, "{found}");
}
