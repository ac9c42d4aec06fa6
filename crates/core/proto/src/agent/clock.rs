//! Offset of another machine's clock from the local one, by pings over the control path.
//!
//! A ping sent at t1, answered at a (by the other clock) and received at t4 says that the other clock is ahead by
//! a - (t1 + t4)/2. The error is at most RTT/2, however asymmetric the path is (RFC 5905, section 8). The sample of
//! the shortest RTT is the best, but the error grows with its age, since the clocks drift.

use std::collections::VecDeque;

use fabricmark_record::ClockOffset;
use fabricmark_units::Instant;

/// Samples kept: 64 s of idle pings.
const SAMPLES_MAX: usize = 64;

/// Largest relative drift of two clocks: twice the 50 ppm of common crystals.
const DRIFT_MAX: f64 = 100e-6;

/// A ping and its answer.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    rtt_ns: u64,
    ahead_ns: i128,
}

impl Sample {
    /// Largest error of the sample's offset at a later time, in nanoseconds.
    fn uncertainty_ns(&self, now: Instant) -> f64 {
        self.rtt_ns as f64 / 2.0 + (now - self.at).0 as f64 * DRIFT_MAX
    }
}

/// Estimates offset and drift of another clock.
#[derive(Clone, Debug, Default)]
pub struct ClockFilter {
    samples: VecDeque<Sample>,
    /// The discarded sample of the shortest RTT, kept for the drift.
    first: Option<Sample>,
}

impl ClockFilter {
    /// Adds a ping sent at `sent`, answered at `other_ns` of the other clock and received back at `received`.
    pub fn add(&mut self, sent: Instant, other_ns: u64, received: Instant) {
        let rtt_ns = (received - sent).0;
        let middle = i128::from(sent.0) + i128::from(rtt_ns / 2);
        let sample = Sample { at: received, rtt_ns, ahead_ns: i128::from(other_ns) - middle };
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES_MAX
            && let Some(old) = self.samples.pop_front()
            && self.first.is_none_or(|first| old.rtt_ns < first.rtt_ns)
        {
            self.first = Some(old);
        }
    }

    /// The estimate at this time; `None` before the first ping.
    pub fn estimate(&self, now: Instant) -> Option<ClockOffset> {
        let known = || self.samples.iter().chain(&self.first);
        let best =
            known().min_by(|a, b| a.uncertainty_ns(now).total_cmp(&b.uncertainty_ns(now)))?;
        let drift =
            known().filter_map(|other| drift(other, best)).min_by(|a, b| a.1.total_cmp(&b.1));
        Some(ClockOffset {
            offset_ns: i64::try_from(best.ahead_ns).ok()?,
            uncertainty_ns: best.uncertainty_ns(now).ceil() as u64,
            rtt_min_ns: self.samples.iter().map(|sample| sample.rtt_ns).min()?,
            drift_ppb: drift.map(|(ppb, _)| ppb.round() as i64),
            drift_uncertainty_ppb: drift.map(|(_, ppb)| ppb.ceil() as u64),
        })
    }
}

/// How much faster the other clock runs, and the uncertainty of that, in parts per billion; `None` if the
/// uncertainty exceeds the drift of any two clocks.
fn drift(earlier: &Sample, later: &Sample) -> Option<(f64, f64)> {
    let apart_ns = later.at.0.checked_sub(earlier.at.0).filter(|&ns| ns > 0)? as f64;
    let uncertainty = (earlier.rtt_ns + later.rtt_ns) as f64 / 2.0 / apart_ns;
    let drift = (later.ahead_ns - earlier.ahead_ns) as f64 / apart_ns;
    (uncertainty < DRIFT_MAX).then_some((drift * 1e9, uncertainty * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Another clock: `ahead_ns` ahead, and faster by `ppb` parts per billion.
    fn other(ahead_ns: i64, ppb: i64, at_ns: u64) -> u64 {
        let at_ns = i128::from(at_ns);
        let other = at_ns + i128::from(ahead_ns) + at_ns * i128::from(ppb) / 1_000_000_000;
        u64::try_from(other).unwrap()
    }

    proptest! {
        #[test]
        fn the_true_distance_is_within_the_uncertainty(
            ahead_ns in 0i64..1 << 60,
            ppb in -90_000i64..90_000,
            ways in prop::collection::vec((1_000u64..10_000_000, 1_000u64..200_000_000), 1..200),
        ) {
            let mut filter = ClockFilter::default();
            let mut now_ns = 1_000_000_000;
            for (there_ns, back_ns) in ways {
                let (sent, heard) = (now_ns, now_ns + there_ns);
                now_ns = heard + back_ns;
                filter.add(Instant(sent), other(ahead_ns, ppb, heard), Instant(now_ns));
                now_ns += 250_000_000;
            }
            let found = filter.estimate(Instant(now_ns)).unwrap();
            let truth = i128::from(other(ahead_ns, ppb, now_ns)) - i128::from(now_ns);
            let off = (i128::from(found.offset_ns) - truth).unsigned_abs();
            prop_assert!(off <= u128::from(found.uncertainty_ns) + 1, "{off} {found:?}");
            if let (Some(drift), Some(sure)) = (found.drift_ppb, found.drift_uncertainty_ppb) {
                prop_assert!((drift - ppb).unsigned_abs() <= sure + 2, "{ppb} {found:?}");
            }
        }
    }

    #[test]
    fn a_short_round_trip_says_more_than_later_long_ones() {
        let mut filter = ClockFilter::default();
        filter.add(Instant(0), 1_000_500, Instant(1_000));
        // 10 ms to the other end, 0 back: the apparent offset is 5 ms too large.
        filter.add(Instant(1_000_000), 12_000_000, Instant(11_000_000));
        let found = filter.estimate(Instant(11_000_000)).unwrap();
        assert_eq!((found.offset_ns, found.rtt_min_ns), (1_000_000, 1_000));
        // Half of the RTT of 1 us, and 100 ppm of 11 ms.
        assert_eq!(found.uncertainty_ns, 500 + 1_100);
    }

    #[test]
    fn drift_is_told_when_it_is_known_better_than_what_any_two_clocks_keep_to() {
        let mut filter = ClockFilter::default();
        for second in 0..100 {
            let at = second * 1_000_000_000;
            filter.add(Instant(at), other(5, 20_000, at + 25_000), Instant(at + 50_000));
            let found = filter.estimate(Instant(at + 50_000)).unwrap();
            assert_eq!(found.drift_ppb, (second > 0).then_some(20_000), "after {second} s");
        }
    }
}
