//! Common parts of charts: the sheet, the axes, the grid and the legend.

use std::fmt::Write as _;

use super::Form;
use super::plot::{Key, Plot};
use super::scale::Scale;
use super::svg::{COLOURS, escaped};

/// Styles for both themes and for narrow screens, where letters are larger.
const STYLE: &str = include_str!("style.css");

pub(super) const WIDTH: f64 = 600.0;
pub(super) const LEFT: f64 = 84.0;
/// Leaves room for half of the last label below the axis.
pub(super) const RIGHT: f64 = WIDTH - 22.0;
const PLOT_HEIGHT: f64 = 320.0;
/// Space above the plot for the title of the vertical axis.
const HEAD: f64 = 40.0;
const TITLE_LINE: f64 = 26.0;
const LEGEND_LINE: f64 = 28.0;
/// Width of a letter on a narrow screen, the largest case.
pub(super) const LETTER: f64 = 9.2;
/// Letters per title line, on a narrow screen and in a wide font.
const TITLE_LETTERS: usize = 46;

/// The plot area, from [`LEFT`] to [`RIGHT`].
pub(super) struct Frame {
    pub top: f64,
    pub y: Scale,
}

impl Frame {
    pub(super) fn new(plot: &Plot, y: Scale, form: Form) -> Self {
        Self { top: head(&plot.title, form).1 + HEAD, y }
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + PLOT_HEIGHT
    }

    pub(super) fn y_at(&self, value: f64) -> f64 {
        self.bottom() - self.y.at(value) * PLOT_HEIGHT
    }

    /// The path of an interval at `x`, with caps as wide as `cap` on each side; an end beyond the axis has none.
    pub(super) fn whisker(&self, x: f64, cap: f64, (low, high): (f64, f64)) -> String {
        let mut path = format!("M{x:.1} {:.1}V{:.1}", self.y_at(low), self.y_at(high));
        for end in [low, high].into_iter().filter(|end| self.y.has(*end)) {
            let _ = write!(path, "M{:.1} {:.1}h{:.1}", x - cap, self.y_at(end), 2.0 * cap);
        }
        path
    }

    /// The whole drawing around `body`, which is drawn in this frame. `places` are the positions of the levels of x,
    /// `swatch` draws the symbol of a series in the legend.
    pub(super) fn sheet(
        &self,
        plot: &Plot,
        form: Form,
        places: &[f64],
        swatch: impl Fn(usize) -> String,
        body: &str,
    ) -> String {
        let (mut inside, _) = head(&plot.title, form);
        self.axes(&mut inside, plot, places);
        inside.push_str(body);
        let height = self.legend(&mut inside, plot, swatch);
        sheet(&inside, height, &format!("{}: {} by {}", plot.title, plot.y_title, plot.x_title))
    }

