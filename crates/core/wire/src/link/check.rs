//! Validates the rate, MTU and number of tags of a link.

use fabricmark_units::BitRate;

use super::text::ParseLinkError;
use super::{IB_MTUS, Ib, Ipoib, IpoibMode, Link, MTU_MIN, VLAN_MAX};
use crate::frame::{IPV4_MTU_MIN, ROCE_HEADERS_MAX};

/// Valid MTUs of a link.
pub(super) struct Range {
    smallest: u16,
    largest: u16,
    /// Reason for the limits, for error messages.
    why: &'static str,
}

impl Range {
    pub const IP: Self = Self { smallest: MTU_MIN, largest: u16::MAX, why: "IPv6 needs 1280" };
    pub const ROCE: Self = Self {
        smallest: IB_MTUS[0] + ROCE_HEADERS_MAX,
        largest: u16::MAX,
        why: "at least 256 bytes of payload and 96 of headers",
    };

    pub fn of_ipoib(mode: IpoibMode, ib_mtu: u16) -> Self {
        let why = match mode {
            IpoibMode::Datagram => {
                "a datagram carries ib-mtu minus 4 bytes; mode=connected \
                                    carries more"
            }
            IpoibMode::Connected => "the maximum of Linux",
        };
        Self { smallest: IPV4_MTU_MIN, largest: mode.mtu_max(ib_mtu), why }
    }

    /// Parses an MTU and checks its range; `None` gives the default.
    pub fn read(&self, text: Option<&str>, default: u16) -> Result<u16, ParseLinkError> {
        let Some(text) = text else { return Ok(default) };
        let mtu = text.parse().map_err(|_| self.error(text.to_owned()))?;
        self.check(mtu)?;
        Ok(mtu)
    }

    fn check(&self, mtu: u16) -> Result<(), ParseLinkError> {
        let is_in_range = (self.smallest..=self.largest).contains(&mtu);
        if is_in_range { Ok(()) } else { Err(self.error(mtu.to_string())) }
    }

    fn error(&self, text: String) -> ParseLinkError {
        let Self { smallest, largest, why } = *self;
        ParseLinkError::Mtu { text, smallest, largest, why }
    }
}

impl Link {
    /// Checks that rate, MTU and tags are in the range that the grammar accepts.
    pub fn check(self) -> Result<(), ParseLinkError> {
        match self {
            Self::Loopback => Ok(()),
            Self::Veth { mtu } => Range::IP.check(mtu),
            Self::Ethernet { rate, mtu, vlan }
            | Self::RoceV1 { rate, mtu, vlan }
            | Self::RoceV2 { rate, mtu, vlan } => {
                check_rate(rate, self.kind())?;
                let range = if let Self::Ethernet { .. } = self { Range::IP } else { Range::ROCE };
                range.check(mtu)?;
                check_vlan(vlan)
            }
            Self::Ib(Ib { mtu, .. }) => check_ib_mtu(mtu, "mtu"),
            Self::Ipoib(Ipoib { mode, ib_mtu, mtu, .. }) => {
                check_ib_mtu(ib_mtu, "ib-mtu")?;
                Range::of_ipoib(mode, ib_mtu).check(mtu)
            }
        }
    }
}

fn check_rate(rate: BitRate, kind: &'static str) -> Result<(), ParseLinkError> {
    if rate.0 > 0 { Ok(()) } else { Err(ParseLinkError::Rate { text: format!("{kind}:0"), kind }) }
}

pub(super) fn check_ib_mtu(mtu: u16, key: &'static str) -> Result<(), ParseLinkError> {
    let error = || ParseLinkError::IbMtu { key, text: mtu.to_string() };
    if IB_MTUS.contains(&mtu) { Ok(()) } else { Err(error()) }
}

pub(super) fn check_vlan(vlan: u8) -> Result<(), ParseLinkError> {
    if vlan <= VLAN_MAX { Ok(()) } else { Err(ParseLinkError::Vlan(vlan.to_string())) }
}
