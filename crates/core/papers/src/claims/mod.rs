//! The papers' claims as predicates over figures.
//!
//! A [`Claim`] is evaluated on [`Figures`]: those that the papers print, or the means of an experiment. Printed
//! numbers are compared exactly. For measured ones, a difference within the tie band or within their confidence
//! intervals is a [`Verdict::Tie`]. Predicates are not adjusted to make claims hold: `docs/claims.md` lists those
//! that fail on the papers' own numbers.

mod figures;
mod limit;
mod measured;
mod outcome;
mod p1;
mod p2;
mod p3;
mod p4;
mod p5;
mod tally;
mod value;

pub use figures::{Column, Figures, Load, Origin, Quantity, Set};
pub use limit::Limit;
pub use outcome::{Evidence, Missing, Outcome, Part, Shows, Verdict};
pub use value::Value;

use serde::Serialize;

use tally::Tally;

/// How a claim is evaluated.
#[derive(Clone, Copy, Debug)]
enum Judge {
    /// A claim about networks and payloads: evaluated on any figures, including new ones.
    Networks(fn(&Figures, &mut Tally)),
    /// A claim about numbers that the paper prints, or their arithmetic; `None` if a number is missing.
    Print(fn(&mut Tally) -> Option<()>),
    /// Both: on the paper's own numbers, and on new figures.
    Both(fn(&mut Tally) -> Option<()>, fn(&Figures, &mut Tally)),
}

/// One claim of a paper.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Claim {
    /// Identifier: `P1-07a`.
    pub id: &'static str,
    /// The paper's claim in plain English.
    pub statement: &'static str,
    /// The predicate that is evaluated.
    pub predicate: &'static str,
    #[serde(skip)]
    judge: Judge,
}

impl Claim {
    /// Name of the paper: `P1`.
    pub fn paper(&self) -> &'static str {
        self.id.split('-').next().unwrap_or_default()
    }

    /// Evaluates the claim on `figures`.
    pub fn evaluate(&self, figures: &Figures) -> Outcome {
        let mut tally = Tally::default();
        match (self.judge, figures.origin) {
            (Judge::Networks(judge), _) | (Judge::Both(_, judge), Origin::Measured) => {
                judge(figures, &mut tally);
            }
            (Judge::Print(judge) | Judge::Both(judge, _), Origin::Published) => {
                if judge(&mut tally).is_none() {
                    return Outcome::unsupported("a number of the paper is missing in the data");
                }
            }
            (Judge::Print(_), Origin::Measured) => {
                tally.otherwise("a claim about printed numbers, which measurements cannot test");
            }
        }
        tally.outcome()
    }
}

const fn claim(
    id: &'static str,
    statement: &'static str,
    predicate: &'static str,
    judge: Judge,
) -> Claim {
    Claim { id, statement, predicate, judge }
}

/// All claims, in the order of the papers.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    [p1::CLAIMS, p2::CLAIMS, p3::CLAIMS, p4::CLAIMS, p5::CLAIMS].into_iter().flatten()
}

/// A claim and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The claim.
    #[serde(flatten)]
    pub claim: &'static Claim,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Evaluates the claims of `papers` on `figures`; of all papers if `papers` is empty.
pub fn judge(figures: &Figures, papers: &[String]) -> Vec<Judged> {
    claims()
        .filter(|claim| papers.is_empty() || papers.iter().any(|paper| paper == claim.paper()))
        .map(|claim| Judged { claim, outcome: claim.evaluate(figures) })
        .collect()
}
