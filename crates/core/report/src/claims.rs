//! The papers' claims and their verdicts, for a terminal or as JSON.

use fabricmark_papers::claims::{
    Evidence, Figures, Judged, Missing, Outcome, Part, Shows, Verdict, judge,
};
use fabricmark_papers::paper;
use serde_json::{Value, json};

use crate::Experiment;
use crate::number::fixed;
use crate::papers::known_papers;
use crate::text::paragraph;

/// Maximum number of printed comparisons of one kind per claim; JSON has all.
const LINES: usize = 6;

/// Indent of detail lines: the width of a claim's name, verdict and counts.
const INDENT: &str = "                            ";

/// Claims, judged either on published figures or on an experiment, never on both.
#[derive(Clone, Debug)]
pub struct ClaimsView {
    /// Description of these figures.
    on: String,
    judged: Vec<Judged>,
}

/// Unknown paper.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown paper `{name}`; use one of {known}")]
pub struct NoSuchPaper {
    name: String,
    known: String,
}

impl ClaimsView {
    /// Judges the claims of the papers `names`, or of all papers if empty, on published figures.
    ///
    /// # Errors
    ///
    /// Fails for an unknown paper.
    pub fn published(names: &[String]) -> Result<Self, NoSuchPaper> {
        Self::judged("published figures".to_owned(), &Figures::published(), names)
    }

    /// Judges the same claims on the means of experiments, with their links side by side.
    ///
    /// # Errors
    ///
    /// Fails for an unknown paper.
    pub fn of(experiments: &[Experiment<'_>], names: &[String]) -> Result<Self, NoSuchPaper> {
        let measured = experiments
            .iter()
            .map(|e| (e.name, Figures::measured(e.records, &e.plan.stop)))
            .collect();
        let words: Vec<&str> = experiments.iter().map(|e| e.name).collect();
        let on = format!("the measured figures of {}", words.join(" and "));
        Self::judged(on, &Figures::side_by_side(measured), names)
    }

    fn judged(on: String, figures: &Figures, names: &[String]) -> Result<Self, NoSuchPaper> {
        if let Some(name) = names.iter().find(|name| paper(name).is_none()) {
            return Err(NoSuchPaper { name: name.clone(), known: known_papers() });
        }
        Ok(Self { on, judged: judge(figures, names) })
    }

    /// The claims for a terminal of `width` columns: a paragraph per claim, and the number of claims per verdict.
    pub fn text(&self, width: usize) -> String {
        let mut out = format!("Claims, judged on {}\n\n", self.on);
        for Judged { claim, outcome } in &self.judged {
            let (verdict, counts) = (outcome.verdict(), counts(outcome));
            let head = format!("{:<7} {verdict:<11} {counts:>7} ", claim.id);
            paragraph(&mut out, &format!("{head}{}", claim.statement), width, INDENT);
            for line in lines(outcome) {
                paragraph(&mut out, &format!("{INDENT}{line}"), width, INDENT);
            }
        }
        out.push_str(&format!("\n{}\n", self.summary()));
        out
    }

    /// `70 claims: 41 HOLDS, 16 FAILS, 2 UNSUPPORTED, 11 FIGURE-ONLY`
    fn summary(&self) -> String {
        let words: Vec<String> = self
            .numbers()
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(verdict, count)| format!("{count} {verdict}"))
            .collect();
        format!("{} claims: {}", self.judged.len(), words.join(", "))
    }

    /// Number of claims per verdict.
    fn numbers(&self) -> [(Verdict, usize); 5] {
        [Verdict::Holds, Verdict::Tie, Verdict::Fails, Verdict::Unsupported, Verdict::FigureOnly]
            .map(|verdict| {
                let has = |judged: &&Judged| judged.outcome.verdict() == verdict;
                (verdict, self.judged.iter().filter(has).count())
            })
    }

    /// The claims as JSON, with all comparisons that fail or tie.
    pub fn json(&self) -> Value {
        let numbers: serde_json::Map<String, Value> = self
            .numbers()
            .into_iter()
            .map(|(verdict, count)| (verdict.to_string(), count.into()))
            .collect();
        json!({ "judged_on": self.on, "claims": self.judged, "verdicts": numbers })
    }
}

