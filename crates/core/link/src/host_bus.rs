//! The bus between host memory and network devices.

use std::fmt;
use std::str::FromStr;

use fabricmark_units::BitRate;
use fabricmark_wire::{Bus, Exact};

use crate::{Framing, Invalid, Line};

/// A bus by name, or only a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBus {
    /// Bit/s of IP packets, both directions together.
    Rate(BitRate),
    /// A standard bus; the headers of its transactions are not counted.
    Named(Bus),
}

impl HostBus {
    /// The line that models the bus.
    pub fn line(self) -> Result<Line, Invalid> {
        match self {
            Self::Rate(rate) => Line::new(rate, Framing::NONE),
            Self::Named(bus) => Line::of_bus(bus).ok_or(Invalid::Zero("the rate")),
        }
    }

    /// Bit/s of IP packets, of each direction if the bus is duplex; `None` for a bus that does not exist.
    pub fn bps(self) -> Option<Exact> {
        match self {
            Self::Rate(rate) => Exact::new(rate.0.into(), 1),
            Self::Named(bus) => bus.raw_bps(),
        }
    }

    /// Whether each direction has the full rate: PCI Express has lanes for each, PCI-X shares its wires.
    pub fn is_duplex(self) -> bool {
        matches!(self, Self::Named(Bus::Pcie { .. }))
    }
}

impl FromStr for HostBus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.parse().ok().map(Self::Named);
        let rate = || text.parse().ok().filter(|rate: &BitRate| rate.0 > 0).map(Self::Rate);
        named.or_else(rate).ok_or_else(|| {
            format!(
                "`bus`: `{text}` is not a bus: give pci-x:133, pcie:1x8 or the like, or a rate \
                     such as 8.53G"
            )
        })
    }
}

impl fmt::Display for HostBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => rate.fmt(f),
            Self::Named(bus) => bus.fmt(f),
        }
    }
}
