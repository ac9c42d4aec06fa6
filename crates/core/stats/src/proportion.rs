//! The share of successes among independent trials.

use statrs::function::beta::inv_beta_reg;

use crate::estimate::{Estimate, Interval};
use crate::student::is_confidence;

/// The share of `successes` among `trials`, with the exact interval of Clopper and Pearson (Biometrika
/// 26, 1934): it holds the truth at least as often as it says, however rare successes are.
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
