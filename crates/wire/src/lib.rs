//! What a wire carries, and so what no measurement on it can beat.
//!
//! A [`Link`] is written `ethernet:10G,mtu=9000`. From a link, an IP version and a payload follow
//! the bytes on the wire, and from those the [`Ceiling`] of a rate and the [`Floor`] of a latency,
//! both exact fractions until they are printed.
//!
//! Headers are read and written as bytes by [`header`], and their sums computed by [`checksum`].
//!
//! Deliberately not here: ceilings of InfiniBand and RoCE. A veth pair has no wire, so it has
//! neither ceiling nor floor.

mod ceiling;
pub mod checksum;
mod exact;
mod family;
mod floor;
pub mod frame;
pub mod header;
pub mod lfn;
mod link;
mod violation;

pub use ceiling::{
    Ceiling, packet_rate, quic_goodput, tcp_message_goodput, tcp_stream_goodput, udp_goodput,
};
pub use exact::{Exact, Input, Inputs, Kind};
pub use family::{Family, UnknownFamily};
pub use floor::{Floor, Path, Switching, one_way_floor, rtt_floor};
pub use frame::{Layer4, ethernet_wire_bytes, fragments};
pub use link::{
    IB_MTUS, Ib, Ipoib, IpoibMode, Lanes, Link, MTU_DEFAULT, MTU_MIN, ParseLinkError, Speed,
    UnknownSpeed,
};
pub use violation::{allowed, exceeds};
