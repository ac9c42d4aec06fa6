//! What the wire under a published figure allows.

use fabricmark_wire::{self as wire, Kind, Layer4, Link, Path, frame};

use crate::basis::{Basis, Load, basis};
use crate::cell::{Cell, value};
use crate::number::base_unit;

/// A modelled limit beside a published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// How firmly it stands.
    pub kind: Kind,
    /// The limit in the unit of the cell: a ceiling of rates, a floor of times.
    pub value: f64,
    /// Whether it is a floor, so that a figure below it is impossible.
    pub is_floor: bool,
    /// What it was computed for: `UDP over ethernet:10G,mtu=1500`.
    pub over: String,
    /// What was assumed where the paper leaves it open; empty where it leaves nothing open.
    pub assumed: String,
}

impl Limit {
    /// How near `value`, in the limit's unit, comes to the limit: at most 1 for what is possible.
    pub fn efficiency(&self, value: f64) -> f64 {
        if self.is_floor { self.value / value } else { value / self.value }
    }
}

/// What the wire allows where `paper` prints `cell`; `None` where the wire says nothing about it.
pub fn limit(paper: &str, cell: &Cell) -> Option<Limit> {
    let basis = basis(paper, cell)?;
    let assumed = basis.assumed.into_iter().filter(|what| !what.is_empty()).collect::<Vec<_>>();
    let (factor, base) = base_unit(&cell.unit)?;
    let (base_value, kind) = match base {
        "bit/s" => ceiling_bps(basis)?,
        "s" => floor_secs(basis, cell)?,
        _ => return None,
    };
    let what = name(basis.load);
    let over = if basis.link.is_empty() { what } else { format!("{what} over {}", basis.link) };
    let is_floor = base == "s";
    let assumed = assumed.join(", ");
    Some(Limit { kind, value: base_value / factor, is_floor, over, assumed })
}

/// What is sent, in words.
fn name(load: Load) -> String {
    match load {
        Load::Udp(..) => "UDP".to_owned(),
        Load::Tcp(..) => "TCP".to_owned(),
        Load::Stream(family) => format!("a TCP stream over {family}"),
        Load::Relay(family) => format!("a relayed TCP stream over {family}"),
        Load::File(family, bytes) => format!("{bytes} bytes by TCP over {family}"),
        Load::Rdma => "RDMA in full packets".to_owned(),
        Load::Write => "one RDMA Write".to_owned(),
        Load::Bus => "eight lanes of PCIe 1.1 before packet headers".to_owned(),
        Load::Fibre => {
            format!("light through fibre (index {FIBRE_INDEX}) over the distance and back")
        }
    }
}

/// The ceiling of a rate in bit/s.
fn ceiling_bps(basis: Basis) -> Option<(f64, Kind)> {
    if basis.load == Load::Bus {
        return Some((PCIE_8_LANES_BPS, Kind::Bound));
    }
    let link: Link = basis.link.parse().ok()?;
    let ceiling = match basis.load {
        Load::Udp(family, payload) => wire::udp_goodput(link, family, payload),
        Load::Tcp(family, payload) => {
            wire::tcp_message_goodput(link, family, payload, frame::TCP_TIMESTAMPS)
        }
        Load::Stream(family) | Load::Relay(family) => wire::tcp_stream_goodput(link, family, 0),
        _ => None,
    }?;
    let crossings = if matches!(basis.load, Load::Relay(_)) { 2.0 } else { 1.0 };
    Some((ceiling.goodput_bps.as_f64() / crossings, ceiling.kind))
}

/// The floor of a time in seconds.
fn floor_secs(basis: Basis, cell: &Cell) -> Option<(f64, Kind)> {
    if basis.load == Load::Fibre {
        let metres = 1e3 * value("P3", &cell.place, "distance", "")?;
        return Some((2.0 * metres * FIBRE_INDEX / LIGHT_METRES_PER_SEC, Kind::Bound));
    }
    let link: Link = basis.link.parse().ok()?;
    let one_switch = Path { switches: 1, ..Path::default() };
    let stamps = Layer4::Tcp { option_bytes: frame::TCP_TIMESTAMPS };
    let plain = Layer4::Tcp { option_bytes: 0 };
    let floor = match basis.load {
        Load::Udp(family, payload) => {
            wire::one_way_floor(link, family, Layer4::Udp, payload, one_switch)
        }
        Load::Tcp(family, payload) => {
            wire::one_way_floor(link, family, stamps, payload, one_switch)
        }
        Load::File(family, bytes) => {
            wire::one_way_floor(link, family, plain, bytes, Path::default())
        }
        _ => None,
    }?;
    Some((floor.time_ns.as_f64() / 1e9, floor.kind))
}

/// Speed of light in vacuum (SI, by definition).
const LIGHT_METRES_PER_SEC: f64 = 299_792_458.0;

/// Group index of silica fibre at 1550 nm (ITU-T G.652 fibre, makers' data sheets).
const FIBRE_INDEX: f64 = 1.468;

/// PCIe 1.1: 8 lanes of 2.5 Gb/s of which 8b/10b coding leaves 80 % (PCI Express Base Specification 1.1).
const PCIE_8_LANES_BPS: f64 = 16e9;
