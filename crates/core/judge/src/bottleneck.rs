//! What kept a run from being faster, from the evidence in its record.

use fabricmark_plan::{Figure, Network, Pattern, Point, Wait};
use fabricmark_record::{Bottleneck, Flow, Node, Record, TcpCounters};
use fabricmark_units::Nanos;
use fabricmark_wire::lfn::{self, Acks, Connection, Fit, Law};
use fabricmark_wire::{Ceiling, Kind};

/// Share of a ceiling, or of a time, from which on it is what limits: a choice, below 1 since ramps and the reading of
/// counters take a part.
const FULL: f64 = 0.9;

/// Share of the ceiling from which on the wire limits, as in the tables of a report.
const AT_CEILING: f64 = 0.95;

/// Share of the time with data to send from which on TCP's window or buffer limits. BBR paces what the window lets through,
/// so that a window of 64 KiB over 20 ms was full in 37 % of the time only (`measure stream lab:ethernet:1G --rtt 20ms
/// --receive-buffer 64KiB`).
const OFTEN: f64 = 0.25;

/// How far the goodput may be from what the law of the congestion control allows at the loss that there was, either way, for
/// the loss to be what limits. Laws are as far as that from measured connections, since losses come in bursts.
const NEAR_LAW: f64 = 3.0;

/// Share of lost datagrams from which on their loss limits a stream: the band in which two rates count as the same.
const DATAGRAM_LOSS: f64 = 0.02;

/// Share of the time from which on a quota limits.
const THROTTLED: f64 = 0.05;

/// Round trips from which on waiting for acknowledgements, and not the hosts, limits a stream.
const LONG_RTT_NS: u64 = 1_000_000;

/// What kept a run from being faster; `None` where nothing in the record shows it.
pub fn bottleneck(record: &Record) -> Option<Bottleneck> {
    let point = &record.point;
    if point.transport.traits().network == Network::Nothing {
        return None;
    }
    let flow = record.load().next()?;
    wire(record, flow)
        .or_else(|| pace(flow))
        .or_else(|| quota(record))
        .or_else(|| emulator(record, flow))
        .or_else(|| cpu(record))
        .or_else(|| tcp(record, flow.tcp.as_ref()?))
        .or_else(|| datagrams(record))
        .or_else(|| waits(record))
}

/// Whether one payload is sent after the other, without waiting for answers.
fn is_train(point: &Point) -> bool {
    matches!(point.pattern, Pattern::Stream | Pattern::Burst)
}

/// A ceiling that was reached, or a floor.
fn wire(record: &Record, flow: &Flow) -> Option<Bottleneck> {
    let goodput_bps = record.figures.value(Figure::Goodput).filter(|_| is_train(&record.point));
    let merges = flow.tcp.as_ref().is_some_and(TcpCounters::is_merged);
    let is_of_wire = |ceiling: &&Ceiling| {
        !ceiling.inputs.contains_key("window_bytes")
            // That of single writes says nothing about merged ones.
            && (ceiling.kind == Kind::Bound || !merges)
    };
    let ceilings = record.limits.ceilings.iter().filter(is_of_wire);
    let reached = ceilings.filter_map(|ceiling| Some(goodput_bps? / ceiling.goodput_bps.as_f64()));
    let floor_ns = record.limits.rtt_floor.as_ref().map(|floor| floor.time_ns.as_f64());
    let mean_ns = record.figures.time_mean().map(|mean| mean.value);
    let of_floor = floor_ns.zip(mean_ns).map(|(floor_ns, mean_ns)| floor_ns / mean_ns);
    let mut shares = reached.chain(of_floor);
    // More than a conditional ceiling is none.
    let share = shares.find(|share| (AT_CEILING..1.0 + DATAGRAM_LOSS).contains(share))?;
    Some(Bottleneck::Wire { share })
}

/// A pace that was kept.
fn pace(flow: &Flow) -> Option<Bottleneck> {
    let pacing = flow.pacing.as_ref().filter(|pacing| pacing.is_held())?;
    Some(Bottleneck::Pace { share: 1.0 - pacing.shortfall() })
}

fn quota(record: &Record) -> Option<Bottleneck> {
    let of_node = |node: &Node| {
        let usage = node.usage.as_ref()?;
        let share = usage.throttled_ns? as f64 / usage.elapsed_ns.max(1) as f64;
        Some((node.name.clone(), share))
    };
    let (node, share) = largest(record.nodes.iter().filter_map(of_node))?;
    (share >= THROTTLED).then_some(Bottleneck::Quota { node, share: share.min(1.0) })
}

fn emulator(record: &Record, flow: &Flow) -> Option<Bottleneck> {
    let busy_ns = record.emulation.as_ref()?.busy_ns? as f64;
    // It is counted from before the flow to after it.
    let share = (busy_ns / flow.sent.elapsed_ns.max(1) as f64).min(1.0);
    (share >= FULL).then_some(Bottleneck::Emulator { share })
}

/// The busier of the processors of both ends, where one is busy.
fn cpu(record: &Record) -> Option<Bottleneck> {
    let (node, share) = busiest(record)?;
    (share >= FULL).then_some(Bottleneck::Cpu { node, share })
}

fn waits(record: &Record) -> Option<Bottleneck> {
    let (_, share) = busiest(record)?;
    (share < FULL).then_some(Bottleneck::Waits { share })
}

