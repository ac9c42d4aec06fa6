//! The error type of this crate.

use crate::message::{RC_MESSAGE_MAX, TCP_OPTIONS_MAX};
use crate::{Family, Link, MTU_MIN, ParseLinkError};

/// Why a ceiling or floor does not exist; each message names a remedy.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    #[error(transparent)]
    Link(#[from] ParseLinkError),
    #[error(
        "{0} has no line rate and no framing, so there is no ceiling: use a link such as \
             ethernet:10G"
    )]
    NoWire(Link),
    #[error(
        "udp and tcp are not supported over {link}, which carries no IP: use {instead}, or rc \
             or ud"
    )]
    NoIp { link: Link, instead: String },
    #[error("rc and ud are not supported over {link}: use {instead}, or udp or tcp")]
    NoVerbs { link: Link, instead: String },
    /// Below the minimum MTU of IPv6 (RFC 8200 section 5).
    #[error("IPv6 needs an MTU of at least {MTU_MIN}, but {link} has {mtu}: {remedy}", mtu = link.mtu())]
    Ipv6Mtu { link: Link, remedy: &'static str },
    #[error(
        "{payload} bytes do not fit in a UDP datagram over {family}: use at most {most}, or tcp",
        most = family.udp_payload_max()
    )]
    Datagram { family: Family, payload: u64 },
    #[error(
        "{payload} bytes do not fit in a UD datagram, which is one packet of at most {path_mtu} \
         bytes: use rc, or a larger mtu"
    )]
    UdPayload { payload: u64, path_mtu: u64 },
    /// The maximum message of a reliable connection is 2^31 bytes (IBTA vol. 1, 9.7.7).
    #[error("{0} bytes exceed the longest RDMA message: use at most {RC_MESSAGE_MAX}")]
    Message(u64),
    #[error("a write of 0 bytes sends no segment: use a payload of at least 1 byte")]
    EmptyWrite,
    /// TCP counts its header in 32-bit words, 15 at most (RFC 9293 section 3.1).
    #[error(
        "{0} bytes of TCP options are not possible: use a multiple of 4, at most {TCP_OPTIONS_MAX}"
    )]
    Options(u8),
    #[error("an MTU of {0} has no room for a payload after the headers: use a larger mtu")]
    NoRoom(u64),
    #[error("an RDMA READ carries no immediate data: use send or write, or leave out immediate")]
    ReadImmediate,
    #[error("the request of an RDMA READ carries no payload, but {0} bytes are given: use 0")]
    ReadRequest(u64),
    #[error("udp has no stream goodput: give a payload")]
    NoStream,
    #[error(
        "acknowledgements of this transport are not modelled: use tcp for a stream, or rc for \
             messages"
    )]
    NoAcks,
    #[error("a packet of {bytes} bytes exceeds the MTU of {link}, {mtu}", mtu = link.mtu())]
    Packet { bytes: u64, link: Link },
    #[error("the message has {0} packets, too many to list: use a smaller payload")]
    TooManyPackets(u64),
    #[error("the figure exceeds 128 bits: use a smaller payload")]
    TooLarge,
    #[error("the path is empty: give at least one link")]
    EmptyPath,
    #[error("a switch must be between two links: leave out the one before the first link")]
    FirstSwitch,
    #[error("an RTT of 0 does not limit goodput: use a larger one, such as the floor of the path")]
    NoRtt,
    #[error(
        "`{0}` is not a bus: write pci-x:133, or pcie: with generation 1 to 5 and lanes: pcie:3x16"
    )]
    Bus(String),
    #[error("the ceiling of a bus is that of IP packets; use TCP or UDP")]
    NotIp,
}
