//! How well a sender kept its schedule.

use std::ops::AddAssign;

use fabricmark_stats::{Histogram, THROUGHPUT_TIE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::warning::Warning;

/// Departures of an open loop, compared with the schedule.
///
/// A sender that is behind sends at once and skips nothing. A rate that it cannot hold shows as a growing departure
/// lag, and as a schedule that was not completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pacing {
    /// Payloads sent.
    pub departures: u64,
    /// Departures later than scheduled by more than the mean time between departures (between bursts, if any).
    pub late: u64,
    /// Departure lag: actual minus scheduled departure. In a burst it includes the time of the earlier payloads.
    pub slip_ns: Histogram,
    /// Departure lag of the payloads that were not due in a pause of the machine: a time in which the CPU of a spinning
    /// sender ran something else. Pauses inside a system call are not detected. Absent if the sender only slept, and in
    /// records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slip_without_pauses_ns: Option<Histogram>,
    /// Duration of the open loop, from the start of the schedule to its stop.
    pub elapsed_ns: u64,
    /// Part of the schedule that was carried out in that time, up to the next scheduled departure. It may slightly
    /// exceed `elapsed_ns`; it is less only if the sender ended late.
    pub covered_ns: u64,
}

impl Pacing {
    /// Departures of threads that ran side by side, each with a part of one schedule: the sums, and the times in which
    /// these have the sum of all rates. `None` for no threads.
    pub fn side_by_side<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let all: Vec<&Self> = all.collect();
        let mut sum = all.iter().fold(None, |sum: Option<Self>, &one| match sum {
            Some(mut sum) => {
                sum += one;
                Some(sum)
            }
            None => Some(one.clone()),
        })?;
        let time_ns = |of: fn(&Self) -> u64| {
            let per_ns: f64 =
                all.iter().map(|one| one.departures as f64 / of(one).max(1) as f64).sum();
            let longest_ns = all.iter().map(|one| of(one)).max().unwrap_or(0);
            if per_ns > 0.0 { (sum.departures as f64 / per_ns).round() as u64 } else { longest_ns }
        };
        let (elapsed_ns, covered_ns) =
            (time_ns(|one| one.elapsed_ns), time_ns(|one| one.covered_ns));
        (sum.elapsed_ns, sum.covered_ns) = (elapsed_ns, covered_ns);
        Some(sum)
    }

    /// Scheduled departures per second, over the covered part of the schedule.
    pub fn intended_per_s(&self) -> Option<f64> {
        per_s(self.departures, self.covered_ns)
    }

    /// Actual departures per second; never more than scheduled, since late departures are only delayed.
    pub fn achieved_per_s(&self) -> Option<f64> {
        per_s(self.departures, self.window_ns())
    }

    /// Share of the scheduled rate that the sender missed, from 0 to 1.
    pub fn shortfall(&self) -> f64 {
        let missing_ns = self.elapsed_ns.saturating_sub(self.covered_ns);
        missing_ns as f64 / self.elapsed_ns.max(1) as f64
    }

    /// Time over which departures are spread: the schedule's, or the sender's if longer. Rates of an open loop use
    /// it, since the time from first to last arrival has fewer gaps.
    pub fn window_ns(&self) -> u64 {
        self.elapsed_ns.max(self.covered_ns)
    }

    /// A warning if the scheduled rate was not held.
    pub fn warning(&self) -> Option<Warning> {
        let (offered_per_s, achieved_per_s) = (self.intended_per_s(), self.achieved_per_s()?);
        (!self.is_held()).then_some(Warning::RateNotHeld { offered_per_s, achieved_per_s })
    }

    /// Whether the scheduled rate was reached, within the tie band of throughput.
    pub fn is_held(&self) -> bool {
        self.shortfall() <= THROUGHPUT_TIE
    }
}

impl AddAssign<&Self> for Pacing {
    fn add_assign(&mut self, other: &Self) {
        self.departures = self.departures.saturating_add(other.departures);
        self.late = self.late.saturating_add(other.late);
        self.slip_ns.merge(&other.slip_ns);
        self.slip_without_pauses_ns =
            self.slip_without_pauses_ns.take().zip(other.slip_without_pauses_ns.as_ref()).map(
                |(mut all, more)| {
                    all.merge(more);
                    all
                },
            );
        self.elapsed_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
        self.covered_ns = self.covered_ns.saturating_add(other.covered_ns);
    }
}

fn per_s(departures: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| 1e9 * departures as f64 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacing(departures: u64, elapsed_ns: u64, covered_ns: u64) -> Pacing {
        let (late, slip_ns, slip_without_pauses_ns) = (0, Histogram::new(), None);
        Pacing { departures, late, slip_ns, slip_without_pauses_ns, elapsed_ns, covered_ns }
    }

    #[test]
    fn a_rate_that_was_not_held_is_said_beside_the_one_that_was_meant() {
        // Scheduled: 1000 per second. In two seconds 1500 departed, those of the first 1.5 s.
        let pacing = pacing(1_500, 2_000_000_000, 1_500_000_000);
        assert_eq!(pacing.intended_per_s(), Some(1_000.0));
        assert_eq!(pacing.achieved_per_s(), Some(750.0));
        assert_eq!(pacing.shortfall(), 0.25);
        assert!(!pacing.is_held());
        assert_eq!(
            pacing.warning().map(|warning| warning.to_string()).as_deref(),
            Some(
                "the sender reached 750.0 departures/s, below the scheduled 1000.0: the figures \
                 are those of the lower rate"
            )
        );
    }

    #[test]
    fn the_last_departure_has_its_interval_although_the_run_ends_within_it() {
        // 1000 per second from 0: 101 in 100.5 ms, the next is due at 101 ms.
        let pacing = pacing(101, 100_500_000, 101_000_000);
        assert_eq!(pacing.intended_per_s(), Some(1_000.0));
        assert_eq!(pacing.achieved_per_s(), Some(1_000.0));
        assert_eq!(pacing.shortfall(), 0.0);
    }

    #[test]
    fn a_rate_within_the_tie_band_was_held() {
        assert!(pacing(100, 1_000_000_000, 981_000_000).is_held());
        assert!(!pacing(100, 1_000_000_000, 979_000_000).is_held());
    }

    #[test]
    fn threads_beside_each_other_have_the_sum_of_their_rates() {
        // Each is to send 1000 per second for a second; one sends half of them.
        let all =
            [pacing(1_000, 1_000_000_000, 1_001_000_000), pacing(500, 1_000_000_000, 500_000_000)];
        let sum = Pacing::side_by_side(all.iter()).unwrap();
        assert_eq!((sum.departures, sum.elapsed_ns), (1_500, 1_000_000_000));
        let intended_per_s = sum.intended_per_s().unwrap();
        assert!((intended_per_s - 1_999.0).abs() < 0.01, "{intended_per_s}");
        assert_eq!(sum.achieved_per_s(), Some(1_500.0));
        assert!((sum.shortfall() - 0.25).abs() < 0.001);
        assert_eq!(Pacing::side_by_side([pacing(0, 5, 7)].iter()), Some(pacing(0, 5, 7)));
        assert_eq!(Pacing::side_by_side([].iter()), None);
    }

    #[test]
    fn a_run_without_length_has_no_rate() {
        let pacing = pacing(0, 0, 0);
        assert_eq!((pacing.intended_per_s(), pacing.achieved_per_s()), (None, None));
        assert!(pacing.is_held());
    }
}
