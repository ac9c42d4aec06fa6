//! Lines on logarithmic or linear axes, with intervals as bars and limits as dotted lines.

use std::fmt::Write as _;

use super::Form;
use super::frame::{Frame, LEFT, RIGHT};
use super::plot::{Dot, Plot, Series};
use super::reference::Reference;
use super::scale::Scale;
use super::svg::{COLOURS, line_swatch, marker, open_line, open_point, path};

/// Space between the axis and the outermost points.
const INSET: f64 = 16.0;

pub(super) fn draw(plot: &Plot, form: Form) -> String {
    // 0 has no place on a logarithmic axis, which is that of all charts of a group.
    let has_zero = plot.covers.contains(&0.0) || plot.dots().any(|dot| dot.value <= 0.0);
    let scale = match plot.is_linear || has_zero {
        true => Scale::linear(values(plot)),
        false => Scale::log(values(plot)),
    };
    let frame = Frame::new(plot, scale, form);
    let places = places(plot);
    let mut body = String::new();
    for reference in &plot.references {
        let Reference { class, points, .. } = reference;
        let path = if let Some(level) = reference.level() {
            format!("M{LEFT:.1} {:.1}H{RIGHT:.1}", frame.y_at(level))
        } else {
            let points = points.iter().map(|&(x, value)| (places[x], value));
            let points = clipped(points, frame.y.most());
            if points.len() < 2 {
                continue;
            }
            path(points.into_iter().map(|(x, value)| (x, frame.y_at(value))))
        };
        let _ = write!(body, r#"<path class="fm-reference {class}" d="{path}"/>"#);
    }
    // Limits are drawn below all series, so that they do not hide figures.
    for (index, series) in plot.series.iter().enumerate() {
        limit(&mut body, &frame, &places, series, index);
    }
    for (index, series) in plot.series.iter().enumerate() {
        line(&mut body, &frame, &places, series, index);
    }
    frame.sheet(plot, form, &places, line_swatch, &body)
}

/// Values that the vertical axis must cover.
fn values(plot: &Plot) -> impl Iterator<Item = f64> {
    let of_dots = plot.dots().flat_map(Dot::values).chain(plot.covers.iter().copied());
    // A bound far above all figures would compress them, so it does not extend the axis.
    let highest = plot.dots().map(|dot| dot.value).fold(0.0, f64::max);
    let near = plot.references.iter().flat_map(|reference| &reference.points);
    let near = near.map(|&(_, value)| value).filter(move |value| *value < REFERENCE_ROOM * highest);
    of_dots.chain(near).chain(plot.references.iter().filter_map(Reference::level))
}

/// Multiple of the highest figure up to which a reference extends the axis.
const REFERENCE_ROOM: f64 = 3.0;

/// The part of a line below `most`; lines are straight in the logarithm of the value.
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
    let (left, right) = (LEFT + INSET, RIGHT - INSET);
    let first = plot.x.first().map_or(0.0, |level| level.place);
    let last = plot.x.last().map_or(1.0, |level| level.place);
    let place = |level: f64| match last - first {
        0.0 => left.midpoint(right),
        width => left + (level - first) / width * (right - left),
    };
    plot.x.iter().map(|level| place(level.place)).collect()
}

fn limit(out: &mut String, frame: &Frame, places: &[f64], series: &Series, index: usize) {
    let limit = |dot: &Dot| Some((places[dot.x], frame.y_at(dot.limit?)));
    let mut points = series.dots.iter().filter_map(limit).peekable();
    if points.peek().is_some() {
        let (colour, path) = (index % COLOURS, path(points));
        let _ = write!(
            out,
            r#"<path class="fm-limit fm-s{colour}" data-series="{index}" d="{path}"/>"#
        );
    }
}

fn line(out: &mut String, frame: &Frame, places: &[f64], series: &Series, index: usize) {
    if series.dots.is_empty() {
        return;
    }
    let points = series.dots.iter().map(|dot| (places[dot.x], frame.y_at(dot.value)));
    out.push_str(&open_line(index, points.clone()));
    for (dot, (x, y)) in series.dots.iter().zip(points) {
        let point = open_point(dot.x, &dot.tip);
        let _ = write!(out, r#"{point}<circle class="fm-hit" cx="{x:.1}" cy="{y:.1}" r="13"/>"#);
        if let Some(interval) = dot.interval {
            let path = frame.whisker(x, 4.0, interval);
            let _ = write!(out, r#"<path class="fm-whisker" d="{path}"/>"#);
        }
        let _ = write!(out, "{}</g>", marker(index, x, y));
    }
    out.push_str("</g>");
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
