//! The page and the charts as files.

use crate::fabricated::{Fabricated, write};
use fabricmark_plan::Drawing;
use fabricmark_record::{Calibrated, EmulatedWay, Emulation};
use fabricmark_report::{charts, html, summary_json, text};
use fabricmark_units::Nanos;

/// The text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let from = text.find(start).unwrap() + start.len();
    &text[from..from + text[from..].find(end).unwrap()]
}

fn script(page: &str) -> &str {
    between(page, "</script>\n<script>", "</script>")
}

/// Fails unless all elements are closed in order; `void` elements need no end tag.
fn assert_balanced(text: &str, void: &[&str]) {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let inside = &tag[..tag.find('>').unwrap()];
        let name = inside.split([' ', '/', '\n']).find(|word| !word.is_empty()).unwrap();
        if inside.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{inside}");
        } else if !inside.ends_with('/') && !inside.starts_with('!') && !void.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_loads_nothing() {
    let full = Fabricated::full();
    let page = html(&full.experiment()).replace("http://www.w3.org/2000/svg", "");
    for reference in ["http:", "https:", "src=", "@import", "<link", "url(http"] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn the_page_is_well_formed_and_its_script_is_small() {
    let full = Fabricated::full();
    let page = html(&full.experiment());
    if let Some(path) = std::env::var_os("PAGE") {
        write(std::path::Path::new(&path), &page);
    }
    assert!(script(&page).len() < 30_000);
    assert_balanced(&page.replace(script(&page), ""), &["meta"]);
}

#[test]
fn the_page_carries_the_summary() {
    let full = Fabricated::full();
    let page = html(&full.experiment());
    let json = between(&page, r#"<script type="application/json" id="results">"#, "</script>");
    assert!(serde_json::from_str::<serde_json::Value>(json).is_ok());
    let summary = summary_json(&full.experiment()).to_string();
    assert!(json.replace("\\u003c", "<") == summary);
}

#[test]
fn the_page_says_what_part_of_the_runs_does_not_count() {
    let mut full = Fabricated::full();
    assert!(html(&full.experiment()).contains("after the first 5 % of a run, or after"));
    full.records.iter_mut().for_each(|record| record.omit_ns = Nanos::from_millis(1200));
    let said = "after the first 5 % of a run (here the first 1.2 s, if that is longer), or after";
    assert!(html(&full.experiment()).contains(said));
    full.records.last_mut().unwrap().omit_ns = Nanos::from_secs(9);
    let said = "(here up to the first 9.0 s, if that is longer)";
    assert!(html(&full.experiment()).contains(said));
}

#[test]
fn no_text_of_a_plan_becomes_markup() {
    let mut full = Fabricated::full();
    let bad = "</script><script>alert(1)</script>".to_owned();
    full.plan.presentation.title.clone_from(&bad);
    full.plan.presentation.tables[0].title.clone_from(&bad);
    match &mut full.plan.presentation.charts[0] {
        Drawing::Levels(chart) => chart.title.clone_from(&bad),
        Drawing::Course(chart) => chart.title.clone_from(&bad),
    }
    let page = html(&full.experiment());
    assert!(!page.contains("<script>alert"));
    assert!(charts(&full.experiment()).iter().all(|chart| !chart.svg.contains("<script>alert")));
}

#[test]
fn every_chart_of_the_plan_is_a_file_of_its_own() {
    let full = Fabricated::full();
    let charts = charts(&full.experiment());
    let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "00-ipv6-against-ipv4.svg",
            "01-udp-goodput.svg",
            "02-tcp-goodput.svg",
            "03-udp-latency.svg",
            "04-tcp-latency.svg",
            "05-udp-over-ipv4-by-link.svg",
            "06-udp-latency-by-link-and-ip-version.svg",
        ]
    );
    for chart in &charts {
        assert_balanced(&chart.svg, &[]);
        assert!(chart.svg.contains("prefers-color-scheme:dark"));
        assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"), "{}", chart.name);
    }
}

#[test]
fn a_chart_without_a_figure_is_drawn_empty() {
    let mut quick = Fabricated::quick();
    quick.records.clear();
    for chart in charts(&quick.experiment()) {
        assert_balanced(&chart.svg, &[]);
        assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"), "{}", chart.name);
    }
    let page = html(&quick.experiment());
    assert_balanced(&page.replace(script(&page), ""), &["meta"]);
}

/// The emulator of a run on this machine, calibrated or not.
fn emulated(is_calibrated: bool) -> Emulation {
    let calibration = Calibrated {
        at: "2026-01-04T08:00:00Z".to_owned(),
        true_rate_bps: Some(1e10),
        true_rate_single_bps: Some(2.5e9),
        delay_error_p99_ns: Some(20_600.0),
        loaded_delay_error_p99_ns: None,
        busy_share: Some(0.1),
    };
    let way = EmulatedWay { late_p99_ns: Some(11_900), ..EmulatedWay::default() };
    Emulation {
        options: "rtt=10ms".to_owned(),
        offloaded: true,
        calibration: is_calibrated.then_some(calibration),
        forward: way,
        reverse: EmulatedWay { late_p99_ns: None, ..way },
        ..Emulation::default()
    }
}

#[test]
fn reports_over_emulated_links_say_how_true_they_are() {
    let mut full = Fabricated::full();
    assert!(!text(&full.experiment(), 160).contains("emulated by fabricmark"));
    let mut said = |is_calibrated: bool, is_offloaded: bool| {
        let emulation = Emulation { offloaded: is_offloaded, ..emulated(is_calibrated) };
        full.records.iter_mut().for_each(|record| record.emulation = Some(emulation.clone()));
        (text(&full.experiment(), 400), html(&full.experiment()))
    };
    for (is_calibrated, is_offloaded, line) in [
        (
            true,
            true,
            "emulated by fabricmark: accurate up to 10 Gbit/s (2026-01-04), delay within 21 µs (p99), \
             lateness p99 12 µs in these runs",
        ),
        (
            true,
            false,
            "emulated by fabricmark: accurate up to 2.5 Gbit/s in single packets (2026-01-04), delay \
             within 21 µs (p99), lateness p99 12 µs in these runs",
        ),
        (
            false,
            true,
            "emulated by fabricmark: not calibrated on this machine: run fabricmark lab calibrate, \
             lateness p99 12 µs in these runs",
        ),
    ] {
        let (text, page) = said(is_calibrated, is_offloaded);
        assert!(text.contains(&format!("emulator    {line}")), "{text}");
        assert!(page.contains(line), "{line}");
    }
}

#[test]
fn reports_say_that_a_calibration_was_made_while_the_machine_was_busy() {
    let mut full = Fabricated::full();
    for (busy_share, is_said) in [(None, false), (Some(0.1), false), (Some(0.474), true)] {
        let mut emulation = emulated(true);
        emulation.calibration.as_mut().unwrap().busy_share = busy_share;
        full.records.iter_mut().for_each(|record| record.emulation = Some(emulation.clone()));
        let line = "calibrated on a busy machine: others used 47.4 % of the CPU time";
        assert_eq!(text(&full.experiment(), 400).contains(line), is_said, "{busy_share:?}");
        assert_eq!(html(&full.experiment()).contains(line), is_said, "{busy_share:?}");
    }
}
