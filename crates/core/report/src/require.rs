//! Requirements: a minimum or maximum of a figure.

use std::fmt;
use std::str::FromStr;

use fabricmark_plan::{Figure, Unit};
use fabricmark_stats::{Estimate, Interval};
use fabricmark_units::{BitRate, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

/// A requirement such as `goodput>=9G`, `rtt-p99<=50us`, `transaction-rate>=20000`.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// The figure to check.
    pub figure: Figure,
    /// Whether `value` is a minimum, else a maximum.
    pub is_least: bool,
    /// Threshold in the figure's base unit: bit/s, ns, or counts per second.
    pub value: f64,
    /// The text as written.
    pub text: String,
}

/// Why a text is not a valid requirement, and the valid form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a threshold; write {expected}")]
pub struct ParseRequirementError {
    text: String,
    expected: String,
}

/// Whether a requirement is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The whole interval meets it; with one run, the value does.
    #[serde(rename = "kept")]
    Yes,
    /// The threshold is within the interval, there are too few runs for an interval, or more runs are invalid than valid.
    Inconclusive,
    /// It is not met, or there is no figure.
    #[serde(rename = "missed")]
    No,
}

/// A share as a number, or in percent. `loss<=1` is a slip for 1%: every run meets it.
fn share(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => Some(percent.trim_end().parse::<f64>().ok()? / 100.0),
        None => text.parse().ok().filter(|share| *share < 1.0),
    }
}

impl FromStr for Requirement {
    type Err = ParseRequirementError;

    fn from_str(text: &str) -> Result<Self, ParseRequirementError> {
        let error = |expected: String| ParseRequirementError { text: text.to_owned(), expected };
        let form = || "a figure, >= or <=, and a value, in quotes: 'goodput>=9G'".to_owned();
        let (name, is_least, value) = match (text.split_once(">="), text.split_once("<=")) {
            (Some((name, value)), None) => (name.trim(), true, value.trim()),
            (None, Some((name, value))) => (name.trim(), false, value.trim()),
            _ => return Err(error(form())),
        };
        let known =
            || format!("one of these figures first: {}", Figure::ALL.map(Figure::name).join(", "));
        let figure = Figure::named(name).ok_or_else(|| error(known()))?;
        let value = match figure.spec().unit {
            // `goodput>=9` is a slip for 9G: every run meets it.
            Unit::Bps => match value.parse() {
                Ok(BitRate(bps)) if bps >= 1000 => Ok(bps as f64),
                _ => Err("a rate with its prefix, such as 9G".to_owned()),
            },
            Unit::Nanos => value
                .parse()
                .map(|Nanos(ns)| ns as f64)
                .map_err(|_| "a time, such as 50us".to_owned()),
            Unit::Share => share(value).ok_or_else(|| "a share, such as 1% or 0.01".to_owned()),
            _ => value.parse().map_err(|_| "a plain number, such as 20000".to_owned()),
        };
        Ok(Self { figure, is_least, value: value.map_err(error)?, text: text.to_owned() })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Requirement {
    /// Checks the figure of the runs by its interval, that of a single run by its value.
    pub fn judge(&self, estimate: Option<&Estimate>) -> Kept {
        let Some(estimate) = estimate else { return Kept::No };
        let point = Interval { low: estimate.value, high: estimate.value };
        let Some(Interval { low, high }) = estimate.interval.or((estimate.n < 2).then_some(point))
        else {
            return Kept::Inconclusive;
        };
        let (worst, best) = if self.is_least { (low, high) } else { (-high, -low) };
        let threshold = if self.is_least { self.value } else { -self.value };
        if worst >= threshold {
            Kept::Yes
        } else if best >= threshold {
            Kept::Inconclusive
        } else {
            Kept::No
        }
    }
}

impl Kept {
    /// The result in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "kept",
            Self::Inconclusive => "inconclusive",
            Self::No => "missed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, value: f64, high: f64) -> Estimate {
        let interval = Some(Interval { low, high });
        Estimate { value, interval, n: 5, n_needed: 2, confidence: 0.95 }
    }

    #[test]
    fn a_threshold_is_read_in_the_units_of_its_figure() {
        for (text, figure, is_least, value) in [
            ("goodput>=9G", Figure::Goodput, true, 9e9),
            ("rtt-p99 <= 50us", Figure::RttP99, false, 50e3),
            ("transaction-rate>=20000", Figure::TransactionRate, true, 20e3),
            ("loss<=1%", Figure::Loss, false, 0.01),
            ("loss<=0.01", Figure::Loss, false, 0.01),
        ] {
            let read: Requirement = text.parse().unwrap();
            assert_eq!((read.figure, read.is_least, read.value), (figure, is_least, value));
        }
        for (text, word) in [
            ("goodput=9G", ">="),
            ("speed>=9G", "goodput, send-rate"),
            ("goodput>=9", "9G"),
            ("rtt<=9", "50us"),
            ("loss<=1", "1% or 0.01"),
        ] {
            let error = text.parse::<Requirement>().unwrap_err().to_string();
            assert!(error.contains(word) || error.contains("duration"), "{error}");
        }
    }

    #[test]
    fn the_whole_interval_has_to_keep_a_threshold() {
        let least: Requirement = "transaction-rate>=10".parse().unwrap();
        let most: Requirement = "rtt<=10ns".parse().unwrap();
        for (estimate, of_least, of_most) in [
            (of(11.0, 12.0, 13.0), Kept::Yes, Kept::No),
            (of(9.0, 10.5, 12.0), Kept::Inconclusive, Kept::Inconclusive),
            (of(7.0, 8.0, 9.0), Kept::No, Kept::Yes),
        ] {
            assert_eq!(least.judge(Some(&estimate)), of_least);
            assert_eq!(most.judge(Some(&estimate)), of_most);
        }
        assert_eq!(least.judge(None), Kept::No);
        let without = |n| Estimate { interval: None, n, ..of(0.0, 12.0, 0.0) };
        assert_eq!(least.judge(Some(&without(1))), Kept::Yes);
        assert_eq!(most.judge(Some(&without(1))), Kept::No);
        assert_eq!(least.judge(Some(&without(5))), Kept::Inconclusive);
    }
}
