//! Notes below a table: warnings about its figures.

use std::cmp::Reverse;

use fabricmark_plan::Table;
use fabricmark_record::{Bottleneck, Record, Warning};

use crate::cell::{Cell, Loss};
use crate::number::{count, share};
use crate::runs::{ByPoint, Runs, Withheld, failure, without_numbers};
use crate::table::{Change, Group};
use crate::{label, select};

/// Texts in order of first occurrence, with their counts.
#[derive(Default)]
struct Tally(Vec<Entry>);

struct Entry {
    kind: String,
    text: String,
    count: usize,
    is_uniform: bool,
}

impl Tally {
    fn add(&mut self, kind: String, text: String) {
        match self.0.iter_mut().find(|entry| entry.kind == kind) {
            Some(entry) => {
                entry.count += 1;
                entry.is_uniform &= entry.text == text;
            }
            None => self.0.push(Entry { kind, text, count: 1, is_uniform: true }),
        }
    }

    fn into_notes(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|Entry { text, count: n, is_uniform, .. }| {
            let example = if is_uniform { "" } else { ", for example" };
            format!("{}{example}: {text}", count(n, "run"))
        })
    }
}

pub(crate) fn of_table(spec: &Table, groups: &[Group<'_>], runs: &ByPoint<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if groups.is_empty() {
        notes.push("no point of this plan matches the table".to_owned());
    }
    if groups.iter().flat_map(Group::cells).any(|cell| cell.message_limit.is_some()) {
        notes.push(
            "% of ceiling: of the bound of a stream / of the ceiling if each write has packets of \
             its own"
                .to_owned(),
        );
    }
    if groups.iter().flat_map(Group::cells).any(|cell| cell.is_merged) {
        notes.push(
            "† merged: TCP put several writes into one segment, so the ceiling of separate writes \
             does not apply"
                .to_owned(),
        );
    }
    let changes = || groups.iter().flat_map(|group| &group.rows).flat_map(|row| &row.changes);
    notes.extend(beyond_means(changes()));
    if changes().any(Change::has_zeros) {
        notes.push(format!("no comparison where a run has 0: {}", Withheld::ZEROS));
    }
    notes.extend(groups.iter().filter_map(limited));
    notes.extend(groups.iter().filter_map(loss));
    let shown: Vec<&Runs<'_>> =
        groups.iter().flat_map(Group::cells).filter_map(|cell| runs.get(cell.point)).collect();
    let is_offloaded =
        |record: &Record| record.emulation.as_ref().is_some_and(|emulation| emulation.offloaded);
    if shown.iter().flat_map(|runs| &runs.counted).any(|record| is_offloaded(record)) {
        notes.push("offload on: the link carried super-packets, not single frames".to_owned());
    }
    notes.extend(invalid(groups.iter().flat_map(Group::cells)));
    notes.extend(of_runs(&shown));
    notes.extend(groups.iter().filter_map(|group| correlation(spec, group, runs)));
    notes
}

/// What the mark of cells with invalid runs means, if one has any.
pub(crate) fn invalid<'a>(mut cells: impl Iterator<Item = &'a Cell<'a>>) -> Option<String> {
    let text = "‡ some runs of the point are invalid and do not count";
    cells.any(|cell| cell.invalid > 0).then(|| text.to_owned())
}

/// A note if changes over rounds of slices differ from those of the means, as rare stalls of one level cause it.
pub(crate) fn beyond_means<'a>(changes: impl Iterator<Item = &'a Change>) -> Option<String> {
    let beyond = changes.filter(|change| change.is_beyond_means).count();
    (beyond > 0).then(|| {
        format!(
            "in {} the change over rounds of slices and the change of the means differ by more \
             than the interval of the means: stalls may have slowed one of the levels",
            count(beyond, "row")
        )
    })
}

