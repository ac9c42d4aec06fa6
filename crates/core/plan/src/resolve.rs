//! Resolves one level of each factor into a point: fills in defaults and rejects contradictions.

use std::iter;

use fabricmark_units::{Bytes, Stream};
use fabricmark_wire::{Family, Link, MTU_MIN, frame};

use crate::choice::{Direction, Path, Pattern, Wait};
use crate::emulation;
use crate::factor::{Factor, Point, Where};
use crate::invalid::Invalid;
use crate::level::NONE;
use crate::mpi;
use crate::numbering::{self, NUMBERED};
use crate::pace::Pace;
use crate::problem::{Contradiction, refuse};
use crate::shop;
use crate::transport::{Congestion, Delivery, Headers, Network, Traits, Transport};
use crate::verbs;

/// The point with these levels. Levels of factors that do not apply to the point are dropped.
pub fn resolve(levels: &Where) -> Result<Point, Contradiction> {
    let point = fill(levels)?;
    emulation::check_offload(levels, &point)?;
    check(&point)?;
    Ok(point)
}

/// [`resolve`] without the checks: only a missing level is an error.
pub(crate) fn fill(levels: &Where) -> Result<Point, Contradiction> {
    let mut point = Point::blank();
    // The default of `outstanding` depends on the pace, that of `wait` on the threads, and these on others.
    let first = [Factor::Pace, Factor::Pattern, Factor::Transport, Factor::Flows, Factor::Threads];
    for factor in first.into_iter().chain(Factor::ALL) {
        if !factor.applies(&point) {
            continue;
        }
        let named = levels.get(&factor).filter(|level| !factor.has_none() || *level != NONE);
        if let Some(level) = named.cloned().or_else(|| factor.default(&point)) {
            point.put(factor, &level);
        } else if factor.spec().is_required {
            let help = format!("add {factor}");
            return refuse(factor, format!("{factor} is missing"), help);
        }
    }
    mpi::settle(&mut point);
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
        let message = format!(
            "{transport} stays within one machine and is not supported over \
                               {link}"
        );
        return refuse(Factor::Link, message, "use link=loopback, or another transport");
    }
    let is_rdma = matches!(link, Link::Ib(_) | Link::RoceV1 { .. } | Link::RoceV2 { .. });
    if is_rdma && !transport.is_verbs() {
        let message = format!(
            "{transport} is not supported over {link}, which carries RDMA verbs \
                               only"
        );
        return refuse(
            Factor::Link,
            message,
            "use link=ipoib:WIDTH-SPEED or ethernet:RATE, or transport=rc, uc or ud",
        );
    }
    let has_ip = !matches!(link, Link::Ib(_) | Link::RoceV1 { .. });
    if has_ip && family == Family::V6 && link.mtu() < MTU_MIN {
        let message =
            format!("IPv6 needs an MTU of at least {MTU_MIN}, but {link} has {}", link.mtu());
        return refuse(Factor::Link, message, "use ib-mtu=2048, mode=connected or family=4");
    }
    Ok(())
}

/// Rejects an order from another host if its levels are invalid or exceed the limits of an end.
pub fn check_order(point: &Point) -> Result<(), Contradiction> {
    for factor in Factor::ALL {
        let level = point.level(factor);
        if let (false, Err(error)) = (level.is_empty(), factor.level(&level)) {
            let message = format!("invalid {factor}: {error}");
            return refuse(factor, message, "see docs/plan-file.md for its levels");
        }
    }
    check_payload(point)?;
    check_flows_max(point)?;
    check_threads(point)?;
    check_ping_ping(point)?;
    verbs::check(point)
}

