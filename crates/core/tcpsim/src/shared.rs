//! Connections that are limited by their windows and share a link.

use fabricmark_units::{Bytes, Nanos};

/// A connection with a window that its congestion control has reached, and its RTT without queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windowed {
    /// Bytes in flight at most.
    pub window: Bytes,
    /// RTT of the path while its queues are empty.
    pub rtt: Nanos,
}

/// Rates in bytes/s of connections that share a link with a FIFO queue without losses, which passes `capacity` payload
/// bytes/s.
///
/// Each connection has a window in flight, so its rate is window / (RTT + q), with the queueing delay q that all share. q is
/// 0 if the link passes them all, and otherwise fills it: the sum of the rates is the capacity. This is Little's law
/// for the path of each.
pub fn shares_of_windows(connections: &[Windowed], capacity: f64) -> Vec<f64> {
    let rates = |queue_s: f64| -> Vec<f64> {
        let of = |one: &Windowed| one.window.0 as f64 / (one.rtt.as_secs_f64() + queue_s);
        connections.iter().map(of).collect()
    };
    let exceeds = |queue_s: f64| rates(queue_s).iter().sum::<f64>() > capacity;
    if !exceeds(0.0) {
        return rates(0.0);
    }
    // The queue holds at most all windows.
    let most: f64 = connections.iter().map(|one| one.window.0 as f64).sum();
    let (mut low, mut high) = (0.0, most / capacity);
    // Halved to the last bit of a double.
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if exceeds(middle) { low = middle } else { high = middle }
    }
    rates(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windowed(window: u64, rtt_ms: u64) -> Windowed {
        Windowed { window: Bytes(window), rtt: Nanos::from_millis(rtt_ms) }
    }

    #[test]
    fn windows_that_fit_are_passed_and_others_share_the_capacity() {
        let both = [windowed(10_000, 10), windowed(10_000, 20)];
        // 1 and 0.5 MB/s.
        assert_eq!(shares_of_windows(&both, 2e6), [1e6, 5e5]);
        // Without an RTT of their own the shares are those of the windows.
        let shares = shares_of_windows(&[windowed(30_000, 0), windowed(10_000, 0)], 1e6);
        assert!((shares[0] - 7.5e5).abs() < 1.0 && (shares[1] - 2.5e5).abs() < 1.0, "{shares:?}");
        // q = 10 ms: 10,000 / 20 ms + 10,000 / 30 ms.
        let shares = shares_of_windows(&both, 5e5 + 1e6 / 3.0);
        assert!((shares[0] - 5e5).abs() < 1.0 && (shares[1] - 1e6 / 3.0).abs() < 1.0, "{shares:?}");
        assert!(shares_of_windows(&[], 1e6).is_empty());
    }
}
