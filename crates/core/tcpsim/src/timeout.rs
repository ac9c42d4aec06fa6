//! The retransmission timer (RFC 6298).

use fabricmark_units::{Instant, Nanos};

/// Maximum timeout (RFC 6298, section 2.5, allows 60 s and more; Linux has 120 s).
const LONGEST: Nanos = Nanos::from_secs(60);

/// Smoothed RTT, and the timeout computed from it.
#[derive(Clone, Debug)]
pub(crate) struct Timeout {
    least: Nanos,
    /// Smoothed RTT and its variation; `None` before the first sample.
    round_trip: Option<(Nanos, Nanos)>,
    /// Consecutive timeouts.
    backoff: u32,
    pub due: Option<Instant>,
}

impl Timeout {
    pub fn new(least: Nanos) -> Self {
        Self { least, round_trip: None, backoff: 0, due: None }
    }

    /// Smoothed RTT; 0 before the first sample.
    pub fn round_trip(&self) -> Nanos {
        self.round_trip.map_or(Nanos(0), |(smooth, _)| smooth)
    }

    /// Adds an RTT sample, which also ends the backoff.
    pub fn sample(&mut self, rtt: Nanos) {
        self.round_trip = Some(match self.round_trip {
            None => (rtt, Nanos(rtt.0 / 2)),
            Some((smooth, variation)) => {
                let error = smooth.0.abs_diff(rtt.0);
                let variation = Nanos(variation.0 - variation.0 / 4 + error / 4);
                (Nanos(smooth.0 - smooth.0 / 8 + rtt.0 / 8), variation)
            }
        });
        self.backoff = 0;
    }

    /// Restarts the timer, or stops it if nothing is unacknowledged.
    pub fn restart(&mut self, now: Instant, unanswered: bool) {
        self.due = unanswered.then(|| now + self.length());
    }

    /// Starts the timer unless it is running.
    pub fn start(&mut self, now: Instant) {
        if self.due.is_none() {
            self.restart(now, true);
        }
    }

    /// Whether nothing was acknowledged since the last timeout.
    pub fn is_repeated(&self) -> bool {
        self.backoff > 0
    }

    /// The timer expired: the next timeout is twice as long.
    pub fn expire(&mut self) {
        self.backoff += 1;
        self.due = None;
    }

    fn length(&self) -> Nanos {
        // Section 2.1: 1 s before the first sample.
        let base = self.round_trip.map_or(Nanos::from_secs(1), |(smooth, variation)| {
            smooth + Nanos(variation.0.saturating_mul(4))
        });
        let doubled = base.max(self.least).0.saturating_mul(1 << self.backoff.min(16));
        Nanos(doubled).min(LONGEST.max(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_follows_the_round_trip_and_doubles() {
        let mut timeout = Timeout::new(Nanos::from_millis(200));
        let length = |timeout: &mut Timeout| {
            timeout.restart(Instant(0), true);
            timeout.due.unwrap().0 / 1_000_000
        };
        assert_eq!(length(&mut timeout), 1000);
        // SRTT = 400 ms, RTTVAR = 200 ms; then 400 ms and 150 ms.
        timeout.sample(Nanos::from_millis(400));
        assert_eq!(length(&mut timeout), 1200);
        timeout.sample(Nanos::from_millis(400));
        assert_eq!(length(&mut timeout), 1000);
        timeout.expire();
        assert_eq!(timeout.due, None);
        assert_eq!(length(&mut timeout), 2000);
        timeout.expire();
        assert_eq!(length(&mut timeout), 4000);
        for _ in 0..40 {
            timeout.expire();
        }
        assert_eq!(length(&mut timeout), 60_000);
        // SRTT = 390 ms, RTTVAR = 132.5 ms: a sample ends the backoff.
        timeout.sample(Nanos::from_millis(320));
        assert_eq!(length(&mut timeout), 920);
        timeout.restart(Instant(0), false);
        assert_eq!(timeout.due, None);
    }

    #[test]
    fn a_short_round_trip_waits_for_the_least_time_out() {
        let mut timeout = Timeout::new(Nanos::from_secs(1));
        timeout.sample(Nanos::from_millis(1));
        timeout.start(Instant(5));
        timeout.start(Instant(500));
        assert_eq!(timeout.due, Some(Instant(1_000_000_005)));
        assert_eq!(timeout.round_trip(), Nanos::from_millis(1));
    }
}
