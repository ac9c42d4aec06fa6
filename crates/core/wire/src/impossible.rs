//! Why there is no such ceiling or floor.

use crate::family::Family;
use crate::link::{Link, MTU_MIN, ParseLinkError};
use crate::message::{RC_MESSAGE_MAX, TCP_OPTIONS_MAX};

/// Why a figure does not exist, and what to ask for instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The link has a value out of range.
    #[error(transparent)]
    Link(#[from] ParseLinkError),
    /// Copies in memory have no rate that anything could be measured against.
    #[error("{0} has no wire, so nothing follows from its frames: name one such as ethernet:10G")]
    NoWire(Link),
    /// The link carries verbs alone.
    #[error("{link} carries no IP, so neither udp nor tcp: use {instead}, or rc or ud")]
    NoIp {
        /// The link.
        link: Link,
        /// A link that does.
        instead: String,
    },
    /// The link carries IP alone.
    #[error("{link} carries no verbs: use {instead}, or udp or tcp")]
    NoVerbs {
        /// The link.
        link: Link,
        /// A link that does.
        instead: String,
    },
    /// IPv6 does not run over so small an MTU (RFC 8200 section 5).
    #[error("IPv6 needs an MTU of {MTU_MIN}, and {link} has {mtu}: {remedy}", mtu = link.mtu())]
    Ipv6Mtu {
        /// The link.
        link: Link,
        /// What to write.
        remedy: &'static str,
    },
    /// No UDP datagram is that long.
    #[error(
        "{payload} bytes do not fit a UDP datagram over {family}: use {most} at most, or tcp",
        most = family.udp_payload_max()
    )]
    Datagram {
        /// Version of IP.
        family: Family,
        /// Payload asked for, in bytes.
        payload: u64,
    },
    /// An unreliable datagram is one packet.
    #[error(
        "{payload} bytes do not fit a datagram of verbs, which is one packet of {path_mtu} at most: use \
         rc, or a larger mtu"
    )]
    UdPayload {
        /// Payload asked for, in bytes.
        payload: u64,
        /// The most payload of a packet on this link, in bytes.
        path_mtu: u64,
    },
    /// A message of a reliable connection ends at 2^31 bytes (IBTA vol. 1, 9.7.7).
    #[error("{0} bytes are more than a message of verbs carries: use {RC_MESSAGE_MAX} at most")]
    Message(u64),
    /// TCP sends nothing for a write of nothing.
    #[error("a write of 0 bytes sends no segment: use a payload of 1 byte at least")]
    EmptyWrite,
    /// TCP counts its header in words of 4 bytes, 15 at most (RFC 9293 section 3.1).
    #[error(
        "{0} bytes of TCP options do not exist: use a multiple of 4, {TCP_OPTIONS_MAX} at most"
    )]
    Options(u8),
    /// The headers take the whole packet.
    #[error("headers leave no room for a payload within an MTU of {0}: use a larger mtu")]
    NoRoom(u64),
    /// There is no such operation.
    #[error("a read carries no immediate data: use send or write, or leave immediate out")]
    ReadImmediate,
    /// The request of a read carries no payload.
    #[error("the request of a read carries no payload, not {0} bytes: use a request of 0 bytes")]
    ReadRequest(u64),
    /// A datagram has a size of its own.
    #[error("udp carries datagrams, not a stream: ask for the goodput of a payload")]
    NoStream,
    /// Nothing acknowledges datagrams.
    #[error("this transport is not acknowledged, or not so: use tcp for a stream, rc for messages")]
    NoAcks,
    /// A packet beyond the link's MTU.
    #[error("a packet of {bytes} bytes does not cross {link}: its MTU is {mtu}", mtu = link.mtu())]
    Packet {
        /// Length asked for, in bytes.
        bytes: u64,
        /// The link.
        link: Link,
    },
    /// A list that nobody would read.
    #[error("the message takes {0} packets, too many for a list: use a smaller payload")]
    TooManyPackets(u64),
    /// Beyond what 128 bits hold.
    #[error("the figure is beyond 128 bits: use a smaller payload")]
    TooLarge,
    /// No link at all.
    #[error("a path has one link at least")]
    EmptyPath,
    /// A switch in front of everything.
    #[error("a switch stands between two links, and there is none before the first: leave it out")]
    FirstSwitch,
    /// An answer takes time.
    #[error("a round trip of 0 limits nothing: use its least time, such as the floor of the path")]
    NoRtt,
    /// The host bus is none that exists.
    #[error(
        "`{0}` is not a bus: write pci-x:133, or pcie: with generation 1 to 5 and lanes: pcie:3x16"
    )]
    Bus(String),
}
