//! When a measured rate is too good to be true.

/// Two clocks, each off by up to 100 parts per million (RFC 5180): the wire's and the host's.
const CLOCK_TOLERANCE: f64 = 2e-4;

/// The highest receiver-side rate in bit/s that a bound in bit/s can explain.
///
/// Two things explain an excess: clocks, up to 2e-4 of the bound, and bytes that stood in buffers
/// when the interval began. `bucket_bytes` counts the latter (token bucket, socket buffers) and
/// `duration_secs` is the length of the interval.
pub fn allowed(bound_bps: f64, bucket_bytes: u64, duration_secs: f64) -> f64 {
    let burst_bps = match bucket_bytes {
        0 => 0.0,
        _ => 8.0 * bucket_bytes as f64 / duration_secs,
    };
    bound_bps * (1.0 + CLOCK_TOLERANCE) + burst_bps
}

/// Whether a receiver-side rate in bit/s exceeds what [`allowed`] explains.
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
        // 125,000 bytes in 1 s are 1 Mbit/s, in 10 s a tenth of it.
        assert!(!exceeds(1_001_199_000.0, 1e9, 125_000, 1.0));
        assert!(exceeds(1_001_201_000.0, 1e9, 125_000, 1.0));
        assert!(exceeds(1_000_301_000.0, 1e9, 125_000, 10.0));
    }
}
