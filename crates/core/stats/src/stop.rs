//! Stopping rules: when there are enough runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, mean_widened};
use crate::student::t_critical;

/// Factor that widens an interval at checks between the first and the last.
///
/// Stopping at the first interval that is narrow enough favours samples whose spread is small by chance: without this
/// factor a 95 % interval contains the mean in as few as 93.5 % of the cases. There is no formula for the factor; it
/// was found by simulation, see `COVERAGE.md`.
pub const PEEKING_SURCHARGE: f64 = 1.06;

/// Run until the mean is known well enough, checked after each run from `runs_min` on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopRule {
    /// Nominal coverage of intervals as a fraction: 0.95.
    pub confidence: f64,
    /// Relative half-width that is narrow enough: 0.05 is 5 % of the mean. `None`: exactly `runs_max` runs.
    pub half_width: Option<f64>,
    /// Number of runs at the first check.
    pub runs_min: usize,
    /// Number of runs at the last check, which ends the runs whatever the interval.
    pub runs_max: usize,
    /// Whether runs end when a comparison is decided, instead of when each mean is known. It is checked after
    /// `runs_min` runs, twice as many, four times ..., and `runs_max`. The p-value is corrected for the number of checks
    /// ([`Self::looks`]), the interval widened by [`PEEKING_SURCHARGE`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
}

impl StopRule {
    /// Exactly `runs` runs.
    pub const fn of_runs(confidence: f64, runs: usize) -> Self {
        Self { confidence, half_width: None, runs_min: runs, runs_max: runs, decides: false }
    }

    /// Whether these runs are enough: the interval is narrow enough at a check, or all runs of a rule without a
    /// half-width exist.
    ///
    /// If it is not met at `runs_max`, the runs ended without the wanted half-width.
    pub fn is_met(&self, samples: &[f64]) -> bool {
        let Some(wanted) = self.half_width else {
            return samples.len() >= self.runs_max;
        };
        samples.len() >= self.runs_min
            && self
                .estimate(samples)
                .and_then(|estimate| estimate.relative_half_width())
                .is_some_and(|width| width <= wanted)
    }

    /// Whether a comparison group needs no more runs: each member meets the rule or has `runs_max` samples. A member
    /// with fewer samples, because some of its runs are invalid, keeps the group until it has as many.
    ///
    /// Members end together so that their runs stay paired. A group without members is finished.
    pub fn is_finished(&self, members: &[&[f64]]) -> bool {
        members.iter().all(|samples| samples.len() >= self.runs_max || self.is_met(samples))
    }

    /// The mean with Student's interval, widened according to [`critical`](Self::critical).
    ///
    /// `None` as for [`mean`](crate::mean).
    pub fn estimate(&self, samples: &[f64]) -> Option<Estimate> {
        mean_widened(samples, self.confidence, self.surcharge(samples.len()))
    }

    /// Half-width of the interval of `n` runs in standard errors: Student's quantile, times [`PEEKING_SURCHARGE`] at
    /// checks after the first and before the last.
    ///
    /// NaN below two runs and unless `0 < confidence < 1`.
    pub fn critical(&self, n: usize) -> f64 {
        self.surcharge(n) * t_critical(self.confidence, n as f64 - 1.0)
    }

    /// Whether comparisons are checked after `runs` runs.
    pub fn is_look(&self, runs: usize) -> bool {
        let is_doubled = || {
            let doublings = runs / self.runs_min.max(1);
            runs == self.runs_min * doublings && doublings.is_power_of_two()
        };
        runs >= self.runs_max || is_doubled()
    }

    /// Runs of the latest check among this many; `None` before the first.
    pub fn latest_look(&self, runs: usize) -> Option<usize> {
        (1..=runs).rev().find(|&runs| self.is_look(runs))
    }

    /// Maximum number of checks of a comparison. Its p-value is multiplied by this number (Bonferroni), so that stopping at
    /// the first deciding check finds no more false differences than a single check. 1 if comparisons do not end runs.
    pub fn looks(&self) -> usize {
        let doubled = std::iter::successors(Some(self.runs_min.max(1)), |runs| Some(2 * runs));
        if self.decides { 1 + doubled.take_while(|&runs| runs < self.runs_max).count() } else { 1 }
    }

