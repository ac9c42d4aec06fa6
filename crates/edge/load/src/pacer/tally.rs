//! Counts the departures of an open loop. Times are nanoseconds since the start of the schedule.

use fabricmark_record::Pacing;
use fabricmark_stats::Histogram;

/// Departures so far.
pub(super) struct Tally {
    interval_ns: u64,
    departures: u64,
    late: u64,
    slip_ns: Histogram,
    /// The same of departures that were not due in a pause of the machine; `None` if pauses are not detected.
    slip_without_pauses_ns: Option<Histogram>,
    last_due_ns: u64,
}

impl Tally {
    pub(super) fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            departures: 0,
            late: 0,
            slip_ns: Histogram::new(),
            slip_without_pauses_ns: None,
            last_due_ns: 0,
        }
    }

    /// The caller detects pauses of the machine from now on.
    pub(super) fn detect_pauses(&mut self) {
        self.slip_without_pauses_ns.get_or_insert_with(Histogram::new);
    }

    /// Counts a departure. `was_paused`: it was due in a pause of the machine.
    pub(super) fn depart(&mut self, due_ns: u64, actual_ns: u64, was_paused: bool) {
        let slip_ns = actual_ns.saturating_sub(due_ns);
        self.slip_ns.record(slip_ns);
        if let Some(others) = self.slip_without_pauses_ns.as_mut().filter(|_| !was_paused) {
            others.record(slip_ns);
        }
        self.departures += 1;
        self.late += u64::from(slip_ns > self.interval_ns);
        self.last_due_ns = due_ns;
    }

    /// Result at the end of the loop. `next_due_ns` is the departure that would have been next, `None` if the
    /// schedule has ended; `delayed_ns`, by how much the rest of the schedule was delayed.
    pub(super) fn finish(
        self,
        elapsed_ns: u64,
        next_due_ns: Option<u64>,
        delayed_ns: u64,
    ) -> Pacing {
        // The last departure of a schedule covers its interval, too.
        let next_due_ns = next_due_ns.unwrap_or(self.last_due_ns.saturating_add(self.interval_ns));
        let next_due_ns = next_due_ns.saturating_sub(delayed_ns);
        let is_behind = elapsed_ns.saturating_sub(next_due_ns) > self.interval_ns;
        Pacing {
            departures: self.departures,
            late: self.late,
            slip_ns: self.slip_ns,
            slip_without_pauses_ns: self.slip_without_pauses_ns,
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
            tally.depart(k * 1_000, k * 2_000, false);
        }
        let pacing = tally.finish(200_000, Some(100_000), 0);
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
            tally.depart(k * 1_000, at, false);
        }
        let pacing = tally.finish(99_500, Some(100_000), 0);
        assert_eq!((pacing.elapsed_ns, pacing.covered_ns), (99_500, 100_000));
        assert_eq!(pacing.late, 19);
        assert_eq!(pacing.achieved_per_s(), Some(1e6));
    }

    #[test]
    fn what_is_due_in_a_pause_counts_only_in_the_whole_lag() {
        let mut tally = Tally::new(1_000);
        tally.detect_pauses();
        for (due_ns, at_ns, was_paused) in
            [(0, 50, false), (1_000, 9_000, true), (2_000, 9_001, true), (10_000, 10_050, false)]
        {
            tally.depart(due_ns, at_ns, was_paused);
        }
        let pacing = tally.finish(10_500, Some(11_000), 0);
        assert!(pacing.slip_ns.len() == 4 && pacing.slip_ns.max() >= Some(8_000));
        let others = pacing.slip_without_pauses_ns.unwrap();
        assert!(others.len() == 2 && others.max() < Some(100), "{others:?}");
    }

    #[test]
    fn the_last_departure_of_a_schedule_covers_its_interval() {
        let tally = || {
            let mut tally = Tally::new(1_000);
            tally.depart(0, 10, false);
            tally
        };
        assert_eq!(tally().finish(20, None, 0).covered_ns, 1_000);
        assert_eq!(tally().finish(1_700, None, 0).covered_ns, 1_700, "not behind by an interval");
        assert_eq!(tally().finish(5_000, None, 0).covered_ns, 1_000);
    }
}
