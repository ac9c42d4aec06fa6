//! Resolves one level of each factor into a point: fills in defaults and rejects contradictions.

use std::iter;

use fabricmark_units::Bytes;
use fabricmark_wire::{Family, Link, MTU_MIN, frame};

use crate::choice::{Direction, Path, Pattern, Wait};
use crate::emulation;
use crate::factor::{Factor, Point, Where};
use crate::level::NONE;
use crate::numbering::{self, NUMBERED};
use crate::pace::Pace;
use crate::problem::{Contradiction, refuse};
use crate::transport::{Congestion, Delivery, Headers, Network, Traits, Transport};
use crate::verbs;

/// The point with these levels. Levels of factors that do not apply to the point are dropped.
pub fn resolve(levels: &Where) -> Result<Point, Contradiction> {
    let mut point = Point::blank();
    // The default of `outstanding` depends on the pace.
    for factor in [Factor::Pace].into_iter().chain(Factor::ALL) {
        if !factor.applies(&point) {
            continue;
        }
        let named = levels.get(&factor).filter(|level| !factor.has_none() || *level != NONE);
        if let Some(level) = named.cloned().or_else(|| factor.default(&point)) {
            point.put(factor, &level);
        } else if factor.spec().is_required {
            let help = format!("add {factor}");
            return refuse(factor, format!("no {factor} is given"), help);
        }
    }
    emulation::check_offload(levels, &point)?;
    check(&point)?;
    Ok(point)
}

/// Rejects a link that cannot carry the transport.
pub(crate) fn check_link(
    link: Link,
    transport: Transport,
    family: Family,
) -> Result<(), Contradiction> {
    let network = transport.traits().network;
    if network == Network::Machine && link != Link::Loopback {
        let message = format!("{transport} does not leave the machine, and {link} does");
        return refuse(Factor::Link, message, "use link = \"loopback\", or another transport");
    }
    let is_rdma = matches!(link, Link::Ib(_) | Link::RoceV1 { .. } | Link::RoceV2 { .. });
    if is_rdma && !transport.is_verbs() {
        let message = format!("{link} carries verbs, and {transport} is none of them");
        return refuse(
            Factor::Link,
            message,
            "use ipoib:WIDTH-SPEED or ethernet:RATE, or transport rc, uc or ud",
        );
    }
    let has_ip = !matches!(link, Link::Ib(_) | Link::RoceV1 { .. });
    if has_ip && family == Family::V6 && link.mtu() < MTU_MIN {
        let message = format!("IPv6 needs an MTU of {MTU_MIN}, and {link} has {}", link.mtu());
        return refuse(Factor::Link, message, "use ib-mtu=2048, mode=connected or family 4");
    }
    Ok(())
}

/// Rejects an order from another host if its levels are invalid or exceed the limits of an end.
pub fn check_order(point: &Point) -> Result<(), Contradiction> {
    for factor in Factor::ALL {
        let level = point.level(factor);
        if let (false, Err(error)) = (level.is_empty(), factor.level(&level)) {
            let message = format!("not a level of {factor}: {error}");
            return refuse(factor, message, "send a level of the documentation");
        }
    }
    check_payload(point)?;
    check_flows_max(point)?;
    verbs::check(point)
}

/// Rejects points that no run can carry out.
fn check(point: &Point) -> Result<(), Contradiction> {
    check_transport(point)?;
    check_payload(point)?;
    check_link(point.link, point.transport, point.family)?;
    check_flows(point)?;
    check_burst(point)?;
    numbering::check(point)?;
    check_ping_ping(point)?;
    verbs::check(point)?;
    emulation::check(point)?;
    check_options(point)?;
    check_path(point)
}

/// The transports with this property, as `a, b or c`.
fn transports(is_it: impl Fn(&Traits) -> bool) -> String {
    let words = Transport::ALL.iter().filter(|transport| is_it(transport.traits()));
    either(words.map(|transport| transport.word()))
}

fn either<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Rejects levels that the transport does not support.
fn check_transport(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, transport, path, wait, .. } = *point;
    let traits = transport.traits();
    if !traits.patterns.contains(&pattern) {
        let known = transports(|traits| traits.patterns.contains(&pattern));
        let message = format!("{pattern} is not supported with {transport}");
        return refuse(Factor::Pattern, message, format!("use transport {known}"));
    }
    if !traits.paths.contains(&path) {
        let known = transports(|traits| traits.paths.contains(&path));
        let message = format!("the path {path} is not supported with {transport}");
        return refuse(Factor::Path, message, format!("use transport {known}, or path copy"));
    }
    check_flows_max(point)?;
    if !traits.waits.contains(&wait) {
        let message = format!("{transport} cannot wait by `{wait}`");
        let known = either(traits.waits.iter().map(|wait| wait.word()));
        return refuse(Factor::Wait, message, format!("use wait {known}"));
    }
    if point.probe.is_some() && !transport.has_ip() {
        let message = format!("{transport} shares no network with a probe");
        let help = "leave out probe, or use another transport";
        return refuse(Factor::Probe, message, help);
    }
    if point.direction == Some(Direction::Both) && traits.network == Network::Nothing {
        let message = format!("nothing flows both ways over {transport}");
        return refuse(Factor::Direction, message, "use direction forward");
    }
    if point.dscp.is_some() && !traits.has_dscp {
        let message = format!("{transport} sets no DSCP");
        let help = "leave it out, or use another transport";
        return refuse(Factor::Dscp, message, help);
    }
    match (traits.congestion, point.congestion.as_deref()) {
        (Congestion::Kernel, None) => {
            let message = format!("{transport} without a congestion control");
            let help = "add congestion = \"cubic\" to [settings]: kernels differ in their default";
            refuse(Factor::Transport, message, help)
        }
        (Congestion::Own(known), Some(name)) if !known.contains(&name) => {
            let message = format!("{transport} has no congestion control {name}");
            refuse(Factor::Congestion, message, format!("use {}", known.join(", ")))
        }
        _ => Ok(()),
    }
}

