//! The receiver of data.

use std::collections::BTreeMap;

use fabricmark_units::{Instant, Nanos};
use fabricmark_wire::lfn::Acks;

use crate::path::Ack;

/// How long a single segment waits for a second one (Linux, `TCP_DELACK_MIN`).
const ACK_DELAY: Nanos = Nanos::from_millis(40);

/// Reassembles the stream and sends acknowledgements.
#[derive(Debug)]
pub(crate) struct Receiver {
    acks: Acks,
    /// All segments before this one have arrived.
    pub expected: u64,
    /// Out-of-order ranges: first segment to one past the last.
    beyond: BTreeMap<u64, u64>,
    /// Segments that arrived, duplicates and retransmissions included.
    pub received: u64,
    waiting: Option<Waiting>,
}

/// One segment whose acknowledgement is delayed.
#[derive(Debug)]
struct Waiting {
    transmission: u64,
    due: Instant,
}

/// Segments that arrive together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub transmission: u64,
    pub first: u64,
    pub count: u64,
    pub congested: bool,
}

impl Receiver {
    pub fn new(acks: Acks) -> Self {
        Self { acks, expected: 0, beyond: BTreeMap::new(), received: 0, waiting: None }
    }

    pub fn due(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.due)
    }

    /// Processes segments; returns the acknowledgement unless it is delayed.
    pub fn receive(&mut self, now: Instant, arrival: Arrival) -> Option<Ack> {
        let Arrival { transmission, first, count, congested } = arrival;
        self.received += count;
        let in_order = first == self.expected && self.beyond.is_empty();
        self.take_in(first, first + count);
        let before = self.waiting.take().filter(|before| before.transmission + 1 == transmission);
        // Segments that are out of order or fill a gap are acknowledged at once (RFC 5681, section 4.2).
        if self.acks == Acks::Delayed && in_order && !congested && count == 1 && before.is_none() {
            self.waiting = Some(Waiting { transmission, due: now + ACK_DELAY });
            return None;
        }
        let from = before.map_or(transmission, |before| before.transmission);
        Some(self.answer(from, transmission + count, congested))
    }

    /// The delayed acknowledgement, if it is due.
    pub fn wake(&mut self, now: Instant) -> Option<Ack> {
        let waiting = self.waiting.take_if(|waiting| waiting.due <= now)?;
        Some(self.answer(waiting.transmission, waiting.transmission + 1, false))
    }

    fn answer(&self, from: u64, until: u64, congested: bool) -> Ack {
        Ack { from, until, expected: self.expected, congested }
    }

    fn take_in(&mut self, first: u64, end: u64) {
        if first > self.expected {
            return self.remember(first, end);
        }
        self.expected = self.expected.max(end);
        while let Some(next) = self.beyond.first_entry().filter(|it| *it.key() <= self.expected) {
            self.expected = self.expected.max(next.remove());
        }
    }

    /// Merges an out-of-order range with those that it touches.
    fn remember(&mut self, mut first: u64, mut end: u64) {
        while let Some((&before, &until)) = self.beyond.range(..=end).next_back() {
            if until < first {
                break;
            }
            (first, end) = (first.min(before), end.max(until));
            self.beyond.remove(&before);
        }
        self.beyond.insert(first, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(from: u64, until: u64, expected: u64) -> Option<Ack> {
        Some(Ack { from, until, expected, congested: false })
    }

    fn arrival(transmission: u64, first: u64, count: u64) -> Arrival {
        Arrival { transmission, first, count, congested: false }
    }

    #[test]
    fn holes_are_filled_in_any_order() {
        let mut receiver = Receiver::new(Acks::Each);
        let now = Instant(0);
        assert_eq!(receiver.receive(now, arrival(0, 0, 2)), ack(0, 2, 2));
        assert_eq!(receiver.receive(now, arrival(5, 5, 2)), ack(5, 7, 2));
        assert_eq!(receiver.receive(now, arrival(9, 9, 1)), ack(9, 10, 2));
        assert_eq!(receiver.receive(now, arrival(7, 7, 2)), ack(7, 9, 2));
        assert_eq!(receiver.beyond, BTreeMap::from([(5, 10)]));
        assert_eq!(receiver.receive(now, arrival(10, 2, 3)), ack(10, 13, 10));
        // A duplicate.
        assert_eq!(receiver.receive(now, arrival(13, 4, 1)), ack(13, 14, 10));
        assert_eq!((receiver.expected, receiver.received), (10, 11));
    }

    #[test]
    fn two_segments_are_answered_together_and_one_after_a_while() {
        let mut receiver = Receiver::new(Acks::Delayed);
        assert_eq!(receiver.receive(Instant(0), arrival(0, 0, 1)), None);
        assert_eq!(receiver.receive(Instant(1), arrival(1, 1, 1)), ack(0, 2, 2));
        assert_eq!(receiver.receive(Instant(2), arrival(2, 2, 1)), None);
        assert_eq!(receiver.due(), Some(Instant(40_000_002)));
        assert_eq!(receiver.wake(Instant(40_000_001)), None);
        assert_eq!(receiver.wake(Instant(40_000_002)), ack(2, 3, 3));
        // A train is acknowledged at once, and so is a segment after a gap.
        assert_eq!(receiver.receive(Instant(3), arrival(3, 3, 5)), ack(3, 8, 8));
        assert_eq!(receiver.receive(Instant(4), arrival(9, 9, 1)), ack(9, 10, 8));
    }
}
