//! What the wire allows a point, and whether a run went beyond it.

use fabricmark_lab::Shaper;
use fabricmark_plan::{Direction, Pattern, Point, Transport};
use fabricmark_record::{Counts, Figures, Limits, Warning};
use fabricmark_units::Bytes;
use fabricmark_wire::{Ceiling, Stack, frame, goodput, quic_goodput, stream_goodput};

/// The hard bound first, then what holds under a condition. What bounds a stream bounds bursts, too,
/// which are silent until they are answered. A token bucket passes a message that fits into it at
/// once, so a shaped link has no floor of the round trip.
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
    Limits { ceilings, rtt_floor: None }
}

/// A warning where more arrived than the hard bound and its tolerances allow.
pub(crate) fn above_ceiling(
    point: &Point,
    figures: &Figures,
    limits: &Limits,
    counts: &Counts,
) -> Option<Warning> {
    let goodput_bps = figures.goodput_bps?.value;
    let bound = limits.ceilings.iter().find(|c| c.kind == fabricmark_wire::Kind::Bound)?;
    let bound_bps = bound.goodput_bps.as_f64();
    let bucket = Shaper::of(&point.link).map_or(0, |shaper| shaper.bucket_bytes());
    let earlier_bytes = bucket + counts.waiting_bytes;
    let seconds = counts.elapsed_ns as f64 / 1e9;
    fabricmark_wire::exceeds(goodput_bps, bound_bps, earlier_bytes, seconds).then(|| {
        let allowed_bps = fabricmark_wire::allowed(bound_bps, earlier_bytes, seconds);
        Warning::AboveCeiling { goodput_bps, allowed_bps }
    })
}
