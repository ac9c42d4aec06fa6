//! The answer in sentences: how many rows differ, by how much, and the minimum detectable effect.

use std::collections::BTreeMap;

use fabricmark_plan::{Compare, Figure, Limit};
use fabricmark_stats::{Comparison, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Experiment;
use crate::cell::Cell;
use crate::number::{count, fixed, percent, share};
use crate::table::{Change, Group, TableView};
use crate::{label, notes, short};

/// Maximum number of sentences of an answer.
const SENTENCES_MAX: usize = 8;

/// Answer of a group of a table, and its subject.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Subject, such as `UDP throughput, ethernet:1G (emulated)`.
    pub about: String,
    /// Sentences, such as `IPv6 is slower than IPv4 in 13 of 14 rows (−12.1 % to −2.4 %) and the same in 1.`
    pub text: String,
}

impl Answer {
    fn remark(about: &str, text: String) -> Self {
        Self { about: about.to_owned(), text }
    }
}

/// One answer per comparison and group; the last one has remarks.
pub(crate) fn answers(e: &Experiment<'_>, tables: &[TableView<'_>]) -> Vec<Answer> {
    let mut all: Vec<Answer> = tables
        .iter()
        .flat_map(|table| table.groups.iter().map(move |group| (table, group)))
        .flat_map(|(table, group)| {
            table
                .compared
                .iter()
                .enumerate()
                .filter_map(|(place, compare)| of_group(table, group, place, compare))
        })
        .collect();
    if all.is_empty() {
        let groups = tables.iter().flat_map(|table| table.groups.iter().map(move |g| (table, g)));
        all.extend(groups.filter_map(|(table, group)| reached(table, group)));
    }
    if all.is_empty() {
        let runs = e.records.iter().filter(|record| !record.place.warm_up).count();
        let text = format!("{} in {}; this plan has no comparisons.", count(runs, "run"), e.name);
        all.push(Answer::remark(e.name, text));
    }
    let in_short = e.plan.compare.iter().filter_map(|compare| short::in_short(tables, compare));
    let in_short: Vec<Answer> = match all.len() {
        0 | 1 => Vec::new(),
        _ => in_short.map(|text| Answer::remark("In short", text)).collect(),
    };
    if all.len() > SENTENCES_MAX {
        let text = format!("{} more in the tables below.", all.len() - SENTENCES_MAX);
        all.truncate(SENTENCES_MAX);
        all.push(Answer::remark("And", text));
    }
    all.splice(0..0, in_short);
    let inconclusive = inconclusive(e, tables);
    if e.quick && !e.plan.stop.decides && inconclusive > 0 {
        let text = format!(
            "{} inconclusive after {} of {} s; run the full plan to decide {}.",
            are(inconclusive, "comparison"),
            count(e.plan.stop.runs_max, "run"),
            e.plan.duration_ns.as_secs_f64(),
            if inconclusive == 1 { "it" } else { "them" },
        );
        all.push(Answer::remark("Quick look", text));
    }
    if !e.planned_complete {
        let missing = || "Planned runs are missing; figures may still change.".to_owned();
        let undecided = e.plan.stop.decides.then(|| undecided(e, tables)).flatten();
        all.push(Answer::remark("Incomplete", undecided.unwrap_or_else(missing)));
    }
    all
}

/// Number of inconclusive comparisons of means in all tables.
fn inconclusive(e: &Experiment<'_>, tables: &[TableView<'_>]) -> usize {
    let changes = e.plan.compare.iter().flat_map(|compare| of_means(tables, compare));
    let found = changes.filter_map(|change| change.comparison.as_ref());
    found.filter(|found| found.verdict == Verdict::Inconclusive).count()
}

/// `1 comparison is`, `2 comparisons are`.
fn are(number: usize, noun: &str) -> String {
    count(number, noun) + if number == 1 { " is" } else { " are" }
}

/// Changes of means between one pair of levels, in all tables.
pub(crate) fn of_means<'a>(
    tables: &'a [TableView<'_>],
    compare: &'a Compare,
) -> impl Iterator<Item = &'a Change> {
    let tables = tables.iter().filter(|table| !table.spec.figure.spec().is_median);
    tables.flat_map(move |table| {
        let places = table.compared.iter().enumerate().filter(move |(_, of)| **of == compare);
        places.flat_map(move |(place, _)| {
            table.groups.iter().flat_map(|group| &group.rows).map(move |row| &row.changes[place])
        })
    })
}

