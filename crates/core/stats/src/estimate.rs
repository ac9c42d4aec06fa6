//! Estimates: a value with its confidence interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::function::beta::inv_beta_reg;

use crate::student::{Moments, is_confidence, t_critical};

/// A confidence interval, ends included, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Estimate of a quantity from samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Point estimate, in the unit of the samples.
    pub value: f64,
    /// Confidence interval, always finite; `None` exactly if `n < n_needed`.
    pub interval: Option<Interval>,
    /// Number of samples.
    pub n: usize,
    /// Number of samples that an interval needs.
    pub n_needed: usize,
    /// Nominal coverage of the interval as a fraction: 0.95.
    pub confidence: f64,
}

impl Estimate {
    /// Largest distance from the value to an end of the interval.
    pub fn half_width(&self) -> Option<f64> {
        let Interval { low, high } = self.interval?;
        Some((self.value - low).max(high - self.value))
    }

    /// Half-width as a fraction of the value; 0 for an interval of width zero, `None` for any other interval around
    /// the value 0.
    pub fn relative_half_width(&self) -> Option<f64> {
        let half_width = self.half_width()?;
        if half_width == 0.0 {
            return Some(0.0);
        }
        Some(half_width / self.value.abs()).filter(|width| width.is_finite())
    }
}

/// Samples that an interval of a mean needs: one more than parameters besides the spread.
pub(crate) const MEAN_NEEDS: usize = 2;

/// The mean with Student's interval.
///
/// For a number of samples that is fixed in advance; for a number that depends on the interval use
/// [`StopRule::estimate`](crate::StopRule::estimate). `None` without samples, if a sample is not finite, and unless
/// `0 < confidence < 1`.
pub fn mean(samples: &[f64], confidence: f64) -> Option<Estimate> {
    mean_widened(samples, confidence, 1.0)
}

/// [`mean`] with an interval `surcharge` times as wide.
pub(crate) fn mean_widened(samples: &[f64], confidence: f64, surcharge: f64) -> Option<Estimate> {
    let moments = Moments::of(samples).filter(|_| is_confidence(confidence))?;
    let Moments { n, mean, .. } = moments;
    let interval = (n >= MEAN_NEEDS).then(|| {
        let critical = surcharge * t_critical(confidence, (n - 1) as f64);
        let half_width = critical * moments.squared_error().sqrt();
        Interval { low: mean - half_width, high: mean + half_width }
    });
    Some(Estimate { value: mean, interval, n, n_needed: MEAN_NEEDS, confidence })
}

/// Geometric mean with Student's interval of the logarithms, for quantities that cannot be negative: the interval
/// stays positive even with few and scattered samples.
///
/// The interval is not symmetric about the value. `None` as for [`mean`], and unless all samples are above 0.
pub fn geometric_mean(samples: &[f64], confidence: f64) -> Option<Estimate> {
    if !samples.iter().all(|&sample| sample > 0.0) {
        return None;
    }
    let logs: Vec<f64> = samples.iter().map(|sample| sample.ln()).collect();
    let estimate = mean(&logs, confidence)?;
    let interval = estimate
        .interval
        .map(|Interval { low, high }| Interval { low: low.exp(), high: high.exp() });
    Some(Estimate { value: estimate.value.exp(), interval, ..estimate })
}

/// The median with its order-statistic interval: [`quantile`] at 0.5.
pub fn median(samples: &[f64], confidence: f64) -> Option<Estimate> {
    quantile(samples, 0.5, confidence)
}

