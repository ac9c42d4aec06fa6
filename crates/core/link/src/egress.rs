//! A wire and the queue before it: what rates and the ports of switches are made of.

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Line, Packet, Queue};

/// Sends packets one after another, as fast as its line allows.
#[derive(Debug)]
pub(crate) struct Egress<T> {
    pub line: Line,
    pub queue: Queue<T>,
    sending: Option<(Packet<T>, Instant)>,
    /// Nothing begins before this (IEEE 802.3, annex 31B).
    paused_until: Instant,
}

impl<T: Clone> Egress<T> {
    pub fn new(line: Line, queue: Queue<T>) -> Self {
        Self { line, queue, sending: None, paused_until: Instant(0) }
    }

    /// A packet that comes now and may be sent from `ready` on.
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

    /// Begins nothing for `time` from now on; what is being sent is sent to its end.
    pub fn pause(&mut self, now: Instant, time: Nanos) {
        self.paused_until = now + time;
    }

    /// The packet whose last bit has left, if there is one.
    pub fn depart(&mut self, now: Instant, counters: &mut Counters) -> Option<Packet<T>> {
        if self.sending.is_none() {
            self.begin(now, counters);
        }
        let (packet, left) = self.sending.take_if(|(_, left)| *left <= now)?;
        self.begin(left, counters);
        Some(packet)
    }

    /// When there is something to do; nothing is due before.
    pub fn wake(&self) -> Option<Instant> {
        match &self.sending {
            Some((_, left)) => Some(*left),
            None => (!self.queue.is_empty()).then_some(self.paused_until),
        }
    }

    /// Takes the next packet from the queue, `now` being when the wire asked for it.
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
