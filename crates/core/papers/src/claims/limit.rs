//! What the wire allows beside a figure.

use fabricmark_wire::{
    self as wire, Ceiling, Family, Impossible, Link, Operation, Path, Stack, Switching, frame,
};

use super::figures::{Load, Quantity};

/// Limits of one figure, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// No correct measurement is beyond it.
    pub bound: f64,
    /// The limit if every message travels alone: for TCP it stands only while no writes are merged,
    /// and with time stamps; for UDP it is the bound.
    pub alone: f64,
}

/// The limit of a figure at one payload over `link`; nothing where there is no wire.
///
/// The bound of a latency is that of P1's testbed: one switch that cuts through, a cable without
/// length, hosts that take no time.
pub fn limit(
    quantity: Quantity,
    load: Load,
    link: &str,
    family: Family,
    payload: u64,
) -> Option<Limit> {
    let link: Link = link.parse().ok()?;
    let path = Path::through(link, 1, Switching::CutThrough);
    let alone = |stack| match quantity {
        Quantity::GoodputMbps => mbps(wire::goodput(link, stack, payload)),
        Quantity::LatencyUs => {
            Some(wire::one_way_floor(&path, stack, payload).ok()?.time_ns.as_f64() / 1e3)
        }
    };
    match load {
        Load::Udp => {
            let bound = alone(Stack::Udp { family })?;
            Some(Limit { bound, alone: bound })
        }
        Load::Tcp => {
            let plain = Stack::Tcp { family, option_bytes: 0 };
            let bound = match quantity {
                Quantity::GoodputMbps => mbps(wire::stream_goodput(link, plain))?,
                Quantity::LatencyUs => alone(plain)?,
            };
            Some(Limit { bound, alone: alone(stamped(family))? })
        }
        Load::Mpi(_) => None,
    }
}

fn stamped(family: Family) -> Stack {
    Stack::Tcp { family, option_bytes: frame::TCP_TIMESTAMPS }
}

fn mbps(ceiling: Result<Ceiling, Impossible>) -> Option<f64> {
    Some(ceiling.ok()?.goodput_bps.as_f64() / 1e6)
}

/// The ceiling of a TCP stream in Mbit/s: a bound without time stamps.
pub fn tcp_stream_mbps(link: &str, family: Family, has_stamps: bool) -> Option<f64> {
    let plain = Stack::Tcp { family, option_bytes: 0 };
    let stack = if has_stamps { stamped(family) } else { plain };
    mbps(wire::stream_goodput(link.parse().ok()?, stack))
}

/// The ceiling of sends of `payload` bytes over a reliable connection in Mbit/s: a bound. The IP version
/// is that under RoCEv2.
pub fn send_mbps(link: &str, family: Family, payload: u64) -> Option<f64> {
    let stack = Stack::Rc { operation: Operation::Send, immediate: false, family };
    mbps(wire::goodput(link.parse().ok()?, stack, payload))
}

/// The floor of a write of `payload` bytes through a cable, in microseconds: a bound.
pub fn write_floor_us(link: &str, payload: u64) -> Option<f64> {
    let stack = Stack::Rc { operation: Operation::Write, immediate: false, family: Family::V4 };
    let path = Path::direct(link.parse().ok()?);
    Some(wire::one_way_floor(&path, stack, payload).ok()?.time_ns.as_f64() / 1e3)
}