fn check_flows_max(point: &Point) -> Result<(), Contradiction> {
    let Point { transport, path, flows, .. } = *point;
    let most = Point::flows_max(transport, path);
    if flows <= most {
        return Ok(());
    }
    let message = format!("{transport} by path {path} has at most {most} flows, not {flows}");
    let help = format!("use at most {most}, or another transport or path");
    refuse(Factor::Flows, message, help)
}

/// The lengths of payload and response, each with its factor.
fn lengths(point: &Point) -> impl Iterator<Item = (Factor, Bytes)> {
    let response = point.response.map(|response| (Factor::Response, response));
    iter::once((Factor::Payload, point.payload)).chain(response)
}

/// Rejects payloads and responses that do not fit into a datagram, message or call of the transport.
fn check_payload(point: &Point) -> Result<(), Contradiction> {
    let Point { transport, family, .. } = *point;
    let traits = transport.traits();
    let most = match traits.headers {
        Headers::Udp => traits.payload_max.min(Bytes(family.udp_payload_max())),
        _ => traits.payload_max,
    };
    let Some((factor, bytes)) = lengths(point).find(|&(_, bytes)| bytes > most) else {
        return Ok(());
    };
    let unit = match traits.delivery {
        Delivery::Datagrams => "datagram",
        Delivery::Messages => "message",
        Delivery::Bytes => "call",
    };
    let message = format!("{} bytes do not fit a {unit} of {transport} over {family}", bytes.0);
    let help = format!("use at most {}, or [[exclude]] transport = \"{transport}\" there", most.0);
    refuse(factor, message, help)
}

/// Rejects numbers of flows that the pattern or the way to wait does not support.
fn check_flows(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, wait, flows, .. } = *point;
    if pattern == Pattern::Crr && (flows > 1 || wait != Wait::Block) {
        let message = "crr has one flow, which blocks";
        return refuse(Factor::Pattern, message, "leave out flows and wait");
    }
    if flows > 1 && wait != Wait::Epoll {
        let message = format!("{flows} flows on one thread cannot wait by `{wait}`");
        return refuse(Factor::Wait, message, "use wait = \"epoll\", or one flow");
    }
    Ok(())
}

/// Rejects bursts that are not supported. Defaults and limit are those of osu_bw (OSU Micro-Benchmarks,
/// `c/util/osu_util.h` and `c/mpi/pt2pt/osu_bw.c`): 64 messages of up to 4 MiB, then 4 bytes back.
fn check_burst(point: &Point) -> Result<(), Contradiction> {
    /// Largest burst: that of osu_bw, 64 messages of 4 MiB. A run does not end within a burst.
    const BYTES_MAX: Bytes = Bytes(256 << 20);
    if point.pattern != Pattern::Burst {
        return Ok(());
    }
    if point.pace != Pace::Closed {
        let message =
            format!("a burst departs when the last one is answered, not by {}", point.pace);
        let help = "use pace closed, or pattern stream with a pace burst:BYTES/PERIOD";
        return refuse(Factor::Pace, message, help);
    }
    let payloads = point.payloads_per_request();
    let Bytes(payload) = point.payload;
    let bytes = u64::from(payloads).saturating_mul(payload);
    if Bytes(bytes) > BYTES_MAX {
        let message =
            format!("a burst of {payloads} payloads of {payload} bytes has {bytes} bytes");
        let help = format!("use less outstanding or payload, at most {BYTES_MAX} together");
        return refuse(Factor::Outstanding, message, help);
    }
    let mut short = lengths(point).filter(|&(_, bytes)| bytes < NUMBERED);
    if let Some((factor, bytes)) = short.next().filter(|_| point.transport == Transport::Udp) {
        let message = format!("a datagram of {bytes} bytes has no room for 32 bits of its number");
        let help = format!("use a {factor} of at least {NUMBERED} bytes, or another transport");
        return refuse(factor, message, help);
    }
    Ok(())
}