/// The `q` quantile with an interval between two order statistics, equal tails.
///
/// It assumes nothing about the distribution: the number of samples below the true quantile is binomial (David and
/// Nagaraja, Order Statistics, section 7.1), so the coverage is at least `confidence`. The value is the usual median
/// at 0.5 (mean of the middle two), else the sample of rank `ceil(q n)`.
///
/// `None` without samples, if a sample is not finite, and unless `0 < q < 1` and `0 < confidence < 1`.
pub fn quantile(samples: &[f64], q: f64, confidence: f64) -> Option<Estimate> {
    let n = samples.len();
    let valid = is_confidence(q) && is_confidence(confidence);
    if n == 0 || !valid || !samples.iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);

    let value = if q == 0.5 {
        sorted[(n - 1) / 2].midpoint(sorted[n / 2])
    } else {
        let rank = (q * n as f64 - ROUNDING).ceil() as usize;
        sorted[rank.clamp(1, n) - 1]
    };
    let tail = (1.0 - confidence) / 2.0;
    let n_needed = samples_needed(q, tail);
    let interval = (n >= n_needed).then(|| Interval {
        low: sorted[lower_rank(n, q, tail) - 1],
        high: sorted[n - lower_rank(n, 1.0 - q, tail)],
    });
    Some(Estimate { value, interval, n, n_needed, confidence })
}

/// Keeps a product that should be an integer, such as `0.07 * 100`, from being rounded up.
const ROUNDING: f64 = 1e-9;

/// Smallest `n` at which the smallest and the largest sample enclose the quantile: `(1 - q)^n <= tail` and
/// `q^n <= tail`.
fn samples_needed(q: f64, tail: f64) -> usize {
    (tail.ln() / q.max(1.0 - q).ln() - ROUNDING).ceil().max(1.0) as usize
}

/// Largest rank `l >= 1` with `P(Bin(n, q) < l) <= tail`; the caller ensures that 1 satisfies this.
fn lower_rank(n: usize, q: f64, tail: f64) -> usize {
    let ln_odds = q.ln() - (-q).ln_1p();
    let mut ln_probability = n as f64 * (-q).ln_1p();
    let mut below = ln_probability.exp();
    for successes in 1..n {
        // In logarithms, because the first probabilities underflow for many samples.
        ln_probability += ((n - successes + 1) as f64 / successes as f64).ln() + ln_odds;
        below += ln_probability.exp();
        if below > tail {
            return successes;
        }
    }
    n
}

