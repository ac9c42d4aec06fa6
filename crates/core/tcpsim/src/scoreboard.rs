//! The sender's scoreboard: segments in flight, acknowledged and lost.

use std::collections::{BTreeMap, VecDeque};

use fabricmark_units::Instant;

/// Later segments that must have arrived before one counts as lost (RFC 6675, `DupThresh`).
const REORDERING: u64 = 3;

/// Segments that are in flight or lost.
///
/// Tracks them by transmission number, so that a lost retransmission is detected like a first loss: a transmission is
/// lost if one sent three or more segments later was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// In order of transmission.
    unanswered: VecDeque<Stretch>,
    /// Unacknowledged segments that are not known to be lost.
    pub in_flight: u64,
    /// Segments to retransmit: first segment and count.
    lost: BTreeMap<u64, u64>,
    pub next_transmission: u64,
    /// All segments before this one have arrived.
    pub expected: u64,
    /// One past the latest acknowledged transmission.
    answered: u64,
}

/// Consecutive segments that were sent together and are unacknowledged.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    transmission: u64,
    first: u64,
    count: u64,
    at: Instant,
}

/// Result of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub segments: u64,
    /// When the last acknowledged transmission was sent; `None` if it was not in flight.
    pub sent_at: Option<Instant>,
}

impl Scoreboard {
    /// Number of ranges of unacknowledged segments.
    pub fn stretches(&self) -> usize {
        self.unanswered.len()
    }

    /// Records sent segments; returns the number of the first transmission.
    pub fn send(&mut self, at: Instant, first: u64, count: u64) -> u64 {
        let transmission = self.next_transmission;
        self.unanswered.push_back(Stretch { transmission, first, count, at });
        self.next_transmission += count;
        self.in_flight += count;
        transmission
    }

    /// Records that transmissions `from..until` arrived, and all segments before `expected`.
    pub fn answer(&mut self, from: u64, until: u64, expected: u64) -> Answered {
        let before = self.in_flight;
        self.expected = self.expected.max(expected);
        self.answered = self.answered.max(until);
        let sent_at = self.take_answered(from, until);
        self.take_expected();
        Answered { segments: before - self.in_flight, sent_at }
    }

    /// Marks all segments in flight as lost.
    pub fn lose_all(&mut self) {
        self.lost.extend(self.unanswered.drain(..).map(|stretch| (stretch.first, stretch.count)));
        self.in_flight = 0;
    }

    /// Takes the first lost segments, at most `most`, for retransmission.
    pub fn take_lost(&mut self, most: u64) -> Option<(u64, u64)> {
        while let Some((first, count)) = self.lost.pop_first() {
            // Segments marked as lost may have arrived after all.
            let known = self.expected.saturating_sub(first).min(count);
            let (first, count) = (first + known, count - known);
            let taken = count.min(most);
            if taken < count {
                self.lost.insert(first + taken, count - taken);
            }
            if taken > 0 {
                return Some((first, taken));
            }
        }
        None
    }

    /// Removes acknowledged transmissions; returns when the last of them was sent.
    fn take_answered(&mut self, from: u64, until: u64) -> Option<Instant> {
        let mut place = self.unanswered.partition_point(|s| s.transmission + s.count <= from);
        let mut sent_at = None;
        while let Some(stretch) = self.unanswered.get(place).copied() {
            let end = stretch.transmission + stretch.count;
            let (cut, stop) = (from.max(stretch.transmission), until.min(end));
            if cut >= stop {
                break;
            }
            sent_at = Some(stretch.at);
            self.in_flight -= stop - cut;
            self.unanswered.remove(place);
            for (transmission, end) in [(stop, end), (stretch.transmission, cut)] {
                if transmission < end {
                    let first = stretch.first + (transmission - stretch.transmission);
                    let count = end - transmission;
                    let rest = Stretch { transmission, first, count, ..stretch };
                    self.unanswered.insert(place, rest);
                }
            }
            place += usize::from(stretch.transmission < cut);
        }
        sent_at
    }

