//! The error type of this crate.

use crate::message::{RC_MESSAGE_MAX, TCP_OPTIONS_MAX};
use crate::{Family, Link, MTU_MIN, ParseLinkError};

/// Why a ceiling or floor does not exist; each message names a remedy.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    #[error(transparent)]
    Link(#[from] ParseLinkError),
    #[error("{0} has no wire, so nothing follows from its frames: name one such as ethernet:10G")]
    NoWire(Link),
    #[error("{link} carries no IP, so neither udp nor tcp: use {instead}, or rc or ud")]
    NoIp { link: Link, instead: String },
    #[error("{link} carries no verbs: use {instead}, or udp or tcp")]
    NoVerbs { link: Link, instead: String },
    /// Below the minimum MTU of IPv6 (RFC 8200 section 5).
    #[error("IPv6 needs an MTU of {MTU_MIN}, and {link} has {mtu}: {remedy}", mtu = link.mtu())]
    Ipv6Mtu { link: Link, remedy: &'static str },
    #[error(
        "{payload} bytes do not fit a UDP datagram over {family}: use {most} at most, or tcp",
        most = family.udp_payload_max()
    )]
    Datagram { family: Family, payload: u64 },
    #[error(
        "{payload} bytes do not fit a datagram of verbs, which is one packet of {path_mtu} at most: use \
         rc, or a larger mtu"
    )]
    UdPayload { payload: u64, path_mtu: u64 },
    /// The maximum message of a reliable connection is 2^31 bytes (IBTA vol. 1, 9.7.7).
    #[error("{0} bytes are more than a message of verbs carries: use {RC_MESSAGE_MAX} at most")]
    Message(u64),
    #[error("a write of 0 bytes sends no segment: use a payload of 1 byte at least")]
    EmptyWrite,
    /// TCP counts its header in 32-bit words, 15 at most (RFC 9293 section 3.1).
    #[error(
        "{0} bytes of TCP options do not exist: use a multiple of 4, {TCP_OPTIONS_MAX} at most"
    )]
    Options(u8),
    #[error("headers leave no room for a payload within an MTU of {0}: use a larger mtu")]
    NoRoom(u64),
    #[error("a read carries no immediate data: use send or write, or leave immediate out")]
    ReadImmediate,
    #[error("the request of a read carries no payload, not {0} bytes: use a request of 0 bytes")]
    ReadRequest(u64),
    #[error("udp carries datagrams, not a stream: ask for the goodput of a payload")]
    NoStream,
    #[error("this transport is not acknowledged, or not so: use tcp for a stream, rc for messages")]
    NoAcks,
    #[error("a packet of {bytes} bytes does not cross {link}: its MTU is {mtu}", mtu = link.mtu())]
    Packet { bytes: u64, link: Link },
    #[error("the message takes {0} packets, too many for a list: use a smaller payload")]
    TooManyPackets(u64),
    #[error("the figure is beyond 128 bits: use a smaller payload")]
    TooLarge,
    #[error("a path has one link at least")]
    EmptyPath,
    #[error("a switch stands between two links, and there is none before the first: leave it out")]
    FirstSwitch,
    #[error("a round trip of 0 limits nothing: use its least time, such as the floor of the path")]
    NoRtt,
    #[error(
        "`{0}` is not a bus: write pci-x:133, or pcie: with generation 1 to 5 and lanes: pcie:3x16"
    )]
    Bus(String),
}
