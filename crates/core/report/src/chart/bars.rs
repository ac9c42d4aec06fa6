//! Grouped bars from zero, like figures 10 and 11 of P1, with intervals as whiskers.

use std::fmt::Write as _;

use super::Form;
use super::frame::{Frame, LEFT, RIGHT};
use super::plot::{Dot, Plot};
use super::scale::Scale;
use super::svg::{COLOURS, hatching, open_point, open_series};

/// Share of a group's width that its bars fill.
const FILLED: f64 = 0.78;

pub(super) fn draw(plot: &Plot, stem: &str, form: Form) -> String {
    let values = plot.dots().flat_map(Dot::values).chain(plot.covers.iter().copied());
    let frame = Frame::new(plot, Scale::linear(values), form);
    let group = (RIGHT - LEFT) / plot.x.len().max(1) as f64;
    let places: Vec<f64> = (0..plot.x.len()).map(|i| LEFT + group * (i as f64 + 0.5)).collect();
    let width = group * FILLED / plot.series.len().max(1) as f64;
    let mut body = patterns(plot, stem);
    for (index, series) in plot.series.iter().enumerate() {
        body.push_str(&open_series(index));
        for dot in &series.dots {
            let left = places[dot.x] - group * FILLED / 2.0 + width * index as f64;
            let top = frame.y_at(dot.value);
            body.push_str(&open_point(dot.x, &dot.tip));
            let _ = write!(
                body,
                r#"<rect class="fm-hit" x="{left:.1}" y="{:.1}" width="{width:.1}" height="{:.1}"/><rect class="fm-bar" fill="url(#{stem}-{index})" x="{:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"/>"#,
                frame.top,
                frame.bottom() - frame.top,
                left + 0.5,
                (width - 1.0).max(0.5),
                frame.bottom() - top
            );
            if let Some(interval) = dot.interval {
                let path = frame.whisker(left + width / 2.0, (width / 4.0).min(4.0), interval);
                let _ = write!(body, r#"<path class="fm-whisker fm-on-bar" d="{path}"/>"#);
            }
            body.push_str("</g>");
        }
        body.push_str("</g>");
    }
    let swatch = |series: usize| {
        format!(
            r#"<rect class="fm-bar" fill="url(#{stem}-{series})" x="6" y="-15" width="26" height="18"/>"#
        )
    };
    frame.sheet(plot, form, &places, swatch, &body)
}

fn patterns(plot: &Plot, stem: &str) -> String {
    let mut out = String::from("<defs>");
    for index in 0..plot.series.len() {
        let _ = write!(
            out,
            r#"<pattern id="{stem}-{index}" class="fm-s{}" width="8" height="8" patternUnits="userSpaceOnUse">{}</pattern>"#,
            index % COLOURS,
            hatching(index)
        );
    }
    out.push_str("</defs>");
    out
}