/// Rejects points that no run can carry out.
fn check(point: &Point) -> Result<(), Contradiction> {
    check_transport(point)?;
    check_payload(point)?;
    check_link(point.link, point.transport, point.family)?;
    check_flows(point)?;
    check_threads(point)?;
    check_burst(point)?;
    check_follow(point)?;
    check_relay(point)?;
    check_on_off(point)?;
    numbering::check(point)?;
    check_ping_ping(point)?;
    verbs::check(point)?;
    mpi::check(point)?;
    shop::check(point)?;
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
        return refuse(Factor::Pattern, message, format!("use transport={known}"));
    }
    if !traits.paths.contains(&path) {
        let known = transports(|traits| traits.paths.contains(&path));
        let message = format!("path={path} is not supported with {transport}");
        return refuse(Factor::Path, message, format!("use transport={known}, or path=copy"));
    }
    check_flows_max(point)?;
    if !traits.waits.contains(&wait) {
        let message = format!("wait={wait} is not supported with {transport}");
        let known = either(traits.waits.iter().map(|wait| wait.word()));
        return refuse(Factor::Wait, message, format!("use wait={known}"));
    }
    if point.probe.is_some() && !transport.has_ip() {
        let message = format!("probe is not supported with {transport}");
        let help = "leave out probe, or use another transport";
        return refuse(Factor::Probe, message, help);
    }
    if point.direction == Some(Direction::Both) && traits.network == Network::Nothing {
        let message = format!("direction=both is not supported with {transport}");
        return refuse(Factor::Direction, message, "use direction=forward");
    }
    if point.dscp.is_some() && !traits.has_dscp {
        let message = format!("dscp is not supported with {transport}");
        let help = "leave out dscp, or use another transport";
        return refuse(Factor::Dscp, message, help);
    }
    match (traits.congestion, point.congestion.as_deref()) {
        (Congestion::Kernel, None) => {
            let message = format!("{transport} needs a congestion control");
            let help = "add congestion = \"cubic\" to [settings]: kernels differ in their default";
            refuse(Factor::Transport, message, help)
        }
        (Congestion::Own(known), Some(name)) if !known.contains(&name) => {
            let message = format!("congestion={name} is not supported with {transport}");
            refuse(Factor::Congestion, message, format!("use congestion={}", known.join(", ")))
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
    let message = format!(
        "flows={flows} exceeds the maximum of {most} with {transport} and \
                           path={path}"
    );
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
    if point.payload == Bytes(0) && traits.network != Network::External {
        let message = format!("payload=0 is not supported with {transport}");
        return refuse(Factor::Payload, message, "use at least 1 byte");
    }
    let Some((factor, bytes)) = lengths(point).find(|&(_, bytes)| bytes > most) else {
        return Ok(());
    };
    let unit = match traits.delivery {
        Delivery::Datagrams => "datagram",
        Delivery::Messages => "message",
        Delivery::Bytes => "call",
    };
    let message = format!(
        "{factor}={} exceeds the maximum of {} bytes per {unit} with {transport} over {family}",
        bytes.0, most.0
    );
    let help = format!(
        "use a smaller {factor}, or exclude it from a plan: [[exclude]] transport = \"{transport}\""
    );
    refuse(factor, message, help)
}

/// Rejects more load threads than flows.
fn check_threads(point: &Point) -> Result<(), Contradiction> {
    match point.threads {
        Some(threads) if threads > point.flows => {
            let message = format!("threads={threads} exceeds flows={}", point.flows);
            refuse(Factor::Threads, message, "use at most as many threads as flows")
        }
        _ => Ok(()),
    }
}

/// Rejects numbers of flows that the pattern or the way to wait does not support.
fn check_flows(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, wait, flows, .. } = *point;
    if pattern == Pattern::Crr && !matches!(wait, Wait::Block | Wait::Epoll) {
        let message = format!("crr does not support wait={wait}");
        return refuse(Factor::Wait, message, "use wait=block or epoll");
    }
    let has_one = flows == 1 && wait == Wait::Block;
    if pattern == Pattern::Crr && point.transport == Transport::Quic && !has_one {
        let message = "crr over quic supports only flows=1 and wait=block";
        return refuse(Factor::Transport, message, "use flows=1, or transport=tls");
    }
    let threads = point.load_threads();
    if flows > threads && wait != Wait::Epoll {
        let message =
            format!("wait={wait} is not supported with flows={flows} and threads={threads}");
        return refuse(Factor::Wait, message, "use wait=epoll, or as many threads as flows");
    }
    Ok(())
}

/// Rejects a pace that follows TCP_INFO where no single TCP connection has it.
fn check_follow(point: &Point) -> Result<(), Contradiction> {
    if !matches!(point.pace, Pace::Follow { .. }) {
        return Ok(());
    }
    if point.pattern != Pattern::Stream || point.transport != Transport::Tcp {
        let needs = "needs pattern=stream and transport=tcp: it follows TCP_INFO";
        return refuse(
            Factor::Pace,
            format!("pace={} {needs}", point.pace),
            "use pattern=stream and transport=tcp, or another pace",
        );
    }
    if point.flows > 1 {
        return refuse(
            Factor::Pace,
            format!("pace={} needs flows=1: it follows one TCP connection", point.pace),
            "use flows=1, or another pace",
        );
    }
    Ok(())
}

