//! Results as text tables.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use fabricmark_stats::Estimate;

use crate::contender::Contender;
use crate::emulator::OTHERS;
use crate::judge::{Answer, Verdict, median_of};
use crate::place::Target;
use crate::rows::{Against, BARE, Goal, OURS};
use crate::session::Played;
use crate::work::Figure;

const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Figures of emulated links.
const FIGURES: [Figure; 6] = [
    Figure::GoodputBps,
    Figure::RateError,
    Figure::DelayErrorNs,
    Figure::DelayErrorP99Ns,
    Figure::OwnRoundTripNs,
    Figure::CpuPerGbitS,
];

/// Cell of a contender that does not take part.
const ABSENT: &str = "–";

/// Reasons of failures, as numbered footnotes.
#[derive(Debug, Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, note: String) -> String {
        let place = self.0.iter().position(|known| *known == note).unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        format!("[{}]", place + 1)
    }
}

/// All tables, with footnotes.
pub fn text(results: &[Played], peers: &[&str]) -> String {
    let mut notes = Notes::default();
    let mut out = String::new();
    let who = [&[OURS], peers].concat();
    let last = ["best peer", "ratio", "goal", ""];
    let peers = against(&Against::BestPeer, results, &who, &last, &mut notes);
    let bare = against(&Against::One(BARE), results, &[OURS, BARE], &last[1..], &mut notes);
    for (title, mut table) in [
        ("Against peers", peers),
        ("Against bare loops in C", bare),
        ("Emulated links", emulated(results, &mut notes)),
        ("Other goals", others(results, &mut notes)),
    ] {
        if table.is_empty() {
            continue;
        }
        for (place, column) in table.column_iter_mut().enumerate() {
            if place >= 2 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let _ = writeln!(out, "{title}\n");
        for line in table.lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }
    for (place, note) in notes.0.iter().enumerate() {
        let _ = writeln!(out, "[{}] {note}", place + 1);
    }
    out
}

fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(headings);
    table
}

/// A table of the results compared with a reference, with the figures of `who`.
fn against(
    against: &Against,
    results: &[Played],
    who: &[&str],
    last: &[&str],
    notes: &mut Notes,
) -> Table {
    let mut table = table(&[&["work", "target"], who, last].concat());
    for result in results {
        let about = |answer: &&Answer| answer.question.against == *against;
        let Some(answer) = result.answers.iter().find(about) else { continue };
        let mut cells = vec![result.row.name.clone(), result.row.target.to_string()];
        cells.extend(who.iter().map(|who| cell(result, who, answer.question.figure, notes)));
        if *against == Against::BestPeer {
            cells.push(answer.other.clone().unwrap_or_else(|| ABSENT.to_owned()));
        }
        cells.extend(judged(answer));
        table.add_row(cells);
    }
    table
}

/// A table of emulators: one line per workload and figure.
fn emulated(results: &[Played], notes: &mut Notes) -> Table {
    let rows: Vec<&Played> =
        results.iter().filter(|result| result.row.target == Target::Emulated).collect();
    let mut variants: Vec<&str> =
        rows.iter().flat_map(|result| &result.row.others).map(|other| other.0).collect();
    variants.sort_unstable();
    variants.dedup();
    let who: Vec<&str> =
        [OURS].into_iter().chain(variants).chain(OTHERS.iter().map(Contender::name)).collect();
    let mut table = table(&[&["work", "figure"], who.as_slice()].concat());
    for result in &rows {
        for figure in FIGURES {
            let mut cells = vec![result.row.name.clone(), figure.key().to_owned()];
            cells.extend(who.iter().map(|who| cell(result, who, figure, notes)));
            // A row with failures only is shown once, with the main figure of the workload.
            let has_figure = who.iter().any(|who| median_of(&result.rounds, who, figure).is_some());
            if has_figure || figure == result.row.work.figure() {
                table.add_row(cells);
            }
        }
    }
    table
}

