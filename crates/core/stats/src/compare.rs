//! Comparisons: which of two levels is faster, by how much, and how certain that is.
//!
//! Comparisons use logarithms of the samples, so a change is a ratio: it does not depend on the unit, and 5 % more
//! cancels 5 % less up to the second order.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, Interval, MEAN_NEEDS};
use crate::rank::{hodges_lehmann, mann_whitney, wilcoxon_signed_rank};
use crate::stop::StopRule;
use crate::student::{Moments, is_confidence, t_critical, t_quantile, two_sided_p};

/// Tie band of throughput: changes of up to 2 % count as equal. Our choice.
pub const THROUGHPUT_TIE: f64 = 0.02;

/// Tie band of latency: changes of up to 3 % count as equal. Our choice.
pub const LATENCY_TIE: f64 = 0.03;

/// Power of the minimum detectable effect.
const POWER: f64 = 0.8;

/// Which direction of a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better: throughput.
    Higher,
    /// Less is better: latency.
    Lower,
}

/// Verdict on `b` against `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// `b` is better.
    Faster,
    /// `b` is worse.
    Slower,
    /// The interval of the difference is within the tie band.
    Same,
    /// The runs neither show a difference nor exclude one.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// Comparison of `b` against `a`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Change from `a` to `b` as a fraction of `a`: -0.05 is 5 % less. Its `n` counts pairs, or the samples of the
    /// smaller side.
    pub change: Estimate,
    /// Two-sided p-value of the t test, times the number of checks of the rule; agrees with the interval if there is one check.
    pub p_t: f64,
    /// Two-sided p-value of the rank test (Wilcoxon's for pairs, else Mann and Whitney's). It shows the effect of
    /// outliers and does not affect the verdict.
    pub p_rank: f64,
    /// `p_t` corrected for the other comparisons of its family; equal to `p_t` before [`holm`].
    pub p_adjusted: f64,
    /// Minimum detectable effect (MDE): the smallest true change, as a fraction, that this number of samples with
    /// this spread would have detected with a probability of 80 %. `None` if it is not finite.
    pub smallest_visible: Option<f64>,
    /// Change, as a fraction, up to which both count as the same.
    pub tie_band: f64,
    /// Which direction is better.
    pub better: Better,
    /// Answer, after correction for the family.
    pub verdict: Verdict,
}

/// Result of a level in one run: of the whole run, and of each of its slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Figure of the whole run.
    pub value: f64,
    /// The same figure of each slice, in order of rounds; empty if the run has no slices.
    pub slices: Vec<f64>,
}

impl From<f64> for Sample {
    fn from(value: f64) -> Self {
        Self { value, slices: Vec::new() }
    }
}

/// Number of rounds from which the ratios of rounds are used instead of that of the whole runs: our choice.
const ROUNDS_MIN: usize = 4;

impl Sample {
    /// `ln(other / self)` of two levels that took turns in slices: [`hodges_lehmann`] of the ratios of the rounds. A
    /// disturbance in one slice affects one of many rounds, which this estimate hardly notices, while it would shift
    /// the ratio of whole runs. `None` unless both values are positive and finite.
    pub fn log_ratio_to(&self, other: &Self) -> Option<f64> {
        let whole = log(other.value)? - log(self.value)?;
        if self.slices.len() != other.slices.len() {
            return Some(whole);
        }
        // A slice in which nothing arrived has no ratio.
        let rounds = self.slices.iter().zip(&other.slices);
        let ratios: Vec<f64> = rounds.filter_map(|(&a, &b)| Some(log(b)? - log(a)?)).collect();
        if ratios.len() < ROUNDS_MIN { Some(whole) } else { hodges_lehmann(&ratios) }
    }
}

/// Compares paired runs: `a[i]` and `b[i]` ran next to each other, under the same conditions. See [`paired_ratios`].
pub fn paired(
    a: &[f64],
    b: &[f64],
    rule: &StopRule,
    better: Better,
    tie_band: f64,
) -> Option<Comparison> {
    if a.len() != b.len() {
        return None;
    }
    let ratios: Vec<f64> = logs(a)?.iter().zip(logs(b)?).map(|(a, b)| b - a).collect();
    paired_ratios(&ratios, rule, better, tie_band)
}

/// Compares paired runs by the logarithms of their ratios, such as [`Sample::log_ratio_to`].
///
/// Paired t test on `ln(b/a)`, with Wilcoxon's signed-rank test beside it. `rule` widens the interval for peeking and corrects
/// `p_t` for the number of checks. `None` for fewer than two pairs and unless the confidence is between 0 and 1.
pub fn paired_ratios(
    ratios: &[f64],
    rule: &StopRule,
    better: Better,
    tie_band: f64,
) -> Option<Comparison> {
    let moments = Moments::of(ratios)?;
    let effect = Effect {
        n: moments.n,
        log_ratio: moments.mean,
        squared_error: moments.squared_error(),
        df: moments.n as f64 - 1.0,
        confidence: rule.confidence,
        surcharge: rule.surcharge(moments.n),
        looks: rule.looks(),
    };
    effect.judge(wilcoxon_signed_rank(ratios), better, tie_band)
}

