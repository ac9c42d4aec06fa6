//! What a wire carries, and so what no measurement on it can beat.
//!
//! A [`Link`] is written `ethernet:10G,mtu=9000` or `ipoib:4X-FDR`. From a link, a [`Stack`] above it
//! and a payload follow the packets on the wire, and from those the [`Ceiling`] of a rate and the
//! [`Floor`] of a latency over a [`Path`], both exact fractions until they are printed. What cannot be
//! is [`Impossible`], with what to ask for instead.
//!
//! A message is cut into packets first (`message`), and each link frames a packet in its own way
//! (`frame`); packets of equal length are counted, not listed. A veth pair has no wire, so it has
//! neither ceiling nor floor. [`lfn`] says what a long path asks of a TCP connection.
//!
//! Deliberately not here: packets as bytes. The lengths of headers come from the crate header, and the
//! crate packet builds the packets that are counted here.

mod acks;
mod bus;
mod ceiling;
mod exact;
mod family;
mod floor;
pub mod frame;
mod impossible;
mod in_flight;
pub mod lfn;
mod link;
mod message;
mod path;
mod sources;
mod stack;
mod timeline;
mod violation;

pub use acks::{Acks, ack_wire_bytes, shared_goodput, shared_stream_goodput};
pub use bus::Bus;
pub use ceiling::{Ceiling, goodput, packet_rate, packets, quic_goodput, stream_goodput};
pub use exact::{Exact, Input, Inputs, Kind};
pub use family::{Family, UnknownFamily};
pub use floor::{Floor, one_way_floor, rtt_floor};
pub use frame::ethernet_wire_bytes;
pub use impossible::Impossible;
pub use in_flight::InFlight;
pub use link::{
    IB_MTUS, Ib, Ipoib, IpoibMode, Lanes, Link, MTU_DEFAULT, MTU_MIN, ParseLinkError, Speed,
    UnknownSpeed,
};
pub use message::fragments;
pub use path::{Hop, Path, Switch, Switching, fibre_delay, path_goodput, path_stream_goodput};
pub use sources::sources;
pub use stack::{Operation, Stack};
pub use violation::{allowed, exceeds};