/// Changes of the figures that decide when the plan ends, each once.
fn deciding<'a>(tables: &'a [TableView<'_>]) -> Vec<&'a Change> {
    let mut found = BTreeMap::new();
    for table in tables {
        for row in table.groups.iter().flat_map(|group| &group.rows) {
            for (&compare, change) in table.compared.iter().zip(&row.changes) {
                let is_baseline =
                    |cell: &&Cell<'_>| cell.point.has(compare.factor, &compare.baseline);
                let Some(cell) = row.cells.iter().flatten().find(is_baseline) else { continue };
                let decides = match (table.spec.figure, Figure::deciding(cell.point)) {
                    (Figure::HalfRtt, Figure::Rtt) => true,
                    (shown, deciding) => shown == deciding,
                };
                if decides {
                    found.insert((label::against(compare), cell.point.key()), change);
                }
            }
        }
    }
    found.into_values().collect()
}

/// Number of undecided comparisons, and estimated duration of the runs that they need. `None` if there is none.
fn undecided(e: &Experiment<'_>, tables: &[TableView<'_>]) -> Option<String> {
    let rule = &e.plan.stop;
    let (mut runs, mut left) = (0.0, 0);
    for change in deciding(tables).into_iter().filter(|change| change.is_open) {
        let (n, needed) = match &change.comparison {
            None => (0, rule.runs_min as f64),
            Some(found) if found.change.n >= rule.runs_max => continue,
            // A verdict before the first check of the rule may still change.
            Some(found) if found.change.n < rule.runs_min => (found.change.n, rule.runs_min as f64),
            Some(found) if found.verdict == Verdict::Inconclusive => {
                // Four times as many runs halve an interval.
                let factor = found.smallest_visible.unwrap_or(f64::MAX) / found.tie_band;
                (found.change.n, found.change.n as f64 * factor.powi(2).max(2.0))
            }
            Some(_) => continue,
        };
        left += 1;
        runs += (needed - n as f64).min(rule.runs_max.saturating_sub(n) as f64);
    }
    let minutes = (2.0 * runs * e.plan.duration_ns.as_secs_f64() / 60.0).ceil();
    (left > 0).then(|| {
        format!(
            "{} undecided; run the same command, without --fresh, to continue. That takes at least {minutes} min \
             (--budget).",
            are(left, "comparison"),
        )
    })
}