/// Share of `successes` among `trials` with the exact interval of Clopper and Pearson (Biometrika 26, 1934), whose
/// coverage is at least `confidence`, however rare successes are.
///
/// `None` without trials, with more successes than trials, and unless `0 < confidence < 1`.
pub fn proportion(successes: u64, trials: u64, confidence: f64) -> Option<Estimate> {
    if trials == 0 || successes > trials || !is_confidence(confidence) {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    let (hits, misses) = (successes as f64, (trials - successes) as f64);
    // Quantiles of beta distributions: Johnson, Kemp and Kotz, Univariate Discrete Distributions, 3.8.3.
    let low = if successes == 0 { 0.0 } else { inv_beta_reg(hits, misses + 1.0, tail) };
    let high = if successes == trials { 1.0 } else { inv_beta_reg(hits + 1.0, misses, 1.0 - tail) };
    let n = usize::try_from(trials).unwrap_or(usize::MAX);
    let value = hits / trials as f64;
    Some(Estimate { value, interval: Some(Interval { low, high }), n, n_needed: 1, confidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(-1e6..1e6, 1..60)
    }

    fn interval(estimate: &Estimate) -> (f64, f64) {
        estimate.interval.map(|i| (i.low, i.high)).unwrap()
    }

    #[test]
    fn the_mean_of_five_runs_has_the_interval_of_the_textbook() {
        // Mean 3, standard error sqrt(2.5/5), t(0.975, 4) = 2.776445.
        let estimate = mean(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        let (low, high) = interval(&estimate);
        assert!((low - 1.036_757).abs() < 1e-6 && (high - 4.963_243).abs() < 1e-6);
        assert!((estimate.half_width().unwrap() - 1.963_243).abs() < 1e-6);
        assert!((estimate.relative_half_width().unwrap() - 0.654_414).abs() < 1e-6);
    }

    #[test]
    fn one_run_has_a_mean_and_no_interval() {
        let estimate = mean(&[7.0], 0.95).unwrap();
        assert_eq!((estimate.value, estimate.n, estimate.n_needed), (7.0, 1, 2));
        assert_eq!(estimate.interval, None);
        assert_eq!(estimate.half_width(), None);
    }

    #[test]
    fn nothing_is_estimated_from_nothing_or_from_what_is_no_number() {
        for samples in
            [&[][..], &[1.0, f64::NAN], &[f64::INFINITY, 1.0], &[f64::MAX, f64::MAX, 1.0]]
        {
            assert_eq!(mean(samples, 0.95), None, "{samples:?}");
        }
        assert_eq!(median(&[1.0, f64::NAN], 0.95), None);
        for bad in [0.0, 1.0, 1.5, f64::NAN] {
            assert_eq!(mean(&[1.0, 2.0], bad), None);
            assert_eq!(quantile(&[1.0, 2.0], bad, 0.95), None);
            assert_eq!(quantile(&[1.0, 2.0], 0.5, bad), None);
        }
    }

    #[test]
    fn the_geometric_mean_has_the_interval_of_the_logarithms() {
        // ln 1, ln e^2: 1 +- 12.706 * sqrt(2)/sqrt(2).
        let estimate = geometric_mean(&[1.0, 1f64.exp().powi(2)], 0.95).unwrap();
        assert!((estimate.value - 1f64.exp()).abs() < 1e-12);
        let (low, high) = interval(&estimate);
        assert!((low.ln() + 11.706).abs() < 1e-3 && (high.ln() - 13.706).abs() < 1e-3);
        for samples in [&[1.0, 0.0][..], &[1.0, -1.0], &[1.0, f64::NAN], &[]] {
            assert_eq!(geometric_mean(samples, 0.95), None, "{samples:?}");
        }
    }

    #[test]
    fn equal_runs_have_an_interval_of_width_zero() {
        let estimate = mean(&[0.1; 7], 0.95).unwrap();
        assert_eq!((estimate.half_width(), estimate.relative_half_width()), (Some(0.0), Some(0.0)));
        let zero = mean(&[0.0; 3], 0.95).unwrap();
        assert_eq!(zero.relative_half_width(), Some(0.0));
        assert_eq!(mean(&[-1.0, 1.0], 0.95).unwrap().relative_half_width(), None);
    }

    #[test]
    fn a_quantile_says_how_many_samples_its_interval_needs() {
        for (q, confidence, needed) in [
            (0.5, 0.95, 6),
            (0.5, 0.995, 9),
            (0.999, 0.995, 5989),
            (0.001, 0.995, 5989),
            (0.5, 0.5, 2),
        ] {
            assert_eq!(
                quantile(&[1.0], q, confidence).unwrap().n_needed,
                needed,
                "{q} {confidence}"
            );
        }
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap().interval, None);
        assert_eq!(interval(&median(&[5.0, 2.0, 6.0, 4.0, 1.0, 3.0], 0.95).unwrap()), (1.0, 6.0));
    }

    /// Ranks of the 95 % interval of the median: Conover, Practical Nonparametric Statistics,
    /// binomial table A3 at p = 0.5.
    #[test]
    fn median_intervals_have_the_ranks_of_the_binomial_table() {
        for (n, low, high) in
            [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (30, 10, 21)]
        {
            let ranks: Vec<f64> = (1..=n).map(f64::from).collect();
            let found = interval(&median(&ranks, 0.95).unwrap());
            assert_eq!(found, (f64::from(low), f64::from(high)), "{n}");
        }
    }

    #[test]
    fn the_value_is_the_middle_at_one_half_and_the_order_statistic_elsewhere() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for (q, value) in [(0.5, 50.5), (0.07, 7.0), (0.9, 90.0), (0.901, 91.0), (0.999, 100.0)] {
            assert_eq!(quantile(&hundred, q, 0.95).unwrap().value, value, "{q}");
        }
    }

    #[test]
    fn ranks_of_many_samples_are_those_of_the_normal_approximation() {
        // n q -+ 1.96 sqrt(n q (1 - q)) = 50,000 -+ 310 at n = 100,000.
        let rank = lower_rank(100_000, 0.5, 0.025);
        assert!((49_688..=49_692).contains(&rank), "{rank}");
    }

    proptest! {
        #[test]
        fn the_interval_of_a_geometric_mean_holds_it_and_is_positive(
            samples in proptest::collection::vec(1e3..1e11, 2..8),
            c in 0.01..0.99,
        ) {
            let estimate = geometric_mean(&samples, c).unwrap();
            let Interval { low, high } = estimate.interval.unwrap();
            prop_assert!(0.0 <= low && low <= estimate.value && estimate.value <= high);
        }

        #[test]
        fn an_interval_contains_its_value(samples in samples(), q in 0.01..0.99, c in 0.01..0.999) {
            for estimate in [mean(&samples, c), median(&samples, c), quantile(&samples, q, c)] {
                let estimate = estimate.unwrap();
                prop_assert_eq!(estimate.interval.is_none(), estimate.n < estimate.n_needed);
                if let Some(Interval { low, high }) = estimate.interval {
                    prop_assert!(low <= estimate.value && estimate.value <= high);
                }
            }
        }

        #[test]
        fn more_confidence_never_narrows(samples in samples(), q in 0.01..0.99, c in 0.01..0.99, more in 0.0..0.009) {
            for (less, more) in [
                (mean(&samples, c), mean(&samples, c + more)),
                (quantile(&samples, q, c), quantile(&samples, q, c + more)),
            ] {
                let (less, more) = (less.unwrap().interval, more.unwrap().interval);
                if let (Some(less), Some(more)) = (less, more) {
                    prop_assert!(more.low <= less.low + 1e-6 && less.high <= more.high + 1e-6);
                }
                prop_assert!(less.is_some() || more.is_none());
            }
        }

        #[test]
        fn scaling_the_samples_scales_the_estimate(samples in samples(), exponent in -20i32..20) {
            let scale = 2f64.powi(exponent);
            let scaled: Vec<f64> = samples.iter().map(|x| x * scale).collect();
            for (one, other) in [
                (mean(&samples, 0.95), mean(&scaled, 0.95)),
                (quantile(&samples, 0.5, 0.95), quantile(&scaled, 0.5, 0.95)),
            ] {
                let (one, other) = (one.unwrap(), other.unwrap());
                prop_assert_eq!(one.value * scale, other.value);
                prop_assert_eq!(one.half_width().map(|w| w * scale), other.half_width());
            }
        }
    }

    /// Values of SciPy 1.17, `binomtest(k, n).proportion_ci(confidence)`, which is exact by default.
    #[test]
    fn intervals_are_those_of_clopper_and_pearson() {
        for (successes, trials, confidence, low, high) in [
            (0, 10, 0.95, 0.0, 0.308497107819),
            (5, 10, 0.95, 0.187086028447, 0.812913971553),
            (10, 10, 0.95, 0.691502892181, 1.0),
            (1, 1_000, 0.99, 5.01252926077e-06, 0.00740628693835),
            (100, 100_000, 0.99, 0.000761292067054, 0.00128742061227),
            (1_000, 100_000, 0.99, 0.00920786672742, 0.0108391439876),
            (10_000, 1_000_000, 0.95, 0.00980590624069, 0.0101969398135),
            (9_950, 10_000, 0.99, 0.992880972724, 0.996631035828),
            (50_000, 10_000_000, 0.99, 0.00494273235593, 0.00505773911798),
        ] {
            let estimate = proportion(successes, trials, confidence).unwrap();
            let found = estimate.interval.unwrap();
            let near = |found: f64, known: f64| (found - known).abs() <= 1e-8 * known.max(1e-3);
            assert!(near(found.low, low), "{successes} of {trials}: {found:?}");
            assert!(near(found.high, high), "{successes} of {trials}: {found:?}");
        }
    }

    #[test]
    fn nothing_is_said_without_trials() {
        assert_eq!(proportion(0, 0, 0.95), None);
        assert_eq!(proportion(2, 1, 0.95), None);
        assert_eq!(proportion(1, 2, 1.0), None);
    }
}
