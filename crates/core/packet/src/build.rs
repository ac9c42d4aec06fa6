//! Builds the packets of one message on a link, with valid lengths, checksums and CRCs, as in a capture.
//!
//! The first of two hosts sends data to the second, or reads data from it. Addresses are those reserved for
//! documentation (RFC 5737, RFC 3849), locally administered MAC addresses, and LIDs 1 and 2.
//!
//! A test checks that the lengths are those of [`packets`], from which ceilings are computed, for all types of link.

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
    /// Sends the data, or issues the RDMA READ.
    First,
    /// Receives the data, or responds to the RDMA READ.
    Second,
}

/// A packet as a capture holds it: on Ethernet without preamble and FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Host that sends the packet.
    pub from: Host,
    /// Bytes of the packet.
    pub bytes: Vec<u8>,
}

/// Maximum payload in bytes. A capture of this size still opens without delay.
pub const PAYLOAD_BYTES_MAX: u64 = 1 << 24;

/// Why packets could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBuilt {
    /// No host sends such packets.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// The payload in bytes exceeds [`PAYLOAD_BYTES_MAX`].
    #[error("{0} bytes of payload are too many for a capture: use at most {PAYLOAD_BYTES_MAX}")]
    TooLarge(u64),
}

/// Builds the packets that carry one message of `payload` bytes, in order. An RDMA READ has a request, followed by
/// the responses, which are what [`packets`] counts.
///
/// The payload repeats the letters and digits.
pub fn build(link: Link, stack: Stack, payload: u64) -> Result<Vec<Packet>, NotBuilt> {
    if payload > PAYLOAD_BYTES_MAX {
        return Err(NotBuilt::TooLarge(payload));
    }
    // Fails for the same reasons as the computation of a ceiling.
    packets(link, stack, payload)?;
    // Repeats the letters and digits.
    let data = (b'a'..=b'z').chain(b'0'..=b'9').cycle().take(payload as usize);
    let data: Vec<u8> = data.collect();
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

/// Capture link type for packets of this link.
pub fn link_type(link: Link) -> LinkType {
    match link {
        Link::Ipoib(_) | Link::Ib(_) => LinkType::Infiniband,
        _ => LinkType::Ethernet,
    }
}

impl Host {
    /// The other host.
    fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }

    /// 1 or 2, the last part of every address.
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

    /// GID in a fabric of several subnets, with each host in its own subnet.
    fn gid(self) -> Ipv6Addr {
        let number = self.number().into();
        Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, number)
    }

    /// GID that RoCEv1 derives from the MAC address (RFC 4291, appendix A).
    fn link_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, self.number().into())
    }

    /// Queue pair number.
    fn queue_pair(self) -> u32 {
        0x10 + u32::from(self.number())
    }
}

/// An Ethernet frame without FCS: header, VLAN tags (802.1ad outside, 802.1Q inside), content, padding.
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

/// Number of VLAN tags on a link.
fn tags(link: Link) -> u8 {
    match link {
        Link::Ethernet { vlan, .. } | Link::RoceV1 { vlan, .. } | Link::RoceV2 { vlan, .. } => vlan,
        _ => 0,
    }
}