fn others(results: &[Played], notes: &mut Notes) -> Table {
    let mut table = table(&["work", "target", "figure", OURS, "ratio or interval", "goal", ""]);
    for result in results {
        for answer in &result.answers {
            let figure = answer.question.figure;
            let what = match &answer.question.against {
                Against::Itself => figure.key().to_owned(),
                Against::One(name) if *name != BARE => format!("{} against {name}", figure.key()),
                Against::One(_) | Against::BestPeer => continue,
            };
            let mut cells = vec![result.row.name.clone(), result.row.target.to_string(), what];
            cells.push(cell(result, OURS, figure, notes));
            cells.extend(judged(answer));
            table.add_row(cells);
        }
    }
    table
}

/// Median of a contender's figure, with a footnote mark if runs failed.
fn cell(result: &Played, who: &str, figure: Figure, notes: &mut Notes) -> String {
    let outcomes: Vec<_> = result.rounds.iter().filter_map(|round| round.get(who)).collect();
    let reason = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
    let mark = reason.map(|reason| notes.mark(format!("{who}: {reason}")));
    let worked = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    match (median_of(&result.rounds, who, figure), mark) {
        (Some(median), None) => figure.text(median),
        (Some(median), Some(mark)) => {
            format!("{} ({worked} of {}) {mark}", figure.text(median), outcomes.len())
        }
        (None, Some(mark)) => format!("none {mark}"),
        (None, None) => ABSENT.to_owned(),
    }
}

/// Ratio with interval, goal and verdict.
fn judged(answer: &Answer) -> [String; 3] {
    let figure = answer.question.figure;
    let is_ratio = answer.question.against != Against::Itself;
    let number = |value: f64| {
        if is_ratio { format!("{value:.3}") } else { figure.text(value) }
    };
    let value = match &answer.value {
        None => ABSENT.to_owned(),
        Some(Estimate { value, interval: Some(interval), .. }) => {
            // The median itself has its own column.
            let ratio = if is_ratio { number(*value) + " " } else { String::new() };
            format!("{ratio}[{}, {}]", number(interval.low), number(interval.high))
        }
        Some(value) => format!("n = {} < {}", value.n, value.n_needed),
    };
    let goal = match answer.question.goal {
        None => ABSENT.to_owned(),
        Some(Goal::AtLeast(ratio)) => format!("≥ {ratio:.2}"),
        Some(Goal::AtMost(ratio)) => format!("≤ {ratio:.2}"),
        Some(Goal::Between(least, most)) => format!("{least:.2} to {most:.2}"),
        Some(Goal::Below(limit)) if figure == Figure::CpuShare => {
            format!("< {:.1} %", 100.0 * limit)
        }
        Some(Goal::Below(limit)) => format!("< {}", figure.text(limit)),
        Some(Goal::Above(limit)) => format!("≥ {}", figure.text(limit)),
    };
    let verdict = match &answer.verdict {
        Verdict::Met => "met".to_owned(),
        Verdict::Missed => "missed".to_owned(),
        Verdict::Shown => String::new(),
        Verdict::NotComparable(why) => why.clone(),
    };
    [value, goal, verdict]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::sample;

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_row_shows_medians_the_best_peer_the_ratio_and_why_a_run_failed() {
        let text = text(&[sample::result()], &["iperf3", "qperf", "sockperf"]);
        let lines: Vec<Vec<&str>> = text.lines().map(words).collect();
        assert!(
            lines.contains(&words(
                "TCP stream, 128 KiB writes loopback 12.000 Gbit/s 10.000 Gbit/s 5.000 Gbit/s (1 of 2) [1] – \
                 iperf3 1.200 [1.200, 1.200] ≥ 1.00 met"
            )),
            "{text}"
        );
        assert!(
            lines.contains(&words(
                "TCP stream, 128 KiB writes loopback 12.000 Gbit/s 20.000 Gbit/s \
                 0.600 [0.600, 0.600] ≥ 0.98 missed"
            )),
            "{text}"
        );
        let note = "[1] qperf: its client ended with exit status: 1";
        assert!(text.lines().any(|line| line == note), "{text}");
    }
}
