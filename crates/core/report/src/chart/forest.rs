//! Forest plot: all changes between two levels with their intervals, and the tie band.

use std::fmt::Write as _;

use fabricmark_plan::Compare;
use fabricmark_stats::{Comparison, Verdict};

use super::frame::{LETTER, RIGHT, WIDTH, head, sheet, text_lines};
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

/// Changes beyond this share are drawn at the edge, so that small ones remain distinguishable.
const EDGE: f64 = 0.3;

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
    let at = |change: f64| left + scale.at(100.0 * change) * (RIGHT - left);
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
        let (from, to) = (at(-band), at(band));
        let _ = write!(
            body,
            r#"<rect class="fm-band" x="{from:.1}" y="{first:.1}" width="{:.1}" height="{height:.1}"/>"#,
            to - from
        );
        for (place, (label, found)) in section.rows.iter().enumerate() {
            row(&mut body, (left, first + ROW * (place as f64 + 0.5)), label, found, &at);
        }
        y = first + height;
        spans.push((first, y));
    }
    for &tick in &scale.ticks {
        let (x, class) = (at(tick / 100.0), if tick == 0.0 { "fm-base" } else { "fm-grid" });
        for (from, to) in &spans {
            let _ = write!(inside, r#"<path class="{class}" d="M{x:.1} {from:.1}V{to:.1}"/>"#);
        }
        let _ = write!(
            inside,
            r#"<text class="fm-tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{} %</text>"#,
            y + 20.0,
            signed(tick)
        );
    }
    inside.push_str(&body);
    legend(&mut inside, y + 46.0);
    let svg = sheet(&inside, y + 58.0, &format!("Changes: {title}"));
    Some(ChartFile { name: format!("00-{}.svg", slug(&title)), title, svg })
}

/// `−2`, `0`, `+2`.
fn signed(tick: f64) -> String {
    let sign = if tick < 0.0 { "−" } else { "+" };
    let sign = if tick == 0.0 { "" } else { sign };
    format!("{sign}{}", Scale::written(tick.abs()))
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

fn row(
    out: &mut String,
    (left, y): (f64, f64),
    label: &str,
    found: &Comparison,
    at: &impl Fn(f64) -> f64,
) {
    let [low, high] = ends(found).map(at);
    let tip = format!("{label}: {} {}", number::change(&found.change), label::judged(found));
    let (class, shape) = look(found.verdict);
    let _ = write!(
        out,
        r#"<text class="fm-tick" x="{:.1}" y="{y:.1}" dy=".35em" text-anchor="end">{}</text><g class="{class}">{}<rect class="fm-hit" x="{left}" y="{:.1}" width="{:.1}" height="{ROW}"/><path class="fm-whisker" d="M{low:.1} {y:.1}H{high:.1}"/>{}</g></g>"#,
        left - 10.0,
        escaped(label),
        open_point(0, &tip),
        y - ROW / 2.0,
        RIGHT - left,
        marker(shape, at(found.change.value), y)
    );
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
