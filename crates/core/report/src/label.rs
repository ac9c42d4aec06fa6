//! Factors, levels and figures as text.

use fabricmark_plan::{
    Amount, Compare, Factor, Kind, Level, Plan, Point, SEGMENTS, Testbed, Topology, Transport,
};
use fabricmark_record::{Bottleneck, Provenance};
use fabricmark_stats::{Comparison, Verdict};
use fabricmark_units::{Bytes, Nanos};

use crate::cell::Cell;
use crate::{number, select};

/// A level in a heading.
pub(crate) fn level(factor: Factor, level: &str) -> String {
    match (factor, factor.spec().shown) {
        _ if level.is_empty() => format!("no {}", name(factor)),
        (Factor::Transport, _) if level != Transport::Null.word() => level.to_uppercase(),
        (_, "") => format!("{} {}", name(factor), row(factor, level)),
        _ => factor.spec().heading(&row(factor, level)),
    }
}

/// The verb after a level in a heading: `IPv6 is`, `4 flows are`.
pub(crate) fn verb(factor: Factor, level: &str) -> &'static str {
    let is_plural = factor.spec().shown.ends_with('s') && level != "1" && !level.is_empty();
    if is_plural { "are" } else { "is" }
}

/// `IPv6 against IPv4`
pub(crate) fn against(compare: &Compare) -> String {
    let [candidate, baseline] =
        [&compare.candidate, &compare.baseline].map(|text| level(compare.factor, text));
    format!("{candidate} against {baseline}")
}

/// Levels at the head of a row, below the names of their factors.
pub(crate) fn rows(factors: &[Factor], levels: &[Level]) -> String {
    let words = factors.iter().zip(levels).map(|(&factor, level)| row(factor, level));
    words.collect::<Vec<_>>().join(", ")
}

/// Heading of the rows of a table.
pub(crate) fn headings(factors: &[Factor]) -> String {
    factors.iter().map(|&factor| heading(factor)).collect::<Vec<_>>().join(", ")
}

/// A level at the head of a row, below the name of its factor.
pub(crate) fn row(factor: Factor, text: &str) -> String {
    match (factor.spec().kind, text.parse()) {
        _ if text.is_empty() => "none".to_owned(),
        _ if factor == Factor::Family => format!("IPv{text}"),
        (Kind::Size(..), Ok(Bytes(bytes))) => number::fixed(bytes as f64, 0),
        (Kind::Duration(..), _) => match text.parse() {
            Ok(Nanos(0)) => "0".to_owned(),
            // `400ms` with a no-break space.
            _ => {
                let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
                format!("{}\u{a0}{}", &text[..unit], &text[unit..])
            }
        },
        _ if factor == Factor::Window => match text.parse() {
            Ok(Bytes(bytes)) => format!("{} B", number::fixed(bytes as f64, 0)),
            Err(_) => text.replace("bdp", "\u{a0}×\u{a0}BDP"),
        },
        _ => text.to_owned(),
    }
}

/// Heading of the levels of a factor.
pub(crate) fn heading(factor: Factor) -> String {
    match factor.spec().kind {
        Kind::Size(..) => format!("{} (B)", name(factor)),
        _ => name(factor),
    }
}

fn name(factor: Factor) -> String {
    match factor.spec().name {
        "" => factor.key().replace('_', " "),
        name => name.to_owned(),
    }
}

/// Name of a series: its levels.
pub(crate) fn series(factors: &[Factor], levels: &[Level]) -> String {
    let words: Vec<String> =
        factors.iter().zip(levels).map(|(&factor, level)| self::level(factor, level)).collect();
    words.join(", ")
}

/// Suffix that names a provenance other than measured: ` (emulated)`.
pub(crate) fn origin(origins: &[Provenance]) -> String {
    match origins {
        [] | [Provenance::Measured] => String::new(),
        others => {
            let words: Vec<&str> = others.iter().copied().map(provenance).collect();
            format!(" ({})", words.join(" and "))
        }
    }
}