    fn axes(&self, out: &mut String, plot: &Plot, places: &[f64]) {
        let bottom = self.bottom();
        let _ = write!(
            out,
            r#"<text class="fm-axis" x="6" y="{:.1}">{}</text>"#,
            self.top - 19.0,
            escaped(&plot.y_title)
        );
        for &tick in &self.y.ticks {
            let y = self.y_at(tick);
            let _ = write!(
                out,
                r#"<path class="fm-grid" d="M{LEFT} {y:.1}H{RIGHT}"/><text class="fm-tick" x="{:.1}" y="{y:.1}" dy=".35em" text-anchor="end">{}</text>"#,
                LEFT - 8.0,
                Scale::written(tick)
            );
        }
        let _ = write!(out, r#"<path class="fm-base" d="M{LEFT} {bottom:.1}H{RIGHT}"/>"#);
        for place in places {
            let _ = write!(out, r#"<path class="fm-base" d="M{place:.1} {bottom:.1}v5"/>"#);
        }
        for (label, x) in labels(plot, places) {
            let _ = write!(
                out,
                r#"<text class="fm-tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                bottom + 24.0,
                escaped(label)
            );
        }
        let _ = write!(
            out,
            r#"<text class="fm-axis" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            LEFT.midpoint(RIGHT),
            bottom + 50.0,
            escaped(&plot.x_title)
        );
    }

    /// Draws the legend; returns the height of the whole sheet.
    fn legend(&self, out: &mut String, plot: &Plot, swatch: impl Fn(usize) -> String) -> f64 {
        let (mut x, mut y) = (6.0, self.bottom() + 84.0);
        let mut place = |label: &str| {
            let width = 46.0 + LETTER * label.chars().count() as f64;
            if x > 6.0 && x + width > WIDTH {
                (x, y) = (6.0, y + LEGEND_LINE);
            }
            let at = (x, y);
            x += width + 10.0;
            at
        };
        for (index, series) in plot.series.iter().enumerate() {
            let (x, y) = place(&series.label);
            let _ = write!(
                out,
                r#"<g class="fm-key fm-s{}" data-key="{index}" transform="translate({x:.1} {y:.1})"><rect class="fm-hit" x="-4" y="-18" width="{:.1}" height="26" rx="4"/>{}<text class="fm-label" x="40">{}</text></g>"#,
                index % COLOURS,
                46.0 + LETTER * series.label.chars().count() as f64,
                swatch(index),
                escaped(&series.label)
            );
        }
        let limits = plot.has_limits().then(|| Key {
            sign: r#"<path class="fm-limit fm-limit-key" d="M0 -5H32"/>"#.to_owned(),
            label: format!("{} of the same colour", plot.limit),
        });
        let references = plot.references.iter().map(|reference| Key {
            sign: format!(r#"<path class="fm-reference {}" d="M0 -5H32"/>"#, reference.class),
            label: reference.label.clone(),
        });
        for Key { sign, label } in limits.into_iter().chain(references).chain(plot.keys.clone()) {
            let ((x, y), label) = (place(&label), escaped(&label));
            let _ = write!(
                out,
                r#"<g transform="translate({x:.1} {y:.1})">{sign}<text class="fm-label" x="40">{label}</text></g>"#
            );
        }
        y + 16.0
    }
}

/// Content above a drawing and its height: styles and title of a file.
pub(super) fn head(title: &str, form: Form) -> (String, f64) {
    if form == Form::Inline {
        return (String::new(), 0.0);
    }
    let mut out =
        format!(r#"<style>{STYLE}</style><rect class="fm-paper" width="100%" height="100%"/>"#);
    let lines = text_lines(title, TITLE_LETTERS);
    for (line, text) in lines.iter().enumerate() {
        let (y, text) = (22.0 + line as f64 * TITLE_LINE, escaped(text));
        let _ = write!(out, r#"<text class="fm-title" x="6" y="{y:.0}">{text}</text>"#);
    }
    (out, lines.len() as f64 * TITLE_LINE + 8.0)
}

/// The whole drawing.
pub(super) fn sheet(inside: &str, height: f64, label: &str) -> String {
    let label = escaped(label);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="fm-chart" viewBox="0 0 {WIDTH} {height:.0}" role="group" aria-label="{label}">{inside}</svg>"#
    )
}

/// The labels of the axis that have room, with their middles.
fn labels<'a>(plot: &'a Plot, places: &[f64]) -> Vec<(&'a str, f64)> {
    let mut free_from = f64::NEG_INFINITY;
    let mut labels = Vec::new();
    for (level, &place) in plot.x.iter().zip(places) {
        let half = level.label.chars().count() as f64 * LETTER / 2.0 + 2.0;
        let x = place.min(WIDTH - 2.0 - half);
        if x - half >= free_from {
            free_from = x + half;
            labels.push((level.label.as_str(), x));
        }
    }
    labels
}

/// A text in lines of at most so many letters, broken between words.
pub(super) fn text_lines(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_leaves_the_axis_has_no_cap_there() {
        let frame = Frame { top: 0.0, y: Scale::linear([10.0].into_iter()) };
        let whole = frame.whisker(50.0, 4.0, (5.0, 10.0));
        assert_eq!(whole, "M50.0 160.0V0.0M46.0 160.0h8.0M46.0 0.0h8.0");
        assert_eq!(frame.whisker(50.0, 4.0, (-5.0, 5.0)), "M50.0 320.0V160.0M46.0 160.0h8.0");
    }
}