/// Compares two independent sets of samples, such as runs of two stored records.
///
/// Welch's t test on logarithms, with Mann and Whitney's test beside it. There is no correction for peeking, so the
/// numbers of runs must not depend on the measured values. `None` for fewer than two samples on a side, if a sample
/// is not positive and finite, and unless the confidence is between 0 and 1.
pub fn unpaired(
    a: &[f64],
    b: &[f64],
    confidence: f64,
    better: Better,
    tie_band: f64,
) -> Option<Comparison> {
    let (log_a, log_b) = (Moments::of(&logs(a)?)?, Moments::of(&logs(b)?)?);
    let (error_a, error_b) = (log_a.squared_error(), log_b.squared_error());
    let squared_error = error_a + error_b;
    // Welch and Satterthwaite's degrees of freedom, from shares of the error so that tiny spreads do not underflow.
    let share = |error: f64, n: usize| (error / squared_error).powi(2) / (n as f64 - 1.0);
    let n = log_a.n.min(log_b.n);
    let effect = Effect {
        n,
        log_ratio: log_b.mean - log_a.mean,
        squared_error,
        df: 1.0 / (share(error_a, log_a.n) + share(error_b, log_b.n)),
        confidence,
        surcharge: 1.0,
        looks: 1,
    };
    effect.judge(mann_whitney(a, b), better, tie_band)
}

/// Holm's correction of a family of comparisons that answer one question together: sets `p_adjusted` and decides each
/// verdict again.
pub fn holm<'a>(family: impl IntoIterator<Item = &'a mut Comparison>) {
    let family: Vec<&mut Comparison> = family.into_iter().collect();
    let raw: Vec<f64> = family.iter().map(|c| c.p_t).collect();
    for (comparison, p) in family.into_iter().zip(holm_adjust(&raw)) {
        comparison.p_adjusted = p;
        comparison.verdict = comparison.decide();
    }
}

/// P-values corrected for their number, in the given order (Holm 1979, A Simple Sequentially Rejective Multiple Test
/// Procedure): the i-th smallest of m times `m - i + 1`, not below that of a smaller one, at most 1.
pub fn holm_adjust(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let mut adjusted = vec![0.0; p.len()];
    let mut floor = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        floor = f64::max(floor, p[i] * (p.len() - rank) as f64).min(1.0);
        adjusted[i] = floor;
    }
    adjusted
}

/// Logarithms of samples; `None` unless all are positive and finite.
fn logs(samples: &[f64]) -> Option<Vec<f64>> {
    samples.iter().map(|&x| log(x)).collect()
}

fn log(x: f64) -> Option<f64> {
    (x > 0.0 && x.is_finite()).then(|| x.ln())
}

/// Relative change of a quantity whose logarithm changes by `log_ratio`. Limited to finite values, because JSON has
/// no infinity.
fn relative(log_ratio: f64) -> f64 {
    log_ratio.exp_m1().min(f64::MAX)
}

/// A difference of logarithms, and the parameters of its t test.
struct Effect {
    n: usize,
    log_ratio: f64,
    squared_error: f64,
    df: f64,
    confidence: f64,
    /// Factor that widens the interval.
    surcharge: f64,
    /// Number of checks to correct the p-value for. The interval is not corrected: at the deciding check it contains the truth
    /// as often as its confidence says (`COVERAGE.md`), whereas a false difference at any check would count.
    looks: usize,
}

impl Effect {
    fn judge(&self, p_rank: f64, better: Better, tie_band: f64) -> Option<Comparison> {
        if self.n < MEAN_NEEDS || !is_confidence(self.confidence) {
            return None;
        }
        let error = self.squared_error.sqrt();
        let (half_width, visible, p_t) = if error > 0.0 {
            let half_width = self.surcharge * t_critical(self.confidence, self.df) * error;
            let looks = self.looks as f64;
            let surcharge = if self.looks > 1 { 1.0 } else { self.surcharge };
            let confidence = 1.0 - (1.0 - self.confidence) / looks;
            let critical = surcharge * t_critical(confidence, self.df);
            let visible = (critical + t_quantile(POWER, self.df)) * error;
            let t = self.log_ratio / error / surcharge;
            (half_width, visible, (looks * two_sided_p(t, self.df)).min(1.0))
        } else {
            // Without spread any difference is certain, and t is not a number.
            (0.0, 0.0, if self.log_ratio == 0.0 { 1.0 } else { 0.0 })
        };
        let mut comparison = Comparison {
            change: Estimate {
                value: relative(self.log_ratio),
                interval: Some(Interval {
                    low: relative(self.log_ratio - half_width),
                    high: relative(self.log_ratio + half_width),
                }),
                n: self.n,
                n_needed: MEAN_NEEDS,
                confidence: self.confidence,
            },
            p_t,
            p_rank,
            p_adjusted: p_t,
            smallest_visible: Some(visible.exp_m1()).filter(|change| change.is_finite()),
            tie_band,
            better,
            verdict: Verdict::Inconclusive,
        };
        comparison.verdict = comparison.decide();
        Some(comparison)
    }
}

impl Comparison {
    /// `b` divided by `a`: 1 more than the change.
    pub fn ratio(&self) -> Estimate {
        let more = |Interval { low, high }| Interval { low: 1.0 + low, high: 1.0 + high };
        let interval = self.change.interval.map(more);
        Estimate { value: 1.0 + self.change.value, interval, ..self.change }
    }

    /// The same comparison as one of `rows` of a family, by the strictest step of Holm's correction.
    #[must_use]
    pub fn in_family(mut self, rows: usize) -> Self {
        self.p_adjusted = (self.p_t * rows as f64).min(1.0);
        self.verdict = self.decide();
        self
    }

    fn decide(&self) -> Verdict {
        let band = -self.tie_band..=self.tie_band;
        let tied =
            |interval: Interval| band.contains(&interval.low) && band.contains(&interval.high);
        if self.change.interval.is_some_and(tied) {
            Verdict::Same
        } else if self.p_adjusted >= 1.0 - self.change.confidence {
            Verdict::Inconclusive
        } else if (self.change.value > 0.0) == (self.better == Better::Higher) {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }
}
