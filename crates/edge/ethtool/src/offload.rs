use crate::message::Feature;

/// A group of features that ethtool(8) switches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation by the kernel just before the driver.
    Gso,
    /// Merging of received segments by the kernel.
    Gro,
    /// Merging of received segments by the device.
    Lro,
    /// Verification of received checksums by the device.
    RxChecksum,
    /// Computation of sent checksums by the device.
    TxChecksum,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Self; 6] =
        [Self::Tso, Self::Gso, Self::Gro, Self::Lro, Self::RxChecksum, Self::TxChecksum];

    /// The short name in ethtool(8).
    pub fn name(self) -> &'static str {
        match self {
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
            Self::Lro => "lro",
            Self::RxChecksum => "rx",
            Self::TxChecksum => "tx",
        }
    }

    /// Whether a feature belongs to this offload. Names are those of net/ethtool/common.c; the groups are
    /// `NETIF_F_ALL_TSO` and `NETIF_F_CSUM_MASK` with the CRCs of SCTP and FCoE (linux/netdev_features.h,
    /// `ethtool_get_feature_mask` in net/ethtool/ioctl.c).
    pub fn has(self, feature: &str) -> bool {
        match self {
            Self::Tso => feature.starts_with("tx-tcp") && feature.ends_with("-segmentation"),
            Self::Gso => feature == "tx-generic-segmentation",
            Self::Gro => feature == "rx-gro",
            Self::Lro => feature == "rx-lro",
            Self::RxChecksum => feature == "rx-checksum",
            Self::TxChecksum => feature.starts_with("tx-checksum-"),
        }
    }

    /// Whether one of its features is on; `None` if the kernel lists none.
    pub fn is_on(self, features: &[Feature]) -> Option<bool> {
        let mut members = features.iter().filter(|feature| self.has(&feature.name)).peekable();
        members.peek()?;
        Some(members.any(|feature| feature.is_on))
    }

    /// Whether none of its features can be changed; `None` if the kernel lists none.
    pub fn is_fixed(self, features: &[Feature]) -> Option<bool> {
        let mut members = features.iter().filter(|feature| self.has(&feature.name)).peekable();
        members.peek()?;
        Some(members.all(|feature| feature.is_fixed))
    }
}
