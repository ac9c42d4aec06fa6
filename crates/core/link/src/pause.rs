//! Backpressure: a queue that pauses the previous sender instead of dropping packets.

use fabricmark_units::{BitRate, Instant, Nanos};

use crate::invalid::{Invalid, some};

/// Queue levels at which to request and to end a pause (IEEE 802.3, annex 31B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    high_bytes: u64,
    low_bytes: u64,
    time: Nanos,
}

impl Marks {
    /// Longest pause that a frame can request: 65,535 times 512 bit times.
    pub fn longest_pause(rate: BitRate) -> Nanos {
        Nanos(65_535 * 512 * 1_000_000_000 / rate.0.max(1))
    }

    /// Requests a pause when `high_bytes` wait and ends it when `low_bytes` are left. Each request is for `time` and
    /// is repeated after half of it until the queue has drained.
    ///
    /// Room above the high mark must hold what arrives after the request: a frame that has started, and packets in
    /// flight.
    pub fn new(high_bytes: u64, low_bytes: u64, time: Nanos) -> Result<Self, Invalid> {
        some("half of the pause time", time.0 / 2)?;
        if low_bytes >= high_bytes {
            return Err(Invalid::Order { low: "the low mark", high: "the high mark" });
        }
        Ok(Self { high_bytes, low_bytes, time })
    }
}

/// Marks, and whether the previous sender is paused.
#[derive(Debug)]
pub(crate) struct BackPressure {
    marks: Marks,
    /// When the last request was made; `None` if the previous sender is not paused.
    asked: Option<Instant>,
}

impl BackPressure {
    pub fn new(marks: Marks) -> Self {
        Self { marks, asked: None }
    }

    /// The request to make now: a pause, or 0 for its end.
    pub fn request(&mut self, now: Instant, waiting_bytes: u64) -> Option<Nanos> {
        match self.asked {
            None if waiting_bytes >= self.marks.high_bytes => self.ask(now),
            Some(_) if waiting_bytes <= self.marks.low_bytes => {
                self.asked = None;
                Some(Nanos(0))
            }
            Some(asked) if self.again(asked) <= now => self.ask(now),
            _ => None,
        }
    }

    /// When the request must be repeated.
    pub fn wake(&self) -> Option<Instant> {
        self.asked.map(|asked| self.again(asked))
    }

    fn ask(&mut self, now: Instant) -> Option<Nanos> {
        self.asked = Some(now);
        Some(self.marks.time)
    }

    fn again(&self, asked: Instant) -> Instant {
        asked + Nanos(self.marks.time.0 / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_above_one_mark_and_ended_below_the_other() {
        let mut pressure = BackPressure::new(Marks::new(1000, 400, Nanos(100)).unwrap());
        let mut request = |at, bytes| pressure.request(Instant(at), bytes).map(|time| time.0);
        assert_eq!(request(0, 999), None);
        assert_eq!(request(10, 1000), Some(100));
        assert_eq!(request(20, 1100), None);
        assert_eq!(request(60, 500), Some(100));
        assert_eq!(request(70, 401), None);
        assert_eq!(request(80, 400), Some(0));
        assert_eq!(request(90, 999), None);
        assert_eq!(pressure.wake(), None);
    }

    #[test]
    fn the_longest_pause_is_3_355_us_at_10_gigabit() {
        assert_eq!(Marks::longest_pause(BitRate(10_000_000_000)), Nanos(3_355_392));
    }

    #[test]
    fn marks_the_wrong_way_round_are_refused() {
        let text = Marks::new(1, 1, Nanos(100)).unwrap_err().to_string();
        assert_eq!(text, "the low mark is not below the high mark: lower it");
        assert!(Marks::new(2, 1, Nanos(1)).is_err());
    }
}
