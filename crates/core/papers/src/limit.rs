//! What the wire under a published figure allows.

use fabricmark_wire::{self as wire, Bus, Family, Kind, Operation, Path, Stack, Switching, frame};

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
        Load::Fibre => "light through fibre (index 1.468) over the distance and back".to_owned(),
    }
}

const PLAIN: u8 = 0;

/// What carries the load; `None` for a load that has no packets.
fn stack(load: Load) -> Option<Stack> {
    let verbs = |operation| Stack::Rc { operation, immediate: false, family: Family::V4 };
    Some(match load {
        Load::Udp(family, _) => Stack::Udp { family },
        Load::Tcp(family, _) => Stack::Tcp { family, option_bytes: frame::TCP_TIMESTAMPS },
        Load::Stream(family) | Load::Relay(family) | Load::File(family, _) => {
            Stack::Tcp { family, option_bytes: PLAIN }
        }
        Load::Rdma => verbs(Operation::Send),
        Load::Write => verbs(Operation::Write),
        Load::Bus | Load::Fibre => return None,
    })
}

/// The ceiling of a rate in bit/s.
fn ceiling_bps(basis: Basis) -> Option<(f64, Kind)> {
    if basis.load == Load::Bus {
        let ceiling = Bus::Pcie { generation: 1, lanes: 8 }.goodput().ok()?;
        return Some((ceiling.goodput_bps.as_f64(), ceiling.kind));
    }
    let link = basis.link.parse().ok()?;
    let stack = stack(basis.load)?;
    let ceiling = match basis.load {
        Load::Udp(_, payload) | Load::Tcp(_, payload) => wire::goodput(link, stack, payload),
        _ => wire::stream_goodput(link, stack),
    }
    .ok()?;
    let crossings = if matches!(basis.load, Load::Relay(_)) { 2.0 } else { 1.0 };
    Some((ceiling.goodput_bps.as_f64() / crossings, ceiling.kind))
}

/// The floor of a time in seconds.
fn floor_secs(basis: Basis, cell: &Cell) -> Option<(f64, Kind)> {
    if basis.load == Load::Fibre {
        let metres = 1e3 * value("P3", &cell.place, "distance", "")?;
        return Some((2.0 * wire::fibre_delay(metres as u64).as_secs_f64(), Kind::Bound));
    }
    let link = basis.link.parse().ok()?;
    let (switches, payload) = match basis.load {
        Load::Udp(_, payload) | Load::Tcp(_, payload) => (1, payload),
        Load::File(_, bytes) => (0, bytes),
        Load::Write => (0, 0),
        _ => return None,
    };
    let path = Path::through(link, switches, Switching::CutThrough);
    let floor = wire::one_way_floor(&path, stack(basis.load)?, payload).ok()?;
    Some((floor.time_ns.as_f64() / 1e9, floor.kind))
}
