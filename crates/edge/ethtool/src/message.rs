//! Answers of ethtool netlink as functions of bytes: the body of a message behind `struct genlmsghdr`
//! (linux/ethtool_netlink.h, Documentation/networking/ethtool-netlink.rst). An attribute that a driver does not report
//! is `None`.

use crate::netlink::{attribute, attributes, number, string};

/// A feature of a device, such as `tx-tcp-segmentation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The kernel's name (net/ethtool/common.c), as in the indented lines of `ethtool -k`.
    pub name: String,
    /// Whether it is in use.
    pub is_on: bool,
    /// Whether it was requested; false for fixed features. A requested feature is off while one that it needs is off.
    pub is_requested: bool,
    /// Whether the device does not let it be changed.
    pub is_fixed: bool,
}

/// Interrupt coalescing of a device: how long, and for how many frames, an interrupt is delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Delay of the interrupt after a frame was received, in microseconds (`rx-usecs`).
    pub rx_usecs: Option<u32>,
    /// Received frames after which the interrupt is not delayed further (`rx-frames`).
    pub rx_frames: Option<u32>,
    /// Delay of the interrupt after a frame was sent, in microseconds (`tx-usecs`).
    pub tx_usecs: Option<u32>,
    /// Sent frames after which the interrupt is not delayed further (`tx-frames`).
    pub tx_frames: Option<u32>,
    /// Whether the device adapts the delay of receive interrupts to the load (`adaptive-rx`).
    pub adaptive_rx: Option<bool>,
    /// Whether the device adapts the delay of send interrupts to the load (`adaptive-tx`).
    pub adaptive_tx: Option<bool>,
}

/// Sizes of the rings of each queue, in descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Receive ring.
    pub rx: Option<u32>,
    /// Largest receive ring.
    pub rx_max: Option<u32>,
    /// Send ring.
    pub tx: Option<u32>,
    /// Largest send ring.
    pub tx_max: Option<u32>,
}

/// Numbers of channels: queues with an interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Channels that only receive.
    pub rx: Option<u32>,
    /// Largest number of channels that only receive.
    pub rx_max: Option<u32>,
    /// Channels that only send.
    pub tx: Option<u32>,
    /// Largest number of channels that only send.
    pub tx_max: Option<u32>,
    /// Channels that send and receive.
    pub combined: Option<u32>,
    /// Largest number of channels that send and receive.
    pub combined_max: Option<u32>,
}

/// Duplex mode (`DUPLEX_*` of linux/ethtool.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// One direction at a time.
    Half,
    /// Both directions at once.
    Full,
}

impl Duplex {
    /// Name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Full => "full",
        }
    }
}

/// Connector (`PORT_*` of linux/ethtool.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    /// Twisted pair.
    TwistedPair,
    /// Attachment unit interface.
    Aui,
    /// Media-independent interface.
    Mii,
    /// Fibre.
    Fibre,
    /// Coaxial cable.
    Bnc,
    /// Direct attach copper.
    DirectAttach,
}

impl Connector {
    /// Name as in ethtool(8), in lower case where it is no abbreviation.
    pub fn name(self) -> &'static str {
        match self {
            Self::TwistedPair => "twisted pair",
            Self::Aui => "AUI",
            Self::Mii => "MII",
            Self::Fibre => "fibre",
            Self::Bnc => "BNC",
            Self::DirectAttach => "direct attach copper",
        }
    }
}

/// The link of a device. A value that the driver reports as unknown is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Speed, in bit/s.
    pub speed_bps: Option<u64>,
    /// Lanes.
    pub lanes: Option<u32>,
    /// Duplex mode.
    pub duplex: Option<Duplex>,
    /// Connector.
    pub connector: Option<Connector>,
}

// Attributes of linux/ethtool_netlink.h.
const FEATURES_HW: u16 = 2;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const FEATURES_NOCHANGE: u16 = 5;
const BITSET_NOMASK: u16 = 1;
pub(crate) const BITSET_BITS: u16 = 3;
pub(crate) const BITSET_BITS_BIT: u16 = 1;
pub(crate) const BITSET_BIT_NAME: u16 = 2;
pub(crate) const BITSET_BIT_VALUE: u16 = 3;
pub(crate) const COALESCE_RX_USECS: u16 = 2;
pub(crate) const COALESCE_RX_MAX_FRAMES: u16 = 3;
pub(crate) const COALESCE_TX_USECS: u16 = 6;
pub(crate) const COALESCE_TX_MAX_FRAMES: u16 = 7;
pub(crate) const COALESCE_USE_ADAPTIVE_RX: u16 = 11;
pub(crate) const COALESCE_USE_ADAPTIVE_TX: u16 = 12;
const RINGS_RX_MAX: u16 = 2;
const RINGS_TX_MAX: u16 = 5;
pub(crate) const RINGS_RX: u16 = 6;
pub(crate) const RINGS_TX: u16 = 9;
const CHANNELS_RX_MAX: u16 = 2;
const CHANNELS_TX_MAX: u16 = 3;
const CHANNELS_COMBINED_MAX: u16 = 5;
const CHANNELS_RX_COUNT: u16 = 6;
const CHANNELS_TX_COUNT: u16 = 7;
const CHANNELS_COMBINED_COUNT: u16 = 9;
const LINKMODES_SPEED: u16 = 5;
const LINKMODES_DUPLEX: u16 = 6;
const LINKMODES_LANES: u16 = 9;
const LINKINFO_PORT: u16 = 2;