/// Warnings of the runs, and reasons of skipped and invalid runs.
pub(crate) fn of_runs(runs: &[&Runs<'_>]) -> Vec<String> {
    let mut failures = Tally::default();
    let mut warnings = Tally::default();
    for record in runs.iter().flat_map(|runs| &runs.failed) {
        let text = failure(record).unwrap_or_default();
        failures.add(without_numbers(&text), text);
    }
    for warning in runs.iter().flat_map(|runs| &runs.counted).flat_map(|r| &r.warnings) {
        // Only that of the last run of a point holds: `correlation` and `measured_text` report it.
        if !matches!(warning, Warning::Correlated { .. }) {
            warnings.add(kind(warning), warning.to_string());
        }
    }
    failures.into_notes().chain(warnings.into_notes()).collect()
}

/// Warnings of one kind share a note, whatever their numbers.
fn kind(warning: &Warning) -> String {
    match warning {
        Warning::NotPinned { node, reason } => format!("{node} {reason}"),
        other => format!("{:?}", std::mem::discriminant(other)),
    }
}

/// `ethernet:1G (emulated): limited by the wire in 6 of 8 cells, the CPU of client in 2`, the most frequent first.
/// Tables without comparisons have a column for it.
fn limited(group: &Group<'_>) -> Option<String> {
    let by = limited_by(group.cells()).filter(|_| group.is_compared())?;
    Some(of_group(group, &by))
}

/// A note about a group, headed by its title if it has one.
fn of_group(group: &Group<'_>, text: &str) -> String {
    if group.title.is_empty() { text.to_owned() } else { format!("{}: {text}", group.title) }
}

/// `limited by the wire in 6 of 9 cells, the CPU of client in 2, unknown in 1`, unknown last; `None` if it is unknown for
/// all cells.
pub(crate) fn limited_by<'a>(cells: impl Iterator<Item = &'a Cell<'a>>) -> Option<String> {
    let cells: Vec<&Cell<'_>> = cells.filter(|cell| cell.estimate.is_some()).collect();
    if cells.iter().all(|cell| cell.bottleneck.is_none()) {
        return None;
    }
    let name = |cell: &&Cell<'_>| {
        cell.bottleneck.map_or_else(|| label::UNKNOWN.to_owned(), Bottleneck::in_a_sentence)
    };
    let mut names: Vec<String> = cells.iter().map(name).collect();
    names.sort();
    let mut same: Vec<&[String]> = names.chunk_by(|a, b| a == b).collect();
    same.sort_by_key(|same| (same[0] == label::UNKNOWN, Reverse(same.len())));
    if let [only] = same.as_slice() {
        return Some(format!("limited by {}", only[0]));
    }
    let [first, others @ ..] = same.as_slice() else { return None };
    let mut words = format!("limited by {} in {} of {} cells", first[0], first.len(), cells.len());
    for same in others {
        words += &format!(", {} in {}", same[0], same.len());
    }
    Some(words)
}

fn loss(group: &Group<'_>) -> Option<String> {
    let losses: Vec<Loss> = group.cells().filter_map(|cell| cell.loss).collect();
    let worst = losses.iter().map(|loss| loss.share()).fold(0.0, f64::max);
    let sum = Loss::sum(losses.iter().copied());
    (sum.drops.lost > 0).then(|| {
        let most = share(worst);
        let most = match most.strip_prefix('<') {
            Some(limit) => format!("less than{limit}"),
            None => format!("at most {most}"),
        };
        let text = format!(
            "{} lost in {}, {most} % of those sent ({})",
            count(usize::try_from(sum.drops.lost).unwrap_or(usize::MAX), "datagram"),
            count(losses.len(), "cell"),
            sum.places()
        );
        of_group(group, &text)
    })
}

/// A warning if consecutive runs of a point are correlated, from the last run of each point.
fn correlation(spec: &Table, group: &Group<'_>, runs: &ByPoint<'_>) -> Option<String> {
    let correlated: Vec<(String, f64)> = group
        .cells()
        .filter_map(|cell| {
            let last = runs.get(cell.point)?.counted.last()?;
            let lag = last.warnings.iter().find_map(|warning| match warning {
                Warning::Correlated { lag1 } => Some(*lag1),
                _ => None,
            })?;
            Some((label::series(&spec.rows, &select::levels_of(cell.point, &spec.rows)), lag))
        })
        .collect();
    let (row, worst) = correlated.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let text = format!(
        "in {} consecutive runs are correlated (lag 1: {worst:.2} at {row}): the intervals of these \
         means are too narrow",
        count(correlated.len(), "cell"),
    );
    Some(of_group(group, &text))
}