/// Rejects levels that ping-ping does not support. Both ends send, and then both receive.
fn check_ping_ping(point: &Point) -> Result<(), Contradiction> {
    /// Bytes that fit into the socket buffers, so that no blocking end waits for the other to receive: the send
    /// buffer has 16 KiB at first, the receive buffer 128 KiB (tcp(7), tcp_wmem and tcp_rmem).
    const BLOCKING_MAX: Bytes = Bytes(64 << 10);
    let Point { pattern, transport, wait, flows, path, payload, .. } = *point;
    if pattern != Pattern::PingPing {
        return Ok(());
    }
    if point.pace != Pace::Closed {
        return refuse(
            Factor::Pace,
            "a payload of ping-ping departs behind the last one",
            "use pace closed",
        );
    }
    if flows > 1 || wait == Wait::Epoll {
        return refuse(
            Factor::Wait,
            "ping-ping is carried by one flow",
            "use flows 1 and wait block or spin",
        );
    }
    if path != Path::Copy {
        return refuse(Factor::Path, "ping-ping is carried by plain calls", "use path copy");
    }
    if wait != Wait::Spin && !transport.is_verbs() && payload > BLOCKING_MAX {
        let message = "both ends would block while they send, and none receive";
        return refuse(Factor::Wait, message, "use wait = \"spin\", or at most 64 KiB");
    }
    Ok(())
}

/// Rejects socket options that do not fit the point.
fn check_options(point: &Point) -> Result<(), Contradiction> {
    if let Some(source) = point.source
        && source.is_ipv4() != (point.family == Family::V4)
    {
        let message = format!("flows over {} cannot be opened from {source}", point.family);
        return refuse(Factor::Source, message, "use an address of that family, or [[exclude]]");
    }
    let has_many = point.flows > 1
        || point.pattern == Pattern::Crr
        || point.direction == Some(Direction::Both);
    if point.source_port.is_some() && has_many {
        let message = "one port opens one flow";
        return refuse(
            Factor::SourcePort,
            message,
            "leave out source_port, or use flows 1 and one direction",
        );
    }
    if point.quickack.is_some() && (point.path != Path::Copy || point.pattern == Pattern::Crr) {
        let message = "quickack is set again after each receive of path copy";
        let help = "use path copy and another pattern than crr";
        return refuse(Factor::QuickAck, message, help);
    }
    check_timestamps(point)
}

/// Rejects timestamps that cannot be attributed to a request: with several requests in flight, or with a connection
/// per request, which has packets of its own.
fn check_timestamps(point: &Point) -> Result<(), Contradiction> {
    if point.timestamps.is_none() {
        return Ok(());
    }
    if point.outstanding.is_some_and(|requests| requests > 1) {
        let message = "timestamps part round trips of one request under way";
        return refuse(Factor::Timestamps, message, "use outstanding = 1, or leave out timestamps");
    }
    if point.pattern == Pattern::Crr || point.path != Path::Copy || point.quickack.is_some() {
        let message = "timestamps are those of rr and ping-pong over plain calls";
        return refuse(
            Factor::Timestamps,
            message,
            "use one of these patterns, path copy and no quickack",
        );
    }
    Ok(())
}

/// Rejects a path that the pattern, pace, wait or MTU of the point does not support.
fn check_path(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, path, flows, wait, .. } = *point;
    if path == Path::Copy {
        return Ok(());
    }
    // The kernel refuses a segment of UDP_SEGMENT that would be fragmented (udp_send_skb, net/ipv4/udp.c). The MTU of a
    // link is that of its devices. A network to a host that no link describes is given as loopback; its MTU is unknown.
    let headers = point.family.header_bytes() + frame::UDP_HEADER;
    let room = u64::from(point.link.mtu()).saturating_sub(headers);
    if path == Path::Gso && point.link != Link::Loopback && point.payload.0 > room {
        let message = format!(
            "the path gso sends each payload as one packet, and {} bytes with the headers of udp over {} exceed the \
             MTU of {}",
            point.payload.0, point.family, point.link
        );
        let help = format!("use a payload of at most {room} bytes, or path copy or mmsg");
        return refuse(Factor::Payload, message, help);
    }
    let is_many = matches!(path, Path::Mmsg | Path::Gso) || path.is_uring();
    if is_many && point.pace != Pace::Closed {
        let message = format!("the path {path} moves many payloads a call, not one a departure");
        return refuse(Factor::Path, message, "use path copy, or pace closed");
    }
    let (is_carried, carried) = match path {
        Path::Uring => (pattern != Pattern::Crr, "stream, rr and burst"),
        _ => (pattern == Pattern::Stream, "streams"),
    };
    if !is_carried {
        let message = format!("the path {path} carries {carried}, not {pattern}");
        return refuse(Factor::Path, message, "use path copy");
    }
    if path.is_uring() {
        if wait == Wait::BusyPoll {
            let message = format!("the path {path} waits for its ring, not by `{wait}`");
            return refuse(Factor::Path, message, "use wait block, spin or epoll");
        }
        return Ok(());
    }
    if flows > 1 || wait == Wait::Epoll {
        let message = format!("the path {path} is carried by one flow without epoll");
        return refuse(Factor::Path, message, "use flows 1 and wait block, spin or busy-poll");
    }
    Ok(())
}
