//! Host buses between memory and network adapter, which limit goodput like a link.

use std::fmt;
use std::str::FromStr;

use crate::exact::inputs;
use crate::{Ceiling, Exact, Impossible, Kind};

/// A host bus, written `pci-x:133` or `pcie:3x16` (generation 3, 16 lanes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// PCI-X, 64 bits at 133.33 MHz; both directions share the bus.
    PciX133,
    /// PCI Express; the rate applies to each direction.
    Pcie {
        /// Generation, 1 to 5.
        generation: u8,
        /// Number of lanes: 1, 2, 4, 8, 12, 16 or 32.
        lanes: u8,
    },
}

/// Link widths of PCI Express.
const LANES: [u8; 7] = [1, 2, 4, 8, 12, 16, 32];

impl Bus {
    /// Rate in bit/s after line coding, including transaction headers. `None` for a bus that does not exist.
    pub fn raw_bps(self) -> Option<Exact> {
        match self {
            // 64 bits, 400/3 million times a second.
            Self::PciX133 => Exact::new(64 * 400_000_000, 3),
            Self::Pcie { generation, lanes } => {
                // Signalling rate per lane, and line coding: PCI Express Base Specification 1.1 to 5.0.
                let (lane_bps, data, coded) = match generation {
                    1 => (2_500_000_000, 8, 10),
                    2 => (5_000_000_000, 8, 10),
                    3 => (8_000_000_000, 128, 130),
                    4 => (16_000_000_000, 128, 130),
                    5 => (32_000_000_000, 128, 130),
                    _ => return None,
                };
                let is_width = LANES.contains(&lanes);
                Exact::new(u128::from(lanes) * lane_bps * data, coded).filter(|_| is_width)
            }
        }
    }

    /// Ceiling of all data that crosses the bus: its raw rate. A bound.
    pub fn goodput(self) -> Result<Ceiling, Impossible> {
        let raw = self.raw_bps().ok_or_else(|| Impossible::Bus(self.to_string()))?;
        Ok(Ceiling {
            kind: Kind::Bound,
            goodput_bps: raw,
            formula: "raw_bps".to_owned(),
            inputs: inputs([("bus", self.to_string().into()), ("raw_bps", raw.into())]),
        })
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PciX133 => f.write_str("pci-x:133"),
            Self::Pcie { generation, lanes } => write!(f, "pcie:{generation}x{lanes}"),
        }
    }
}

impl FromStr for Bus {
    type Err = Impossible;

    /// Parses `pci-x:133` or `pcie:3x16`.
    fn from_str(text: &str) -> Result<Self, Impossible> {
        let pcie = |text: &str| {
            let (generation, lanes) = text.strip_prefix("pcie:")?.split_once('x')?;
            Some(Self::Pcie { generation: generation.parse().ok()?, lanes: lanes.parse().ok()? })
        };
        let bus = if text == "pci-x:133" { Some(Self::PciX133) } else { pcie(text) };
        bus.filter(|bus| bus.raw_bps().is_some()).ok_or_else(|| Impossible::Bus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gbps(text: &str) -> f64 {
        let bus: Bus = text.parse().unwrap();
        assert_eq!(bus.to_string(), text);
        bus.goodput().unwrap().goodput_bps.as_f64() / 1e9
    }

    #[test]
    fn a_bus_carries_its_raw_rate_at_most() {
        for (text, expected) in [("pci-x:133", 8.533), ("pcie:1x8", 16.0), ("pcie:3x16", 126.031)] {
            assert!((gbps(text) - expected).abs() < 0.000_5, "{text}");
        }
        assert_eq!(Bus::PciX133.goodput().unwrap().kind, Kind::Bound);
    }

    #[test]
    fn a_bus_that_does_not_exist_is_refused() {
        for text in ["pci", "pcie:6x16", "pcie:3x3", "pcie:3", "pci-x:66"] {
            assert_eq!(text.parse::<Bus>(), Err(Impossible::Bus(text.to_owned())));
        }
        assert!(Bus::Pcie { generation: 9, lanes: 1 }.goodput().is_err());
    }
}
