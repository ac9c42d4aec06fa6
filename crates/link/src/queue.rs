//! Packets that wait for a wire.

use std::collections::VecDeque;

use fabricmark_units::{BitRate, Instant, Nanos};

use crate::counters::{Count, Counters, Reason};
use crate::packet::{Length, Packet};

/// How much may wait; the packet that is being sent does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of IP packets.
    Bytes(u64),
    /// IP packets; each segment of a super-packet is one.
    Packets(u64),
}

impl Limit {
    /// What a wire of this rate sends in `time`.
    pub fn time(time: Nanos, rate: BitRate) -> Self {
        let bytes = u128::from(time.0) * u128::from(rate.0) / 8_000_000_000;
        Self::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// A queue, first in, first out, that drops what has no room.
///
/// Of a super-packet it drops the segments that have no room, as a wire with single packets would.
#[derive(Debug)]
pub struct Queue<T> {
    limit: Limit,
    waiting: VecDeque<Waiting<T>>,
    held: Count,
}

#[derive(Debug)]
struct Waiting<T> {
    ready: Instant,
    packet: Packet<T>,
}

impl<T: Clone> Queue<T> {
    /// A queue that drops newcomers while it is full, and does nothing else.
    pub fn drop_tail(limit: Limit) -> Self {
        Self { limit, waiting: VecDeque::new(), held: Count::default() }
    }

    /// Waiting packets.
    pub fn held(&self) -> Count {
        self.held
    }

    /// Takes in what has room, or anything where the wire is not `busy`; it must not be sent before
    /// `ready`.
    pub(crate) fn push(
        &mut self,
        ready: Instant,
        mut packet: Packet<T>,
        busy: bool,
        counters: &mut Counters,
    ) {
        let segments = packet.length.segments();
        let room = if busy { self.room(packet.length) } else { segments };
        if room == 0 {
            counters.drop(Reason::Overflow, packet.length);
            return;
        }
        if room < segments {
            let kept = packet.take_first(room);
            counters.drop(Reason::Overflow, packet.length);
            packet = kept;
        }
        self.held += packet.length.into();
        self.waiting.push_back(Waiting { ready, packet });
    }

    /// The next packet to send and when it is ready.
    pub(crate) fn pop(&mut self) -> Option<(Instant, Packet<T>)> {
        let Waiting { ready, packet } = self.waiting.pop_front()?;
        self.held -= packet.length.into();
        Some((ready, packet))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many segments fit. The last may be shorter than the others and just fit.
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);

    fn pushed(limit: Limit, lengths: &[Length]) -> (Queue<()>, Counters) {
        let (mut queue, mut counters) = (Queue::drop_tail(limit), Counters::default());
        for &length in lengths {
            queue.push(NOW, Packet::new((), length), true, &mut counters);
        }
        (queue, counters)
    }

    #[test]
    fn newcomers_without_room_are_dropped() {
        let full = Length::packet(1500);
        let (queue, counters) = pushed(Limit::Packets(2), &[full, full, full]);
        assert_eq!(queue.held().packets, 2);
        assert_eq!(counters.dropped(Reason::Overflow), Count { packets: 1, bytes: 1500 });
        // A smaller packet finds the room that a larger one did not.
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

    #[test]
    fn a_limit_of_time_is_what_the_wire_sends_in_it() {
        let limit = Limit::time(Nanos::from_millis(50), BitRate(10_000_000_000));
        assert_eq!(limit, Limit::Bytes(62_500_000));
    }
}
