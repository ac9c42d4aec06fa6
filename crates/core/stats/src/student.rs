//! Student's t distribution, limited to the range where statrs is correct, and moments of samples.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Degrees of freedom above which the normal distribution is used: statrs drifts from 1e5 on and does not return at
/// 1e8, while the two quantiles differ by less than 3e-4 here (at confidence 0.995).
const DF_NORMAL: f64 = 1e4;

/// Whether `confidence` is in (0, 1).
pub(crate) fn is_confidence(confidence: f64) -> bool {
    confidence > 0.0 && confidence < 1.0
}

/// The `p` quantile of the t distribution with `df` degrees of freedom; NaN unless `0 < p < 1` and `df > 0`.
pub(crate) fn t_quantile(p: f64, df: f64) -> f64 {
    if !is_confidence(p) {
        return f64::NAN;
    }
    if df > DF_NORMAL {
        return Normal::standard().inverse_cdf(p);
    }
    StudentsT::new(0.0, 1.0, df).map_or(f64::NAN, |student| student.inverse_cdf(p))
}

/// Half-width of a two-sided interval in standard errors.
pub(crate) fn t_critical(confidence: f64, df: f64) -> f64 {
    t_quantile(0.5 + confidence / 2.0, df)
}

/// Probability of a t at least as far from zero as `t`.
pub(crate) fn two_sided_p(t: f64, df: f64) -> f64 {
    let tail = if df > DF_NORMAL {
        Normal::standard().sf(t.abs())
    } else {
        StudentsT::new(0.0, 1.0, df).map_or(f64::NAN, |student| student.sf(t.abs()))
    };
    (2.0 * tail).min(1.0)
}

/// Mean and sample variance (divisor `n - 1`; 0 for one sample).
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) n: usize,
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl Moments {
    /// `None` without samples, or if a value or a moment is not finite.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let (&first, rest) = samples.split_first()?;
        let n = samples.len();
        // A rounded mean would give equal samples a variance.
        let (mean, variance) = if rest.iter().all(|&x| x == first) {
            (first, 0.0)
        } else {
            let mean = samples.iter().sum::<f64>() / n as f64;
            let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
            (mean, squares / (n - 1) as f64)
        };
        (mean.is_finite() && variance.is_finite()).then_some(Self { n, mean, variance })
    }

    /// Variance of the mean.
    pub(crate) fn squared_error(self) -> f64 {
        self.variance / self.n as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook, table 1.3.6.7.2, column 0.975.
    #[test]
    fn quantiles_are_those_of_the_published_table() {
        for (df, t) in [(1.0, 12.706), (4.0, 2.776), (9.0, 2.262), (29.0, 2.045), (100.0, 1.984)] {
            assert!((t_critical(0.95, df) - t).abs() < 5e-4, "{df}");
            assert!((two_sided_p(t, df) - 0.05).abs() < 5e-5, "{df}");
        }
    }

    #[test]
    fn the_normal_quantile_continues_students_without_a_jump() {
        for confidence in [0.9, 0.95, 0.995] {
            let (below, above) = (t_critical(confidence, 1e4), t_critical(confidence, 1e4 + 1.0));
            assert!(below > above && below - above < 3e-4 * above, "{below} {above}");
        }
        assert!((t_critical(0.95, 1e12) - 1.959_964).abs() < 1e-6);
    }

    #[test]
    fn a_quantile_and_its_probability_undo_each_other_at_any_degrees_of_freedom() {
        for df in (0..80).map(|i| 10f64.powf(f64::from(i) * 0.05)) {
            for confidence in [0.6, 0.9, 0.95, 0.995, 0.9999] {
                let p = two_sided_p(t_critical(confidence, df), df);
                assert!((p - (1.0 - confidence)).abs() < 1e-7, "{df} {confidence} {p}");
            }
        }
    }

    #[test]
    fn equal_samples_have_exactly_no_variance() {
        let moments = Moments::of(&[0.1; 3]).unwrap();
        assert_eq!((moments.mean, moments.variance), (0.1, 0.0));
    }
}
