//! Limits of figures: what the wire allows.

use fabricmark_wire::{Ceiling, Family, Operation, Stack};

use super::figures::{Load, Quantity};
use crate::limit::{ceiling, floor, rdma, stream_ceiling, tcp};

/// Limits of one figure, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// No correct measurement exceeds it.
    pub bound: f64,
    /// Limit of messages that are not merged: for TCP with timestamps, for UDP equal to the bound.
    pub alone: f64,
}

/// The limit of a figure at one payload over `link`; `None` if there is no wire.
///
/// The bound of a latency assumes P1's testbed: one cut-through switch, no propagation delay, no host time.
pub fn limit(
    quantity: Quantity,
    load: Load,
    link: &str,
    family: Family,
    payload: u64,
) -> Option<Limit> {
    let alone = |stack| match quantity {
        Quantity::GoodputMbps => mbps(ceiling(link, stack, payload)),
        Quantity::LatencyUs => Some(floor(link, 1, stack, payload)?.time_ns.as_f64() / 1e3),
        Quantity::SwitchingMbps | Quantity::InteractionsPerS => None,
    };
    match load {
        Load::Udp => {
            let bound = alone(Stack::Udp { family })?;
            Some(Limit { bound, alone: bound })
        }
        Load::Tcp => {
            let bound = match quantity {
                Quantity::GoodputMbps => tcp_stream_mbps(link, family, false)?,
                Quantity::LatencyUs | Quantity::SwitchingMbps | Quantity::InteractionsPerS => {
                    alone(tcp(family, false))?
                }
            };
            Some(Limit { bound, alone: alone(tcp(family, true))? })
        }
        Load::Mpi(_) | Load::Shop => None,
    }
}

fn mbps(ceiling: Option<Ceiling>) -> Option<f64> {
    Some(ceiling?.goodput_bps.as_f64() / 1e6)
}

/// Ceiling of a TCP stream in Mbit/s: a bound without timestamps.
pub fn tcp_stream_mbps(link: &str, family: Family, has_stamps: bool) -> Option<f64> {
    mbps(stream_ceiling(link, tcp(family, has_stamps)))
}

/// Ceiling of SENDs of `payload` bytes over RC in Mbit/s: a bound. `family` matters for RoCEv2 only.
pub fn send_mbps(link: &str, family: Family, payload: u64) -> Option<f64> {
    mbps(ceiling(link, rdma(Operation::Send, family), payload))
}

/// One-way floor of an RDMA WRITE of `payload` bytes without a switch, in microseconds: a bound.
pub fn write_floor_us(link: &str, payload: u64) -> Option<f64> {
    let floor = floor(link, 0, rdma(Operation::Write, Family::V4), payload)?;
    Some(floor.time_ns.as_f64() / 1e3)
}
