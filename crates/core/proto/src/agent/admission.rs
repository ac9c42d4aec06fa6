//! Admission of runs at an agent: slots, and the queue for them.
//!
//! A coordinator holds a slot from the start of a run to the end of its last part. With one slot, coordinators do
//! not disturb each other's measurements, and their runs take turns.

use std::collections::{BTreeMap, VecDeque};

/// Number of a connection; never reused.
pub type ConnectionId = u64;

/// Whether a run may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the turn explains its field")]
pub enum Turn {
    /// It may start.
    Now,
    /// It waits; `place` is its coordinator's position among those that wait, from 1.
    Waits { place: u32 },
}

/// Slots, and the queue for them. `C` identifies a coordinator.
#[derive(Debug)]
pub struct AdmissionQueue<C> {
    slots: usize,
    /// Active parts of runs of each coordinator that holds a slot.
    holders: BTreeMap<C, u32>,
    queue: VecDeque<(C, ConnectionId)>,
}

impl<C: Copy + Ord> AdmissionQueue<C> {
    /// With `slots` slots, at least 1.
    pub fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), holders: BTreeMap::new(), queue: VecDeque::new() }
    }

    /// Requests a slot for a run of this connection.
    pub fn ask(&mut self, coordinator: C, connection: ConnectionId) -> Turn {
        if let Some(parts) = self.holders.get_mut(&coordinator) {
            *parts += 1;
            return Turn::Now;
        }
        if self.holders.len() < self.slots && self.queue.is_empty() {
            self.holders.insert(coordinator, 1);
            return Turn::Now;
        }
        self.queue.push_back((coordinator, connection));
        let place = self.places().last().map_or(1, |(_, place)| place);
        Turn::Waits { place }
    }

    /// Ends an active part of a run.
    pub fn done(&mut self, coordinator: C) {
        if let Some(parts) = self.holders.get_mut(&coordinator) {
            *parts -= 1;
            if *parts == 0 {
                self.holders.remove(&coordinator);
            }
        }
    }

    /// Removes a connection from the queue.
    pub fn leave(&mut self, connection: ConnectionId) {
        self.queue.retain(|&(_, waiting)| waiting != connection);
    }

    /// Removes from the queue and returns the next connection whose run may start; its part becomes active.
    pub fn call(&mut self) -> Option<ConnectionId> {
        let held = |coordinator| self.holders.contains_key(coordinator);
        let has_slot = self.holders.len() < self.slots;
        let place = self.queue.iter().position(|(waiting, _)| has_slot || held(waiting))?;
        let (coordinator, connection) = self.queue.remove(place)?;
        *self.holders.entry(coordinator).or_default() += 1;
        Some(connection)
    }

    /// The waiting connections, each with the position of its coordinator.
    pub fn places(&self) -> impl Iterator<Item = (ConnectionId, u32)> {
        let mut coordinators: Vec<C> = Vec::new();
        self.queue.iter().map(move |&(coordinator, connection)| {
            let known = coordinators.iter().position(|&known| known == coordinator);
            let place = known.unwrap_or_else(|| {
                coordinators.push(coordinator);
                coordinators.len() - 1
            });
            (connection, u32::try_from(place + 1).unwrap_or(u32::MAX))
        })
    }

    /// Number of coordinators that hold a slot.
    pub fn busy(&self) -> usize {
        self.holders.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::message::SessionId;
    use proptest::prelude::*;

    const A: SessionId = [1; 16];
    const B: SessionId = [2; 16];
    const C: SessionId = [3; 16];

    #[test]
    fn runs_of_two_coordinators_take_turns_at_one_slot() {
        let mut queue = AdmissionQueue::new(1);
        assert_eq!(queue.ask(A, 1), Turn::Now);
        assert_eq!(queue.ask(B, 2), Turn::Waits { place: 1 });
        assert_eq!(queue.ask(C, 3), Turn::Waits { place: 2 });
        assert_eq!(queue.call(), None);
        queue.done(A);
        // A requests its next run at once, but others came first.
        assert_eq!(queue.ask(A, 1), Turn::Waits { place: 3 });
        assert_eq!(queue.call(), Some(2));
        assert_eq!(queue.call(), None);
        assert_eq!(queue.places().collect::<Vec<_>>(), [(3, 1), (1, 2)]);
    }

    #[test]
    fn parts_of_one_run_share_its_slot() {
        let mut queue = AdmissionQueue::new(1);
        assert_eq!(queue.ask(A, 1), Turn::Now);
        assert_eq!(queue.ask(B, 2), Turn::Waits { place: 1 });
        assert_eq!(queue.ask(B, 3), Turn::Waits { place: 1 });
        // The probe joins the load although others wait.
        assert_eq!(queue.ask(A, 4), Turn::Now);
        queue.done(A);
        assert_eq!(queue.call(), None);
        queue.done(A);
        assert_eq!((queue.call(), queue.call(), queue.call()), (Some(2), Some(3), None));
    }

    #[test]
    fn who_leaves_the_queue_is_not_called() {
        let mut queue = AdmissionQueue::new(1);
        queue.ask(A, 1);
        queue.ask(B, 2);
        queue.ask(C, 3);
        queue.leave(2);
        queue.done(A);
        assert_eq!((queue.call(), queue.call()), (Some(3), None));
    }

    proptest! {
        /// Slots are never exceeded, and each waiting run starts once the others are done.
        #[test]
        fn slots_are_neither_exceeded_nor_lost(
            slots in 1usize..4,
            actions in prop::collection::vec((0u8..5, 0u8..3), 0..200),
        ) {
            let mut queue = AdmissionQueue::new(slots);
            let mut runs: Vec<SessionId> = Vec::new();
            let mut waiting: BTreeMap<ConnectionId, SessionId> = BTreeMap::new();
            for (connection, (who, action)) in actions.into_iter().enumerate() {
                let (session, connection) = ([who; 16], connection as ConnectionId);
                match action {
                    0 => match queue.ask(session, connection) {
                        Turn::Now => runs.push(session),
                        Turn::Waits { .. } => { waiting.insert(connection, session); }
                    },
                    1 => if let Some(place) = runs.iter().position(|&run| run == session) {
                        queue.done(runs.swap_remove(place));
                    },
                    _ => if let Some((&connection, _)) = waiting.iter().find(|&(_, &s)| s == session) {
                        queue.leave(connection);
                        waiting.remove(&connection);
                    },
                }
                while let Some(connection) = queue.call() {
                    runs.push(waiting.remove(&connection).unwrap());
                }
                prop_assert!(queue.busy() <= slots);
                prop_assert_eq!(queue.places().count(), waiting.len());
            }
            while let Some(session) = runs.pop() {
                queue.done(session);
                while let Some(connection) = queue.call() {
                    runs.push(waiting.remove(&connection).unwrap());
                }
            }
            prop_assert!(waiting.is_empty());
        }
    }
}
