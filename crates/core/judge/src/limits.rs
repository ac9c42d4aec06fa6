//! Limits that the wire sets to a point.

use fabricmark_link::TokenBucket;
use fabricmark_plan::{
    Direction, Headers, MpiTransport, Operation, Pattern, Point, Socket, Testbed,
};
use fabricmark_record::Limits;
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::{
    self as wire, Ceiling, Floor, Kind, Link, Path, Stack, bus_goodput, frame, goodput, lfn,
    path_goodput, path_stream_goodput, quic_goodput, stream_goodput,
};

use crate::{Route, mpi};

/// Ceilings and floor of a point. Hard bounds come first, the tightest first, then conditional ceilings. Bounds of
/// a stream also hold for bursts, which are silent until they are answered. A shaped link has no RTT floor, since a
/// token bucket passes a message that fits into it at once; emulated links and links between hosts have one.
pub fn limits(point: &Point, route: Route<'_>) -> Limits {
    let point = &Point { link: point.link_as_set(), ..point.clone() };
    let is_stream = matches!(point.pattern, Pattern::Stream | Pattern::Burst);
    let is_bounded = is_stream || mpi::is_bounded(point);
    let ceilings =
        if is_bounded { by_window(point, ceilings(point, route.path)) } else { Vec::new() };
    let of_bus = if is_bounded { by_bus(point, route) } else { Vec::new() };
    let is_half_duplex = route.path.is_some_and(Path::is_half_duplex);
    let ceilings = match point.direction {
        Some(Direction::Both) if !is_half_duplex => {
            ceilings.into_iter().map(Ceiling::both_ways).collect()
        }
        _ => ceilings,
    };
    let ceilings = match of_bus.is_empty() {
        true => ceilings,
        false => tightest_first(ceilings.into_iter().chain(of_bus)),
    };
    Limits { ceilings, rtt_floor: floor(point, route) }
}

/// Ceilings of one direction; none for a link without a wire.
fn ceilings(point: &Point, path: Option<&Path>) -> Vec<Ceiling> {
    let (link, family, Bytes(payload)) = (point.link, point.family, point.payload);
    let tcp = |option_bytes| {
        let stack = Stack::Tcp { family, option_bytes };
        path.map_or_else(|| stream_goodput(link, stack), |path| path_stream_goodput(path, stack))
    };
    let messages = |link, stack| {
        path.map_or_else(
            || goodput(link, stack, payload),
            |path| path_goodput(path, stack, payload),
        )
    };
    if let Some(transport) = point.mpi_transport {
        // The headers of MPI itself depend on the library; without them the bounds still hold.
        let bound = match transport {
            MpiTransport::Tcp => tcp(0).ok(),
            MpiTransport::Rc | MpiTransport::Ud => {
                let operation = wire::Operation::Send;
                let stack = Stack::Rc { operation, immediate: false, family };
                messages(link.for_verbs(), stack).ok()
            }
            MpiTransport::Auto | MpiTransport::Shm | MpiTransport::Ofi => None,
        };
        return bound.into_iter().collect();
    }
    match point.transport.traits().headers {
        Headers::Tcp => {
            let stamped = Stack::Tcp { family, option_bytes: frame::TCP_TIMESTAMPS };
            let each_write = messages(link, stamped);
            [tcp(0), tcp(frame::TCP_TIMESTAMPS), each_write].into_iter().flatten().collect()
        }
        Headers::Tls => {
            let in_records = |option_bytes| tcp(option_bytes)?.in_tls_records(payload);
            [0, frame::TCP_TIMESTAMPS].into_iter().flat_map(in_records).collect()
        }
        Headers::Quic => {
            let links = path
                .map_or_else(|| vec![link], |path| path.hops.iter().map(|hop| hop.link).collect());
            let each = links.into_iter().filter_map(|link| quic_goodput(link, family).ok());
            each.min_by_key(|ceiling| ceiling.goodput_bps).into_iter().collect()
        }
        Headers::Udp | Headers::Connection | Headers::Datagram => {
            let bound = stack(point).map(|(link, stack)| messages(link, stack));
            bound.into_iter().flatten().collect()
        }
        Headers::AtLeastTcp | Headers::Unknown => Vec::new(),
    }
}

