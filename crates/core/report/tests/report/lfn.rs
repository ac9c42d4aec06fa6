//! The page of a long fat network: P3's plan with fabricated records.

use crate::fabricated::{Fabricated, write};
use fabricmark_plan::{Figure, Offload, Point, Size, Window};
use fabricmark_record::{Emulation, Provenance, Record, Sourced};
use fabricmark_report::{ChartFile, ClaimsView, charts, html, published_names, text};
use fabricmark_units::Nanos;
use fabricmark_wire::lfn::{self, WINDOW_MAX};
use fabricmark_wire::{Ceiling, Family, Kind};

const PLAN: &str = include_str!("../../../../../plans/lfn.toml");

/// P3's plan with records whose ceilings are windows, as the coordinator computes them.
fn fabricated(size: Size) -> Fabricated {
    let names = published_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut lfn = Fabricated::of_plan(PLAN, size, &names, 7);
    for record in &mut lfn.records {
        let point = record.point.clone();
        let rtt = point.rtt.unwrap_or_default();
        let limit = |kind, bytes| {
            let figure = lfn::window_limit(bytes, rtt)?;
            let lfn::Value::Exact(goodput_bps) = figure.value else { return None };
            let formula = figure.formula.to_owned();
            Some(Ceiling { kind, goodput_bps, formula, inputs: figure.inputs })
        };
        let asked = point.window_bytes().and_then(|bytes| limit(Kind::Conditional, bytes.0));
        record.limits.ceilings.extend(limit(Kind::Bound, WINDOW_MAX));
        record.limits.ceilings.extend(asked);
        record.emulation = point.link_options().map(|options| Emulation {
            options: options.to_string(),
            offloaded: point.offload == Some(Offload::On),
            cpu: Some(1),
            ..Emulation::default()
        });
        if rtt > Nanos(0) {
            let bps = record.figures.get(Figure::Goodput).map_or(0.0, |figure| figure.value);
            let metres = lfn::fibre_distance(rtt).min(30_000_000) as f64;
            let land_speed = Sourced { value: bps * metres, provenance: Provenance::Emulated };
            record.figures.set(Figure::LandSpeed, Some(land_speed));
        }
    }
    lfn
}

fn chart<'a>(charts: &'a [ChartFile], title: &str) -> &'a str {
    &charts.iter().find(|chart| chart.title == title).unwrap().svg
}

#[test]
fn the_headline_has_round_trips_in_their_places_and_what_windows_allow() {
    let lfn = fabricated(Size::Full);
    if let Some(file) = std::env::var_os("LFN_PAGE") {
        write(std::path::Path::new(&file), &html(&lfn.experiment()));
    }
    let charts = charts(&lfn.experiment());
    let headline = chart(&charts, "Goodput by RTT, single packets");
    for text in [
        ">RTT (ms)<",
        ">0<",
        ">1<",
        ">100<",
        ">IPv6, ethernet:10G,mtu=9198 (emulated)<",
        "TCP&#39;s largest window / RTT",
        "configured window / RTT",
        "IPv6, ethernet:10G, RTT 400\u{a0}ms (emulated)",
    ] {
        assert!(headline.contains(text), "no {text} in {headline}");
    }
    assert_eq!(headline.matches("<path class=\"fm-reference fm-window\" d=\"M").count(), 2);
    let record = chart(&charts, "Land speed by RTT");
    assert_eq!(record.matches("<path class=\"fm-reference fm-published\" d=\"M").count(), 2);
    assert!(record.contains("P3, 5.6 Gb/s × 30,000 km: 168,000 Tbit·m/s (published)"), "{record}");
}

#[test]
fn the_claims_of_p3_are_judged_by_round_trip_family_and_window() {
    let judged = |of: fn(&Point) -> f64| {
        let mut lfn = fabricated(Size::Full);
        for Record { point, figures, .. } in &mut lfn.records {
            let figure = figures.get_mut(Figure::Goodput).unwrap();
            figure.value = 1e9 * of(point);
        }
        let papers = ["P3".to_owned()];
        let json = ClaimsView::of(&[lfn.experiment()], &papers).unwrap().json();
        ["P3-01", "P3-02", "P3-06", "P3-05"].map(|id| {
            let claims = json["claims"].as_array().unwrap();
            let claim = claims.iter().find(|claim| claim["id"] == id).unwrap();
            let count = |key: &str| claim[key].as_u64().unwrap();
            (claim["verdict"].as_str().unwrap().to_owned(), count("holds"), count("of"))
        })
    };
    let words = |verdict: &str, holds, of| (verdict.to_owned(), holds, of);
    let printed = || words("UNSUPPORTED", 0, 0);
    // Five kinds of jumbo frames and two others, each over both families: 8 RTTs up to 400 ms with all of them, else
    // one. Windows: 3 against 1 and 2 at 7 Gbit/s and, as fabricated, at 10.
    let (rtts, families) = (2 * (4 * 8 + 3), 4 * 10 + 6 + 3);
    let even = judged(|_| 5.0);
    assert_eq!(
        even,
        [
            words("HOLDS", rtts, rtts),
            words("TIE", 0, 4),
            words("HOLDS", families, families),
            printed()
        ]
    );
    let window = judged(|point| match point.window {
        Some(Window::Bdp(3)) => 6.0,
        _ => 5.0,
    });
    assert_eq!(window[1], words("HOLDS", 4, 4));
    let slower = judged(|point| if point.rtt == Some(Nanos::from_millis(400)) { 4.7 } else { 5.0 });
    assert_eq!(slower[0], words("FAILS", rtts - 14, rtts));
    let older = judged(|point| if point.family == Family::V4 { 5.3 } else { 5.0 });
    assert_eq!(older[2], words("FAILS", 0, families));
}

#[test]
fn every_table_with_super_packets_says_that_no_frame_was_seen() {
    let report = text(&fabricated(Size::Full).experiment(), 150);
    let tables: Vec<&str> = report.split("\n\n").collect();
    assert!(
        report.contains("offload on: the link carried super-packets, not single frames"),
        "{report}"
    );
    let seen = tables.iter().find(|table| table.contains("mtu=9198"));
    assert!(seen.is_some_and(|table| !table.contains("not single frames")), "{report}");
    for text in ["400\u{a0}ms", "3\u{a0}×\u{a0}BDP", "none", "RTT"] {
        assert!(report.contains(text), "no {text}");
    }
}
