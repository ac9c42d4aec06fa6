//! Admission of runs at an agent: slots, and the queue for them.
//!
//! A coordinator holds a slot from the start of a run to the end of its last part. With one slot, coordinators do
//! not disturb each other's measurements, and hosts take turns, run by run.

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

/// Slots, and the queue for them. A coordinator is a session `S` of a host `H`. A host has at most half of the slots,
/// and at least one: its runs may be long, and it names its sessions itself.
#[derive(Debug)]
pub struct AdmissionQueue<H, S> {
    slots: usize,
    holders: BTreeMap<(H, S), Held>,
    /// Number of slots that each host holds; hosts without a slot are absent.
    hosts: BTreeMap<H, usize>,
    queue: VecDeque<((H, S), ConnectionId)>,
}

/// The slot of a coordinator.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Active parts of its run, and how many of them began before an earlier run had ended.
    parts: u32,
    older: u32,
    /// Whether a part has ended. From then on no further part begins while others wait, or the coordinator could keep its
    /// slot for ever.
    is_ending: bool,
}

impl<H: Copy + Ord, S: Copy + Ord> AdmissionQueue<H, S> {
    /// With `slots` slots, at least 1.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: slots.max(1),
            holders: BTreeMap::new(),
            hosts: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// Requests a slot for a run of this connection.
    pub fn ask(&mut self, coordinator: (H, S), connection: ConnectionId) -> Turn {
        let starts = match self.holders.get(&coordinator) {
            Some(held) => !held.is_ending || self.queue.is_empty(),
            None => self.has_slot(&coordinator) && self.next().is_none(),
        };
        if starts {
            self.begin(coordinator);
            return Turn::Now;
        }
        self.queue.insert(self.index_for(coordinator), (coordinator, connection));
        let place =
            self.places().find(|&(waiting, _)| waiting == connection).map_or(1, |(_, place)| place);
        Turn::Waits { place }
    }

    /// Index in the queue at which a run of this coordinator is inserted. The queue is served round robin over hosts: the
    /// first waiting coordinator of each host is in the first round, the second in the second, and so on. So a host gains
    /// nothing by several sessions.
    fn index_for(&self, coordinator: (H, S)) -> usize {
        let mut rounds: BTreeMap<(H, S), usize> = BTreeMap::new();
        let mut rounds_of_host: BTreeMap<H, usize> = BTreeMap::new();
        let mut round = |waiting: (H, S)| {
            *rounds.entry(waiting).or_insert_with(|| {
                let next = rounds_of_host.entry(waiting.0).or_default();
                *next += 1;
                *next
            })
        };
        let queued: Vec<usize> = self.queue.iter().map(|&(waiting, _)| round(waiting)).collect();
        let own = round(coordinator);
        queued.iter().rposition(|&other| other <= own).map_or(0, |last| last + 1)
    }

    /// Ends an active part of a run.
    pub fn done(&mut self, coordinator: (H, S)) {
        let Some(held) = self.holders.get_mut(&coordinator) else { return };
        held.parts -= 1;
        match held.older {
            0 => held.is_ending = true,
            _ => held.older -= 1,
        }
        if held.parts > 0 {
            return;
        }
        self.holders.remove(&coordinator);
        let of_host = self.hosts.entry(coordinator.0).or_default();
        *of_host -= 1;
        if *of_host == 0 {
            self.hosts.remove(&coordinator.0);
        }
    }

    /// Removes a connection from the queue.
    pub fn leave(&mut self, connection: ConnectionId) {
        self.queue.retain(|&(_, waiting)| waiting != connection);
    }

    /// Removes from the queue and returns the next connection whose run may start; its part becomes active.
    pub fn call(&mut self) -> Option<ConnectionId> {
        let (coordinator, connection) = self.queue.remove(self.next()?)?;
        self.begin(coordinator);
        Some(connection)
    }

    /// Place in the queue of the next connection whose run may start.
    fn next(&self) -> Option<usize> {
        self.queue.iter().position(|(waiting, _)| match self.holders.get(waiting) {
            Some(held) => !held.is_ending,
            None => self.has_slot(waiting),
        })
    }

    /// Whether a slot is free that this coordinator's host may have.
    fn has_slot(&self, (host, _): &(H, S)) -> bool {
        let each = self.slots.div_ceil(2);
        self.holders.len() < self.slots && self.hosts.get(host).is_none_or(|&held| held < each)
    }

    fn begin(&mut self, coordinator: (H, S)) {
        let held = self.holders.entry(coordinator).or_default();
        if std::mem::take(&mut held.is_ending) {
            // Nobody waits, and the next run begins.
            held.older = held.parts;
        }
        held.parts += 1;
        if held.parts == 1 {
            *self.hosts.entry(coordinator.0).or_default() += 1;
        }
    }