/// Stack of a point's messages, and the link as that stack uses it; TCP without options. `None` if the size of a
/// message on the wire is not known to the byte.
pub(crate) fn stack(point: &Point) -> Option<(Link, Stack)> {
    let (link, family) = (point.link_as_set(), point.family);
    let immediate = point.operation == Some(Operation::WriteImmediate);
    match point.transport.traits().headers {
        Headers::Udp => Some((link, Stack::Udp { family })),
        Headers::Tcp => Some((link, Stack::Tcp { family, option_bytes: 0 })),
        Headers::Connection => {
            let operation = match point.operation? {
                Operation::Send => wire::Operation::Send,
                Operation::Write | Operation::WriteImmediate => wire::Operation::Write,
                Operation::Read => wire::Operation::Read,
                Operation::FetchAdd | Operation::CompareSwap => return None,
            };
            Some((link.for_verbs(), Stack::Rc { operation, immediate, family }))
        }
        Headers::Datagram => Some((link.for_verbs(), Stack::Ud { immediate, family })),
        Headers::AtLeastTcp | Headers::Tls | Headers::Quic | Headers::Unknown => None,
    }
}

/// Adds the ceilings of the TCP window over an emulated RTT: the largest window bounds any connection, the
/// requested one bounds connections whose kernel grants no more.
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
    tightest_first(ceilings.into_iter().chain(limit(Kind::Bound, lfn::WINDOW_MAX)).chain(asked))
}

