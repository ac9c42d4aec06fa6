//! Lines over time on linear axes. The part that does not count is shaded, models are dashed.

use std::fmt::Write as _;

use super::Form;
use super::frame::{Frame, LEFT, RIGHT};
use super::plot::{Key, Plot, Series, XLevel};
use super::scale::Scale;
use super::svg::{COLOURS, line_swatch, marker, open_line, open_point};
use crate::course::{CoursePlot, Line, Span};

/// Maximum number of points per line with markers; more would hide the line.
const MARKERS_MAX: usize = 40;

/// Height up to which the model is drawn, as a multiple of the highest figure.
const MODEL_ROOM: f64 = 1.25;

pub(super) fn draw(course: &CoursePlot, form: Form) -> String {
    let highest = course.lines.iter().flat_map(|line| &line.spans).map(|span| span.value);
    let highest = highest.fold(0.0, f64::max);
    let modelled = course.lines.iter().flat_map(|line| &line.modelled).map(|span| span.value);
    let modelled = modelled.map(|value| value.min(highest * MODEL_ROOM)).fold(0.0, f64::max);
    let time = Scale::linear(std::iter::once(course.end_s()));
    let plot = plot(course, &time);
    let frame = Frame::new(&plot, Scale::linear([highest, modelled].into_iter()), form);
    let at = |seconds: f64| LEFT + time.at(seconds) * (RIGHT - LEFT);
    let mut body = String::new();
    for (index, line) in course.lines.iter().enumerate() {
        left_out(&mut body, &frame, &at, line, index);
    }
    for (index, line) in course.lines.iter().enumerate() {
        model(&mut body, &frame, &at, line, index);
        measured(&mut body, &frame, &at, (course, line), index);
    }
    let places: Vec<f64> = time.ticks.iter().map(|&tick| at(tick)).collect();
    frame.sheet(&plot, form, &places, line_swatch, &body)
}

fn plot(course: &CoursePlot, time: &Scale) -> Plot {
    let mut keys = Vec::new();
    if course.lines.iter().any(|line| line.left_out_s > 0.0) {
        keys.push(Key {
            sign: r#"<rect class="fm-left-out" x="0" y="-15" width="32" height="18"/>"#.to_owned(),
            label: "not counted".to_owned(),
        });
    }
    if course.lines.iter().any(|line| !line.modelled.is_empty()) {
        keys.push(Key {
            sign: r#"<path class="fm-model fm-limit-key" d="M0 -5H32"/>"#.to_owned(),
            label: "slow start (modelled)".to_owned(),
        });
    }
    let series = |line: &Line| Series { label: line.label.clone(), dots: Vec::new() };
    Plot {
        title: course.title.clone(),
        x_title: "time (s)".to_owned(),
        y_title: course.y_title.clone(),
        x: time
            .ticks
            .iter()
            .map(|&tick| XLevel { label: Scale::written(tick), place: tick })
            .collect(),
        series: course.lines.iter().map(series).collect(),
        keys,
        ..Plot::default()
    }
}

/// Shades the part of a line that does not count. Shades of several lines add up.
fn left_out(out: &mut String, frame: &Frame, at: &impl Fn(f64) -> f64, line: &Line, index: usize) {
    let _ = write!(
        out,
        r#"<rect class="fm-left-out" data-series="{index}" x="{LEFT}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
        frame.top,
        at(line.left_out_s) - LEFT,
        frame.bottom() - frame.top
    );
}

/// The model as steps, clipped to the frame.
fn model(out: &mut String, frame: &Frame, at: &impl Fn(f64) -> f64, line: &Line, index: usize) {
    let mut path = String::new();
    for Span { from_s, to_s, value } in &line.modelled {
        let start = if path.is_empty() { 'M' } else { 'L' };
        let (from, y) = (at(*from_s), frame.y_at(*value));
        let _ = write!(path, "{start}{from:.1} {y:.1}");
        if *value > frame.y.most() {
            break;
        }
        let _ = write!(path, "H{:.1}", at(*to_s));
    }
    if !path.is_empty() {
        let colour = index % COLOURS;
        let _ = write!(
            out,
            r#"<path class="fm-model fm-s{colour}" data-series="{index}" d="{path}"/>"#
        );
    }
}

fn measured(
    out: &mut String,
    frame: &Frame,
    at: &impl Fn(f64) -> f64,
    (course, line): (&CoursePlot, &Line),
    index: usize,
) {
    let place = |span: &Span| (at(span.from_s.midpoint(span.to_s)), frame.y_at(span.value));
    out.push_str(&open_line(index, line.spans.iter().map(place)));
    for (number, span) in line.spans.iter().enumerate() {
        let (x, y) = place(span);
        let point = open_point(number, &line.tip(span, course.unit));
        let _ = write!(out, r#"{point}<circle class="fm-hit" cx="{x:.1}" cy="{y:.1}" r="9"/>"#);
        if line.spans.len() <= MARKERS_MAX {
            out.push_str(&marker(index, x, y));
        }
        out.push_str("</g>");
    }
    out.push_str("</g>");
}