    /// Factor that widens an interval over `n` runs.
    pub(crate) fn surcharge(&self, n: usize) -> f64 {
        let peeks = self.half_width.is_some() && self.runs_min < n && n < self.runs_max;
        if peeks || self.looks() > 1 { PEEKING_SURCHARGE } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StopRule = StopRule {
        confidence: 0.95,
        half_width: Some(0.05),
        runs_min: 10,
        runs_max: 30,
        decides: false,
    };

    /// Runs with mean 100, half of them 100 - `spread`, half 100 + `spread`.
    fn runs(n: usize, spread: f64) -> Vec<f64> {
        (0..n).map(|i| if i % 2 == 0 { 100.0 - spread } else { 100.0 + spread }).collect()
    }

    #[test]
    fn only_looks_between_the_first_and_the_last_are_widened() {
        let plain = StopRule { half_width: None, ..RULE };
        for n in [2, 9, 10, 30, 31] {
            assert_eq!(RULE.critical(n), plain.critical(n), "{n}");
        }
        for n in [11, 20, 29] {
            assert!(
                (RULE.critical(n) / plain.critical(n) - PEEKING_SURCHARGE).abs() < 1e-12,
                "{n}"
            );
        }
        assert!((RULE.critical(10) - 2.262_157).abs() < 1e-6);
        assert!(RULE.critical(1).is_nan() && RULE.critical(0).is_nan());
    }

    #[test]
    fn the_printed_interval_is_the_one_that_decided() {
        let samples = runs(12, 5.0);
        // Standard deviation 5 sqrt(12/11).
        let error = 5.0 / 11f64.sqrt();
        let half_width = RULE.estimate(&samples).unwrap().half_width().unwrap();
        assert!((half_width - RULE.critical(12) * error).abs() < 1e-9);
    }

    #[test]
    fn steady_runs_meet_the_rule_at_the_first_look_and_not_before() {
        assert!(!RULE.is_met(&runs(8, 1.0)));
        assert!(RULE.is_met(&runs(10, 1.0)));
        // 20 %: 2.262 * 20/sqrt(9) = 15.1 > 5.
        assert!(!RULE.is_met(&runs(10, 20.0)));
    }

    #[test]
    fn a_group_leaves_when_each_member_is_steady_or_has_all_its_runs() {
        let (steady, rough) = (runs(10, 1.0), runs(10, 20.0));
        assert!(RULE.is_finished(&[&steady, &steady]));
        assert!(!RULE.is_finished(&[&steady, &rough]));
        assert!(RULE.is_finished(&[&steady, &runs(30, 20.0)]));
        // Two of its runs are invalid.
        assert!(!RULE.is_finished(&[&runs(28, 20.0), &runs(30, 20.0)]));
        assert!(!RULE.is_met(&runs(30, 20.0)));
    }

    #[test]
    fn without_a_half_width_there_are_exactly_runs_max_runs() {
        let rule = StopRule { half_width: None, ..RULE };
        assert!(!rule.is_finished(&[&runs(28, 0.0)]));
        assert!(rule.is_finished(&[&runs(30, 50.0)]) && rule.is_met(&runs(30, 50.0)));
    }

    #[test]
    fn a_rule_that_decides_looks_after_each_doubling_and_at_the_end() {
        let rule = StopRule { half_width: None, decides: true, runs_min: 5, runs_max: 40, ..RULE };
        let looks: Vec<usize> = (1..=41).filter(|&runs| rule.is_look(runs)).collect();
        assert_eq!((looks, rule.looks()), (vec![5, 10, 20, 40, 41], 4));
        assert_eq!(StopRule { runs_max: 5, ..rule }.looks(), 1);
        assert_eq!((StopRule { runs_max: 41, ..rule }.looks(), RULE.looks()), (5, 1));
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_never_met_early() {
        let rule = StopRule { confidence: 1.5, ..RULE };
        assert!(!rule.is_met(&runs(10, 0.0)) && rule.is_finished(&[&runs(30, 0.0)]));
        assert!(!RULE.is_met(&[f64::NAN; 12]));
    }
}
