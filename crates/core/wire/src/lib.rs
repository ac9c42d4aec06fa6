//! Computes what a link can carry: ceilings of rates and floors of latencies that no measurement can beat.
//!
//! A [`Link`] is written `ethernet:10G,mtu=9000` or `ipoib:4X-FDR`. A link, a [`Stack`] and a payload determine the
//! packets on the wire, and the packets determine the [`Ceiling`] of a rate and the [`Floor`] of a latency over a
//! [`Path`]. Both are exact fractions until they are printed. What cannot exist is an [`Impossible`] error.
//!
//! A message is first segmented into packets (`message`), then each link frames the packets (`frame`). Packets of
//! equal length are counted, not listed. A veth pair has no wire, so it has neither ceiling nor floor. [`lfn`]
//! computes what a long path requires of a TCP connection.
//!
//! Packets as bytes are not here: header lengths come from the crate header, and the crate packet builds the packets.

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
pub use bus::{Bus, bus_goodput};
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
