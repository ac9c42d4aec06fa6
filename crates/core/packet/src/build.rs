//! Packets built, from the first byte that a capture holds to the last: what carries one message over a
//! link, with right lengths and sums.
//!
//! There are two hosts; the first sends data to the second, or asks it for data. Addresses are those of
//! documentation (RFC 5737, RFC 3849), local Ethernet addresses, and LIDs 1 and 2.
//!
//! The lengths are those of [`packets`], by a test of all kinds of link; so ceilings are computed from
//! packets that exist.

mod cm;
mod infiniband;
mod internet;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use cm::handshake;

use fabricmark_header::Mac;
use fabricmark_header::ethernet::{Ethernet, Vlan, ether_type};
use fabricmark_wire::frame::{FCS, FRAME_MIN};
use fabricmark_wire::{Impossible, Link, Operation, Stack, packets};

use crate::capture::LinkType;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// It sends, or asks.
    First,
    /// It receives, or answers.
    Second,
}

/// A packet as a capture holds it: on Ethernet without preamble and check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sends it.
    pub from: Host,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The longest payload in bytes: a capture of it is still opened at once.
pub const PAYLOAD_BYTES_MAX: u64 = 1 << 24;

/// Why there are no such packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBuilt {
    /// No host sends them.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// They are many.
    #[error("{0} bytes are a long capture: use {PAYLOAD_BYTES_MAX} at most")]
    TooLarge(u64),
}

/// The packets that carry one message of `payload` bytes, in order: of an RDMA READ first the request,
/// then what [`packets`] counts, the answers; of others nothing else.
///
/// Bytes of the payload are letters and digits in their order, over and over.
pub fn build(link: Link, stack: Stack, payload: u64) -> Result<Vec<Packet>, NotBuilt> {
    if payload > PAYLOAD_BYTES_MAX {
        return Err(NotBuilt::TooLarge(payload));
    }
    // Refused for the reasons for which there is no ceiling.
    packets(link, stack, payload)?;
    let data = pattern(payload);
    Ok(match stack {
        Stack::Udp { family } => internet::datagram(link, family, &data),
        Stack::Tcp { family, option_bytes } => {
            internet::segments(link, family, option_bytes, &data)
        }
        Stack::Rc { operation, immediate, family } => {
            infiniband::message(link, family, operation, immediate, &data)
        }
        Stack::Ud { immediate, family } => infiniband::datagram(link, family, immediate, &data),
    })
}

/// What the first byte of this link's packets belongs to.
pub fn link_type(link: Link) -> LinkType {
    match link {
        Link::Ipoib(_) | Link::Ib(_) => LinkType::Infiniband,
        _ => LinkType::Ethernet,
    }
}

impl Host {
    /// The host at the other end.
    fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }

    /// 1 or 2, the end of every address.
    fn number(self) -> u8 {
        if self == Self::First { 1 } else { 2 }
    }

    fn lid(self) -> u16 {
        u16::from(self.number())
    }

    /// Locally administered (IEEE 802, 8.2).
    fn mac(self) -> Mac {
        Mac([2, 0, 0, 0, 0, self.number()])
    }

    fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, self.number())
    }

    fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self.number().into())
    }

    /// Its port in a fabric of several subnets, each host in its own.
    fn gid(self) -> Ipv6Addr {
        let number = self.number().into();
        Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, number)
    }

    /// The GID that RoCEv1 derives from the Ethernet address (RFC 4291, appendix A).
    fn link_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, self.number().into())
    }

    /// A queue pair of it.
    fn queue_pair(self) -> u32 {
        0x10 + u32::from(self.number())
    }
}

/// Letters and digits, over and over.
fn pattern(payload: u64) -> Vec<u8> {
    (b'a'..=b'z').chain(b'0'..=b'9').cycle().take(payload as usize).collect()
}

/// A frame: header, tags of 802.1ad and 802.1Q, content, padding.
fn ethernet(from: Host, tags: u8, kind: u16, content: &[&[u8]]) -> Vec<u8> {
    let kinds = match tags {
        0 => vec![kind],
        1 => vec![ether_type::VLAN, kind],
        _ => vec![ether_type::SERVICE_VLAN, ether_type::VLAN, kind],
    };
    let header =
        Ethernet { destination: from.other().mac(), source: from.mac(), ether_type: kinds[0] };
    let mut frame = header.to_bytes().to_vec();
    for (vlan, &ether_type) in (100..).zip(&kinds[1..]) {
        let tag = Vlan { priority: 0, drop_eligible: false, vlan, ether_type };
        frame.extend(tag.to_bytes());
    }
    frame.extend(content.concat());
    let smallest = (FRAME_MIN - FCS) as usize;
    frame.resize(frame.len().max(smallest), 0);
    frame
}

/// Number of 802.1Q tags on a link.
fn tags(link: Link) -> u8 {
    match link {
        Link::Ethernet { vlan, .. } | Link::RoceV1 { vlan, .. } | Link::RoceV2 { vlan, .. } => vlan,
        _ => 0,
    }
}
