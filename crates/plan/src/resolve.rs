//! From one level of each factor to a point: defaults filled in, contradictions refused.

use std::str::FromStr;

use fabricmark_units::Bytes;
use fabricmark_wire::{Family, Link, MTU_MIN, frame};

use crate::burst;
use crate::emulation;
use crate::factor::{Factor, NONE};
use crate::numbering;
use crate::pace::Pace;
use crate::plan::Where;
use crate::point::{
    Direction, Meet, Operation, PaceWait, Path, Pattern, Point, Probe, Timestamps, Transport, Wait,
};

/// UDP receive buffer asked for where nobody names one: 4 MiB, so that a receiver that is not
/// scheduled for a few milliseconds loses nothing at 1 Gbit/s.
const UDP_RECEIVE_BUFFER: Bytes = Bytes(4 << 20);

/// What QUIC may be congestion-controlled by, in the kernel's words: `reno` is New Reno (RFC 9002).
const QUIC_CONGESTION: [&str; 3] = ["cubic", "reno", "bbr"];

/// Why levels do not make a point together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct Contradiction {
    /// The factor whose level does not fit.
    pub factor: Factor,
    /// What does not fit.
    pub message: String,
    /// What would.
    pub help: String,
}

/// The point of these levels; a level that does not apply to the point is left out.
pub fn resolve(levels: &Where) -> Result<Point, Contradiction> {
    let levels = Levels(levels);
    let pattern = levels.required(Factor::Pattern, Pattern::named)?;
    let transport = levels.required(Factor::Transport, Transport::named)?;
    let family = levels.required(Factor::Family, |level| match level {
        "4" => Some(Family::V4),
        "6" => Some(Family::V6),
        _ => None,
    })?;
    let payload: Bytes = levels.required(Factor::Payload, |level| level.parse().ok())?;
    let link: Link = levels.required(Factor::Link, |level| level.parse().ok())?;
    let (is_stream, has_tcp) = (pattern == Pattern::Stream, transport.has_tcp());
    let default_response = match pattern {
        Pattern::Exchange | Pattern::ConnectExchange => Some(payload),
        Pattern::Burst => Some(burst::RESPONSE),
        Pattern::Stream | Pattern::PingPong | Pattern::PingPing => None,
    };
    let flows = levels.parsed(Factor::Flows).unwrap_or(1);
    let wait = levels.word(Factor::Wait, Wait::named);
    let pace: Pace = levels.parsed(Factor::Pace).unwrap_or_default();
    let is_open = pace != Pace::Closed;
    let default_outstanding = match pattern {
        // A slow answer does not hold up an open loop.
        Pattern::Exchange if is_open => Some(Point::OUTSTANDING_MAX),
        Pattern::Exchange => Some(1),
        Pattern::Burst => Some(burst::PAYLOADS),
        _ => None,
    };
    let has_ip = has_ip(transport);
    let is_verbs = transport.is_verbs();
    // QUIC sets what it needs itself, and MPTCP takes few options of IP (net/mptcp/sockopt.c).
    let sets_ip = has_ip && !matches!(transport, Transport::Mptcp | Transport::Quic);
    let has_connect = has_ip && !transport.has_udp();
    let point = Point {
        pattern,
        transport,
        family,
        payload,
        response: default_response
            .map(|default| levels.parsed(Factor::Response).unwrap_or(default)),
        outstanding: default_outstanding
            .map(|default| levels.parsed(Factor::Outstanding).unwrap_or(default)),
        direction: is_stream.then(|| {
            levels.word(Factor::Direction, Direction::named).unwrap_or(Direction::Forward)
        }),
        probe: levels.word(Factor::Probe, Probe::named),
        flows,
        pace,
        pace_wait: is_open
            .then(|| levels.word(Factor::PaceWait, PaceWait::named).unwrap_or(PaceWait::SleepSpin)),
        link,
        rtt: levels.parsed(Factor::Rtt),
        emulate: levels.parsed(Factor::Emulate),
        bus: levels.parsed(Factor::Bus),
        offload: None,
        window: levels.parsed(Factor::Window).filter(|_| transport == Transport::Tcp),
        operation: is_verbs
            .then(|| levels.word(Factor::Operation, Operation::named).unwrap_or(Operation::Send)),
        depth: levels.parsed(Factor::Depth).filter(|_| is_verbs),
        inline: levels.parsed(Factor::Inline).filter(|_| is_verbs),
        signal_every: levels.parsed(Factor::SignalEvery).filter(|_| is_verbs),
        meet: levels.word(Factor::Meet, Meet::named).filter(|_| is_verbs),
        verify: levels.parsed(Factor::Verify).filter(|_| is_verbs),
        path: levels.word(Factor::Path, Path::named).unwrap_or(Path::Copy),
        wait: wait.unwrap_or(if flows == 1 { Wait::Block } else { Wait::Epoll }),
        congestion: match transport {
            Transport::Quic => {
                Some(levels.parsed(Factor::Congestion).unwrap_or_else(|| "cubic".to_owned()))
            }
            _ => levels.parsed(Factor::Congestion).filter(|_| has_tcp),
        },
        nodelay: has_tcp.then(|| levels.parsed(Factor::Nodelay).unwrap_or(!is_stream)),
        mss: levels.parsed(Factor::Mss).filter(|_| has_tcp),
        pacing_rate: levels.parsed(Factor::PacingRate).filter(|_| transport == Transport::Tcp),
        dscp: levels.parsed(Factor::Dscp),
        receive_buffer: levels
            .parsed(Factor::ReceiveBuffer)
            .or(transport.has_udp().then_some(UDP_RECEIVE_BUFFER)),
        send_buffer: levels.parsed(Factor::SendBuffer),
        cork: levels.parsed(Factor::Cork).filter(|_| has_tcp),
        quickack: levels.parsed(Factor::QuickAck).filter(|_| transport == Transport::Tcp),
        dont_fragment: levels.parsed(Factor::DontFragment).filter(|_| sets_ip),
        flow_label: levels.parsed(Factor::FlowLabel).filter(|_| sets_ip && family == Family::V6),
        mark: levels.parsed(Factor::Mark).filter(|_| has_ip),
        source: levels.parsed(Factor::Source).filter(|_| has_ip),
        source_port: levels.parsed(Factor::SourcePort).filter(|_| has_ip),
        device: levels.parsed(Factor::Device).filter(|_| has_ip),
        connect_timeout: levels.parsed(Factor::ConnectTimeout).filter(|_| has_connect),
        timestamps: levels
            .word(Factor::Timestamps, Timestamps::named)
            .filter(|_| !is_stream && pattern != Pattern::PingPing)
            .filter(|_| matches!(transport, Transport::Udp | Transport::Tcp)),
        label: levels.parsed(Factor::Label),
    };
    let point = Point { offload: emulation::offload(levels.0, &point)?, ..point };
    check(&point)?;
    Ok(point)
}

