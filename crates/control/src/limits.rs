//! What the wire allows a point, and whether a run went beyond it.

use fabricmark_lab::Shaper;
use fabricmark_plan::{Direction, Pace, Pattern, Point, Transport};
use fabricmark_record::{Counts, Figures, Limits, Warning};
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::{
    self as wire, Ceiling, Floor, Kind, Path, Stack, frame, goodput, lfn, quic_goodput,
    stream_goodput,
};

/// The hard bounds first, the tighter one before the other, then what holds under a condition. What bounds
/// a stream bounds bursts, too, which are silent until they are answered. A token bucket passes a message
/// that fits into it at once, so a shaped link has no floor of the round trip; an emulated one has.
pub(crate) fn limits(point: &Point) -> Limits {
    let (link, family, Bytes(payload)) = (point.link, point.family, point.payload);
    let tcp = |option_bytes| stream_goodput(link, Stack::Tcp { family, option_bytes });
    // What has no wire has no ceiling either.
    let ceilings: Vec<Ceiling> = match (point.pattern, point.transport) {
        (Pattern::Stream | Pattern::Burst, Transport::Udp) => {
            goodput(link, Stack::Udp { family }, payload).into_iter().collect()
        }
        (Pattern::Stream | Pattern::Burst, Transport::Tcp | Transport::Mptcp) => {
            let stamped = Stack::Tcp { family, option_bytes: frame::TCP_TIMESTAMPS };
            let each_write = goodput(link, stamped, payload);
            [tcp(0), tcp(frame::TCP_TIMESTAMPS), each_write].into_iter().flatten().collect()
        }
        // Records only add to what TCP carries, so that its bounds on a stream hold. What holds for
        // writes that leave alone does not: a record is longer than its payload.
        (Pattern::Stream | Pattern::Burst, Transport::Tls) => {
            [tcp(0), tcp(frame::TCP_TIMESTAMPS)].into_iter().flatten().collect()
        }
        (Pattern::Stream | Pattern::Burst, Transport::Quic) => {
            quic_goodput(link, family).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let ceilings = match point.direction {
        Some(Direction::Both) => ceilings.into_iter().map(Ceiling::both_ways).collect(),
        _ => ceilings,
    };
    Limits { ceilings: by_window(point, ceilings), rtt_floor: floor(point) }
}

/// The ceilings with those of TCP's window over an emulated round trip: its largest one bounds any
/// connection, the one that was asked for bounds those whose kernel grants no more.
fn by_window(point: &Point, ceilings: Vec<Ceiling>) -> Vec<Ceiling> {
    let is_stream = point.pattern == Pattern::Stream && point.transport.has_tcp();
    let Some(rtt) = point.rtt.filter(|_| is_stream && point.flows == 1) else { return ceilings };
    let limit = |kind, bytes| {
        let figure = lfn::window_limit(bytes, rtt)?;
        let lfn::Value::Exact(goodput_bps) = figure.value else { return None };
        let formula = figure.formula.to_owned();
        Some(Ceiling { kind, goodput_bps, formula, inputs: figure.inputs })
    };
    let asked = point.window_bytes().and_then(|Bytes(bytes)| limit(Kind::Conditional, bytes));
    let mut ceilings: Vec<Ceiling> =
        ceilings.into_iter().chain(limit(Kind::Bound, lfn::WINDOW_MAX)).chain(asked).collect();
    ceilings.sort_by(|a, b| {
        let key = |c: &Ceiling| (c.kind != Kind::Bound, c.goodput_bps.as_f64());
        let (one, other) = (key(a), key(b));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    ceilings
}

/// The least round trip over an emulated link: its delay both ways and the packets' time on its wire.
fn floor(point: &Point) -> Option<Floor> {
    let (family, Bytes(payload)) = (point.family, point.payload);
    let is_exchange = matches!(point.pattern, Pattern::PingPong | Pattern::Exchange);
    point.words().filter(|_| is_exchange && point.pace == Pace::Closed)?;
    let stack = match point.transport {
        Transport::Udp => Stack::Udp { family },
        Transport::Tcp => Stack::Tcp { family, option_bytes: 0 },
        _ => return None,
    };
    let response = point.response.map_or(payload, |Bytes(bytes)| bytes);
    let half = Nanos(point.rtt.unwrap_or_default().0 / 2);
    let path = Path { propagation_ns: half, ..Path::direct(point.link) };
    wire::rtt_floor(&path, stack, payload, response).ok()
}

/// A warning where more arrived than the hard bound and its tolerances allow. `late_ns` is how much later
/// than due an emulator delivered at worst: what it was late with when counting began counts, too, as does what
/// waited behind a hole, and has a warning of its own where it matters; `sent_again` are segments.
pub(crate) fn above_ceiling(
    point: &Point,
    figures: &Figures,
    limits: &Limits,
    counts: &Counts,
    sent_again: u64,
    late_ns: u64,
) -> Option<Warning> {
    let goodput_bps = figures.goodput_bps?.value;
    let bound = limits.ceilings.iter().find(|c| c.kind == Kind::Bound)?;
    let bound_bps = bound.goodput_bps.as_f64();
    let shaper = Shaper::of(&point.link).filter(|_| point.words().is_none());
    let bucket = shaper.map_or(0, |shaper| shaper.bucket_bytes());
    let earlier_bytes = bucket + counts.waiting_bytes;
    let seconds = counts.elapsed_ns as f64 / 1e9;
    if !wire::exceeds(goodput_bps, bound_bps, earlier_bytes, seconds) {
        return None;
    }
    // What came behind a lost segment waits for it in the kernel, and counts when that has come again: as
    // much as a window, which is at most the largest one.
    let window = point.window_bytes().or(point.bdp()).filter(|_| sent_again > 0);
    let behind_hole = window.map_or(0, |Bytes(bytes)| bytes.min(lfn::WINDOW_MAX));
    let late_bytes = behind_hole + (bound_bps * late_ns as f64 / 8e9).ceil() as u64;
    if !wire::exceeds(goodput_bps, bound_bps, earlier_bytes + late_bytes, seconds) {
        return Some(Warning::Backlog { bytes: late_bytes });
    }
    let allowed_bps = wire::allowed(bound_bps, earlier_bytes + late_bytes, seconds);
    Some(Warning::AboveCeiling { goodput_bps, allowed_bps })
}

#[cfg(test)]
mod tests {
    use fabricmark_plan::{Factor, resolve};
    use fabricmark_record::{Figure, Provenance};

    use super::*;

    /// A second of a stream over 1 Gbit/s and 20 ms with a window of 5 MB.
    fn warning(above_bps: f64, sent_again: u64, late_ns: u64) -> Option<Warning> {
        let levels = "pattern=stream;transport=tcp;family=6;payload=65536;congestion=cubic;link=ethernet:1G;rtt=20ms;\
                      window=2bdp";
        let levels = levels.split(';').map(|level| {
            let (name, text) = level.split_once('=').unwrap();
            let factor = Factor::named(name).unwrap();
            (factor, factor.level(text).unwrap())
        });
        let point = resolve(&levels.collect()).unwrap();
        let limits = limits(&point);
        let bound = limits.ceilings.iter().find(|c| c.kind == Kind::Bound).unwrap();
        let value = bound.goodput_bps.as_f64() + above_bps;
        let goodput = Figure { value, provenance: Provenance::Emulated };
        let figures = Figures { goodput_bps: Some(goodput), ..Figures::default() };
        let counts = Counts { elapsed_ns: 1_000_000_000, ..Counts::default() };
        above_ceiling(&point, &figures, &limits, &counts, sent_again, late_ns)
    }

    #[test]
    fn more_than_the_wire_carries_is_a_backlog_as_far_as_holes_and_lateness_explain_it() {
        assert_eq!(warning(0.0, 0, 0), None);
        assert_eq!(warning(10e6, 1, 0), Some(Warning::Backlog { bytes: 5_000_000 }));
        assert!(matches!(warning(10e6, 0, 20_000_000), Some(Warning::Backlog { .. })));
        assert!(matches!(warning(10e6, 0, 0), Some(Warning::AboveCeiling { .. })));
        assert!(matches!(warning(900e6, 1, 0), Some(Warning::AboveCeiling { .. })));
    }
}
