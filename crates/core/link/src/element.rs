//! The one thing that every part of a link is.

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Packet};

/// A part of a link: a delay, a loss, a rate with its queue, a switch.
///
/// It is told that a packet arrives, or that time has come, and answers with one thing at a time:
/// whoever drives it asks again with [`Input::Wake`] at the same instant until the answer is
/// [`Output::Wake`] or [`Output::Idle`]. Instants never go back. A wake-up that comes earlier than
/// asked for changes nothing.
pub trait Element<T> {
    /// Takes `input` at `now` and says what comes of it. Drops, copies and marks are counted by the
    /// element; arrivals and departures by the driver.
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T>;
}

/// What an element is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<T> {
    /// A packet has wholly arrived.
    Packet {
        /// The port by which it comes in.
        port: u16,
        /// The packet.
        packet: Packet<T>,
    },
    /// Whoever is behind this port wants no frames for a time from now on, or 0: wants them again
    /// (IEEE 802.3, annex 31B). Elements that start no transmission of their own do not care.
    Pause {
        /// The port that is to send nothing.
        port: u16,
        /// For how long.
        time: Nanos,
    },
    /// Time has come.
    Wake,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<T> {
    /// A packet leaves.
    Packet {
        /// The port by which it goes out.
        port: u16,
        /// The packet.
        packet: Packet<T>,
    },
    /// Whoever is connected to this port shall be stopped for a time, or started again by 0.
    Pause {
        /// The port through which it is asked.
        port: u16,
        /// For how long.
        time: Nanos,
    },
    /// Nothing until this later instant, unless something arrives.
    Wake(Instant),
    /// Nothing unless something arrives: the element holds no packet.
    Idle,
}

impl<T> Output<T> {
    /// A wake-up where there is something to wait for.
    pub fn wait(until: Option<Instant>) -> Self {
        until.map_or(Self::Idle, Self::Wake)
    }
}

impl<T, E: Element<T> + ?Sized> Element<T> for Box<E> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        (**self).step(now, input, counters)
    }
}
