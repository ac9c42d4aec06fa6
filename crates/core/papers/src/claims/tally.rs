//! Comparisons counted by part, with the numbers that decide.

use super::outcome::{Evidence, Missing, Outcome, Part, Shows};
use super::value::Value;

/// How two figures are said to stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The left one is larger.
    Above,
    /// The left one is larger or the same.
    AtLeast,
    /// The left one is smaller.
    Below,
    /// The left one is smaller or the same.
    AtMost,
}

/// How near two figures count as the same, and what their unit is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The change, as a fraction, up to which two measured figures are tied; printed figures are
    /// compared as they are, with a band of 0.
    pub tie: f64,
    /// Unit in evidence; empty for a ratio.
    pub unit: &'static str,
}

/// Comparisons that decide one claim.
#[derive(Debug, Default)]
pub struct Tally {
    parts: Vec<Part>,
    /// The smallest margin of a comparison that holds, and its numbers.
    closest: Option<(f64, Evidence)>,
    evidence: Vec<Evidence>,
    besides: Vec<Evidence>,
    notes: Vec<String>,
    /// Why the figures are missing, where nothing was compared.
    otherwise: String,
}

impl Tally {
    /// Comparisons from here on belong to a part of this name.
    pub fn part(&mut self, name: impl Into<String>) {
        self.parts.push(Part { name: name.into(), ..Part::default() });
    }

    /// A part about which nothing can be said.
    pub fn missing(&mut self, name: impl Into<String>, missing: Missing) {
        self.parts.push(Part { name: name.into(), missing: Some(missing), ..Part::default() });
    }

    /// Whether one figure stands to another as claimed: a tie where they differ by less than the tie
    /// band, or than their intervals together allow to tell.
    pub fn compare(
        &mut self,
        what: impl Into<String>,
        left: Value,
        relation: Relation,
        right: Value,
        scale: Scale,
    ) {
        let larger = (left.value / right.value).ln();
        let (margin, is_weak) = match relation {
            Relation::Above => (larger, false),
            Relation::AtLeast => (larger, true),
            Relation::Below => (-larger, false),
            Relation::AtMost => (-larger, true),
        };
        let band = scale.tie.max(left.half_width.hypot(right.half_width));
        let shows = match margin {
            _ if margin > band || (is_weak && margin >= 0.0 && band == 0.0) => Shows::Closest,
            _ if margin < -band || band == 0.0 => Shows::Fails,
            _ => Shows::Tie,
        };
        self.weigh(margin, shows, what, left.value, right.value, scale.unit);
    }

    /// Whether a figure is within `tolerance`, a fraction, of another: a tie where the intervals reach
    /// over the edge.
    pub fn within(
        &mut self,
        what: impl Into<String>,
        left: Value,
        right: Value,
        tolerance: f64,
        unit: &'static str,
    ) {
        let margin = tolerance - (left.value / right.value - 1.0).abs();
        let band = left.half_width.hypot(right.half_width);
        let shows = match margin {
            _ if margin >= band => Shows::Closest,
            _ if margin < -band => Shows::Fails,
            _ => Shows::Tie,
        };
        self.weigh(margin, shows, what, left.value, right.value, unit);
    }

    /// Whether a figure is not beyond a bound: above it with `side` 1, below it with -1. A tie where
    /// it is beyond by less than its interval.
    pub fn not_beyond(
        &mut self,
        what: impl Into<String>,
        value: Value,
        bound: f64,
        side: f64,
        unit: &'static str,
    ) {
        let margin = side * (bound / value.value).ln();
        let shows = match margin {
            _ if margin >= 0.0 => Shows::Closest,
            _ if margin < -value.half_width => Shows::Fails,
            _ => Shows::Tie,
        };
        self.weigh(margin, shows, what, value.value, bound, unit);
    }

    /// A statement about two numbers, which are shown only if it is not true.
    pub fn holds_or(
        &mut self,
        what: impl Into<String>,
        is_true: bool,
        value: f64,
        against: f64,
        unit: &'static str,
    ) {
        if is_true {
            self.last().holds += 1;
        } else {
            self.is(what, false, value, against, unit);
        }
    }

    /// A statement about two numbers, which are shown whether it is true or not.
    pub fn is(
        &mut self,
        what: impl Into<String>,
        is_true: bool,
        value: f64,
        against: f64,
        unit: &'static str,
    ) {
        let shows = if is_true { Shows::Decides } else { Shows::Fails };
        self.weigh(0.0, shows, what, value, against, unit);
    }

