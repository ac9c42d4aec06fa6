//! The interface that every part of a link implements.

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Packet};

/// A part of a link: a delay, a loss, a rate with its queue, a switch.
///
/// Each call takes one input and returns one output. The driver repeats the call with [`Input::Wake`] at the same
/// instant until the output is [`Output::Wake`] or [`Output::Idle`]. Instants never decrease. A wake-up earlier than
/// requested changes nothing.
pub trait Element<T> {
    /// Processes `input` at `now`. The element counts drops, copies and marks; the driver counts arrivals and
    /// departures.
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T>;
}

/// Input to an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<T> {
    /// The last bit of a packet has arrived.
    Packet {
        /// Input port.
        port: u16,
        /// A packet or super-packet.
        packet: Packet<T>,
    },
    /// The receiver behind `port` requests a pause (IEEE 802.3, annex 31B). Elements that start no transmissions
    /// ignore it.
    Pause {
        /// Output port that must stop sending.
        port: u16,
        /// Duration from now on; 0 resumes sending.
        time: Nanos,
    },
    /// Nothing arrived; time has advanced.
    Wake,
}

/// Output of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<T> {
    /// A packet leaves.
    Packet {
        /// Output port.
        port: u16,
        /// A packet, a super-packet or a piece of one.
        packet: Packet<T>,
    },
    /// Asks the sender connected to this port to pause.
    Pause {
        /// Port of the request.
        port: u16,
        /// Duration; 0 resumes sending.
        time: Nanos,
    },
    /// Nothing until this later instant, unless something arrives.
    Wake(Instant),
    /// Nothing unless something arrives: the element holds no packet.
    Idle,
}

impl<T> Output<T> {
    /// [`Output::Wake`] at `until`, or [`Output::Idle`] for `None`.
    pub fn wait(until: Option<Instant>) -> Self {
        until.map_or(Self::Idle, Self::Wake)
    }
}

impl<T, E: Element<T> + ?Sized> Element<T> for Box<E> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        (**self).step(now, input, counters)
    }
}