/// Bounds first, then conditional ceilings, each with the tightest first; equal ones keep their order.
fn tightest_first(ceilings: impl Iterator<Item = Ceiling>) -> Vec<Ceiling> {
    let mut ceilings: Vec<Ceiling> = ceilings.collect();
    ceilings.sort_by(|a, b| {
        let key = |c: &Ceiling| (c.kind != Kind::Bound, c.goodput_bps.as_f64());
        let (one, other) = (key(a), key(b));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    ceilings
}

/// The ceilings of a host bus, which carries IP packets of both directions, or of each with its full rate.
fn by_bus(point: &Point, route: Route<'_>) -> Vec<Ceiling> {
    let known = route.bus.and_then(|(end, bus)| Some((end, bus, bus.bps()?)));
    let Some((end, bus, bus_bps)) = known else { return Vec::new() };
    let place = match route.nodes[end as usize] {
        name if name == end.name() => name.to_owned(),
        name => format!("{name}, the {}", end.name()),
    };
    let (family, mtu, Bytes(payload)) = (point.family, point.link.mtu(), point.payload);
    let stacks = match point.transport.traits().headers {
        Headers::Tcp => {
            let stack = |option_bytes| Stack::Tcp { family, option_bytes };
            vec![stack(0), stack(frame::TCP_TIMESTAMPS)]
        }
        Headers::Udp => vec![Stack::Udp { family }],
        _ => Vec::new(),
    };
    let ceilings = stacks.into_iter().flat_map(|stack| bus_goodput(bus_bps, stack, mtu, payload));
    let has_both = point.direction == Some(Direction::Both) && bus.is_duplex();
    let placed = |mut ceiling: Ceiling| {
        ceiling.inputs.insert("bus".to_owned(), place.clone().into());
        if has_both { ceiling.both_ways() } else { ceiling }
    };
    ceilings.map(placed).collect()
}

/// RTT floor: the emulated delay in both directions, unless it varies, plus the serialization of the packets. For
/// ping-ping the floor of a step, which is one way.
fn floor(point: &Point, route: Route<'_>) -> Option<Floor> {
    let options = point.link_options();
    let has_wire = options.is_some() || route.testbed == Testbed::Hosts;
    let has_floor =
        matches!(point.pattern, Pattern::PingPong | Pattern::PingPing | Pattern::Rr) && has_wire;
    // MPTCP segments may take paths that are not described.
    let is_one_way = point.transport.traits().socket != Socket::Mptcp;
    let (link, stack) = stack(point).filter(|_| has_floor && is_one_way)?;
    let Bytes(payload) = point.payload;
    let response = point.response.map_or(payload, |Bytes(bytes)| bytes);
    // Jitter shortens the delay as well as extending it.
    let varies = options.is_some_and(|options| options.has_jitter());
    let rtt = point.rtt.filter(|_| !varies).unwrap_or_default();
    let rtt = route.least_rtt.map_or(rtt, |least| least.min(rtt));
    let wires = route.path.cloned().unwrap_or_else(|| Path::direct(link));
    let path = Path { propagation_ns: Nanos(rtt.0 / 2), ..wires };
    let is_read = point.operation == Some(Operation::Read);
    match point.pattern {
        Pattern::PingPing => wire::one_way_floor(&path, stack, payload).ok(),
        _ => wire::rtt_floor(&path, stack, if is_read { 0 } else { payload }, response).ok(),
    }
}

/// Bytes that a token bucket passes at once, if one replaces the wire of a point; else 0.
pub fn bucket_bytes(point: &Point) -> u64 {
    let bucket = TokenBucket::of(&point.link).filter(|_| point.link_options().is_none());
    bucket.map_or(0, |bucket| bucket.bucket_bytes())
}

#[cfg(test)]
mod tests {
    use fabricmark_plan::Role;
    use fabricmark_wire::{Hop, Switch, Switching};

    use super::*;

    fn of(levels: &str) -> Limits {
        limits(&fabricmark_testkit::point(levels), Route::of(Testbed::Lab))
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
    fn verbs_have_the_limits_of_roce_over_ethernet_and_of_infiniband_under_ipoib() {
        let of_hosts = |levels: &str| {
            let levels = format!("family=4,payload=64,{levels}");
            limits(&fabricmark_testkit::point(&levels), Route::of(Testbed::Hosts))
        };
        let bound_bps = |levels: &str| {
            let ceilings = of_hosts(&format!("pattern=stream,{levels}")).ceilings;
            ceilings.first().map(|ceiling| ceiling.goodput_bps.as_f64())
        };
        // 14 + 20 + 8 + 12 + 64 + 4 + 4 bytes in a frame, and 20 around it.
        let roce = 64.0 / f64::from(14 + 20 + 8 + 12 + 64 + 4 + 4 + 20);
        for link in ["ethernet:10G", "rocev2:10G"] {
            assert_eq!(
                bound_bps(&format!("transport=rc,link={link}")),
                Some(10e9 * roce),
                "{link}"
            );
        }
        // 8 + 12 + 64 + 4 + 2 bytes, at 8 Gbit/s.
        let ib = 64.0 / f64::from(8 + 12 + 64 + 4 + 2);
        for link in ["ipoib:4X-SDR", "ib:4X-SDR"] {
            let bps = bound_bps(&format!("transport=uc,link={link}")).unwrap();
            assert!((bps / (8e9 * ib) - 1.0).abs() < 1e-12, "{link}: {bps}");
        }
        let datagram = bound_bps("transport=ud,link=ethernet:10G").unwrap();
        assert!(datagram < 10e9 * roce, "a datagram has 8 bytes more: {datagram}");
        let floor_ns =
            |levels: &str| of_hosts(levels).rtt_floor.map(|floor| floor.time_ns.as_f64());
        let ping_pong = floor_ns("pattern=ping-pong,transport=rc,link=ethernet:10G").unwrap();
        let read = floor_ns("pattern=rr,transport=rc,operation=read,link=ethernet:10G").unwrap();
        assert!(read < ping_pong, "a read asks without a payload: {read} and {ping_pong} ns");
        assert_eq!(floor_ns("pattern=ping-pong,transport=rc,link=veth"), None);
    }

    #[test]
    fn a_path_of_several_links_has_the_ceiling_of_its_tightest_and_the_floor_of_all() {
        let hop = |link: &str, switch| Hop::new(link.parse().unwrap(), switch);
        let router = Some(Switch { mode: Switching::StoreAndForward, ..Switch::default() });
        let hops = vec![hop("ethernet:1G", None), hop("ethernet:100M", router)];
        let path = Path { hops, propagation_ns: Nanos(0) };
        let route = Route { path: Some(&path), ..Route::of(Testbed::Lab) };
        let of_path = |levels: &str| {
            let levels = format!("family=4,payload=1000,link=veth,rtt=10ms,{levels}");
            limits(&fabricmark_testkit::point(&levels), route)
        };
        let direct = of("family=4,payload=1000,transport=udp,pattern=stream,link=ethernet:100M");
        let stream = of_path("transport=udp,pattern=stream");
        assert_eq!(stream.ceilings[0].goodput_bps, direct.ceilings[0].goodput_bps);
        let quic = of_path("transport=quic,pattern=stream").ceilings[0].goodput_bps.as_f64();
        assert!((94e6..100e6).contains(&quic), "{quic}");
        let floor_ns =
            of_path("transport=udp,pattern=ping-pong").rtt_floor.unwrap().time_ns.as_f64();
        // 1,066 bytes with preamble and gap on both wires, in both directions, without the last gaps.
        assert!((10e6 + 180e3..10e6 + 190e3).contains(&floor_ns), "{floor_ns}");
        // A link of the path has jitter.
        let route = Route { least_rtt: Some(Nanos(0)), ..route };
        let levels = "family=4,payload=1000,link=veth,rtt=10ms,transport=udp,pattern=ping-pong";
        let varying = limits(&fabricmark_testkit::point(levels), route).rtt_floor.unwrap();
        assert_eq!(varying.time_ns.as_f64(), floor_ns - 10e6);
    }

    #[test]
    fn a_host_bus_that_is_slower_than_the_link_sets_the_bound() {
        let bound_bps = |levels: &str, bus: &str| {
            let levels = format!("pattern=stream,family=4,payload=1000,{levels}");
            let bus = Some((Role::Client, bus.parse().unwrap()));
            let route = Route { bus, ..Route::of(Testbed::Lab) };
            let limits = limits(&fabricmark_testkit::point(&levels), route);
            limits.bound_bps().unwrap()
        };
        let tcp = "transport=tcp,congestion=cubic,link=ethernet:10G";
        assert_eq!(bound_bps(tcp, "5G"), 5e9 * 1460.0 / 1500.0);
        assert_eq!(bound_bps(tcp, "100G"), 10e9 * 1460.0 / 1538.0);
        assert_eq!(bound_bps("transport=udp,link=ethernet:10G", "5G"), 5e9 * 1000.0 / 1028.0);
        // PCI Express carries as much in each direction; a rate is that of both.
        let both = format!("{tcp},direction=both");
        assert_eq!(bound_bps(&both, "pcie:1x2"), 2.0 * 4e9 * 1460.0 / 1500.0);
        assert_eq!(bound_bps(&both, "4G"), 4e9 * 1460.0 / 1500.0);
    }

    #[test]
    fn each_direction_of_a_stream_both_ways_has_a_window_of_its_own() {
        let bound_bps = |direction: &str| {
            let base = "pattern=stream,transport=tcp,family=4,payload=65536,congestion=cubic,link=ethernet:100G,rtt=10s";
            of(&format!("{base},direction={direction}")).ceilings[0].goodput_bps.as_f64()
        };
        // 1 GiB minus a scale unit every 10 s.
        assert!((0.85e9..0.86e9).contains(&bound_bps("forward")));
        assert_eq!(bound_bps("both"), 2.0 * bound_bps("forward"));
    }
}