fn has_ip(transport: Transport) -> bool {
    !matches!(transport, Transport::Unix | Transport::Null | Transport::Rsocket)
        && !transport.is_verbs()
}

struct Levels<'a>(&'a Where);

impl Levels<'_> {
    fn word<T>(&self, factor: Factor, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let level = self.0.get(&factor).filter(|level| !factor.has_none() || *level != NONE);
        level.and_then(|level| read(level))
    }

    fn parsed<T: FromStr>(&self, factor: Factor) -> Option<T> {
        self.word(factor, |level| level.parse().ok())
    }

    fn required<T>(
        &self,
        factor: Factor,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Contradiction> {
        self.word(factor, read).ok_or_else(|| {
            let name = factor.key();
            contradiction(factor, format!("no {name} is given"), format!("add {name}"))
        })
    }
}

pub(crate) fn contradiction(
    factor: Factor,
    message: String,
    help: impl Into<String>,
) -> Contradiction {
    Contradiction { factor, message, help: help.into() }
}

/// Refuses a link that packets of `family` do not cross.
pub(crate) fn check_link(link: Link, family: Family) -> Result<(), Contradiction> {
    if let Link::Ib(_) | Link::RoceV1 { .. } | Link::RoceV2 { .. } = link {
        let message = format!("{link} carries verbs, and no transport of a plan speaks them");
        let help = "use ipoib:WIDTH-SPEED or ethernet:RATE";
        return Err(contradiction(Factor::Link, message, help));
    }
    if family == Family::V6 && link.mtu() < MTU_MIN {
        let message = format!("IPv6 needs an MTU of {MTU_MIN}, and {link} has {}", link.mtu());
        let help = "use ib-mtu=2048, mode=connected or family 4";
        return Err(contradiction(Factor::Link, message, help));
    }
    Ok(())
}

