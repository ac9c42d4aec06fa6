//! Lines on logarithmic or linear axes, with intervals as bars and limits as dotted lines.

use std::fmt::Write as _;

use super::Form;
use super::frame::Frame;
use super::plot::{Dot, Plot, Series};
use super::reference::Reference;
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
    let of_dots = plot.dots().flat_map(|dot| {
        let (low, high) = dot.interval.unwrap_or((dot.value, dot.value));
        [Some(dot.value), Some(low), Some(high), dot.limit].into_iter().flatten()
    });
    // A bound far above all figures would press them together.
    let highest = plot.dots().map(|dot| dot.value).fold(0.0, f64::max);
    let near = plot.references.iter().flat_map(|reference| &reference.points);
    let near = near.map(|&(_, value)| value).filter(move |value| *value < REFERENCE_ROOM * highest);
    of_dots.chain(near).chain(plot.references.iter().filter_map(Reference::level))
}

fn draw_on(scale: Scale, plot: &Plot, form: Form) -> String {
    let frame = Frame::new(plot, scale, form);
    let places = places(plot);
    let mut body = String::new();
    for reference in &plot.references {
        let Reference { class, points, .. } = reference;
        if let Some(level) = reference.level() {
            let (left, right, y) = (Frame::left(), Frame::right(), frame.y_at(level));
            let _ = write!(
                body,
                r#"<path class="fm-reference {class}" d="M{left:.1} {y:.1}H{right:.1}"/>"#
            );
            continue;
        }
        let points = points.iter().map(|&(x, value)| (places[x], value));
        let points = clipped(points, frame.y.most());
        if points.len() > 1 {
            let points = points.into_iter().map(|(x, value)| (x, frame.y_at(value)));
            let _ = write!(body, r#"<path class="fm-reference {class}" d="{}"/>"#, path(points));
        }
    }
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

/// How far above the highest figure a reference still widens the axis.
const REFERENCE_ROOM: f64 = 3.0;

/// The part of a line that lies below `most`; it is straight over the logarithms of its values.
fn clipped(points: impl Iterator<Item = (f64, f64)>, most: f64) -> Vec<(f64, f64)> {
    let mut out = Vec::new();
    let mut before: Option<(f64, f64)> = None;
    for (x, value) in points {
        if let Some((x_before, value_before)) = before
            && (value_before > most) != (value > most)
        {
            let share = (most / value_before).ln() / (value / value_before).ln();
            out.push((x_before + share * (x - x_before), most));
        }
        if value <= most {
            out.push((x, value));
        }
        before = Some((x, value));
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_enters_the_frame_where_it_crosses_its_edge() {
        let line = [(0.0, 10_000.0), (10.0, 100.0), (20.0, 1.0)];
        assert_eq!(clipped(line.into_iter(), 1000.0), [(5.0, 1000.0), (10.0, 100.0), (20.0, 1.0)]);
        assert_eq!(clipped(line.into_iter(), 1e6), line);
        assert!(clipped(line.into_iter(), 0.5).is_empty());
    }
}