/// `28/28`; empty if nothing was compared.
fn counts(outcome: &Outcome) -> String {
    match outcome.counts() {
        (_, 0) => String::new(),
        (holds, of) => format!("{holds}/{of}"),
    }
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let compared: Vec<&Part> = outcome.parts.iter().filter(|part| part.of() > 0).collect();
    if compared.len() > 1 && outcome.verdict() != Verdict::Holds {
        let words: Vec<String> = compared
            .iter()
            .map(|part| format!("{} {}/{}", part.name, part.holds, part.of()))
            .collect();
        lines.push(words.join(", "));
    }
    for part in &outcome.parts {
        let own = part.verdict();
        let word = if own == outcome.verdict() { String::new() } else { format!("{own}: ") };
        lines.extend(part.missing.as_ref().map(|m: &Missing| format!("{word}{}", m.reason())));
    }
    let of = |shows: Shows| -> Vec<&Evidence> {
        outcome.evidence.iter().filter(|evidence| evidence.shows == shows).collect()
    };
    if outcome.verdict() == Verdict::Holds {
        lines.extend(of(Shows::Closest).into_iter().map(|e| format!("closest: {}", comparison(e))));
    }
    for (shows, word) in [(Shows::Decides, ""), (Shows::Fails, "fails: "), (Shows::Tie, "ties: ")] {
        let all = of(shows);
        lines.extend(all.iter().take(LINES).map(|e| format!("{word}{}", comparison(e))));
        if all.len() > LINES {
            lines.push(format!("{word}and {} more", all.len() - LINES));
        }
    }
    let beside: Vec<String> = of(Shows::Beside)
        .iter()
        .map(|e| format!("{}: {}", e.what, number(e.value, e.unit)))
        .collect();
    if !beside.is_empty() {
        lines.push(beside.join("; "));
    }
    lines.extend(outcome.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// `UDP IPoIB/FDR, 1,024 B: 3,107.23 against 3,096.52 Mb/s (+0.35 %)`
fn comparison(e: &Evidence) -> String {
    let Some(against) = e.against else {
        return format!("{}: {}", e.what, number(e.value, e.unit));
    };
    let change = (e.value / against - 1.0) * 100.0;
    let change = match change.abs() {
        _ if e.unit == "%" || e.value == against || !change.is_finite() => String::new(),
        size => {
            let decimals = match size {
                _ if size < 0.1 => 4,
                _ if size < 10.0 => 2,
                _ if size < 100.0 => 1,
                _ => 0,
            };
            let sign = if change > 0.0 { "+" } else { "" };
            format!(" ({sign}{}\u{a0}%)", fixed(change, decimals))
        }
    };
    format!("{}: {} against {}{change}", e.what, number(e.value, ""), number(against, e.unit))
}

fn number(value: f64, unit: &str) -> String {
    let gap = if unit.is_empty() { "" } else { "\u{a0}" };
    format!("{}{gap}{unit}", digits(value))
}

/// Formats like the papers: two decimals from 10 on, three or four below, none for integers; scientific notation for
/// tiny numbers.
fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == size.trunc() => fixed(value, 0),
        _ if size >= 10.0 => fixed(value, 2),
        _ if size >= 0.1 => fixed(value, 3),
        _ if size >= 1e-4 => fixed(value, 4),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        for (value, expected) in [
            (3107.23, "3,107.23"),
            (32_768.0, "32,768"),
            (0.9388, "0.939"),
            (5.58, "5.580"),
            (2.5e-11, "2.5e-11"),
            (0.0213, "0.0213"),
        ] {
            assert_eq!(digits(value), expected);
        }
    }

    #[test]
    fn a_paper_that_is_none_is_refused() {
        let error = ClaimsView::published(&["P9".to_owned()]).unwrap_err();
        let expected = "unknown paper `P9`; use one of P1, P2, P3, P4, P5";
        assert_eq!(error.to_string(), expected);
    }
}
