//! Link elements, networks of them, and virtual time.
//!
//! An [`Element`] is one part of a link, such as a delay, or a rate limit with its queue. Its one method takes a
//! packet or the time and returns a packet or a wake-up time. A [`Net`] connects elements and returns the packets
//! that leave it:
//!
//! ```
//! use fabricmark_link::{Delay, Framing, Length, Limit, Line, Net, Packet, Queue, Rate};
//! use fabricmark_units::{BitRate, Instant, Nanos};
//!
//! let line = Line::new(BitRate(1_000_000_000), Framing::ethernet(0))?;
//! let mut net = Net::new();
//! let rate = net.add(Rate::new(line, Queue::drop_tail(Limit::Packets(1000))));
//! let delay = net.add(Delay::fixed(Nanos::from_millis(200)));
//! net.chain(&[rate, delay]);
//!
//! net.arrive(Instant(0), (rate, 0), Packet::new("hello", Length::packet(1500)));
//! let departure = net.next(Instant(1_000_000_000)).unwrap();
//! // 1,526 bytes at 8 ns each, plus the delay.
//! assert_eq!(departure.at, Instant(200_012_208));
//! # Ok::<(), fabricmark_link::Invalid>(())
//! ```
//!
//! The elements, one file each:
//!
//! | Element | Function |
//! |---|---|
//! | [`Rate`] | sends over a [`Line`] of an exact rate, from a [`Queue`]; can pause the previous sender |
//! | [`Delay`] | fixed, normal, Pareto or trace delays; with or without reordering |
//! | [`Loss`] | independent, bursty (Gilbert-Elliott), periodic or trace losses |
//! | [`Duplicate`], [`Reorder`], [`Corrupt`] | duplicates packets, reorders them, flips a bit |
//! | [`Outage`] | alternates between up and down |
//! | [`Coalesce`] | delivers in batches, like interrupt coalescing of a NIC |
//! | [`Opportunities`] | delivery opportunities: mahimahi traces, departure schedules |
//! | [`Medium`] | one rate shared by several ports: a host bus, a hub |
//! | [`Switch`] | forwards to the port of the destination, store-and-forward or cut-through |
//!
//! [`LinkOptions`] builds a chain of elements from link options: `rtt=400ms rate=10G loss=1e-6`.
//!
//! Times are exact: a rate keeps fractions of a nanosecond, and an event happens at its due time even if the driver
//! calls late. Randomness comes from named streams of a seed, so a network is reproducible. [`Counters`] hold what
//! each element did.
//!
//! Deliberately absent: clocks, devices, packet bytes, and senders (`fabricmark_tcpsim` is one). A pause frame takes
//! no time between elements. A super-packet moves as one unit, when its last bit has arrived.

mod coalesce;
mod codel;
mod corrupt;
mod counters;
mod delay;
mod duplicate;
mod egress;
mod element;
mod framing;
mod host_bus;
mod invalid;
mod line;
mod loss;
mod medium;
mod model;
mod net;
mod opportunities;
mod options;
mod outage;
mod packet;
mod pause;
mod queue;
mod rate;
mod red;
mod reorder;
mod switch;
mod token_bucket;
mod trace;

pub use coalesce::{Adaptive, Coalesce, Moderation};
pub use codel::CoDel;
pub use corrupt::Corrupt;
pub use counters::{Count, Counters, Reason};
pub use delay::{Delay, Delays, Order};
pub use duplicate::Duplicate;
pub use element::{Element, Input, Output};
pub use framing::Framing;
pub use host_bus::HostBus;
pub use invalid::{Invalid, some};
pub(crate) use invalid::{positive, share};
pub use line::Line;
pub use loss::{GilbertElliott, Loss, Losses};
pub use medium::Medium;
pub use model::Model;
pub use net::{Departure, Id, Net, Port};
pub use opportunities::Opportunities;
pub use options::{
    Description, Discipline, Distribution, LinkOptions, LinkOptionsError, SUPER_PACKET_MAX,
    WireDescription,
};
pub use outage::Outage;
pub use packet::{Ecn, Length, Packet};
pub use pause::Marks;
pub use queue::{Limit, Queue};
pub use rate::Rate;
pub use red::{Red, RedSettings};
pub use reorder::Reorder;
pub use switch::{Forwarding, Switch};
pub use token_bucket::{TokenBucket, beyond_header};
pub use trace::{Trace, TraceError};