/// The node whose processor was busiest, and the share of the time; both names where they share it. Nothing where a thread
/// that spins would be counted as busy.
fn busiest(record: &Record) -> Option<(String, f64)> {
    if matches!(record.point.wait, Wait::Spin | Wait::BusyPoll) {
        return None;
    }
    let [client, server] = record.nodes.as_slice() else { return None };
    let [of_client, of_server] = [client, server].map(|node| load(record, node));
    let stolen = |node: &Node| {
        let cpus = &node.usage.as_ref()?.machine.as_ref()?.per_cpu;
        Some(cpus.iter().find(|cpu| Some(cpu.cpu) == node.side.cpu)?.shares.steal)
    };
    let is_shared = client.side.cpu.is_some()
        && client.side.cpu == server.side.cpu
        && client.host.hostname == server.host.hostname;
    let (name, busy, node) = if is_shared {
        (format!("{} and {}", client.name, server.name), of_client? + of_server?, client)
    } else {
        let ends = [(client, of_client?), (server, of_server?)];
        let (node, busy) = largest(ends.into_iter())?;
        (node.name.clone(), busy, node)
    };
    Some((name, (busy + stolen(node).unwrap_or(0.0)).min(1.0)))
}

/// The share of the run's time in which a node's load threads ran.
fn load(record: &Record, node: &Node) -> Option<f64> {
    let of_flow = |flow: &Flow| {
        let elapsed_ns = flow.sent_thread?.elapsed_ns.max(1) as f64;
        let thread = if flow.from == node.name { flow.sent_thread } else { flow.received_thread };
        Some(thread?.cpu_ns as f64 / elapsed_ns)
    };
    record.load().map(of_flow).sum()
}

/// What TCP waited for.
fn tcp(record: &Record, tcp: &TcpCounters) -> Option<Bottleneck> {
    if !is_train(&record.point) {
        return None;
    }
    let busy_ns = tcp.busy_ns.filter(|&ns| ns > 0)? as f64;
    let window = tcp.rwnd_limited_ns? as f64 / busy_ns;
    let flow_bps = record.figures.value(Figure::Goodput)? / f64::from(record.point.flows);
    let in_flight = flow_bps * tcp.srtt_ns as f64 / 8e9;
    let buffer = tcp.sndbuf_limited_ns? as f64 / busy_ns;
    let buffer = buffer.max(in_flight / granted_bytes(record).unwrap_or(f64::INFINITY));
    if window.max(buffer) >= OFTEN {
        return Some(match window >= buffer {
            true => Bottleneck::Window { share: window.min(1.0) },
            false => Bottleneck::SendBuffer { share: buffer.min(1.0) },
        });
    }
    let share = tcp.retransmitted as f64 / tcp.data_segments.max(1) as f64;
    let of_law = allowed_bps(tcp, share).map(|allowed_bps| flow_bps / allowed_bps);
    if of_law.is_some_and(|of_law| (1.0 / NEAR_LAW..NEAR_LAW).contains(&of_law)) {
        return Some(Bottleneck::Loss { share });
    }
    let share = (1.0 - window - buffer).max(0.0);
    (tcp.srtt_ns >= LONG_RTT_NS).then_some(Bottleneck::CongestionControl { share })
}

/// Payload that the sender's buffer holds, where a length was asked for: half of what was granted, for the other half is the
/// kernel's own (socket(7)). A window of congestion that fills it is not counted as limited by it (tcp_cwnd_validate).
fn granted_bytes(record: &Record) -> Option<f64> {
    record.point.send_buffer?;
    let flow = record.load().next()?;
    let sender = record.nodes.iter().find(|node| node.name == flow.from)?;
    Some(sender.side.send_buffer_bytes? as f64 / 2.0)
}

/// What the congestion control allows at a loss; nothing of one that does not answer to single losses.
fn allowed_bps(tcp: &TcpCounters, loss: f64) -> Option<f64> {
    let law = match tcp.congestion.as_str() {
        "reno" => Law::Reno,
        "cubic" => Law::Cubic,
        _ => return None,
    };
    let rtt = Nanos(tcp.srtt_ns);
    let connection = Connection {
        mss_bytes: tcp.mss,
        rtt,
        timeout: rtt,
        window_bytes: lfn::WINDOW_MAX,
        acks: Acks::Delayed,
        fit: Fit::default(),
    };
    Some(lfn::law_goodput(law, &connection, loss)?.value.as_f64())
}

/// Where a stream of datagrams lost some.
fn datagrams(record: &Record) -> Option<Bottleneck> {
    let is_stream = record.point.pattern == Pattern::Stream && record.point.transport.is_lossy();
    let sent: u64 = record.load().map(|flow| flow.sent.calls).sum();
    let of_buffer = record.point.datagrams_per_buffer();
    let at_socket: u64 = record.load().map(|flow| flow.drops.socket * of_buffer).sum();
    let lost: u64 = record.load().map(|flow| flow.drops.lost).sum();
    let share = |count: u64| count as f64 / sent.max(1) as f64;
    if !is_stream {
        None
    } else if share(at_socket) >= DATAGRAM_LOSS {
        Some(Bottleneck::ReceiveBuffer { share: share(at_socket).min(1.0) })
    } else {
        (share(lost) >= DATAGRAM_LOSS).then_some(Bottleneck::Loss { share: share(lost) })
    }
}

fn largest<T>(shares: impl Iterator<Item = (T, f64)>) -> Option<(T, f64)> {
    shares.max_by(|(_, a), (_, b)| a.total_cmp(b))
}
