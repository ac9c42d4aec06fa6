//! Queues before a wire.

use std::cell::Cell;
use std::collections::VecDeque;

use fabricmark_units::Instant;

use crate::codel;
use crate::red;
use crate::{CoDel, Count, Counters, Ecn, Length, Packet, Reason, Red};

/// Capacity of a queue, without the packet that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of IP packets.
    Bytes(u64),
    /// IP packets; each segment of a super-packet is one.
    Packets(u64),
}

/// A FIFO queue.
///
/// It drops or marks single segments of a super-packet, as if they arrived one by one.
#[derive(Debug)]
pub struct Queue<T> {
    manager: Manager,
    store: Store<T>,
}

/// How congestion is signalled before the queue is full.
#[derive(Debug)]
enum Manager {
    Nobody,
    CoDel(CoDel),
    Red(Red),
}

#[derive(Debug)]
struct Store<T> {
    limit: Limit,
    waiting: VecDeque<Waiting<T>>,
    held: Count,
}

#[derive(Debug)]
struct Waiting<T> {
    arrived: Instant,
    ready: Instant,
    packet: Packet<T>,
}

impl<T: Clone> Queue<T> {
    /// Drops arrivals while it is full, and does nothing else.
    pub fn drop_tail(limit: Limit) -> Self {
        Self::managed(limit, Manager::Nobody)
    }

    /// Managed by CoDel; drops arrivals while it is full.
    pub fn codel(limit: Limit, codel: CoDel) -> Self {
        Self::managed(limit, Manager::CoDel(codel))
    }

    /// Managed by RED; drops arrivals while it is full.
    pub fn red(limit: Limit, red: Red) -> Self {
        Self::managed(limit, Manager::Red(red))
    }

    fn managed(limit: Limit, manager: Manager) -> Self {
        let store = Store { limit, waiting: VecDeque::new(), held: Count::default() };
        Self { manager, store }
    }

    /// Packets and bytes that wait.
    pub fn held(&self) -> Count {
        self.store.held
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.store.waiting.is_empty()
    }

    /// Queues the part that fits, or all of it if the wire is not `busy`. The packet must not be sent before `ready`,
    /// which a cut-through switch may set before `now`.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        ready: Instant,
        packet: Packet<T>,
        busy: bool,
        counters: &mut Counters,
    ) {
        let Self { manager, store } = self;
        let waiting_bytes = store.held.bytes;
        let mut admit = |packet, counters: &mut _| {
            store.admit(Waiting { arrived: now, ready, packet }, busy, counters);
        };
        let Manager::Red(red) = manager else { return admit(packet, counters) };
        let (mut ahead, each) = (waiting_bytes, u64::from(packet.length.first_bytes()));
        let may_mark = red.marks() && packet.ecn.is_capable();
        let verdict = Cell::new(red::Verdict::Keep);
        packet.cut(
            || {
                verdict.set(red.verdict(now, ahead));
                ahead += each;
                verdict.get() != red::Verdict::Keep
            },
            |mut piece, signal| {
                if signal && may_mark && verdict.get() == red::Verdict::Signal {
                    mark(&mut piece, counters);
                } else if signal {
                    return counters.drop(Reason::Congestion, piece.length);
                }
                admit(piece, counters);
            },
        );
    }

    /// The next packet to send, and the earliest time to send it.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        counters: &mut Counters,
    ) -> Option<(Instant, Packet<T>)> {
        let Self { manager, store } = self;
        while let Some(Waiting { arrived, ready, mut packet }) = store.waiting.pop_front() {
            store.held -= packet.length.into();
            let Manager::CoDel(codel) = manager else { return Some((ready, packet)) };
            let bytes = packet.length.first_bytes();
            let verdict = codel.verdict(now, now - arrived, bytes, store.held.bytes);
            if verdict == codel::Verdict::Send {
                return Some((ready, packet));
            }
            let marks = codel.marks && packet.ecn.is_capable();
            if packet.length.segments() > 1 {
                let first = packet.take_first(1);
                store.held += packet.length.into();
                store.waiting.push_front(Waiting { arrived, ready, packet });
                packet = first;
            }
            if marks {
                mark(&mut packet, counters);
                return Some((ready, packet));
            }
            counters.drop(Reason::Congestion, packet.length);
        }
        match manager {
            Manager::Nobody => {}
            Manager::CoDel(codel) => codel.empty(),
            Manager::Red(red) => red.empty(now),
        }
        None
    }
}

impl<T: Clone> Store<T> {
    fn admit(&mut self, mut newcomer: Waiting<T>, busy: bool, counters: &mut Counters) {
        let length = newcomer.packet.length;
        let room = if busy { self.room(length) } else { length.segments() };
        if room == 0 {
            return counters.drop(Reason::Overflow, length);
        }
        if room < length.segments() {
            let kept = newcomer.packet.take_first(room);
            counters.drop(Reason::Overflow, newcomer.packet.length);
            newcomer.packet = kept;
        }
        self.held += newcomer.packet.length.into();
        self.waiting.push_back(newcomer);
    }

    /// Number of segments that fit. The last may be shorter than the others and just fit.
    fn room(&self, length: Length) -> u32 {
        let (packets, bytes) = match self.limit {
            Limit::Packets(most) => (most.saturating_sub(self.held.packets), u64::MAX),
            Limit::Bytes(most) => (u64::MAX, most.saturating_sub(self.held.bytes)),
        };
        if length.bytes() <= bytes && u64::from(length.segments()) <= packets {
            return length.segments();
        }
        let fitting = packets.min(bytes / u64::from(length.first_bytes().max(1)));
        u32::try_from(fitting).unwrap_or(u32::MAX)
    }
}

fn mark<T>(packet: &mut Packet<T>, counters: &mut Counters) {
    if packet.ecn != Ecn::Congested {
        packet.ecn = Ecn::Congested;
        counters.marked += packet.length.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);

    fn pushed(limit: Limit, lengths: &[Length]) -> (Queue<()>, Counters) {
        let (mut queue, mut counters) = (Queue::drop_tail(limit), Counters::default());
        for &length in lengths {
            queue.push(NOW, NOW, Packet::new((), length), true, &mut counters);
        }
        (queue, counters)
    }

    #[test]
    fn newcomers_without_room_are_dropped() {
        let full = Length::packet(1500);
        let (queue, counters) = pushed(Limit::Packets(2), &[full, full, full]);
        assert_eq!(queue.held().packets, 2);
        assert_eq!(counters.dropped(Reason::Overflow), Count { packets: 1, bytes: 1500 });
        // A smaller packet fits where a larger one does not.
        let (queue, _) = pushed(Limit::Bytes(2000), &[full, full, Length::packet(500)]);
        assert_eq!(queue.held(), Count { packets: 2, bytes: 2000 });
    }

    #[test]
    fn only_the_segments_without_room_are_dropped() {
        let train = Length::train(40, 4000, 1460);
        for (limit, packets, bytes) in [
            (Limit::Packets(2), 2, 3000),
            (Limit::Packets(3), 3, 4120),
            (Limit::Bytes(4119), 2, 3000),
            (Limit::Bytes(4120), 3, 4120),
            (Limit::Bytes(1499), 0, 0),
        ] {
            let (queue, counters) = pushed(limit, &[train]);
            assert_eq!(queue.held(), Count { packets, bytes }, "{limit:?}");
            let dropped = Count { packets: 3 - packets, bytes: 4120 - bytes };
            assert_eq!(counters.dropped_in_all(), dropped, "{limit:?}");
        }
    }
}
