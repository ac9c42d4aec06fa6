//! Counts the departures of an open loop. Times are nanoseconds since the start of the schedule.

use fabricmark_record::Pacing;
use fabricmark_stats::Histogram;

/// Departures so far.
pub(super) struct Tally {
    interval_ns: u64,
    departures: u64,
    late: u64,
    slip_ns: Histogram,
    last_due_ns: u64,
}

impl Tally {
    pub(super) fn new(interval_ns: u64) -> Self {
        Self { interval_ns, departures: 0, late: 0, slip_ns: Histogram::new(), last_due_ns: 0 }
    }

    pub(super) fn depart(&mut self, due_ns: u64, actual_ns: u64) {
        let slip_ns = actual_ns.saturating_sub(due_ns);
        self.slip_ns.record(slip_ns);
        self.departures += 1;
        self.late += u64::from(slip_ns > self.interval_ns);
        self.last_due_ns = due_ns;
    }

    /// Result at the end of the loop. `next_due_ns` is the departure that would have been next, `None` if the
    /// schedule has ended.
    pub(super) fn finish(self, elapsed_ns: u64, next_due_ns: Option<u64>) -> Pacing {
        // The last departure of a schedule covers its interval, too.
        let next_due_ns = next_due_ns.unwrap_or(self.last_due_ns.saturating_add(self.interval_ns));
        let is_behind = elapsed_ns.saturating_sub(next_due_ns) > self.interval_ns;
        Pacing {
            departures: self.departures,
            late: self.late,
            slip_ns: self.slip_ns,
            elapsed_ns,
            covered_ns: if is_behind { next_due_ns } else { next_due_ns.max(elapsed_ns) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_at_half_the_rate_covers_half_the_schedule() {
        // A departure is due every 1000 ns, but each takes 2000 ns.
        let mut tally = Tally::new(1_000);
        for k in 0..100 {
            tally.depart(k * 1_000, k * 2_000);
        }
        let pacing = tally.finish(200_000, Some(100_000));
        assert_eq!((pacing.departures, pacing.late), (100, 98));
        assert_eq!((pacing.elapsed_ns, pacing.covered_ns), (200_000, 100_000));
        assert_eq!(pacing.intended_per_s(), Some(1e6));
        assert_eq!(pacing.achieved_per_s(), Some(5e5));
        assert!(!pacing.is_held());
    }

    #[test]
    fn a_stall_that_was_caught_up_with_is_slip_and_no_lower_rate() {
        let mut tally = Tally::new(1_000);
        for k in 0..100 {
            // Nothing departs from 10 us to 30 us.
            let at = if (10..30).contains(&k) { 30_000 } else { k * 1_000 };
            tally.depart(k * 1_000, at);
        }
        let pacing = tally.finish(99_500, Some(100_000));
        assert_eq!((pacing.elapsed_ns, pacing.covered_ns), (99_500, 100_000));
        assert_eq!(pacing.late, 19);
        assert_eq!(pacing.achieved_per_s(), Some(1e6));
    }

    #[test]
    fn the_last_departure_of_a_schedule_covers_its_interval() {
        let tally = || {
            let mut tally = Tally::new(1_000);
            tally.depart(0, 10);
            tally
        };
        assert_eq!(tally().finish(20, None).covered_ns, 1_000);
        assert_eq!(tally().finish(1_700, None).covered_ns, 1_700, "not behind by an interval");
        assert_eq!(tally().finish(5_000, None).covered_ns, 1_000);
    }
}
