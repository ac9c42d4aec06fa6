//! Host buses between memory and network adapter, which limit goodput like a link.

use std::fmt;
use std::str::FromStr;

use crate::exact::inputs;
use crate::message::{Message, segment_room};
use crate::{Ceiling, Exact, Impossible, Kind, Stack};

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

/// Ceiling of a TCP stream, or of datagrams of `payload` bytes, whose IP packets of at most `mtu` bytes cross a bus with
/// this rate. Acknowledgements are ignored; with TCP options the ceiling is conditional. Verbs are not IP packets.
pub fn bus_goodput(
    bus_bps: Exact,
    stack: Stack,
    mtu: u16,
    payload: u64,
) -> Result<Ceiling, Impossible> {
    let mtu = u64::from(mtu);
    let (payload, kind) = match stack {
        Stack::Tcp { family, option_bytes } => {
            let kind = if option_bytes == 0 { Kind::Bound } else { Kind::Conditional };
            (segment_room(family, mtu, option_bytes)?, kind)
        }
        Stack::Udp { .. } => (payload, Kind::Bound),
        Stack::Rc { .. } | Stack::Ud { .. } => return Err(Impossible::NotIp),
    };
    let message = Message::cut(stack, mtu, payload)?;
    let bytes: u64 = message.runs.iter().map(|run| run.count.saturating_mul(run.bytes)).sum();
    let goodput_bps =
        bus_bps.scaled(payload.into(), u128::from(bytes.max(1))).ok_or(Impossible::TooLarge)?;
    Ok(Ceiling {
        kind,
        goodput_bps,
        formula: "bus_bps * carried_bytes / ip_bytes".to_owned(),
        inputs: inputs([
            ("bus_bps", bus_bps.into()),
            // Not `payload_bytes`, which marks ceilings of single writes.
            ("carried_bytes", payload.into()),
            ("ip_bytes", bytes.into()),
        ]),
    })
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
    fn ip_packets_cross_a_bus_with_their_headers() {
        let bus_bps = Exact::new(10_000_000_000, 1).unwrap();
        let (family, mtu) = (crate::Family::V4, 1500);
        let bps = |stack, payload| {
            bus_goodput(bus_bps, stack, mtu, payload).unwrap().goodput_bps.as_f64()
        };
        // 1,460 bytes in a packet of 1,500.
        assert_eq!(bps(Stack::Tcp { family, option_bytes: 0 }, 0), 10e9 * 1460.0 / 1500.0);
        assert_eq!(bps(Stack::Tcp { family, option_bytes: 12 }, 0), 10e9 * 1448.0 / 1500.0);
        assert_eq!(bps(Stack::Udp { family }, 1000), 10e9 * 1000.0 / 1028.0);
        // Two fragments: 1,480 bytes of the datagram, and 528.
        assert_eq!(bps(Stack::Udp { family }, 2000), 10e9 * 2000.0 / (1500.0 + 548.0));
        let verbs = Stack::Ud { immediate: false, family };
        assert!(bus_goodput(bus_bps, verbs, mtu, 64).is_err());
    }

    #[test]
    fn a_bus_that_does_not_exist_is_refused() {
        for text in ["pci", "pcie:6x16", "pcie:3x3", "pcie:3", "pci-x:66"] {
            assert_eq!(text.parse::<Bus>(), Err(Impossible::Bus(text.to_owned())));
        }
        assert!(Bus::Pcie { generation: 9, lanes: 1 }.goodput().is_err());
    }
}