/// Refuses what no run could carry out.
fn check(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, transport, family, wait, flows, link, .. } = *point;
    let refuse = |factor, message, help: &str| Err(contradiction(factor, message, help));
    if transport.has_tcp() && point.congestion.is_none() {
        let message = format!("{transport} without a congestion control");
        let help = "add congestion = \"cubic\" to [settings]: kernels differ in their default";
        return refuse(Factor::Transport, message, help);
    }
    let largest = family.udp_payload_max();
    for (factor, bytes) in
        [(Factor::Payload, Some(point.payload)), (Factor::Response, point.response)]
    {
        if let Some(Bytes(bytes)) = bytes
            && transport == Transport::Udp
            && bytes > largest
        {
            let message = format!("{bytes} bytes do not fit a UDP datagram over {family}");
            let help = format!("use at most {largest}, or [[exclude]] transport = \"udp\" there");
            return refuse(factor, message, &help);
        }
    }
    let most = Point::payload_max(transport);
    for (factor, bytes) in
        [(Factor::Payload, Some(point.payload)), (Factor::Response, point.response)]
    {
        if let Some(bytes) = bytes.filter(|&bytes| bytes > most) {
            let message = format!("{bytes} are more than {transport} is asked to carry at once");
            return refuse(factor, message, &format!("use at most {most}"));
        }
    }
    if transport == Transport::Unix && link != Link::Loopback {
        let message = format!("unix sockets do not cross {link}");
        return refuse(Factor::Transport, message, "use link = \"loopback\"");
    }
    check_link(link, family)?;
    if pattern == Pattern::ConnectExchange {
        if !transport.has_tcp() && !matches!(transport, Transport::Unix | Transport::Quic) {
            let message = format!("{transport} has no connection for each exchange");
            return refuse(Factor::Pattern, message, "use tcp, mptcp, tls, quic or unix");
        }
        if flows > 1 || wait != Wait::Block {
            let message = "connect-exchange is carried by one flow that blocks".to_owned();
            return refuse(Factor::Pattern, message, "leave out flows and wait");
        }
    }
    if transport == Transport::Null && (flows > 1 || wait != Wait::Block) {
        let message = "the null transport has one flow and nothing to wait for".to_owned();
        return refuse(Factor::Transport, message, "leave out flows and wait");
    }
    if transport == Transport::Rsocket && (flows > 1 || !matches!(wait, Wait::Block | Wait::Spin)) {
        let message = "rsockets are waited for by calls of their own, one a thread".to_owned();
        return refuse(Factor::Transport, message, "use flows 1 and wait block or spin");
    }
    if flows > 1 && wait != Wait::Epoll {
        let message = format!("{flows} flows on one thread cannot wait by `{wait}`");
        return refuse(Factor::Wait, message, "use wait = \"epoll\", or one flow");
    }
    if point.probe.is_some() && !has_ip(transport) {
        let message = format!("{transport} shares no network with a probe");
        return refuse(Factor::Probe, message, "leave out probe, or use another transport");
    }
    if point.direction == Some(Direction::Both) && transport == Transport::Null {
        let message = "nothing flows both ways over null".to_owned();
        return refuse(Factor::Direction, message, "use direction forward");
    }
    burst::check(point)?;
    numbering::check(point)?;
    check_ping_ping(point)?;
    point.check_verbs()?;
    emulation::check(point)?;
    check_quic(point)?;
    check_options(point)?;
    check_path(point)
}

