//! Serial correlation of runs.

/// Lag-1 autocorrelation from which intervals of a mean are reported as too narrow: at 0.3 the variance of a mean is
/// already (1 + 0.3)/(1 - 0.3) = 1.9 times that of independent runs.
pub const LAG1_WARNING: f64 = 0.3;

/// Lag-1 autocorrelation of runs in order, in -1..=1 (Box and Jenkins' estimator r1).
///
/// `None` for fewer than three samples, without spread, or if a sample is not finite.
pub fn lag1(samples: &[f64]) -> Option<f64> {
    if samples.len() < 3 {
        return None;
    }
    let moments = crate::student::Moments::of(samples).filter(|moments| moments.variance > 0.0)?;
    let deviation = |x: f64| x - moments.mean;
    let products: f64 = samples.windows(2).map(|w| deviation(w[0]) * deviation(w[1])).sum();
    Some(products / (moments.variance * (samples.len() - 1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_trend_correlates_and_a_zigzag_anticorrelates() {
        // Deviations -2..2: (2 + 0 + 0 + 2)/10; deviations of +-1: -3/4.
        assert_eq!(lag1(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(0.4));
        assert_eq!(lag1(&[1.0, -1.0, 1.0, -1.0]), Some(-0.75));
    }

    #[test]
    fn what_has_no_spread_has_no_correlation() {
        assert_eq!(lag1(&[0.1; 5]), None);
        assert_eq!(lag1(&[1.0, 2.0]), None);
        assert_eq!(lag1(&[1.0, f64::NAN, 2.0]), None);
    }

    proptest! {
        #[test]
        fn a_correlation_lies_between_minus_one_and_one(samples in proptest::collection::vec(-1e6..1e6, 3..50)) {
            let r = lag1(&samples).unwrap_or(0.0);
            prop_assert!((-1.0..=1.0).contains(&r));
        }
    }
}
