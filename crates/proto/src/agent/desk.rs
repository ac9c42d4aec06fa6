//! Who may measure now, and who waits.
//!
//! A coordinator has a slot from the beginning of a run to the end of its last part. With one slot no two
//! coordinators spoil each other's figures, and their runs take turns.

use std::collections::{BTreeMap, VecDeque};

use crate::agent::message::SessionId;

/// A connection, by a number that is never used again.
pub type SeatId = u64;

/// Whether a run may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may.
    Now,
    /// It waits; so many coordinators come before it, itself included.
    Waits {
        /// From 1.
        place: u32,
    },
}

/// Slots and the queue for them.
#[derive(Debug)]
pub struct Desk {
    slots: usize,
    /// Parts of runs that each coordinator with a slot has under way.
    holders: BTreeMap<SessionId, u32>,
    queue: VecDeque<(SessionId, SeatId)>,
}

impl Desk {
    /// With so many slots, of which there is at least one.
    pub fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), holders: BTreeMap::new(), queue: VecDeque::new() }
    }

    /// A connection has a run to begin.
    pub fn ask(&mut self, session: SessionId, seat: SeatId) -> Turn {
        if let Some(parts) = self.holders.get_mut(&session) {
            *parts += 1;
            return Turn::Now;
        }
        if self.holders.len() < self.slots && self.queue.is_empty() {
            self.holders.insert(session, 1);
            return Turn::Now;
        }
        self.queue.push_back((session, seat));
        let place = self.places().last().map_or(1, |(_, place)| place);
        Turn::Waits { place }
    }

    /// A part of a run that was under way is over.
    pub fn done(&mut self, session: SessionId) {
        if let Some(parts) = self.holders.get_mut(&session) {
            *parts -= 1;
            if *parts == 0 {
                self.holders.remove(&session);
            }
        }
    }

    /// A connection no longer waits.
    pub fn leave(&mut self, seat: SeatId) {
        self.queue.retain(|&(_, waiting)| waiting != seat);
    }

    /// The next connection whose run may begin now; its part is under way.
    pub fn call(&mut self) -> Option<SeatId> {
        let held = |session| self.holders.contains_key(session);
        let has_slot = self.holders.len() < self.slots;
        let place = self.queue.iter().position(|(session, _)| has_slot || held(session))?;
        let (session, seat) = self.queue.remove(place)?;
        *self.holders.entry(session).or_default() += 1;
        Some(seat)
    }

    /// The connections that wait, each with the place of its coordinator.
    pub fn places(&self) -> impl Iterator<Item = (SeatId, u32)> {
        let mut sessions: Vec<SessionId> = Vec::new();
        self.queue.iter().map(move |&(session, seat)| {
            let known = sessions.iter().position(|&known| known == session);
            let place = known.unwrap_or_else(|| {
                sessions.push(session);
                sessions.len() - 1
            });
            (seat, u32::try_from(place + 1).unwrap_or(u32::MAX))
        })
    }

    /// Coordinators with a run under way.
    pub fn busy(&self) -> usize {
        self.holders.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: SessionId = [1; 16];
    const B: SessionId = [2; 16];
    const C: SessionId = [3; 16];

    #[test]
    fn runs_of_two_coordinators_take_turns_at_one_slot() {
        let mut desk = Desk::new(1);
        assert_eq!(desk.ask(A, 1), Turn::Now);
        assert_eq!(desk.ask(B, 2), Turn::Waits { place: 1 });
        assert_eq!(desk.ask(C, 3), Turn::Waits { place: 2 });
        assert_eq!(desk.call(), None);
        desk.done(A);
        // A is quick with its next run, but others were before it.
        assert_eq!(desk.ask(A, 1), Turn::Waits { place: 3 });
        assert_eq!(desk.call(), Some(2));
        assert_eq!(desk.call(), None);
        assert_eq!(desk.places().collect::<Vec<_>>(), [(3, 1), (1, 2)]);
    }

    #[test]
    fn parts_of_one_run_share_its_slot() {
        let mut desk = Desk::new(1);
        assert_eq!(desk.ask(A, 1), Turn::Now);
        assert_eq!(desk.ask(B, 2), Turn::Waits { place: 1 });
        assert_eq!(desk.ask(B, 3), Turn::Waits { place: 1 });
        // The probe joins the load, although others wait.
        assert_eq!(desk.ask(A, 4), Turn::Now);
        desk.done(A);
        assert_eq!(desk.call(), None);
        desk.done(A);
        assert_eq!((desk.call(), desk.call(), desk.call()), (Some(2), Some(3), None));
    }

    #[test]
    fn who_leaves_the_queue_is_not_called() {
        let mut desk = Desk::new(1);
        desk.ask(A, 1);
        desk.ask(B, 2);
        desk.ask(C, 3);
        desk.leave(2);
        desk.done(A);
        assert_eq!((desk.call(), desk.call()), (Some(3), None));
    }

    proptest! {
        /// Whatever coordinators do, no more have a slot than there are, and whoever waits is served when
        /// the others are done.
        #[test]
        fn slots_are_neither_exceeded_nor_lost(
            slots in 1usize..4,
            deeds in prop::collection::vec((0u8..5, 0u8..3), 0..200),
        ) {
            let mut desk = Desk::new(slots);
            let mut runs: Vec<SessionId> = Vec::new();
            let mut waiting: BTreeMap<SeatId, SessionId> = BTreeMap::new();
            for (seat, (who, deed)) in deeds.into_iter().enumerate() {
                let (session, seat) = ([who; 16], seat as SeatId);
                match deed {
                    0 => match desk.ask(session, seat) {
                        Turn::Now => runs.push(session),
                        Turn::Waits { .. } => { waiting.insert(seat, session); }
                    },
                    1 => if let Some(place) = runs.iter().position(|&run| run == session) {
                        desk.done(runs.swap_remove(place));
                    },
                    _ => if let Some((&seat, _)) = waiting.iter().find(|&(_, &s)| s == session) {
                        desk.leave(seat);
                        waiting.remove(&seat);
                    },
                }
                while let Some(seat) = desk.call() {
                    runs.push(waiting.remove(&seat).unwrap());
                }
                prop_assert!(desk.busy() <= slots);
                prop_assert_eq!(desk.places().count(), waiting.len());
            }
            while let Some(session) = runs.pop() {
                desk.done(session);
                while let Some(seat) = desk.call() {
                    runs.push(waiting.remove(&seat).unwrap());
                }
            }
            prop_assert!(waiting.is_empty());
        }
    }
}