    /// The waiting connections, each with the position of its coordinator.
    pub fn places(&self) -> impl Iterator<Item = (ConnectionId, u32)> {
        let mut places: BTreeMap<(H, S), u32> = BTreeMap::new();
        self.queue.iter().map(move |&(coordinator, connection)| {
            let next = u32::try_from(places.len() + 1).unwrap_or(u32::MAX);
            (connection, *places.entry(coordinator).or_insert(next))
        })
    }

    /// Number of connections that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
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

    /// Sessions of three hosts.
    const A: (u8, SessionId) = (1, [1; 16]);
    const B: (u8, SessionId) = (2, [2; 16]);
    const C: (u8, SessionId) = (3, [3; 16]);

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
    fn a_run_with_an_ended_part_gets_no_further_one_while_others_wait() {
        let mut queue = AdmissionQueue::new(1);
        assert_eq!((queue.ask(A, 1), queue.ask(A, 2)), (Turn::Now, Turn::Now));
        assert_eq!(queue.ask(B, 3), Turn::Waits { place: 1 });
        queue.done(A);
        assert_eq!(queue.ask(A, 1), Turn::Waits { place: 2 });
        assert_eq!(queue.call(), None);
        queue.done(A);
        assert_eq!((queue.call(), queue.call()), (Some(3), None));
        queue.done(B);
        assert_eq!(queue.call(), Some(1));
    }

    #[test]
    fn a_run_that_has_begun_gets_all_its_parts_although_those_of_the_last_end_late() {
        let mut queue = AdmissionQueue::new(1);
        assert_eq!((queue.ask(A, 1), queue.ask(A, 2)), (Turn::Now, Turn::Now));
        queue.done(A);
        // The first connection is in its next run, the second still in the last one.
        assert_eq!(queue.ask(A, 1), Turn::Now);
        assert_eq!(queue.ask(B, 3), Turn::Waits { place: 1 });
        queue.done(A);
        assert_eq!(queue.ask(A, 2), Turn::Now);
        queue.done(A);
        assert_eq!(queue.ask(A, 1), Turn::Waits { place: 2 });
        queue.done(A);
        assert_eq!((queue.call(), queue.call()), (Some(3), None));
    }

    #[test]
    fn a_host_has_half_of_the_slots_whatever_sessions_it_names() {
        let mut queue = AdmissionQueue::new(4);
        let of = |session: u8| (1, [session; 16]);
        assert_eq!((queue.ask(of(1), 1), queue.ask(of(2), 2)), (Turn::Now, Turn::Now));
        assert_eq!(queue.ask(of(3), 3), Turn::Waits { place: 1 });
        assert_eq!(queue.call(), None);
        // Others do not wait behind it.
        assert_eq!((queue.ask(B, 4), queue.ask(C, 5)), (Turn::Now, Turn::Now));
        queue.done(B);
        assert_eq!(queue.call(), None);
        queue.done(of(2));
        assert_eq!((queue.call(), queue.busy()), (Some(3), 3));
    }

    #[test]
    fn hosts_take_turns_whatever_sessions_they_name() {
        let mut queue = AdmissionQueue::new(1);
        let of = |session: u8| (1, [session; 16]);
        assert_eq!(queue.ask(of(1), 1), Turn::Now);
        for number in 2..=9 {
            let place = u32::from(number) - 1;
            assert_eq!(queue.ask(of(number), number.into()), Turn::Waits { place });
        }
        assert_eq!(queue.ask(B, 20), Turn::Waits { place: 2 });
        // The second part of a run is beside the first.
        assert_eq!(queue.ask(B, 21), Turn::Waits { place: 2 });
        queue.done(of(1));
        assert_eq!(queue.ask(of(1), 1), Turn::Waits { place: 10 });
        assert_eq!((queue.call(), queue.call()), (Some(2), None));
        queue.done(of(2));
        assert_eq!((queue.call(), queue.call(), queue.call()), (Some(20), Some(21), None));
        // Who comes again is behind those who waited longer.
        assert_eq!(queue.ask(C, 30), Turn::Waits { place: 2 });
        queue.done(B);
        queue.done(B);
        assert_eq!(queue.call(), Some(3));
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
            let mut runs: Vec<(u8, u8)> = Vec::new();
            let mut waiting: BTreeMap<ConnectionId, (u8, u8)> = BTreeMap::new();
            for (connection, (who, action)) in actions.into_iter().enumerate() {
                // Two sessions of each host.
                let (session, connection) = ((who / 2, who), connection as ConnectionId);
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
