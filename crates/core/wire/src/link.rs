//! Links between two hosts: memory, Ethernet, InfiniBand, or RDMA over Ethernet.

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

/// Default MTU in bytes (RFC 894).
pub const MTU_DEFAULT: u16 = 1500;

/// Minimum MTU of IPv6 in bytes (RFC 8200 section 5).
pub const MTU_MIN: u16 = 1280;

/// Maximum number of VLAN tags (802.1ad).
const VLAN_MAX: u8 = 2;

/// One hop, in text and JSON as `veth,mtu=9000`, `ethernet:10G,mtu=9000,vlan=1` or `ipoib:4X-FDR`.
///
/// A value that the grammar would refuse, such as a rate of 0, has no ceilings and no floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Link {
    /// Loopback of one host: memory copies, no wire and no second network.
    Loopback,
    /// A veth pair on one machine: memory copies, no wire.
    Veth {
        /// Maximum IP packet in bytes.
        mtu: u16,
    },
    /// Full-duplex Ethernet.
    Ethernet {
        /// MAC rate in bit/s, in each direction.
        rate: BitRate,
        /// Maximum IP packet in bytes.
        mtu: u16,
        /// Number of 802.1Q tags in each frame, 0 to 2.
        vlan: u8,
    },
    /// IP over InfiniBand.
    Ipoib(Ipoib),
    /// InfiniBand for verbs, without IP.
    Ib(Ib),
    /// RDMA over Ethernet without IP: a GRH follows the Ethernet header (IBTA annex A16).
    /// [`path_mtu`](Link::path_mtu) is derived from the Ethernet MTU.
    #[expect(missing_docs, reason = "as of Ethernet")]
    RoceV1 { rate: BitRate, mtu: u16, vlan: u8 },
    /// RDMA over UDP, IP and Ethernet (IBTA annex A17), with path MTUs as in RoCEv1.
    #[expect(missing_docs, reason = "as of Ethernet")]
    RoceV2 { rate: BitRate, mtu: u16, vlan: u8 },
}

impl Link {
    /// Maximum IP packet in bytes; for `ib`, which has no IP, the maximum payload of a packet.
    pub fn mtu(self) -> u16 {
        match self {
            // The kernel's `lo` has an MTU of 65,536, but no IPv4 packet exceeds this.
            Self::Loopback => u16::MAX,
            Self::Veth { mtu }
            | Self::Ethernet { mtu, .. }
            | Self::Ipoib(Ipoib { mtu, .. })
            | Self::Ib(Ib { mtu, .. })
            | Self::RoceV1 { mtu, .. }
            | Self::RoceV2 { mtu, .. } => mtu,
        }
    }

    /// MAC rate in bit/s; `None` if the link is not Ethernet or RoCE.
    pub fn rate(self) -> Option<BitRate> {
        match self {
            Self::Loopback | Self::Veth { .. } | Self::Ipoib(_) | Self::Ib(_) => None,
            Self::Ethernet { rate, .. } | Self::RoceV1 { rate, .. } | Self::RoceV2 { rate, .. } => {
                Some(rate)
            }
        }
    }

    /// Data rate in bit/s after line coding; `None` if there is no wire.
    ///
    /// Exact, because a rounded 54.54 Gbit/s for 4X FDR would make every ceiling too low.
    pub fn rate_bps(self) -> Option<Exact> {
        match self {
            Self::Ipoib(Ipoib { lanes, speed, .. }) | Self::Ib(Ib { lanes, speed, .. }) => {
                speed.data_bps(lanes)
            }
            other => Exact::new(u128::from(other.rate()?.0), 1),
        }
    }

    /// Maximum payload of an InfiniBand packet in bytes, 256 to 4096; `None` if the link does not carry verbs.
    ///
    /// RoCE leaves 96 bytes of the Ethernet MTU for headers (Linux, `iboe_get_mtu`), so an MTU of 1500 gives 1024.
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

    /// The corresponding link for verbs: RoCEv2 for Ethernet, InfiniBand for IPoIB, otherwise the link itself.
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

    /// Whether packets cross a medium with a rate of its own. Only such a link has ceilings and floors.
    pub fn has_wire(self) -> bool {
        !matches!(self, Self::Loopback | Self::Veth { .. })
    }
}