/// Rejects an on/off source whose periods are too short for its rate.
fn check_on_off(point: &Point) -> Result<(), Contradiction> {
    if let Pace::OnOff { .. } = point.pace
        && let Err(Invalid(message)) =
            point.pace.schedule(point.payload, Stream::new(0, "pace"), None)
    {
        let message = format!("pace={}: {message}", point.pace);
        return refuse(Factor::Pace, message, "use longer periods, or a higher rate");
    }
    Ok(())
}

/// Rejects a pace that a relay does not have.
fn check_relay(point: &Point) -> Result<(), Contradiction> {
    match &point.relay_pace {
        None | Some(Pace::Burst { .. }) => Ok(()),
        Some(pace) => refuse(
            Factor::RelayPace,
            format!("relay_pace={pace} is not supported by a relay"),
            "use model-1, model-2, model-100 or burst:BYTES/PERIOD",
        ),
    }
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
        let message = format!("pace={} is not supported with burst", point.pace);
        let help = "use pace=closed, or pattern=stream with pace=burst:BYTES/PERIOD";
        return refuse(Factor::Pace, message, help);
    }
    let payloads = point.payloads_per_request();
    let Bytes(payload) = point.payload;
    let bytes = u64::from(payloads).saturating_mul(payload);
    if Bytes(bytes) > BYTES_MAX {
        let message =
            format!("a burst of {payloads} payloads of {payload} bytes has {bytes} bytes");
        let help = format!("reduce outstanding or payload to at most {BYTES_MAX} per burst");
        return refuse(Factor::Outstanding, message, help);
    }
    let mut short = lengths(point).filter(|&(_, bytes)| bytes < NUMBERED);
    if let Some((factor, bytes)) = short.next().filter(|_| point.transport == Transport::Udp) {
        let message = format!("{factor}={bytes} is too small for the 32-bit number of a datagram");
        let help = format!("use at least {NUMBERED} bytes, or another transport");
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
            format!("pace={} is not supported with ping-ping", point.pace),
            "use pace=closed",
        );
    }
    if flows > 1 || wait == Wait::Epoll {
        return refuse(
            Factor::Wait,
            format!("flows={flows} with wait={wait} is not supported with ping-ping"),
            "use flows=1 and wait=block or spin",
        );
    }
    if path != Path::Copy {
        let message = format!("path={path} is not supported with ping-ping");
        return refuse(Factor::Path, message, "use path=copy");
    }
    if wait != Wait::Spin && !transport.is_verbs() && payload > BLOCKING_MAX {
        let message = format!(
            "payload={} with wait={wait} deadlocks ping-ping: both ends block in send",
            payload.0
        );
        return refuse(Factor::Wait, message, "use wait=spin, or at most 64 KiB");
    }
    Ok(())
}

