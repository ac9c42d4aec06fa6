//! Forest plot: all changes between two levels with their intervals, and the tie band.

use std::fmt::Write as _;

use fabricmark_plan::Compare;
use fabricmark_stats::{Comparison, Verdict};

use super::frame::{LETTER, WIDTH, head, sheet, text_lines};
use super::scale::Scale;
use super::svg::{escaped, marker, open_point};
use super::{ChartFile, Form, slug};
use crate::label;
use crate::number;
use crate::table::TableView;

/// Start of the axis, right of the row labels, at least.
const LEFT: f64 = 104.0;
const ROW: f64 = 21.0;
/// Height of a section title of one line, and of each further line.
const TITLE: f64 = 32.0;
const LINE: f64 = 21.0;

/// Letters of a section title per line, on a narrow screen.
const LINE_LETTERS: usize = 62;

/// Larger changes do not lengthen the axis, so that small ones remain distinguishable; an arrowhead stands for them.
const EDGE: f64 = 0.3;

/// From an end of the axis to the marker of a change beyond it, and to the number of that change.
const MARKER_INSET: f64 = 13.0;
const NUMBER_INSET: f64 = 23.0;

/// A section: a group of a table.
struct Section<'a> {
    title: String,
    rows: Vec<(&'a str, &'a Comparison)>,
}