/// Both ends send at once, and then receive.
fn check_ping_ping(point: &Point) -> Result<(), Contradiction> {
    /// What fits into the buffers of sockets, so that no end that blocks waits for the other to receive: the
    /// kernel's send buffer has 16 KiB at first, and the receive buffer 128 KiB (tcp(7), tcp_wmem and tcp_rmem).
    const BLOCKING_MAX: Bytes = Bytes(64 << 10);
    let Point { pattern, transport, wait, flows, path, payload, .. } = *point;
    if pattern != Pattern::PingPing {
        return Ok(());
    }
    let refuse = |factor, message: &str, help: &str| {
        Err(contradiction(factor, message.to_owned(), help.to_owned()))
    };
    if transport.is_lossy() {
        let message = "of ping-ping nothing may be lost: both ends would wait";
        return refuse(Factor::Transport, message, "use a reliable transport, or ping-pong");
    }
    if transport == Transport::Null {
        let message = "over null nothing arrives, and each end of ping-ping waits for the other's";
        return refuse(Factor::Transport, message, "use ping-pong");
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

/// QUIC's connections are driven by the calls of their flows, and it sets the octet of the DSCP itself,
/// for ECN.
fn check_quic(point: &Point) -> Result<(), Contradiction> {
    let Point { transport, flows, wait, .. } = *point;
    if transport != Transport::Quic {
        return Ok(());
    }
    let refuse = |factor, message, help: String| Err(contradiction(factor, message, help));
    let most = Point::flows_max(transport, point.path);
    if u64::from(flows) > most {
        let message = format!("quic opens at most {most} connections, not {flows}");
        let help = format!("use at most {most} flows, or another transport");
        return refuse(Factor::Flows, message, help);
    }
    if wait == Wait::BusyPoll {
        let message = format!("quic cannot wait by `{wait}`");
        return refuse(Factor::Wait, message, "use wait block, epoll or spin".to_owned());
    }
    if let Some(name) = &point.congestion
        && !QUIC_CONGESTION.contains(&name.as_str())
    {
        let message = format!("quic has no congestion control {name}");
        return refuse(Factor::Congestion, message, format!("use {}", QUIC_CONGESTION.join(", ")));
    }
    if point.dscp.is_some() {
        let message = "quic sets no DSCP".to_owned();
        return refuse(Factor::Dscp, message, "leave it out, or use another transport".to_owned());
    }
    Ok(())
}

/// Socket options that do not fit the point.
fn check_options(point: &Point) -> Result<(), Contradiction> {
    let refuse = |factor, message, help: &str| Err(contradiction(factor, message, help));
    if let Some(source) = point.source
        && source.is_ipv4() != (point.family == Family::V4)
    {
        let message = format!("flows over {} cannot be opened from {source}", point.family);
        return refuse(Factor::Source, message, "use an address of that family, or [[exclude]]");
    }
    let has_many = point.flows > 1
        || point.pattern == Pattern::ConnectExchange
        || point.direction == Some(Direction::Both);
    if point.source_port.is_some() && has_many {
        let message = "one port opens one flow".to_owned();
        return refuse(
            Factor::SourcePort,
            message,
            "leave out source_port, or use flows 1 and one direction",
        );
    }
    if point.quickack.is_some()
        && (point.path != Path::Copy || point.pattern == Pattern::ConnectExchange)
    {
        let message = "quickack is set again after each receive of path copy".to_owned();
        let help = "use path copy and another pattern than connect-exchange";
        return refuse(Factor::QuickAck, message, help);
    }
    check_timestamps(point)
}

/// A stamp of sending belongs to a request only where no other is under way, and a connection for each
/// exchange has packets of its own.
fn check_timestamps(point: &Point) -> Result<(), Contradiction> {
    if point.timestamps.is_none() {
        return Ok(());
    }
    let refuse = |message: &str, help: &str| {
        Err(contradiction(Factor::Timestamps, message.to_owned(), help))
    };
    if point.outstanding.is_some_and(|requests| requests > 1) {
        let message = "timestamps part round trips of one request under way";
        return refuse(message, "use outstanding = 1, or leave out timestamps");
    }
    if point.pattern == Pattern::ConnectExchange
        || point.path != Path::Copy
        || point.quickack.is_some()
    {
        let message = "timestamps are those of exchange and ping-pong over plain calls";
        return refuse(message, "use one of these patterns, path copy and no quickack");
    }
    Ok(())
}

/// A path other than plain calls is one of few transports, and of streams.
fn check_path(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, transport, path, flows, wait, .. } = *point;
    let carriers: &[Transport] = match path {
        Path::Copy => return Ok(()),
        Path::Mmsg | Path::Gso => &[Transport::Udp],
        Path::Trunc => &[Transport::Tcp, Transport::Udp],
        Path::ZeroCopy | Path::SendFile | Path::Splice => &[Transport::Tcp],
        Path::Uring => &[Transport::Tcp, Transport::Mptcp, Transport::Unix, Transport::Udp],
        // The kernel sends without a copy where the protocol says that it can (SOCK_SUPPORT_ZC).
        Path::UringZeroCopy => &[Transport::Tcp, Transport::Udp],
    };
    let refuse = |message, help: String| Err(contradiction(Factor::Path, message, help));
    if !carriers.contains(&transport) {
        let words: Vec<&str> = carriers.iter().map(|carrier| carrier.word()).collect();
        let message = format!("the path {path} is none of {transport}");
        return refuse(message, format!("use transport {}, or path copy", words.join(" or ")));
    }
    // The kernel refuses a segment of UDP_SEGMENT that would be fragmented (udp_send_skb, net/ipv4/udp.c). The MTU of
    // a link is that of its devices; what leads to a host that nobody describes stands as loopback.
    let headers = point.family.header_bytes() + frame::UDP_HEADER;
    let room = u64::from(point.link.mtu()).saturating_sub(headers);
    if path == Path::Gso && point.link != Link::Loopback && point.payload.0 > room {
        let message = format!(
            "the path gso sends each payload as one packet, and {} bytes with the headers of udp over {} exceed the \
             MTU of {}",
            point.payload.0, point.family, point.link
        );
        let help = format!("use a payload of at most {room} bytes, or path copy or mmsg");
        return Err(contradiction(Factor::Payload, message, help));
    }
    let is_many = matches!(path, Path::Mmsg | Path::Gso) || path.is_uring();
    if is_many && point.pace != Pace::Closed {
        let message = format!("the path {path} moves many payloads a call, not one a departure");
        return refuse(message, "use path copy, or pace closed".to_owned());
    }
    let (is_carried, carried) = match path {
        Path::Uring => (pattern != Pattern::ConnectExchange, "streams, exchanges and bursts"),
        _ => (pattern == Pattern::Stream, "streams"),
    };
    if !is_carried {
        let message = format!("the path {path} carries {carried}, not {pattern}");
        return refuse(message, "use path copy".to_owned());
    }
    let most = Point::flows_max(transport, path);
    if u64::from(flows) > most {
        let message = format!("the path {path} has a ring for each of {flows} flows");
        return refuse(message, format!("use at most {most} flows, or path copy"));
    }
    if path.is_uring() {
        if wait == Wait::BusyPoll {
            let message = format!("the path {path} waits for its ring, not by `{wait}`");
            return refuse(message, "use wait block, spin or epoll".to_owned());
        }
        return Ok(());
    }
    if flows > 1 || wait == Wait::Epoll {
        let message = format!("the path {path} is carried by one flow without epoll");
        return refuse(message, "use flows 1 and wait block, spin or busy-poll".to_owned());
    }
    Ok(())
}
