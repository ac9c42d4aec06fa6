//! Lines on logarithmic or linear axes, with intervals as bars and limits as dotted lines.

use std::fmt::Write as _;

use super::Form;
use super::frame::Frame;
use super::plot::{Dot, Plot, Series};
use super::scale::Scale;
use super::svg::{COLOURS, dashes, escaped, marker};

/// Room between the axis and the outermost points.
const INSET: f64 = 16.0;

/// Values on a logarithmic axis.
pub(super) fn draw(plot: &Plot, _stem: &str, form: Form) -> String {
    draw_on(Scale::log(values(plot)), plot, form)
}

/// Values on a linear axis from 0.
pub(super) fn draw_linear(plot: &Plot, form: Form) -> String {
    draw_on(Scale::linear(values(plot)), plot, form)
}

/// All that the vertical axis has to reach.
fn values(plot: &Plot) -> impl Iterator<Item = f64> {
    plot.dots().flat_map(|dot| {
        let (low, high) = dot.interval.unwrap_or((dot.value, dot.value));
        [Some(dot.value), Some(low), Some(high), dot.limit].into_iter().flatten()
    })
}

fn draw_on(scale: Scale, plot: &Plot, form: Form) -> String {
    let frame = Frame::new(plot, scale, form);
    let places = places(plot);
    let mut body = String::new();
    // Limits lie below all series, so that they never hide a figure.
    for (index, series) in plot.series.iter().enumerate() {
        body.push_str(&limit(&frame, &places, series, index));
    }
    for (index, series) in plot.series.iter().enumerate() {
        body.push_str(&line(&frame, &places, series, index));
    }
    let swatch = |series| {
        format!(
            r#"<path class="fm-line" stroke-dasharray="{}" d="M0 -5H32"/><path class="fm-marker" d="{}"/>"#,
            dashes(series),
            marker(series, 16.0, -5.0)
        )
    };
    frame.sheet(plot, form, &places, swatch, &body)
}

fn places(plot: &Plot) -> Vec<f64> {
    let (left, right) = (Frame::left() + INSET, Frame::right() - INSET);
    let first = plot.x.first().map_or(0.0, |level| level.place);
    let last = plot.x.last().map_or(1.0, |level| level.place);
    let place = |level: f64| match last - first {
        0.0 => left.midpoint(right),
        width => left + (level - first) / width * (right - left),
    };
    plot.x.iter().map(|level| place(level.place)).collect()
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    format!("M{}", points.join("L"))
}

fn limit(frame: &Frame, places: &[f64], series: &Series, index: usize) -> String {
    let points: Vec<(f64, f64)> = series
        .dots
        .iter()
        .filter_map(|dot| Some((places[dot.x], frame.y_at(dot.limit?))))
        .collect();
    if points.is_empty() {
        return String::new();
    }
    format!(
        r#"<path class="fm-limit fm-s{}" data-series="{index}" d="{}"/>"#,
        index % COLOURS,
        path(points.into_iter())
    )
}

fn line(frame: &Frame, places: &[f64], series: &Series, index: usize) -> String {
    if series.dots.is_empty() {
        return String::new();
    }
    let points = series.dots.iter().map(|dot| (places[dot.x], frame.y_at(dot.value)));
    let mut out = format!(
        r#"<g class="fm-series fm-s{}" data-series="{index}"><path class="fm-line" stroke-dasharray="{}" d="{}"/>"#,
        index % COLOURS,
        dashes(index),
        path(points)
    );
    for dot in &series.dots {
        point(&mut out, frame, places[dot.x], dot, index);
    }
    out.push_str("</g>");
    out
}

fn point(out: &mut String, frame: &Frame, x: f64, dot: &Dot, series: usize) {
    let y = frame.y_at(dot.value);
    let tip = escaped(&dot.tip);
    let _ = write!(
        out,
        r#"<g class="fm-point" role="img" data-x="{}" aria-label="{tip}" data-tip="{tip}"><circle class="fm-hit" cx="{x:.1}" cy="{y:.1}" r="13"/>"#,
        dot.x
    );
    if let Some((low, high)) = dot.interval {
        let (low, high) = (frame.y_at(low), frame.y_at(high));
        let _ = write!(
            out,
            r#"<path class="fm-whisker" d="M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8"/>"#,
            x - 4.0,
            x - 4.0
        );
    }
    let _ = write!(out, r#"<path class="fm-marker" d="{}"/></g>"#, marker(series, x, y));
}
