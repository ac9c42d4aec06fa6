//! Packets that may still be answered.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use super::super::time::{ErrorEstimate, Timestamp};

/// Packets remembered at most, 24 octets each: a million packets a second that wait for a second.
const PACKETS_MAX: usize = 1 << 20;

#[derive(Debug)]
struct Packet {
    departed: Instant,
    sent: Timestamp,
    error: ErrorEstimate,
    is_answered: bool,
}

/// What an answer is to the packets sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// The first one, to a packet that departed at this time.
    InTime { sent: Timestamp, error: ErrorEstimate },
    /// Another one.
    Again,
    /// One to a packet that is not remembered any more.
    GivenUp,
    /// None: no packet had this number and this time.
    Never,
}

/// The last packets of a session, in the order of their numbers.
#[derive(Debug)]
pub(super) struct Window {
    timeout: Nanos,
    /// Number of the first that is remembered.
    first: u64,
    packets: VecDeque<Packet>,
    /// How many of them have no answer yet.
    open: usize,
}

impl Window {
    pub(super) fn new(timeout: Nanos) -> Self {
        Self { timeout, first: 0, packets: VecDeque::new(), open: 0 }
    }

    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Whether an answer is waited for.
    pub(super) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// When the oldest packet is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.packets.front().map(|packet| packet.departed + self.timeout)
    }

    /// Gives up all that departed a timeout ago, and tells how many of them had no answer.
    pub(super) fn give_up(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            lost += u64::from(self.forget_first());
        }
        lost
    }

    /// The same for whatever is left.
    pub(super) fn clear(&mut self) -> u64 {
        let mut lost = 0;
        while !self.packets.is_empty() {
            lost += u64::from(self.forget_first());
        }
        lost
    }

    /// Notes a departure; gives the number of the packet, and whether one without an answer was given up
    /// for it.
    pub(super) fn send(
        &mut self,
        departed: Instant,
        sent: Timestamp,
        error: ErrorEstimate,
    ) -> (u32, bool) {
        let given_up = self.packets.len() >= PACKETS_MAX && self.forget_first();
        let number = self.next() as u32;
        self.open += 1;
        self.packets.push_back(Packet { departed, sent, error, is_answered: false });
        (number, given_up)
    }

    /// Notes an answer to the packet of this number and departure, as the reflector gives them back.
    pub(super) fn answer(&mut self, number: u32, sent: Timestamp) -> Passed {
        let number = u64::from(number);
        let Some(place) = number.checked_sub(self.first) else { return Passed::GivenUp };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        match self.packets.get_mut(place) {
            Some(packet) if packet.sent == sent => {
                let Packet { sent, error, .. } = *packet;
                let again = std::mem::replace(&mut packet.is_answered, true);
                self.open -= usize::from(!again);
                if again { Passed::Again } else { Passed::InTime { sent, error } }
            }
            _ => Passed::Never,
        }
    }

    /// Whether the first packet had no answer.
    fn forget_first(&mut self) -> bool {
        let Some(packet) = self.packets.pop_front() else { return false };
        self.first += 1;
        self.open -= usize::from(!packet.is_answered);
        !packet.is_answered
    }
}
