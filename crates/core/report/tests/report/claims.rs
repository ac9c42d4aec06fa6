//! The papers' claims, on published figures and on fabricated records.

use fabricmark_plan::Figure;
use fabricmark_plan::{Pattern, Size, Transport};
use fabricmark_record::{Record, Sourced};
use fabricmark_report::ClaimsView;
use fabricmark_wire::Family;
use serde_json::Value;

use crate::fabricated::{Fabricated, assert_snapshot};

fn p1() -> Vec<String> {
    vec!["P1".to_owned()]
}

fn of(experiment: &Fabricated, id: &str) -> Value {
    let json = ClaimsView::of(&[experiment.experiment()], &p1()).unwrap().json();
    let claims = json["claims"].as_array().unwrap();
    claims.iter().find(|claim| claim["id"] == id).unwrap().clone()
}

/// Records of the full plan, in which the goodput of IPv6 over TCP is `ratio` times that of IPv4, equal in all runs
/// of a payload.
fn with_ratio(ratio: f64) -> Fabricated {
    let mut experiment = Fabricated::of(Size::Full, 7);
    for Record { point, figures, .. } in &mut experiment.records {
        let is_meant = point.pattern == Pattern::Stream && point.transport == Transport::Tcp;
        if let (true, Some(Sourced { value, .. })) = (is_meant, figures.get_mut(Figure::Goodput)) {
            let family = if point.family == Family::V6 { ratio } else { 1.0 };
            *value = 1e6 * point.payload.0 as f64 * family;
        }
    }
    experiment
}

#[test]
fn the_published_list_is_the_stored_one() {
    let found = ClaimsView::published(&[]).unwrap().text(120);
    assert_snapshot("claims-120.txt", include_str!("../snapshots/claims-120.txt"), &found);
}

#[test]
fn the_list_of_an_experiment_is_the_stored_one() {
    let full = Fabricated::full();
    let found = ClaimsView::of(&[full.experiment()], &p1()).unwrap().text(120);
    let stored = include_str!("../snapshots/claims-of-run-120.txt");
    assert_snapshot("claims-of-run-120.txt", stored, &found);
}

#[test]
fn a_difference_beyond_the_tie_band_holds_or_fails() {
    for (ratio, verdict, holds) in [(0.95, "HOLDS", 28), (1.05, "FAILS", 0)] {
        let claim = of(&with_ratio(ratio), "P1-02");
        assert_eq!(
            (claim["verdict"].as_str(), claim["holds"].as_u64()),
            (Some(verdict), Some(holds))
        );
    }
}

#[test]
fn a_difference_within_the_tie_band_is_a_tie() {
    for ratio in [0.985, 1.0, 1.015] {
        let claim = of(&with_ratio(ratio), "P1-02");
        assert_eq!(claim["verdict"], "TIE", "{ratio}");
        assert_eq!(claim["parts"][0]["ties"], 14, "{ratio}");
    }
}

#[test]
fn a_difference_within_the_intervals_is_a_tie() {
    let mut experiment = with_ratio(0.95);
    // Runs that vary by 30 %: the mean of ten is known to about 20 %.
    for record in &mut experiment.records {
        let swing = if record.place.block.is_multiple_of(2) { 1.3 } else { 0.7 };
        if let Some(Sourced { value, .. }) = record.figures.get_mut(Figure::Goodput) {
            *value *= swing;
        }
    }
    assert_eq!(of(&experiment, "P1-02")["verdict"], "TIE");
}

#[test]
fn a_single_run_has_no_interval_and_decides_nothing() {
    let mut experiment = with_ratio(0.5);
    experiment.records.retain(|record| record.place.block == 0);
    assert_eq!(of(&experiment, "P1-02")["verdict"], "TIE");
}

#[test]
fn what_was_not_measured_is_unsupported() {
    let full = Fabricated::full();
    for (id, reason) in [
        ("P1-05", "no link over IPoIB in both datagram and connected mode"),
        ("P1-10", "no links of both Ethernet and a faster IPoIB in datagram mode"),
        ("P1-14", "a claim about printed numbers, which measurements cannot test"),
    ] {
        let claim = of(&full, id);
        assert_eq!(claim["verdict"], "UNSUPPORTED", "{id}");
        assert_eq!(claim["parts"][0]["missing"]["reason"], reason, "{id}");
    }
}

#[test]
fn a_link_without_a_wire_is_not_judged_by_limits() {
    let claim = of(&Fabricated::full(), "P1-16");
    let parts = claim["parts"].as_array().unwrap();
    assert!(
        parts.iter().all(|part| part["name"].as_str().unwrap().contains("ethernet:1G (emulated)"))
    );
    assert_eq!(claim["verdict"], "HOLDS");
}

#[test]
fn experiments_side_by_side_keep_their_links_apart() {
    let mut emulated = Fabricated::full();
    emulated.records.retain(|record| record.point.link.has_wire());
    let both = [emulated.experiment(), emulated.experiment()];
    let json = ClaimsView::of(&both, &p1()).unwrap().json();
    let parts = json["claims"][0]["parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["UDP ethernet:1G (emulated)", "UDP ethernet:1G (emulated), 2: p1"]);
}
