//! What lies between two hosts: memory, Ethernet, InfiniBand, or RDMA over Ethernet.

mod check;
mod infiniband;
mod text;

use fabricmark_units::BitRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use infiniband::{IB_MTUS, Ib, Ipoib, IpoibMode, Lanes, Speed, UnknownSpeed};
pub use text::ParseLinkError;

use crate::exact::Exact;
use crate::frame::ROCE_HEADERS_MAX;

/// MTU of a link that states none, in bytes (RFC 894).
pub const MTU_DEFAULT: u16 = 1500;

/// The smallest MTU over which IPv6 runs, in bytes (RFC 8200 section 5).
pub const MTU_MIN: u16 = 1280;

/// Tags beyond two (802.1ad) are not in use.
const VLAN_MAX: u8 = 2;

/// One hop, in text and JSON as `veth,mtu=9000`, `ethernet:10G,mtu=9000,vlan=1` or `ipoib:4X-FDR`.
///
/// A value that the grammar would refuse, such as a rate of 0, has no ceilings and no floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Link {
    /// The host to itself: memory copies, no wire and no second network.
    Loopback,
    /// A pair of virtual interfaces on one machine: memory copies, no wire.
    Veth {
        /// Largest IP packet in bytes.
        mtu: u16,
    },
    /// Full-duplex Ethernet.
    Ethernet {
        /// MAC rate in bit/s, in each direction.
        rate: BitRate,
        /// Largest IP packet in bytes.
        mtu: u16,
        /// Number of 802.1Q tags in each frame, 0 to 2.
        vlan: u8,
    },
    /// IP over InfiniBand.
    Ipoib(Ipoib),
    /// InfiniBand for verbs, without IP.
    Ib(Ib),
    /// RDMA over Ethernet without IP: InfiniBand's GRH follows the Ethernet header (IBTA annex A16).
    /// [`path_mtu`](Link::path_mtu) follows from the MTU of the Ethernet.
    #[expect(missing_docs, reason = "as of Ethernet")]
    RoceV1 { rate: BitRate, mtu: u16, vlan: u8 },
    /// RDMA over UDP over IP over Ethernet (IBTA annex A17), with path MTUs as above.
    #[expect(missing_docs, reason = "as of Ethernet")]
    RoceV2 { rate: BitRate, mtu: u16, vlan: u8 },
}

impl Link {
    /// Largest IP packet in bytes; on `ib`, where there is none, the largest payload of a packet.
    pub fn mtu(self) -> u16 {
        match self {
            // The kernel's `lo` takes 65,536 bytes; no IPv4 packet is longer than this.
            Self::Loopback => u16::MAX,
            Self::Veth { mtu }
            | Self::Ethernet { mtu, .. }
            | Self::Ipoib(Ipoib { mtu, .. })
            | Self::Ib(Ib { mtu, .. })
            | Self::RoceV1 { mtu, .. }
            | Self::RoceV2 { mtu, .. } => mtu,
        }
    }

    /// The MAC rate in whole bit/s; `None` where there is no Ethernet.
    pub fn rate(self) -> Option<BitRate> {
        match self {
            Self::Loopback | Self::Veth { .. } | Self::Ipoib(_) | Self::Ib(_) => None,
            Self::Ethernet { rate, .. } | Self::RoceV1 { rate, .. } | Self::RoceV2 { rate, .. } => {
                Some(rate)
            }
        }
    }

    /// The rate in bit/s at which bytes cross, line coding left out; `None` where there is no wire.
    ///
    /// Exact, since 54.54 Gbit/s for 4X FDR would lower every ceiling below what the wire carries.
    pub fn rate_bps(self) -> Option<Exact> {
        match self {
            Self::Ipoib(Ipoib { lanes, speed, .. }) | Self::Ib(Ib { lanes, speed, .. }) => {
                speed.data_bps(lanes)
            }
            other => Exact::new(u128::from(other.rate()?.0), 1),
        }
    }

    /// The most payload bytes of an InfiniBand packet, 256 to 4096; `None` where verbs do not run.
    ///
    /// RoCE takes the largest that leaves 96 bytes of the Ethernet's MTU for headers (Linux,
    /// `iboe_get_mtu`), so 1500 gives 1024.
    pub fn path_mtu(self) -> Option<u16> {
        match self {
            Self::Loopback | Self::Veth { .. } | Self::Ethernet { .. } | Self::Ipoib(_) => None,
            Self::Ib(Ib { mtu, .. }) => Some(mtu),
            Self::RoceV1 { mtu, .. } | Self::RoceV2 { mtu, .. } => {
                let room = mtu.checked_sub(ROCE_HEADERS_MAX)?;
                IB_MTUS.into_iter().rev().find(|&path_mtu| path_mtu <= room)
            }
        }
    }

    /// The same network as verbs use it: RoCEv2 over Ethernet, InfiniBand under IPoIB. A link of verbs is itself.
    pub fn for_verbs(self) -> Self {
        match self {
            Self::Ethernet { rate, mtu, vlan } => Self::RoceV2 { rate, mtu, vlan },
            Self::Ipoib(Ipoib { lanes, speed, ib_mtu, grh, .. }) => {
                Self::Ib(Ib { lanes, speed, mtu: ib_mtu, grh })
            }
            Self::Loopback
            | Self::Veth { .. }
            | Self::Ib(_)
            | Self::RoceV1 { .. }
            | Self::RoceV2 { .. } => self,
        }
    }

    /// Whether packets cross a medium with a rate of its own, and so have ceilings and floors.
    pub fn has_wire(self) -> bool {
        !matches!(self, Self::Loopback | Self::Veth { .. })
    }
}