    /// Removes segments before `expected`, whose acknowledgement may be lost.
    fn take_expected(&mut self) {
        while let Some(stretch) = self.unanswered.front_mut() {
            let known = self.expected.saturating_sub(stretch.first).min(stretch.count);
            let is_all = known == stretch.count;
            self.take_front(known);
            if !is_all {
                break;
            }
        }
    }

    /// Removes `count` segments from the oldest range.
    fn take_front(&mut self, count: u64) {
        if let Some(stretch) = self.unanswered.front_mut() {
            self.in_flight -= count;
            stretch.transmission += count;
            stretch.first += count;
            stretch.count -= count;
        }
        self.unanswered.pop_front_if(|stretch| stretch.count == 0);
    }

    /// Moves lost segments to the retransmission list; returns whether there were any.
    pub fn find_lost(&mut self) -> bool {
        let before = self.answered.saturating_sub(REORDERING);
        let mut found = false;
        while let Some(stretch) = self.unanswered.front_mut() {
            let count = before.saturating_sub(stretch.transmission).min(stretch.count);
            if count == 0 {
                break;
            }
            self.lost.insert(stretch.first, count);
            self.take_front(count);
            found = true;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(counts: &[u64]) -> Scoreboard {
        let mut board = Scoreboard::default();
        let mut first = 0;
        for (&count, at) in counts.iter().zip(0..) {
            board.send(Instant(at), first, count);
            first += count;
        }
        board
    }

    fn answered(segments: u64, sent_at: Option<u64>) -> Answered {
        Answered { segments, sent_at: sent_at.map(Instant) }
    }

    #[test]
    fn a_segment_is_lost_when_three_later_ones_have_arrived() {
        let mut board = sent(&[1, 1, 1, 1, 1]);
        assert_eq!(board.answer(1, 2, 0), answered(1, Some(1)));
        assert!(!board.find_lost());
        assert_eq!(board.answer(2, 3, 0), answered(1, Some(2)));
        assert!(!board.find_lost());
        assert_eq!(board.answer(3, 4, 0), answered(1, Some(3)));
        assert!(board.find_lost());
        assert_eq!((board.in_flight, board.take_lost(9)), (1, Some((0, 1))));
        // Retransmitted as transmission 5, it is lost again when three after it have arrived.
        board.send(Instant(9), 0, 1);
        board.send(Instant(9), 5, 3);
        assert_eq!(board.answer(4, 5, 0), answered(1, Some(4)));
        assert_eq!(board.answer(6, 9, 0), answered(3, Some(9)));
        assert!(board.find_lost());
        assert_eq!(
            (board.in_flight, board.take_lost(9), board.take_lost(9)),
            (0, Some((0, 1)), None)
        );
    }

    #[test]
    fn holes_in_a_train_are_lost_and_the_rest_is_not() {
        let mut board = sent(&[10, 10]);
        assert_eq!(board.answer(0, 4, 4), answered(4, Some(0)));
        assert_eq!(board.answer(5, 8, 4), answered(3, Some(0)));
        assert!(board.find_lost());
        assert_eq!((board.in_flight, board.stretches()), (12, 2));
        assert_eq!(board.answer(9, 12, 4), answered(3, Some(1)));
        assert!(board.find_lost());
        assert_eq!((board.take_lost(9), board.take_lost(9)), (Some((4, 1)), Some((8, 1))));
        assert_eq!(board.in_flight, 8);
    }

    #[test]
    fn what_the_receiver_no_longer_expects_needs_no_answer_of_its_own() {
        let mut board = sent(&[4, 4, 4]);
        // The acknowledgement of the first train was lost.
        assert_eq!(board.answer(4, 8, 8), answered(8, Some(1)));
        assert!(!board.find_lost());
        board.lose_all();
        assert_eq!(board.answer(9, 9, 10), answered(0, None));
        assert_eq!((board.take_lost(1), board.take_lost(9)), (Some((10, 1)), Some((11, 1))));
    }
}
