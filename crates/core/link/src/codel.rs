//! CoDel: signals congestion while the queueing delay stays above a target for too long (RFC 8289).

use fabricmark_units::{Instant, Nanos};

use crate::invalid::{Invalid, some};

/// State of a queue that CoDel manages; names are those of RFC 8289, section 5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoDel {
    target: Nanos,
    interval: Nanos,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub(crate) marks: bool,
    /// When the queueing delay will have been above the target for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    signal_next: Instant,
    /// The signal of `signal_next` was given; the next one is not scheduled yet.
    signalled: bool,
    count: u32,
    last_count: u32,
    /// Largest packet so far: a backlog of one packet is not a standing queue.
    largest_bytes: u64,
}

/// Decision about the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// Drop it and take the next, or mark it and send it.
    Signal,
}

impl CoDel {
    /// Acceptable queueing delay (RFC 8289, section 4.2).
    pub const TARGET: Nanos = Nanos::from_millis(5);
    /// Longest usual RTT (RFC 8289, section 4.3).
    pub const INTERVAL: Nanos = Nanos::from_millis(100);
    /// Signals when the queueing delay exceeds `target` for `interval`: by CE for ECN-capable packets if `marks` is
    /// set, else by drops.
    pub fn new(target: Nanos, interval: Nanos, marks: bool) -> Result<Self, Invalid> {
        some("the interval of CoDel", interval.0)?;
        Ok(Self {
            target,
            interval,
            marks,
            first_above: None,
            dropping: false,
            signal_next: Instant(0),
            signalled: false,
            count: 0,
            last_count: 0,
            largest_bytes: 0,
        })
    }

    /// Records that the queue is empty.
    pub(crate) fn empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
        self.signalled = false;
    }

    /// Decides about a packet of `bytes` at the head that waited for `sojourn`, with `backlog_bytes` behind it.
    /// Called once for each packet to send.
    pub(crate) fn verdict(
        &mut self,
        now: Instant,
        sojourn: Nanos,
        bytes: u32,
        backlog_bytes: u64,
    ) -> Verdict {
        self.largest_bytes = self.largest_bytes.max(bytes.into());
        if !self.stands(now, sojourn, backlog_bytes) {
            self.dropping = false;
            return Verdict::Send;
        }
        if !self.dropping {
            self.dropping = true;
            // If the last dropping state ended recently, start at its rate.
            let signals = self.count.saturating_sub(self.last_count);
            let recent = (now - self.signal_next).0 < self.interval.0.saturating_mul(16);
            self.count = if signals > 1 && recent { signals } else { 1 };
            self.last_count = self.count;
            self.signal_next = self.after(now);
            return Verdict::Signal;
        }
        if self.signalled {
            self.signalled = false;
            self.signal_next = self.after(self.signal_next);
        }
        if now < self.signal_next {
            return Verdict::Send;
        }
        self.count = self.count.saturating_add(1);
        self.signalled = true;
        Verdict::Signal
    }

    /// Whether the queueing delay has exceeded the target for an interval.
    fn stands(&mut self, now: Instant, sojourn: Nanos, backlog_bytes: u64) -> bool {
        if sojourn < self.target || backlog_bytes <= self.largest_bytes {
            self.first_above = None;
            self.signalled = false;
            return false;
        }
        let Some(by) = self.first_above else {
            self.first_above = Some(now + self.interval);
            return false;
        };
        now >= by
    }

    /// Control law: the time between signals shrinks with the square root of their number.
    fn after(&self, last: Instant) -> Instant {
        last + Nanos((self.interval.0 as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Times in ms of the signals of a queue that is polled every millisecond.
    fn signals(sojourn_ms: impl Fn(u64) -> u64, until_ms: u64) -> Vec<u64> {
        let mut codel = CoDel::new(CoDel::TARGET, CoDel::INTERVAL, false).unwrap();
        let mut asked = |ms| {
            let sojourn = Nanos(sojourn_ms(ms) * MS);
            codel.verdict(Instant(ms * MS), sojourn, 1500, 100_000) == Verdict::Signal
        };
        (0..until_ms).filter(|&ms| asked(ms)).collect()
    }

    #[test]
    fn signals_to_a_standing_queue_come_closer_with_the_root_of_their_number() {
        // One interval, then 100 ms / sqrt(n) after the nth: 100, 70.7, 57.7, 50, 44.7, 40.8.
        assert_eq!(signals(|_| 20, 500), [100, 200, 271, 329, 379, 424, 464]);
    }

    #[test]
    fn a_queue_that_drains_within_an_interval_is_left_alone() {
        let sojourn_ms = |ms| if ms % 100 == 99 { 4 } else { 20 };
        assert!(signals(sojourn_ms, 2000).is_empty());
    }

    #[test]
    fn a_new_standing_queue_is_met_with_the_rate_of_the_last() {
        // Drained at 500 ms after seven signals, then standing again: restarts at a count of 6, 40.8 ms.
        let standing = |ms| if ms == 500 { 0 } else { 20 };
        let after: Vec<u64> = signals(standing, 700).into_iter().filter(|&ms| ms > 500).collect();
        assert_eq!(after, [601, 642, 680]);
    }

    #[test]
    fn a_backlog_of_one_packet_is_no_queue() {
        let mut codel = CoDel::new(CoDel::TARGET, CoDel::INTERVAL, false).unwrap();
        for ms in 0..1000 {
            let verdict = codel.verdict(Instant(ms * MS), Nanos(50 * MS), 1500, 1500);
            assert_eq!(verdict, Verdict::Send);
        }
    }

    #[test]
    fn an_interval_of_0_is_refused() {
        assert!(CoDel::new(CoDel::TARGET, Nanos(0), false).is_err());
    }
}
