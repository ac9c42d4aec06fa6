//! Decides whether a measured rate exceeds its bound by more than measurement error.

/// Error of two clocks of up to 100 parts per million each (RFC 5180): that of the wire and that of the host.
const CLOCK_TOLERANCE: f64 = 2e-4;

/// Maximum contribution of a token bucket as a share of the bound: the tie band of goodput (docs/statistics.md). In
/// an interval so short that the burst contributes more, the bucket is measured, not the wire.
const BUCKET_MAX: f64 = 0.02;

/// Highest receiver rate in bit/s that is consistent with a bound in bit/s.
///
/// Allows for clock errors, up to 2e-4 of the bound, and for a burst of `bucket_bytes` from a token bucket within
/// `duration_secs`, up to 2 % of the bound.
pub fn allowed(bound_bps: f64, bucket_bytes: u64, duration_secs: f64) -> f64 {
    let burst_bps = match bucket_bytes {
        0 => 0.0,
        _ => (8.0 * bucket_bytes as f64 / duration_secs).min(BUCKET_MAX * bound_bps),
    };
    bound_bps * (1.0 + CLOCK_TOLERANCE) + burst_bps
}

/// Whether a receiver rate in bit/s exceeds the one [`allowed`] for this bound.
pub fn exceeds(measured_bps: f64, bound_bps: f64, bucket_bytes: u64, duration_secs: f64) -> bool {
    measured_bps > allowed(bound_bps, bucket_bytes, duration_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_within_the_clock_tolerance_does_not_exceed() {
        assert!(!exceeds(1_000_199_000.0, 1e9, 0, 1.0));
        assert!(exceeds(1_000_201_000.0, 1e9, 0, 1.0));
    }

    #[test]
    fn an_interval_of_no_length_excuses_nothing() {
        assert!(exceeds(1_000_201_000.0, 1e9, 0, 0.0));
    }

    #[test]
    fn a_bucket_excuses_its_bytes_once_an_interval() {
        // 125,000 bytes are 1 Mbit/s over 1 s, and a tenth of it over 10 s.
        assert!(!exceeds(1_001_199_000.0, 1e9, 125_000, 1.0));
        assert!(exceeds(1_001_201_000.0, 1e9, 125_000, 1.0));
        assert!(exceeds(1_000_301_000.0, 1e9, 125_000, 10.0));
    }

    #[test]
    fn a_bucket_that_passes_all_of_an_interval_excuses_two_percent() {
        for seconds in [0.0, 24e-6, 0.01] {
            assert!(!exceeds(1_020_199_000.0, 1e9, 125_000, seconds));
            assert!(exceeds(1_020_201_000.0, 1e9, 125_000, seconds));
        }
    }
}
