//! What the wire allows a point, and whether a run went beyond it.

use fabricmark_link::TokenBucket;
use fabricmark_plan::{Direction, Pattern, Point, Transport};
use fabricmark_record::Limits;
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::{
    self as wire, Ceiling, Floor, Kind, Path, Stack, frame, goodput, lfn, quic_goodput,
    stream_goodput,
};

/// The hard bounds first, the tighter one before the other, then what holds under a condition. What bounds
/// a stream bounds bursts, too, which are silent until they are answered. A token bucket passes a message
/// that fits into it at once, so a shaped link has no floor of the round trip; an emulated one has.
pub fn limits(point: &Point) -> Limits {
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
        (Pattern::Stream | Pattern::Burst, Transport::Tls) => {
            let in_records = |option_bytes| tcp(option_bytes)?.in_tls_records(payload);
            [0, frame::TCP_TIMESTAMPS].into_iter().flat_map(in_records).collect()
        }
        (Pattern::Stream | Pattern::Burst, Transport::Quic) => {
            quic_goodput(link, family).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let ceilings = by_window(point, ceilings);
    let ceilings = match point.direction {
        Some(Direction::Both) => ceilings.into_iter().map(Ceiling::both_ways).collect(),
        _ => ceilings,
    };
    Limits { ceilings, rtt_floor: floor(point) }
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

/// The least round trip over an emulated link: its delay both ways, unless it varies, and the packets' time on
/// its wire. Of ping-ping the least step, which is one way.
fn floor(point: &Point) -> Option<Floor> {
    let (family, Bytes(payload)) = (point.family, point.payload);
    let has_floor = matches!(point.pattern, Pattern::PingPong | Pattern::PingPing | Pattern::Rr);
    let words = point.words().filter(|_| has_floor)?;
    let stack = match point.transport {
        Transport::Udp => Stack::Udp { family },
        Transport::Tcp => Stack::Tcp { family, option_bytes: 0 },
        _ => return None,
    };
    let response = point.response.map_or(payload, |Bytes(bytes)| bytes);
    // Jitter takes from the delay as well as it adds.
    let rtt = point.rtt.filter(|_| words.jitter().is_none()).unwrap_or_default();
    let half = Nanos(rtt.0 / 2);
    let path = Path { propagation_ns: half, ..Path::direct(point.link) };
    match point.pattern {
        Pattern::PingPing => wire::one_way_floor(&path, stack, payload).ok(),
        _ => wire::rtt_floor(&path, stack, payload, response).ok(),
    }
}

/// Bytes that a token bucket lets pass at once, where one stands for the wire of a point.
pub fn bucket_bytes(point: &Point) -> u64 {
    let bucket = TokenBucket::of(&point.link).filter(|_| point.words().is_none());
    bucket.map_or(0, |bucket| bucket.bucket_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(levels: &str) -> Limits {
        limits(&fabricmark_testkit::point(levels))
    }

    #[test]
    fn a_delay_that_varies_is_no_part_of_the_floor() {
        let floor_ns = |levels: &str| {
            let base = "pattern=ping-pong,transport=udp,family=4,payload=64,link=ethernet:1G,";
            of(&format!("{base}{levels}")).rtt_floor.unwrap().time_ns.as_f64()
        };
        let without = floor_ns("rtt=0ms");
        assert_eq!(floor_ns("rtt=20ms"), without + 20e6);
        assert_eq!(floor_ns("rtt=20ms,emulate=jitter=1ms"), without);
    }

    #[test]
    fn each_direction_of_a_stream_both_ways_has_a_window_of_its_own() {
        let bound_bps = |direction: &str| {
            let base = "pattern=stream,transport=tcp,family=4,payload=65536,congestion=cubic,link=ethernet:100G,rtt=10s";
            of(&format!("{base},direction={direction}")).ceilings[0].goodput_bps.as_f64()
        };
        // 1 GiB less a scale unit each 10 s.
        assert!((0.85e9..0.86e9).contains(&bound_bps("forward")));
        assert_eq!(bound_bps("both"), 2.0 * bound_bps("forward"));
    }
}