/// Rejects socket options that do not fit the point.
fn check_options(point: &Point) -> Result<(), Contradiction> {
    if let Some(source) = point.source
        && source.is_ipv4() != (point.family == Family::V4)
    {
        let message = format!("source={source} is not an {} address", point.family);
        return refuse(
            Factor::Source,
            message,
            "use an address of that family, or exclude it from a plan by [[exclude]]",
        );
    }
    let has_many = point.flows > 1
        || point.pattern == Pattern::Crr
        || point.direction == Some(Direction::Both);
    if point.source_port.is_some() && has_many {
        let message = "source_port is supported only with one flow in one direction, and not with \
                       crr";
        return refuse(
            Factor::SourcePort,
            message,
            "leave out source_port, or use flows=1 and one direction",
        );
    }
    if point.quickack.is_some() && (point.path != Path::Copy || point.pattern == Pattern::Crr) {
        let message = "quickack is supported only with path=copy, and not with crr";
        let help = "use path=copy and another pattern, or leave out quickack";
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
    if let Some(requests) = point.outstanding.filter(|&requests| requests > 1) {
        let message = format!("timestamps needs one request in flight, not {requests}");
        return refuse(Factor::Timestamps, message, "use outstanding=1, or leave out timestamps");
    }
    if point.pattern == Pattern::Crr && (point.flows > 1 || point.wait == Wait::Epoll) {
        let message = "timestamps of crr need flows=1 and wait=block";
        return refuse(Factor::Timestamps, message, "use these, or leave out timestamps");
    }
    if point.path != Path::Copy || point.quickack.is_some() {
        let message = "timestamps is supported only with path=copy and without quickack";
        return refuse(Factor::Timestamps, message, "use these, or leave out timestamps");
    }
    Ok(())
}

/// Rejects a path that the pattern, pace, wait or MTU of the point does not support.
fn check_path(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, path, wait, .. } = *point;
    if path == Path::Copy {
        return Ok(());
    }
    // The kernel refuses a segment of UDP_SEGMENT that would be fragmented (udp_send_skb, net/ipv4/udp.c). The MTU of a
    // link is that of its devices. A network to a host that no link describes is given as loopback; its MTU is unknown.
    let headers = point.family.header_bytes() + frame::UDP_HEADER;
    let link = point.link_as_set();
    let room = u64::from(link.mtu()).saturating_sub(headers);
    if path == Path::Gso && link != Link::Loopback && point.payload.0 > room {
        let message = format!(
            "path=gso sends each payload as one packet, and payload={} with UDP and {} headers \
             exceeds the MTU of {}",
            point.payload.0, point.family, link
        );
        let help = format!("use a payload of at most {room} bytes, or path=copy or mmsg");
        return refuse(Factor::Payload, message, help);
    }
    if path.is_uring() && point.pace != Pace::Closed {
        let message = format!("path={path} supports only pace=closed");
        return refuse(Factor::Path, message, "use path=copy or pace=closed");
    }
    let (is_carried, carried) = match path {
        Path::Uring => (pattern != Pattern::Crr, "stream, rr and burst"),
        _ => (pattern == Pattern::Stream, "stream"),
    };
    if !is_carried {
        let message = format!("path={path} supports {carried}, not {pattern}");
        return refuse(Factor::Path, message, "use path=copy");
    }
    if path.is_uring() && wait == Wait::BusyPoll {
        let message = format!("wait={wait} is not supported with path={path}");
        return refuse(Factor::Path, message, "use wait=block, spin or epoll");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay;

    #[test]
    fn threads_have_a_flow_each_at_least() {
        let base =
            "pattern=stream,transport=tcp,congestion=cubic,family=4,payload=64,link=loopback";
        let of = |levels: &str| resolve(&overlay(&format!("{base},{levels}")).unwrap());
        assert_eq!(of("flows=4,threads=4").unwrap().threads, Some(4));
        assert_eq!(of("threads=4").unwrap().threads, None, "one flow has one thread");
        for levels in ["path=io-uring", "transport=tls", "pace=fixed:1G", "wait=block"] {
            of(&format!("flows=2,threads=2,{levels}")).unwrap();
        }
        for (levels, says) in [
            ("flows=2,threads=3", "threads=3 exceeds flows=2"),
            ("flows=3,threads=2,wait=block", "with flows=3 and threads=2"),
        ] {
            let refusal = of(levels).unwrap_err().to_string();
            assert!(refusal.contains(says), "{levels}: {refusal}");
        }
    }

    #[test]
    fn crr_has_as_many_connections_at_once_as_flows() {
        let of = |levels: &str| {
            let base = "pattern=crr,congestion=cubic,family=4,payload=64,link=loopback";
            resolve(&overlay(&format!("{base},{levels}")).unwrap())
        };
        assert_eq!(of("transport=tcp").unwrap().wait, Wait::Block);
        assert_eq!(of("transport=tcp,flows=100").unwrap().wait, Wait::Epoll);
        let threads = of("transport=tls,flows=2,threads=2").unwrap();
        assert_eq!((threads.threads, threads.wait), (Some(2), Wait::Block));
        for (levels, says) in [
            ("transport=tcp,wait=spin", "crr does not support wait=spin"),
            ("transport=quic,flows=2", "only flows=1"),
            ("transport=tcp,flows=2,timestamps=software", "flows=1"),
        ] {
            let refusal = of(levels).unwrap_err().to_string();
            assert!(refusal.contains(says), "{levels}: {refusal}");
        }
    }
}
