//! Links made of elements, in whatever time the caller lives.
//!
//! An [`Element`] is told of packets and of time and answers with packets and wake-ups; it has one
//! method. Elements are joined to a [`Net`], which says what comes out and when:
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
//! // 1,526 bytes of 8 ns, and the delay.
//! assert_eq!(departure.at, Instant(200_012_208));
//! # Ok::<(), fabricmark_link::Invalid>(())
//! ```
//!
//! The elements, each in a file of its own:
//!
//! | Element | What it does |
//! |---|---|
//! | [`Rate`] | sends over a [`Line`] of an exact rate, a [`Queue`] before it; stops the wire before it |
//! | [`Delay`] | fixed, normal, Pareto or from a trace; keeps order or not |
//! | [`Loss`] | independent, in bursts, periodic or from a trace |
//! | [`Duplicate`], [`Reorder`], [`Corrupt`] | copies, lets others overtake, flips a bit |
//! | [`Outage`] | up and down in turns |
//! | [`Coalesce`] | delivers in batches, as network cards interrupt |
//! | [`Opportunities`] | bytes at given times: traces of mahimahi, departure schedules |
//! | [`Medium`] | one rate for several ports: a host bus, a hub |
//! | [`Switch`] | to the port of the destination; stores, or cuts through |
//!
//! [`LinkWords`] reads a chain of them from a text: `rtt=400ms rate=10G loss=1e-6`.
//!
//! Times are exact: a rate keeps the fraction of a nanosecond, and an event happens when it is due
//! even where the driver comes late. Chance comes from named streams of a seed, so a net does the
//! same again. What an element did is in its [`Counters`].
//!
//! Deliberately not here: clocks, devices and bytes, and senders (`fabricmark_tcpsim` is one). A pause
//! frame takes no time from one element to the next, and a super-packet moves as one, when its last bit
//! has come.

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
mod net;
mod opportunities;
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
mod words;

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
pub use net::{Departure, Id, Net, Port};
pub use opportunities::Opportunities;
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
pub use words::{
    Description, Discipline, Distribution, LinkWords, SUPER_PACKET_MAX, WireDescription, WordsError,
};
