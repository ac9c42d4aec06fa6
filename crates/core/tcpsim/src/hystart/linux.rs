//! HyStart of Linux's CUBIC (`hystart_update` in net/ipv4/tcp_cubic.c, 6.12).
//!
//! Not modelled: the up to half a millisecond by which Linux extends the threshold of an ACK train for super-packets.

use fabricmark_units::{Instant, Nanos};

use super::{Advice, SAMPLES, threshold};
use crate::window::Answer;

/// Smaller windows are not judged (`hystart_low_window`).
const WINDOW_LEAST: f64 = 16.0;
/// Largest gap between acknowledgements of an ACK train (`hystart_ack_delta_us`).
const GAP_MOST: Nanos = Nanos::from_millis(2);
/// State of the current round.
#[derive(Clone, Debug)]
pub(crate) struct Linux {
    /// Whether ACK trains are detected (`hystart_detect`).
    sees_trains: bool,
    paced: bool,
    /// Transmission whose acknowledgement ends the round.
    ends: u64,
    began: Instant,
    /// Last acknowledgement of the ACK train that started the round.
    last: Instant,
    /// Minimum RTT of the connection, and of this round.
    least: Nanos,
    current: Nanos,
    samples: u32,
}

impl Linux {
    pub fn new(sees_trains: bool, paced: bool) -> Self {
        let (ends, began, last) = (0, Instant(0), Instant(0));
        let (least, current) = (Nanos(u64::MAX), Nanos(u64::MAX));
        Self { sees_trains, paced, ends, began, last, least, current, samples: 0 }
    }

    pub fn advise(&mut self, answer: Answer, cwnd: f64) -> Advice {
        let Answer { now, rtt, answered, next, .. } = answer;
        self.least = self.least.min(rtt);
        if answered > self.ends {
            (self.ends, self.began, self.last) = (next, now, now);
            (self.current, self.samples) = (Nanos(u64::MAX), 0);
        }
        if cwnd < WINDOW_LEAST {
            return Advice::Slow;
        }
        if self.is_long_train(now) || self.is_delayed(rtt) { Advice::Leave } else { Advice::Slow }
    }

    /// Whether acknowledgements arrive without a gap for half an RTT; for a whole RTT if the sender is paced.
    fn is_long_train(&mut self, now: Instant) -> bool {
        if !self.sees_trains || now - self.last > GAP_MOST {
            return false;
        }
        self.last = now;
        let threshold = if self.paced { self.least.0 } else { self.least.0 / 2 };
        now - self.began > Nanos(threshold)
    }

    fn is_delayed(&mut self, rtt: Nanos) -> bool {
        self.current = self.current.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.current > self.least + threshold(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether slow start ends in a round of acknowledgements `apart_us` µs apart, with an RTT of 100 ms before and
    /// `rtt_ms` in the round.
    fn leaves(paced: bool, cwnd: f64, answers: u64, apart_us: u64, rtt_ms: u64) -> bool {
        leaves_slow_start(Linux::new(true, paced), cwnd, answers, apart_us, rtt_ms)
    }

    fn leaves_slow_start(
        mut linux: Linux,
        cwnd: f64,
        answers: u64,
        apart_us: u64,
        rtt_ms: u64,
    ) -> bool {
        let mut advise = |number: u64, at_us: u64, ms| {
            let answer = Answer {
                now: Instant(at_us * 1000),
                acked: 1,
                rtt: Nanos::from_millis(ms),
                smooth: Nanos::from_millis(ms),
                answered: number + 1,
                next: if number == 0 { 1 } else { 1 + answers },
            };
            linux.advise(answer, cwnd)
        };
        assert_eq!(advise(0, 100_000, 100), Advice::Slow);
        let mut round = 1..=answers;
        round.any(|number| advise(number, 200_000 + number * apart_us, rtt_ms) == Advice::Leave)
    }

    #[test]
    fn answers_without_a_gap_for_half_a_round_trip_end_slow_start() {
        // 51 ms of 100, then 49, then with a gap after each.
        assert!(leaves(false, 52.0, 52, 1000, 100));
        assert!(!leaves(false, 52.0, 49, 1000, 100));
        assert!(!leaves(false, 52.0, 52, 2001, 100));
        // Paced segments are spread over half an RTT anyway.
        assert!(!leaves(true, 52.0, 52, 1000, 100));
        assert!(leaves(true, 102.0, 102, 1000, 100));
    }

    #[test]
    fn a_host_that_sees_no_trains_looks_at_the_round_trip_alone() {
        let blind = || Linux::new(false, false);
        assert!(!leaves_slow_start(blind(), 52.0, 52, 1000, 100));
        assert!(leaves_slow_start(blind(), 52.0, 52, 1000, 113));
    }

    #[test]
    fn a_longer_round_trip_ends_slow_start_at_once() {
        // An eighth of 100 ms is 12.5 ms; the first eight acknowledgements are not judged.
        assert!(leaves(false, 20.0, 9, 1, 113));
        assert!(!leaves(false, 20.0, 9, 1, 112));
        assert!(!leaves(false, 20.0, 8, 1, 113));
    }

    #[test]
    fn a_window_below_16_segments_is_not_judged() {
        assert!(!leaves(false, 15.9, 52, 1000, 150));
        assert!(leaves(false, 16.0, 52, 1000, 150));
    }
}
