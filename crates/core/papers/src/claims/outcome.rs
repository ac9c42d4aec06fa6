//! Results of the evaluation of a claim.

use std::fmt;

use serde::{Serialize, Serializer};

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Verdict {
    /// All figures agree with the claim.
    Holds,
    /// No figure contradicts the claim, but some differ by less than the tie band or their confidence interval.
    Tie,
    /// At least one figure contradicts the claim.
    Fails,
    /// The figures needed are missing.
    Unsupported,
    /// The paper shows it in a graph only, without numbers.
    FigureOnly,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "HOLDS",
            Self::Tie => "TIE",
            Self::Fails => "FAILS",
            Self::Unsupported => "UNSUPPORTED",
            Self::FigureOnly => "FIGURE-ONLY",
        })
    }
}

/// The comparisons of one column, table or statement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What is compared: `UDP 10GbE IPv4`.
    pub name: String,
    /// Comparisons that agree with the claim.
    pub holds: usize,
    /// Inconclusive comparisons.
    pub ties: usize,
    /// Comparisons that contradict the claim.
    pub fails: usize,
    /// Why there is no comparison; `None` if there is one.
    pub missing: Option<Missing>,
}

/// Why nothing was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "reason", rename_all = "kebab-case")]
pub enum Missing {
    /// Figures are missing, with the reason.
    Unsupported(String),
    /// The paper has only a graph without values; the text names it.
    FigureOnly(String),
}

impl Missing {
    /// The reason as text.
    pub fn reason(&self) -> &str {
        match self {
            Self::Unsupported(reason) | Self::FigureOnly(reason) => reason,
        }
    }
}

impl Part {
    /// Number of comparisons.
    pub fn of(&self) -> usize {
        self.holds + self.ties + self.fails
    }

    /// Verdict of these comparisons.
    pub fn verdict(&self) -> Verdict {
        match (&self.missing, self.fails, self.ties) {
            (Some(Missing::Unsupported(_)), ..) => Verdict::Unsupported,
            (Some(Missing::FigureOnly(_)), ..) => Verdict::FigureOnly,
            (None, 0, 0) => Verdict::Holds,
            (None, 0, _) => Verdict::Tie,
            (None, ..) => Verdict::Fails,
        }
    }
}

/// What a number contributes to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// The comparison that holds by the smallest margin.
    Closest,
    /// A statement that is true.
    Decides,
    /// An inconclusive comparison.
    Tie,
    /// A comparison that contradicts the claim.
    Fails,
    /// Additional information that does not affect the verdict.
    Beside,
}

/// One comparison with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Contribution to the result.
    pub shows: Shows,
    /// What is compared: `UDP IPoIB/FDR, 1,024 B`.
    pub what: String,
    /// The left side of the predicate.
    pub value: f64,
    /// The right side; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<f64>,
    /// Unit of both numbers; empty for a ratio.
    pub unit: &'static str,
}

/// The result of a claim with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Comparisons by column, table or statement.
    pub parts: Vec<Part>,
    /// The decisive numbers: failures and ties, and the comparison that holds by the smallest margin.
    pub evidence: Vec<Evidence>,
    /// Additional remarks.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Result if the figures needed are missing.
    pub(super) fn unsupported(reason: &str) -> Self {
        let missing = Some(Missing::Unsupported(reason.to_owned()));
        let part = Part { missing, ..Part::default() };
        Self { parts: vec![part], evidence: Vec::new(), notes: Vec::new() }
    }

    /// The worst verdict among parts with comparisons; if there are none, the reason.
    pub fn verdict(&self) -> Verdict {
        let verdicts = || self.parts.iter().map(Part::verdict);
        let decided = verdicts().filter(|verdict| *verdict <= Verdict::Fails).max();
        decided.or_else(|| verdicts().max()).unwrap_or(Verdict::Unsupported)
    }

    /// Number of comparisons that agree with the claim, and of all comparisons.
    pub fn counts(&self) -> (usize, usize) {
        let holds = self.parts.iter().map(|part| part.holds).sum();
        (holds, self.parts.iter().map(Part::of).sum())
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            verdict: Verdict,
            holds: usize,
            of: usize,
            parts: &'a [Part],
            evidence: &'a [Evidence],
            notes: &'a [String],
        }
        let (holds, of) = self.counts();
        let Self { parts, evidence, notes } = self;
        Whole { verdict: self.verdict(), holds, of, parts, evidence, notes }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(parts: &[(usize, usize, usize)]) -> Outcome {
        let part = |&(holds, ties, fails): &(usize, usize, usize)| Part {
            holds,
            ties,
            fails,
            ..Part::default()
        };
        Outcome { parts: parts.iter().map(part).collect(), evidence: vec![], notes: vec![] }
    }

    #[test]
    fn one_contradiction_fails_and_one_tie_ties() {
        assert_eq!(outcome(&[(14, 0, 0), (14, 0, 0)]).verdict(), Verdict::Holds);
        assert_eq!(outcome(&[(14, 0, 0), (13, 1, 0)]).verdict(), Verdict::Tie);
        assert_eq!(outcome(&[(13, 0, 1), (0, 14, 0)]).verdict(), Verdict::Fails);
        assert_eq!(outcome(&[(13, 0, 1), (0, 14, 0)]).counts(), (13, 28));
    }

    #[test]
    fn a_missing_part_does_not_hide_the_others() {
        let missing = Outcome::unsupported("no such column");
        assert_eq!(missing.verdict(), Verdict::Unsupported);
        let mut both = outcome(&[(5, 0, 0)]);
        both.parts.extend(missing.parts);
        assert_eq!((both.verdict(), both.counts()), (Verdict::Holds, (5, 5)));
        let missing = Some(Missing::FigureOnly("figure 10".into()));
        let figure = Part { missing, ..Part::default() };
        assert_eq!(figure.verdict(), Verdict::FigureOnly);
    }
}