    /// The part that comparisons belong to; one without a name before the first.
    fn last(&mut self) -> &mut Part {
        if self.parts.is_empty() {
            self.part("");
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Counts a comparison; of those that hold by a margin only the closest is evidence.
    fn weigh(
        &mut self,
        margin: f64,
        shows: Shows,
        what: impl Into<String>,
        value: f64,
        against: f64,
        unit: &'static str,
    ) {
        let part = self.last();
        match shows {
            Shows::Fails => part.fails += 1,
            Shows::Tie => part.ties += 1,
            _ => part.holds += 1,
        }
        let evidence = Evidence { shows, what: what.into(), value, against: Some(against), unit };
        if shows != Shows::Closest {
            self.evidence.push(evidence);
        } else if self.closest.as_ref().is_none_or(|(closest, _)| margin < *closest) {
            self.closest = Some((margin, evidence));
        }
    }

    /// A number that belongs to the answer and decides nothing; it stands behind those that do.
    pub fn beside(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        let what = what.into();
        self.besides.push(Evidence { shows: Shows::Beside, what, value, against: None, unit });
    }

    /// Whether there is any comparison.
    pub fn has_compared(&self) -> bool {
        self.parts.iter().any(|part| part.of() > 0)
    }

    /// What to know beside the answer.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Why the figures are missing, if nothing is compared.
    pub fn otherwise(&mut self, reason: impl Into<String>) {
        self.otherwise = reason.into();
    }

    /// The answer; parts without a comparison are left out, and without any the figures are missing.
    pub fn outcome(mut self) -> Outcome {
        self.parts.retain(|part| part.of() > 0 || part.missing.is_some());
        if self.parts.is_empty() {
            return Outcome { notes: self.notes, ..Outcome::unsupported(&self.otherwise) };
        }
        let closest = self.closest.into_iter().map(|(_, evidence)| evidence);
        let evidence = closest.chain(self.evidence).chain(self.besides).collect();
        Outcome { parts: self.parts, evidence, notes: self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;
    use Relation::{Above, AtLeast, AtMost, Below};

    const PRINTED: Scale = Scale { tie: 0.0, unit: "" };
    const MEASURED: Scale = Scale { tie: 0.02, unit: "Mb/s" };

    fn verdict(left: Value, relation: Relation, right: Value, scale: Scale) -> Verdict {
        let mut tally = Tally::default();
        tally.compare("", left, relation, right, scale);
        tally.outcome().verdict()
    }

    #[test]
    fn printed_numbers_are_compared_as_they_are() {
        let (one, more) = (Value::exact(1.0), Value::exact(1.001));
        for (left, relation, right, expected) in [
            (more, Above, one, Verdict::Holds),
            (one, Above, one, Verdict::Fails),
            (one, AtLeast, one, Verdict::Holds),
            (one, AtMost, one, Verdict::Holds),
            (one, Below, more, Verdict::Holds),
            (more, AtMost, one, Verdict::Fails),
        ] {
            assert_eq!(verdict(left, relation, right, PRINTED), expected, "{relation:?}");
        }
    }

    #[test]
    fn measured_figures_within_the_tie_band_are_a_tie() {
        let one = Value::exact(1.0);
        for (value, expected) in [
            (1.03, Verdict::Holds),
            (1.01, Verdict::Tie),
            (0.99, Verdict::Tie),
            (0.97, Verdict::Fails),
        ] {
            assert_eq!(verdict(Value::exact(value), Above, one, MEASURED), expected, "{value}");
        }
    }

    #[test]
    fn measured_figures_whose_intervals_meet_are_a_tie() {
        let with = |value, half_width| Value { value, half_width };
        // Together 5 %: 4 % more is no difference, 6 % more is one.
        assert_eq!(verdict(with(1.04, 0.03), Above, with(1.0, 0.04), MEASURED), Verdict::Tie);
        assert_eq!(verdict(with(1.06, 0.03), Above, with(1.0, 0.04), MEASURED), Verdict::Holds);
        let unknown = with(9.0, f64::INFINITY);
        assert_eq!(verdict(unknown, Above, with(1.0, 0.0), MEASURED), Verdict::Tie);
    }

    #[test]
    fn a_tolerance_is_a_tie_where_the_interval_reaches_over_its_edge() {
        for (value, half_width, expected) in [
            (1.03, 0.0, Verdict::Holds),
            (1.02, 0.005, Verdict::Holds),
            (1.02, 0.02, Verdict::Tie),
            (0.96, 0.02, Verdict::Tie),
            (0.96, 0.005, Verdict::Fails),
        ] {
            let mut tally = Tally::default();
            tally.within("", Value { value, half_width }, Value::exact(1.0), 0.030_000_1, "");
            assert_eq!(tally.outcome().verdict(), expected, "{value} {half_width}");
        }
    }

    #[test]
    fn the_closest_call_and_every_failure_are_the_evidence() {
        let mut tally = Tally::default();
        for (what, value) in [("a", 2.0), ("b", 1.1), ("c", 0.9), ("d", 0.8)] {
            tally.compare(what, Value::exact(value), Above, Value::exact(1.0), PRINTED);
        }
        let outcome = tally.outcome();
        let shown: Vec<(&str, Shows)> =
            outcome.evidence.iter().map(|e| (e.what.as_str(), e.shows)).collect();
        assert_eq!(shown, [("b", Shows::Closest), ("c", Shows::Fails), ("d", Shows::Fails)]);
        assert_eq!(outcome.counts(), (2, 4));
    }

    #[test]
    fn without_a_comparison_the_figures_are_missing() {
        let mut tally = Tally::default();
        tally.part("UDP");
        tally.otherwise("no figures of UDP");
        let outcome = tally.outcome();
        assert_eq!(outcome.verdict(), Verdict::Unsupported);
        assert_eq!(
            outcome.parts[0].missing.as_ref().map(Missing::reason),
            Some("no figures of UDP")
        );
    }
}