/// `SPEED_UNKNOWN` of linux/ethtool.h.
const SPEED_UNKNOWN: u32 = u32::MAX;

fn u32_of(body: &[u8], kind: u16) -> Option<u32> {
    number(attribute(body, kind)?).map(u32::from_ne_bytes)
}

fn u8_of(body: &[u8], kind: u16) -> Option<u8> {
    attribute(body, kind)?.first().copied()
}

/// Names and values of a bitset in its verbose form. Without a mask, bits that are not listed are 0.
fn bits(bitset: &[u8]) -> impl Iterator<Item = (&str, bool)> {
    let has_no_mask = attribute(bitset, BITSET_NOMASK).is_some();
    let listed = attributes(attribute(bitset, BITSET_BITS).unwrap_or_default());
    listed.filter(|(kind, _)| *kind == BITSET_BITS_BIT).filter_map(move |(_, bit)| {
        let name = string(attribute(bit, BITSET_BIT_NAME)?).filter(|name| !name.is_empty())?;
        Some((name, has_no_mask || attribute(bit, BITSET_BIT_VALUE).is_some()))
    })
}

/// Parses ETHTOOL_MSG_FEATURES_GET_REPLY; `None` if it lacks a bitset. Which features can be changed is listed with a
/// mask of all features, so that it names each.
pub fn features(body: &[u8]) -> Option<Vec<Feature>> {
    let [changeable, requested, on, never_changed] =
        [FEATURES_HW, FEATURES_WANTED, FEATURES_ACTIVE, FEATURES_NOCHANGE]
            .map(|kind| attribute(body, kind));
    let (changeable, requested, on, never_changed) = (changeable?, requested?, on?, never_changed?);
    let has = |bitset, name| bits(bitset).any(|(set, is_on)| set == name && is_on);
    let features = bits(changeable).map(|(name, is_changeable)| Feature {
        name: name.to_owned(),
        is_on: has(on, name),
        is_requested: has(requested, name),
        is_fixed: !is_changeable || has(never_changed, name),
    });
    Some(features.collect())
}

/// Parses ETHTOOL_MSG_COALESCE_GET_REPLY.
pub fn coalescing(body: &[u8]) -> Coalescing {
    Coalescing {
        rx_usecs: u32_of(body, COALESCE_RX_USECS),
        rx_frames: u32_of(body, COALESCE_RX_MAX_FRAMES),
        tx_usecs: u32_of(body, COALESCE_TX_USECS),
        tx_frames: u32_of(body, COALESCE_TX_MAX_FRAMES),
        adaptive_rx: u8_of(body, COALESCE_USE_ADAPTIVE_RX).map(|value| value != 0),
        adaptive_tx: u8_of(body, COALESCE_USE_ADAPTIVE_TX).map(|value| value != 0),
    }
}

/// Parses ETHTOOL_MSG_RINGS_GET_REPLY.
pub fn rings(body: &[u8]) -> Rings {
    Rings {
        rx: u32_of(body, RINGS_RX),
        rx_max: u32_of(body, RINGS_RX_MAX),
        tx: u32_of(body, RINGS_TX),
        tx_max: u32_of(body, RINGS_TX_MAX),
    }
}

/// Parses ETHTOOL_MSG_CHANNELS_GET_REPLY.
pub fn channels(body: &[u8]) -> Channels {
    Channels {
        rx: u32_of(body, CHANNELS_RX_COUNT),
        rx_max: u32_of(body, CHANNELS_RX_MAX),
        tx: u32_of(body, CHANNELS_TX_COUNT),
        tx_max: u32_of(body, CHANNELS_TX_MAX),
        combined: u32_of(body, CHANNELS_COMBINED_COUNT),
        combined_max: u32_of(body, CHANNELS_COMBINED_MAX),
    }
}

/// Parses ETHTOOL_MSG_LINKMODES_GET_REPLY, whose speed is in Mbit/s.
pub fn link_modes(body: &[u8]) -> Link {
    // Some virtual devices report 0 for unknown, too.
    let speed = u32_of(body, LINKMODES_SPEED).filter(|&mbps| mbps != SPEED_UNKNOWN && mbps != 0);
    Link {
        speed_bps: speed.map(|mbps| u64::from(mbps) * 1_000_000),
        lanes: u32_of(body, LINKMODES_LANES).filter(|&lanes| lanes != 0),
        duplex: match u8_of(body, LINKMODES_DUPLEX) {
            Some(0) => Some(Duplex::Half),
            Some(1) => Some(Duplex::Full),
            _ => None,
        },
        connector: None,
    }
}

/// Parses ETHTOOL_MSG_LINKINFO_GET_REPLY.
pub fn connector(body: &[u8]) -> Option<Connector> {
    match u8_of(body, LINKINFO_PORT)? {
        0 => Some(Connector::TwistedPair),
        1 => Some(Connector::Aui),
        2 => Some(Connector::Mii),
        3 => Some(Connector::Fibre),
        4 => Some(Connector::Bnc),
        5 => Some(Connector::DirectAttach),
        _ => None,
    }
}