fn of_group(
    table: &TableView<'_>,
    group: &Group<'_>,
    place: usize,
    compare: &Compare,
) -> Option<Answer> {
    let changes = || group.rows.iter().map(|row| &row.changes[place]);
    let found: Vec<&Comparison> =
        changes().filter_map(|change| change.comparison.as_ref()).collect();
    let candidate = label::level(compare.factor, &compare.candidate);
    let baseline = label::level(compare.factor, &compare.baseline);
    let withheld = changes().filter(|change| change.withheld.is_some()).count();
    let zeros = changes().filter(|change| change.has_zeros()).count();
    let uncompared = group.rows.len() - found.len() - withheld;
    let rows = count(group.rows.len(), "row");
    let part = |verdict: Verdict, words: &str| {
        let those: Vec<&&Comparison> =
            found.iter().filter(|comparison| comparison.verdict == verdict).collect();
        let share_of = match group.rows.len() {
            1 => String::new(),
            2 if those.len() == 2 => " in both rows".to_owned(),
            all if those.len() == all => format!(" in all {rows}"),
            _ => format!(" in {} of {rows}", those.len()),
        };
        let detail = match verdict {
            Verdict::Inconclusive => unseen(&those),
            Verdict::Same => String::new(),
            _ => range(&those),
        };
        (!those.is_empty()).then(|| format!("{words}{share_of}{detail}"))
    };
    let mut parts: Vec<String> = [
        part(Verdict::Slower, &format!("slower than {baseline}")),
        part(Verdict::Faster, &format!("faster than {baseline}")),
        part(Verdict::Same, &format!("the same as {baseline}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let is_decided = !parts.is_empty();
    parts.extend(part(Verdict::Inconclusive, "inconclusive"));
    if let Some(first) = parts.first_mut() {
        *first = match is_decided {
            true => {
                format!("{candidate} {} {first}", label::verb(compare.factor, &compare.candidate))
            }
            false => format!("{candidate} against {baseline} is {first}"),
        };
    }
    if withheld > zeros {
        parts.push(format!("too many invalid runs in {} of {rows}", withheld - zeros));
    }
    if zeros > 0 {
        parts.push(format!("no ratio in {zeros} of {rows}, because a run has 0"));
    }
    if uncompared > 0 {
        parts.push(format!("no comparison in {uncompared} of {rows}"));
    }
    (!group.rows.is_empty()).then(|| Answer {
        about: table.about(group),
        text: [sentence(&parts.join("; ")), at_ceiling(group, place)].concat(),
    })
}

/// `47.1 to 99.7 % of the ceiling; limited by the wire in 3 of 4 cells, the emulator in 1.`
fn reached(table: &TableView<'_>, group: &Group<'_>) -> Option<Answer> {
    let shares = group.cells().filter_map(|cell| Some(cell.limit.as_ref()?.share));
    let range = shares.fold(None, |range, share| {
        let (low, high) = range.unwrap_or((share, share));
        Some((f64::min(low, share), f64::max(high, share)))
    });
    let (written, of): (fn(f64) -> String, _) = match table.spec.figure.spec().limit {
        Limit::Ceiling => (share, "\u{a0}% of the ceiling"),
        Limit::Floor(_) | Limit::None => (|times| fixed(times, 1), " times the floor"),
    };
    let range = range.map(|(low, high)| match (written(low), written(high)) {
        (low, high) if low == high => high + of,
        (low, high) => format!("{low} to {high}{of}"),
    });
    let parts: Vec<String> = range.into_iter().chain(notes::limited_by(group.cells())).collect();
    let text = sentence(&parts.join("; "));
    (!parts.is_empty()).then(|| Answer::remark(&table.about(group), text))
}

/// ` In 3 rows both reach 95 % of their ceilings or more, which differ by −1.6 % to −1.7 %.`
fn at_ceiling(group: &Group<'_>, place: usize) -> String {
    let changes: Vec<&Change> = group.rows.iter().map(|row| &row.changes[place]).collect();
    match at_ceilings(&changes) {
        (0, _) => String::new(),
        (all, words) if all == group.rows.len() => {
            format!(" Both reach at least 95 % of their ceilings, which differ by {words}.")
        }
        (some, words) => format!(
            " In {} both reach at least 95 % of their ceilings, which differ by {words}.",
            count(some, "row")
        ),
    }
}

/// Number of rows in which both levels reach their ceilings, and how these differ; 0 if the ceilings are equal.
pub(crate) fn at_ceilings(changes: &[&Change]) -> (usize, String) {
    let limits = changes.iter().filter_map(|change| change.of_limits);
    let changes: Vec<f64> = limits.filter(|limit| limit.is_reached).map(|l| l.change).collect();
    match changes.iter().all(|&change| change == 0.0) {
        true => (0, String::new()),
        false => (changes.len(), span(&changes)),
    }
}

/// The text with a full stop, and with a capital unless it starts with a level such as `ethernet:1G`.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let is_word = text.split(' ').next().is_some_and(|word| word.chars().all(char::is_alphabetic));
    let first = letters.next().map(|letter| match is_word {
        true => letter.to_uppercase().to_string(),
        false => letter.to_string(),
    });
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// ` (−12.1 % to −2.4 %)`, smallest change first.
fn range(comparisons: &[&&Comparison]) -> String {
    let changes: Vec<f64> = comparisons.iter().map(|c| c.change.value).collect();
    if changes.is_empty() { String::new() } else { format!(" ({})", span(&changes)) }
}

/// `−2.4 % to −12.1 %`, smallest change first.
fn span(changes: &[f64]) -> String {
    let mut changes = changes.to_vec();
    changes.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    match changes.as_slice() {
        [] => String::new(),
        [only] => percent(*only),
        [smallest, .., largest] => {
            let (from, to) = (percent(*smallest), percent(*largest));
            if from == to { from } else { format!("{from} to {to}") }
        }
    }
}

fn unseen(comparisons: &[&&Comparison]) -> String {
    let largest = comparisons.iter().filter_map(|c| c.smallest_visible).fold(0.0, f64::max);
    if largest > 0.0 { format!(" (MDE up to {}\u{a0}%)", share(largest)) } else { String::new() }
}