/// The changes of means of a comparison; `None` if there are none.
pub(super) fn draw(tables: &[TableView<'_>], compare: &Compare, form: Form) -> Option<ChartFile> {
    let sections = sections(tables, compare);
    let all = || sections.iter().flat_map(|section| &section.rows).map(|(_, found)| *found);
    let reach = all().flat_map(|found| ends(found).map(f64::abs)).fold(0.0, f64::max);
    let reach = reach.max(all().map(|found| 1.5 * found.tie_band).fold(0.0, f64::max));
    if sections.is_empty() {
        return None;
    }
    let scale = Scale::around_zero(100.0 * reach.min(EDGE));
    let labels = sections.iter().flat_map(|section| &section.rows).map(|(label, _)| *label);
    let letters = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    let left = LEFT.max(24.0 + LETTER * letters as f64).min(WIDTH / 2.0);
    let axis = Axis::new(left, scale);
    let title = label::against(compare);
    let (mut inside, top) = head(&title, form);
    let mut y = top;
    let mut body = String::new();
    // Lines of ticks are beside the rows, not behind the titles.
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for section in &sections {
        let height = ROW * section.rows.len() as f64;
        let band = section.rows.first().map_or(0.0, |(_, found)| found.tie_band);
        let lines = text_lines(&section.title, LINE_LETTERS);
        let first = y + TITLE + LINE * lines.len().saturating_sub(1) as f64;
        for (place, line) in lines.iter().enumerate() {
            let y = y + TITLE - 9.0 + LINE * place as f64;
            let text = escaped(line);
            let _ = write!(body, r#"<text class="fm-label" x="6" y="{y:.1}">{text}</text>"#);
        }
        let (from, to) = (axis.at(-band), axis.at(band));
        let _ = write!(
            body,
            r#"<rect class="fm-band" x="{from:.1}" y="{first:.1}" width="{:.1}" height="{height:.1}"/>"#,
            to - from
        );
        for (place, (label, found)) in section.rows.iter().enumerate() {
            row(&mut body, &axis, first + ROW * (place as f64 + 0.5), label, found);
        }
        y = first + height;
        spans.push((first, y));
    }
    for &tick in &axis.scale.ticks {
        let (x, class) = (axis.at(tick / 100.0), if tick == 0.0 { "fm-base" } else { "fm-grid" });
        for (from, to) in &spans {
            let _ = write!(inside, r#"<path class="{class}" d="M{x:.1} {from:.1}V{to:.1}"/>"#);
        }
    }
    for tick in axis.labelled() {
        let _ = write!(
            inside,
            r#"<text class="fm-tick" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            axis.at(tick / 100.0),
            y + 20.0,
            percent(tick)
        );
    }
    inside.push_str(&body);
    legend(&mut inside, y + 46.0);
    let svg = sheet(&inside, y + 58.0, &format!("Changes: {title}"));
    Some(ChartFile { name: format!("00-{}.svg", slug(&title)), title, svg })
}

/// The axis of changes, in percent.
struct Axis {
    left: f64,
    right: f64,
    scale: Scale,
}

impl Axis {
    /// An axis from `left` to where half of the last label has room.
    fn new(left: f64, scale: Scale) -> Self {
        let right = WIDTH - scale.ticks.last().map_or(0.0, |tick| width(*tick) / 2.0);
        Self { left, right, scale }
    }

    /// The ticks with a label: every other one, with that of 0, where not all have room.
    fn labelled(&self) -> impl Iterator<Item = f64> {
        let ticks = &self.scale.ticks;
        let apart = ticks.windows(2).map(|two| self.at(two[1] / 100.0) - self.at(two[0] / 100.0));
        let widest = ticks.iter().map(|tick| width(*tick)).fold(0.0, f64::max);
        let step = if apart.fold(f64::INFINITY, f64::min) < widest { 2 } else { 1 };
        let middle = ticks.len() / 2;
        let places = ticks.iter().copied().enumerate();
        places.filter(move |(place, _)| place.abs_diff(middle) % step == 0).map(|(_, tick)| tick)
    }

    /// The place of a change; that of one beyond an end is that end.
    fn at(&self, change: f64) -> f64 {
        self.left + self.scale.at(100.0 * change) * (self.right - self.left)
    }

    /// The end beyond which a change lies, and the direction from it into the chart.
    fn end_before(&self, change: f64) -> Option<(f64, f64)> {
        let most = self.scale.most() / 100.0;
        if change > most {
            Some((self.right, -1.0))
        } else {
            (change < -most).then_some((self.left, 1.0))
        }
    }
}

/// `−2 %`, `0 %`, `+2 %`.
fn percent(change: f64) -> String {
    let sign = if change < 0.0 { "−" } else { "+" };
    let sign = if change == 0.0 { "" } else { sign };
    format!("{sign}{} %", Scale::written(change.abs()))
}

/// Width of a label of the axis on a narrow screen. Its signs are wider than letters: in Chromium with DejaVu Sans of
/// 18 px, `+20 %` takes 60.8 (getBBox), as much as 6.6 letters, and `−0.08 %` takes 78, as much as 8.5.
fn width(tick: f64) -> f64 {
    LETTER * (percent(tick).chars().count() as f64 + 2.0)
}

/// Table groups with changes of means between these levels.
fn sections<'a>(tables: &'a [TableView<'_>], compare: &Compare) -> Vec<Section<'a>> {
    let mut sections = Vec::new();
    for table in tables.iter().filter(|table| !table.spec.figure.spec().is_median) {
        let Some(place) = table.compared.iter().position(|of| *of == compare) else { continue };
        for group in &table.groups {
            let row = |row: &'a crate::table::Row<'_>| {
                Some((row.label.as_str(), row.changes[place].comparison.as_ref()?))
            };
            let rows: Vec<_> = group.rows.iter().filter_map(row).collect();
            let title = table.about(group);
            sections.extend((!rows.is_empty()).then_some(Section { title, rows }));
        }
    }
    sections
}

/// Both ends of the drawn interval of a change.
fn ends(found: &Comparison) -> [f64; 2] {
    let value = found.change.value;
    found.change.interval.map_or([value; 2], |interval| [interval.low, interval.high])
}

fn row(out: &mut String, axis: &Axis, y: f64, label: &str, found: &Comparison) {
    let tip = format!("{label}: {} {}", number::compared(found), label::judged(found));
    let (class, shape) = look(found.verdict);
    let left = axis.left;
    let _ = write!(
        out,
        r#"<text class="fm-tick" x="{:.1}" y="{y:.1}" dy=".35em" text-anchor="end">{}</text><g class="{class}">{}<rect class="fm-hit" x="{left}" y="{:.1}" width="{:.1}" height="{ROW}"/>"#,
        left - 10.0,
        escaped(label),
        open_point(0, &tip),
        y - ROW / 2.0,
        axis.right - left,
    );
    let [low, high] = ends(found);
    let _ = write!(
        out,
        r#"<path class="fm-whisker" d="M{:.1} {y:.1}H{:.1}"/>"#,
        axis.at(low),
        axis.at(high)
    );
    let mut beyond: Vec<_> = [low, high].iter().filter_map(|end| axis.end_before(*end)).collect();
    beyond.dedup();
    for (x, inwards) in beyond {
        let _ = write!(
            out,
            r#"<path class="fm-whisker" d="M{0:.1} {1:.1}L{x:.1} {y:.1}L{0:.1} {2:.1}"/>"#,
            x + 6.0 * inwards,
            y - 4.0,
            y + 4.0
        );
    }
    let change = found.change.value;
    if let Some((end, inwards)) = axis.end_before(change) {
        let anchor = if inwards < 0.0 { "end" } else { "start" };
        let _ = write!(
            out,
            r#"<text class="fm-tick fm-beyond" x="{:.1}" y="{y:.1}" dy=".35em" text-anchor="{anchor}">{}</text>"#,
            end + NUMBER_INSET * inwards,
            percent((100.0 * change).round())
        );
        out.push_str(&marker(shape, end + MARKER_INSET * inwards, y));
    } else {
        out.push_str(&marker(shape, axis.at(change), y));
    }
    out.push_str("</g></g>");
}

/// CSS class and marker of a verdict, which does not rely on colour alone.
fn look(verdict: Verdict) -> (&'static str, usize) {
    match verdict {
        Verdict::Same => ("fm-same", 0),
        Verdict::Slower => ("fm-slower", 1),
        Verdict::Faster => ("fm-faster", 2),
        Verdict::Inconclusive => ("fm-unknown", 3),
    }
}

fn legend(out: &mut String, y: f64) {
    let verdicts = [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Inconclusive];
    for (place, verdict) in verdicts.into_iter().enumerate() {
        let (x, (class, shape)) = (14.0 + 112.0 * place as f64, look(verdict));
        let sign = marker(shape, x, y - 5.0);
        let _ = write!(
            out,
            r#"<g class="{class}">{sign}</g><text class="fm-label" x="{:.1}" y="{y:.1}">{verdict}</text>"#,
            x + 12.0
        );
    }
    let x = 14.0 + 112.0 * 4.0 + 24.0;
    let _ = write!(
        out,
        r#"<rect class="fm-band" x="{x:.1}" y="{:.1}" width="20" height="14"/><text class="fm-label" x="{:.1}" y="{y:.1}">tie</text>"#,
        y - 12.0,
        x + 28.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn changes_beyond_the_axis_are_before_the_end_that_they_left_it_by() {
        let axis = Axis { left: 100.0, right: 578.0, scale: Scale::around_zero(30.0) };
        assert_eq!(axis.end_before(0.31), Some((578.0, -1.0)));
        assert_eq!(axis.end_before(-0.9), Some((100.0, 1.0)));
        assert_eq!([0.3, 0.0, -0.3].map(|change| axis.end_before(change)), [None; 3]);
        assert_eq!([-0.9, 0.0, 0.9].map(|change| axis.at(change)), [100.0, 339.0, 578.0]);
    }

    proptest! {
        #[test]
        fn labels_of_the_axis_are_inside_the_chart_and_apart(
            reach in 0.01..30.0_f64,
            left in LEFT..WIDTH / 2.0,
        ) {
            let axis = Axis::new(left, Scale::around_zero(reach));
            let boxes: Vec<_> = axis
                .labelled()
                .map(|tick| (axis.at(tick / 100.0), width(tick) / 2.0))
                .map(|(x, half)| (x - half, x + half))
                .collect();
            prop_assert!(boxes.len() >= 3, "{boxes:?}");
            prop_assert!(boxes.iter().all(|(from, to)| *from >= 0.0 && *to <= WIDTH), "{boxes:?}");
            prop_assert!(boxes.windows(2).all(|two| two[0].1 <= two[1].0), "{boxes:?}");
        }
    }
}
