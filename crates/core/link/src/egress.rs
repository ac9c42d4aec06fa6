//! A wire and the queue before it: the base of rates and of switch ports.

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Line, Packet, Queue};

/// Sends packets one after another at the rate of the line.
#[derive(Debug)]
pub(crate) struct Egress<T> {
    pub line: Line,
    pub queue: Queue<T>,
    sending: Option<(Packet<T>, Instant)>,
    /// No transmission starts before this (IEEE 802.3, annex 31B).
    paused_until: Instant,
}

impl<T: Clone> Egress<T> {
    pub fn new(line: Line, queue: Queue<T>) -> Self {
        Self { line, queue, sending: None, paused_until: Instant(0) }
    }

    /// Queues a packet that arrives at `now` and may be sent from `ready` on.
    pub fn arrive(
        &mut self,
        now: Instant,
        ready: Instant,
        packet: Packet<T>,
        counters: &mut Counters,
    ) {
        let busy = self.sending.is_some() || self.paused_until > now;
        self.queue.push(now, ready, packet, busy, counters);
        if !busy {
            self.begin(now, counters);
        }
    }

    /// Starts no transmission for `time` from `now` on; the current one completes.
    pub fn pause(&mut self, now: Instant, time: Nanos) {
        self.paused_until = now + time;
    }

    /// The packet whose last bit has left by `now`, if any.
    pub fn depart(&mut self, now: Instant, counters: &mut Counters) -> Option<Packet<T>> {
        if self.sending.is_none() {
            self.begin(now, counters);
        }
        let (packet, left) = self.sending.take_if(|(_, left)| *left <= now)?;
        self.begin(left, counters);
        Some(packet)
    }

    /// When the next event is due; `None` if nothing waits.
    pub fn wake(&self) -> Option<Instant> {
        match &self.sending {
            Some((_, left)) => Some(*left),
            None => (!self.queue.is_empty()).then_some(self.paused_until),
        }
    }

    /// Starts to send the next packet of the queue; `now` is when the wire became free.
    fn begin(&mut self, now: Instant, counters: &mut Counters) {
        if self.paused_until > now {
            return;
        }
        if let Some((ready, packet)) = self.queue.pop(now, counters) {
            let left = self.line.send(ready.max(self.paused_until), packet.length);
            self.sending = Some((packet, left));
        }
    }
}