/// Each value once, in order of first occurrence.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The topology of a plan, and its two end nodes unless groups name others; `None` without a topology.
pub(crate) fn topology(plan: &Plan) -> Option<String> {
    let Topology { file, client, server, .. } = plan.topology.as_ref()?;
    Some(match (file.as_str(), plan.groups.is_empty()) {
        ("", _) => "the links of the plan".to_owned(),
        (file, true) => format!("topology {file} from {client} to {server}"),
        (file, false) => format!("topology {file}"),
    })
}

/// The load, the data and the links of a bookstore, as far as all points have the same and `levels` do not name them; `None`
/// for other testbeds.
pub(crate) fn tiers(
    plan: &Plan,
    points: &[&Point],
    levels: &[(Factor, Level)],
) -> Option<Vec<String>> {
    if plan.testbed != Testbed::Tiers {
        return None;
    }
    let factors = [Factor::Mix, Factor::Browsers, Factor::Items, Factor::Database];
    let shared = factors.into_iter().chain(SEGMENTS).filter_map(|factor| {
        let is_named = levels.iter().any(|(named, _)| *named == factor);
        match select::levels(points, factor).as_slice() {
            [one] if !is_named && !one.is_empty() => Some(level(factor, one)),
            _ => None,
        }
    });
    Some(shared.collect())
}

/// Amount that a run sends.
pub(crate) fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => format!("{} B", number::fixed(bytes as f64, 0)),
        Amount::Payloads(count) => format!("{} payloads", number::fixed(count as f64, 0)),
    }
}

/// A provenance as one word.
pub(crate) fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "measured",
        Provenance::Emulated => "emulated",
        Provenance::Modelled => "modelled",
        Provenance::Published => "published",
    }
}

/// The verdict, with the MDE if it is inconclusive.
pub(crate) fn judged(comparison: &Comparison) -> String {
    match (comparison.verdict, comparison.smallest_visible) {
        (Verdict::Inconclusive, Some(smallest)) => {
            format!("inconclusive (MDE {} %)", number::share(smallest))
        }
        (Verdict::Same, _) if differs(comparison) => {
            format!("same (<\u{a0}{}\u{a0}%)", comparison.tie_band * 100.0)
        }
        (verdict, _) => verdict.to_string(),
    }
}

/// Whether a change is significant after Holm's correction.
fn differs(comparison: &Comparison) -> bool {
    comparison.p_adjusted < 1.0 - comparison.change.confidence
}

/// `CPU of server, 97 % of the time its processor was busy`.
pub(crate) fn limited(by: &Bottleneck) -> String {
    format!("{by}, {} % {}", number::share(by.share()), by.evidence())
}

/// Shown if the bottleneck of a cell is unknown.
pub(crate) const UNKNOWN: &str = "unknown";

/// Name of the bottleneck of a cell.
pub(crate) fn limited_by(cell: &Cell<'_>) -> String {
    cell.bottleneck.map_or_else(|| UNKNOWN.to_owned(), Bottleneck::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_long_ways_are_written_with_their_units() {
        for (factor, text, wanted) in [
            (Factor::Rtt, "400ms", "400\u{a0}ms"),
            (Factor::Rtt, "0ns", "0"),
            (Factor::Window, "2bdp", "2\u{a0}×\u{a0}BDP"),
            (Factor::Window, "1073725440", "1,073,725,440 B"),
            (Factor::PacingRate, "", "none"),
            (Factor::PacingRate, "9G", "9G"),
        ] {
            assert_eq!(row(factor, text), wanted);
        }
        assert_eq!(level(Factor::Rtt, "400ms"), "RTT 400\u{a0}ms");
        assert_eq!(level(Factor::Window, ""), "no window");
        assert_eq!(level(Factor::Flows, "1"), "1 flow");
        assert_eq!(level(Factor::Flows, "2"), "2 flows");
        assert_eq!([verb(Factor::Flows, "1"), verb(Factor::Flows, "2")], ["is", "are"]);
        assert_eq!(verb(Factor::Family, "6"), "is");
    }
}
