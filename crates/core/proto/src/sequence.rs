//! Loss, reordering and duplication by sequence number.
//!
//! A datagram is *reordered* if one with a higher number arrived before it (RFC 4737, section 3.3), and a *duplicate*
//! if its own number arrived before. Numbers older than the last [`WINDOW`] count as reordered.

use crate::control::message::SequenceCounts;

/// How far the number with these low 32 bits that is nearest to `expected` is ahead of it (serial number arithmetic,
/// RFC 1982).
pub(crate) fn ahead(carried: u64, expected: u64) -> i64 {
    (carried as u32).wrapping_sub(expected as u32).cast_signed().into()
}

/// Sequence numbers remembered: 1 Gbit/s of 64-byte datagrams for 86 ms.
pub const WINDOW: u64 = 1 << 17;

/// Classifies arriving sequence numbers.
#[derive(Debug)]
pub struct SequenceTracker {
    bits: u32,
    /// One more than the highest number seen.
    next: u64,
    seen: Vec<u64>,
    counts: SequenceCounts,
}

impl SequenceTracker {
    /// For payloads that carry the low `bits` bits of the number, 32 or 64.
    pub fn new(bits: u32) -> Self {
        let seen = vec![0; (WINDOW / 64) as usize];
        Self { bits, next: 0, seen, counts: SequenceCounts::default() }
    }

    /// Counts the arrival of a sequence number.
    pub fn arrive(&mut self, carried: u64) {
        let sequence = match self.bits {
            64.. => carried.min(u64::MAX - 1),
            _ => self.next.saturating_add_signed(ahead(carried, self.next)),
        };
        if sequence == self.next {
            // The common case; at 20 million arrivals a second each nanosecond costs 2 %.
            self.remember(sequence);
            self.next += 1;
            self.counts.unique += 1;
        } else if sequence > self.next {
            let first_new = self.next.max(sequence.saturating_sub(WINDOW - 1));
            for fresh in first_new..=sequence {
                self.forget(fresh);
            }
            self.next = sequence + 1;
            self.remember(sequence);
            self.counts.unique += 1;
        } else if self.next - sequence > WINDOW {
            self.counts.reordered += 1;
            self.counts.unique += 1;
        } else if self.is_seen(sequence) {
            self.counts.duplicates += 1;
        } else {
            self.remember(sequence);
            self.counts.reordered += 1;
            self.counts.unique += 1;
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> SequenceCounts {
        self.counts
    }

    /// Numbers below the highest one that have not arrived so far (RFC 3550, section 6.4.1: those expected less those
    /// received, without duplicates).
    pub fn lost(&self) -> u64 {
        self.next.saturating_sub(self.counts.unique)
    }

    fn slot(sequence: u64) -> (usize, u64) {
        let place = sequence % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    fn is_seen(&self, sequence: u64) -> bool {
        let (word, bit) = Self::slot(sequence);
        self.seen[word] & bit != 0
    }

    fn remember(&mut self, sequence: u64) {
        let (word, bit) = Self::slot(sequence);
        self.seen[word] |= bit;
    }

    fn forget(&mut self, sequence: u64) {
        let (word, bit) = Self::slot(sequence);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(bits: u32, arrivals: &[u64]) -> (u64, u64, u64) {
        let mut tracker = SequenceTracker::new(bits);
        for &sequence in arrivals {
            tracker.arrive(sequence);
        }
        let counts = tracker.counts();
        (counts.unique, counts.reordered, counts.duplicates)
    }

    #[test]
    fn each_kind_of_arrival_is_told_apart() {
        for (arrivals, expected) in [
            (&[0, 1, 2][..], (3, 0, 0)),
            (&[0, 2, 3], (3, 0, 0)),
            (&[0, 2, 1], (3, 1, 0)),
            (&[0, 1, 1], (2, 0, 1)),
            (&[2, 0, 1, 0], (3, 2, 1)),
        ] {
            assert_eq!(judge(64, arrivals), expected, "{arrivals:?}");
        }
    }

    #[test]
    fn numbers_that_were_overtaken_are_lost_until_they_arrive() {
        let mut tracker = SequenceTracker::new(64);
        let lost = [0, 3, 1, 1, 2, 6].map(|sequence| {
            tracker.arrive(sequence);
            tracker.lost()
        });
        assert_eq!(lost, [0, 2, 1, 1, 0, 2]);
    }

    #[test]
    fn a_32_bit_number_goes_on_after_its_wrap() {
        let mut tracker = SequenceTracker::new(32);
        tracker.next = u64::from(u32::MAX);
        for carried in [u64::from(u32::MAX), 0, 1, 0] {
            tracker.arrive(carried);
        }
        assert_eq!(tracker.next, (1 << 32) + 2);
        assert_eq!(tracker.counts().duplicates, 1);
    }

    #[test]
    fn a_jump_ahead_costs_no_more_than_the_window() {
        assert_eq!(judge(64, &[0, u64::MAX, 1]), (3, 1, 0));
    }

    proptest! {
        #[test]
        fn every_arrival_is_either_new_or_a_duplicate(arrivals in proptest::collection::vec(0u64..300, 0..200)) {
            let distinct = arrivals.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
            let (unique, _, duplicates) = judge(64, &arrivals);
            prop_assert_eq!(unique, distinct);
            prop_assert_eq!(unique + duplicates, arrivals.len() as u64);
        }
    }
}
