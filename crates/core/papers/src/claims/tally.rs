//! Counts comparisons by part, and collects the decisive numbers.

use super::outcome::{Evidence, Missing, Outcome, Part, Shows};
use super::value::Value;

/// Claimed relation between two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Left > right.
    Above,
    /// Left >= right.
    AtLeast,
    /// Left < right.
    Below,
    /// Left <= right.
    AtMost,
}

/// Tie band and unit of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Tie band: relative difference up to which measured figures are tied; 0 for printed figures.
    pub tie: f64,
    /// Unit in evidence; empty for a ratio.
    pub unit: &'static str,
}

/// The comparisons that decide one claim.
#[derive(Debug, Default)]
pub struct Tally {
    parts: Vec<Part>,
    /// The smallest margin among the comparisons that hold, and its numbers.
    closest: Option<(f64, Evidence)>,
    evidence: Vec<Evidence>,
    besides: Vec<Evidence>,
    notes: Vec<String>,
    /// Why figures are missing, if nothing is compared.
    otherwise: String,
}

impl Tally {
    /// Starts a part; the comparisons that follow belong to it.
    pub fn part(&mut self, name: impl Into<String>) {
        self.parts.push(Part { name: name.into(), ..Part::default() });
    }

    /// Adds a part without comparisons.
    pub fn missing(&mut self, name: impl Into<String>, missing: Missing) {
        self.parts.push(Part { name: name.into(), missing: Some(missing), ..Part::default() });
    }

    /// Compares two figures with the claimed relation. A tie if they differ by no more than the tie band or their
    /// combined confidence intervals.
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

    /// Checks whether a figure is within a fraction `tolerance` of another. A tie if the intervals cross the edge.
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

    /// Checks a figure against a bound: an upper one for `side` 1, a lower one for -1. A tie if it is beyond the
    /// bound by no more than its interval.
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

    /// Counts a statement about two numbers, which are evidence only if it is false.
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

    /// Counts a statement about two numbers, which are evidence in any case.
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

    /// The current part; creates one without a name if there is none.
    fn last(&mut self) -> &mut Part {
        if self.parts.is_empty() {
            self.part("");
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Counts a comparison. Among those that hold by a margin, only the closest is evidence.
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

    /// Adds a number that does not affect the verdict; it is listed after those that do.
    pub fn beside(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        let what = what.into();
        self.besides.push(Evidence { shows: Shows::Beside, what, value, against: None, unit });
    }

    /// Whether anything has been compared.
    pub fn has_compared(&self) -> bool {
        self.parts.iter().any(|part| part.of() > 0)
    }

    /// Adds a remark to the result.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Sets the reason to give if nothing is compared.
    pub fn otherwise(&mut self, reason: impl Into<String>) {
        self.otherwise = reason.into();
    }

    /// The result. Parts without comparisons are dropped; if none is left, the figures are missing.
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
        // Combined 5 %: a difference of 4 % is a tie, one of 6 % is not.
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
