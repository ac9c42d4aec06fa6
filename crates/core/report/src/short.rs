//! The answer in one sentence: where two levels differ, by how much, and how much of it the wire explains.

use fabricmark_plan::{Compare, Factor, Unit};
use fabricmark_stats::{Comparison, Verdict};

use crate::answer::{at_ceilings, of_means, sentence};
use crate::label;
use crate::number::{count, share};
use crate::table::{Change, Group, TableView};

/// `With IPv6 instead of IPv4: UDP goodput 4.2 to 12.9 % less over veth. Of 40 comparisons 14 are slower, 20 are the same
/// and 6 are inconclusive.` `None` without comparisons.
pub(crate) fn in_short(tables: &[TableView<'_>], compare: &Compare) -> Option<String> {
    let found: Vec<&Comparison> =
        of_means(tables, compare).filter_map(|change| change.comparison.as_ref()).collect();
    if found.is_empty() {
        return None;
    }
    let levels = [&compare.candidate, &compare.baseline];
    let [candidate, baseline] = levels.map(|level| label::level(compare.factor, level));
    let of_tables: Vec<String> =
        tables.iter().filter_map(|table| of_table(table, compare)).collect();
    let differ = match of_tables.is_empty() {
        true => format!(
            "between {candidate} and {baseline} no table of means differs in one direction in most of its \
             rows"
        ),
        false => format!("with {candidate} instead of {baseline}: {}", of_tables.join("; ")),
    };
    let verdicts = [
        (Verdict::Slower, "slower"),
        (Verdict::Faster, "faster"),
        (Verdict::Same, "the same"),
        (Verdict::Inconclusive, "inconclusive"),
    ];
    let counts: Vec<String> = verdicts
        .into_iter()
        .map(|(verdict, words)| (found.iter().filter(|f| f.verdict == verdict).count(), words))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {} {words}", if count == 1 { "is" } else { "are" }))
        .collect();
    let counts = listed(&counts);
    Some(format!("{} Of {} {counts}.", sentence(&differ), count(found.len(), "comparison")))
}

/// `UDP goodput 4.2 to 12.9 % less over veth and 1.6 to 5.1 % less over ethernet:1G (emulated)`: the groups of a
/// table of means in which most rows differ in one direction.
fn of_table(table: &TableView<'_>, compare: &Compare) -> Option<String> {
    let is_of_means = !table.spec.figure.spec().is_median;
    let place = table.compared.iter().position(|of| *of == compare).filter(|_| is_of_means)?;
    let of_group = |group: &Group<'_>| {
        let changes: Vec<&Change> = group.rows.iter().map(|row| &row.changes[place]).collect();
        Some(format!(
            "{}{}{}",
            difference(table, &changes)?,
            over(group),
            beside_ceilings(&changes)
        ))
    };
    let groups: Vec<String> = table.groups.iter().filter_map(of_group).collect();
    (!groups.is_empty()).then(|| format!("{} {}", table.title(), listed(&groups)))
}

/// `4.2 to 12.9 % less in 13 of 14 rows`, if most rows differ significantly, all in one direction.
fn difference(table: &TableView<'_>, changes: &[&Change]) -> Option<String> {
    let found = changes.iter().filter_map(|change| change.comparison.as_ref());
    let is_other = |found: &&Comparison| matches!(found.verdict, Verdict::Slower | Verdict::Faster);
    let other: Vec<f64> = found.filter(is_other).map(|found| found.change.value).collect();
    let falls = *other.first()? < 0.0;
    if 2 * other.len() <= changes.len() || other.iter().any(|&change| (change < 0.0) != falls) {
        return None;
    }
    let is_time = matches!(table.spec.figure.spec().unit, Unit::Nanos);
    let word = match (is_time, falls) {
        (false, true) => "less",
        (false, false) => "more",
        (true, true) => "shorter",
        (true, false) => "longer",
    };
    let low = other.iter().map(|change| change.abs()).fold(f64::MAX, f64::min);
    let high = other.iter().map(|change| change.abs()).fold(0.0, f64::max);
    let (low, high) = (share(low), share(high));
    let range = if low == high { low } else { format!("{low} to {high}") };
    let rows = match changes.len() {
        all if all == other.len() => String::new(),
        all => format!(" in {} of {all} rows", other.len()),
    };
    Some(format!("{range}\u{a0}% {word}{rows}"))
}

/// ` over veth`, ` with payload 64 B, veth`; empty for a table of one group.
fn over(group: &Group<'_>) -> String {
    let is_link = group.levels.iter().all(|(factor, _)| *factor == Factor::Link);
    match (group.title.as_str(), is_link) {
        ("", _) => String::new(),
        (title, true) => format!(" over {title}"),
        (title, false) => format!(" with {title}"),
    }
}

/// ` (3 of 5 rows reach their ceilings, which differ by −1.8 % to −1.9 %)`, if most do.
fn beside_ceilings(changes: &[&Change]) -> String {
    let (reached, words) = at_ceilings(changes);
    let rows = changes.len();
    if 2 * reached <= rows {
        return String::new();
    }
    let those = if rows == 1 { "both".to_owned() } else { format!("{reached} of {rows} rows") };
    format!(" ({those} reach their ceilings, which differ by {words})")
}

/// `a, b and c`
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
