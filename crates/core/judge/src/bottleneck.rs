//! What limited a run, by the evidence in its record.

use fabricmark_plan::{Direction, Figure, Network, Pattern, Point, RELAY, Wait};
use fabricmark_record::{
    AT_CEILING, Bottleneck, CpuShares, Flow, Node, Record, TcpCounters, Warning,
};
use fabricmark_units::Nanos;
use fabricmark_wire::lfn::{self, Acks, Connection, Fit, Law};

/// Share of a ceiling, or of a time, from which on it limits: a choice, below 1 because of ramps and counter reads.
const FULL: f64 = 0.9;

/// Share of the time with data to send from which on TCP's window or buffer limits. BBR paces what the window
/// allows: a window of 64 KiB over 20 ms was full for only 37 % of the time (`measure stream lab:ethernet:1G --rtt
/// 20ms --receive-buffer 64KiB`).
const OFTEN: f64 = 0.25;

/// Largest factor, in either direction, between the goodput and what the law of the congestion control allows at the
/// measured loss, for loss to limit. Measurements deviate that far from the laws, since losses come in bursts.
const NEAR_LAW: f64 = 3.0;

/// Share of lost datagrams from which on loss limits a stream: the band in which two rates count as equal.
const DATAGRAM_LOSS: f64 = 0.02;

/// Share of throttled time from which on a CPU quota limits.
const THROTTLED: f64 = 0.05;

/// RTT from which on waiting for acknowledgements, and not the hosts, limits a stream.
const LONG_RTT_NS: u64 = 1_000_000;

/// What limited a run; `None` if nothing in the record shows it.
pub fn bottleneck(record: &Record) -> Option<Bottleneck> {
    let point = &record.point;
    if point.transport.traits().network == Network::Nothing {
        return None;
    }
    let flow = record.load().next()?;
    wire(record)
        .or_else(|| pace(flow))
        .or_else(|| quota(record))
        .or_else(|| emulator(record, flow))
        .or_else(|| cpu(record))
        .or_else(|| relay(record))
        .or_else(|| tcp(record, flow.tcp.as_ref()?))
        .or_else(|| datagrams(record))
        .or_else(|| waits(record))
}

/// Whether payloads are sent one after the other, without waiting for responses.
fn is_train(point: &Point) -> bool {
    matches!(point.pattern, Pattern::Stream | Pattern::Burst)
}

/// A ceiling or a floor that was reached.
fn wire(record: &Record) -> Option<Bottleneck> {
    let floor_ns = record.limits.rtt_floor.as_ref().map(|floor| floor.time_ns.as_f64());
    let mean_ns = record.figures.time_mean().map(|mean| mean.value);
    let of_floor = floor_ns.zip(mean_ns).map(|(floor_ns, mean_ns)| floor_ns / mean_ns);
    let mut shares = record.ceiling_shares().chain(of_floor);
    // A goodput above a conditional ceiling shows that the ceiling does not apply.
    let share = shares.find(|share| (AT_CEILING..1.0 + DATAGRAM_LOSS).contains(share))?;
    Some(Bottleneck::Wire { share })
}

/// A pace that was held.
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
    // It is counted from before the flow until after it.
    let share = (busy_ns / flow.sent.elapsed_ns.max(1) as f64).min(1.0);
    (share >= FULL).then_some(Bottleneck::Emulator { share })
}

/// The busier CPU of both ends, if it is busy.
fn cpu(record: &Record) -> Option<Bottleneck> {
    let (node, share) = busiest(record)?;
    (share >= FULL).then_some(Bottleneck::Cpu { node, share })
}

/// The CPU of the relay of a stream, which has one thread.
fn relay(record: &Record) -> Option<Bottleneck> {
    let kib_per_s = record.figures.value(Figure::Goodput)? / 8.0 / 1024.0;
    let share = record.figures.value(Figure::RelayDemand)? * kib_per_s / 1e6;
    let node = RELAY.to_owned();
    (share >= FULL).then(|| Bottleneck::Cpu { node, share: share.min(1.0) })
}

fn waits(record: &Record) -> Option<Bottleneck> {
    let (_, share) = busiest(record)?;
    (share < FULL).then_some(Bottleneck::Waits { share })
}

/// Node of the busiest CPU, and its busy share; both names if they share the CPU. `None` if threads spin (always
/// busy).
fn busiest(record: &Record) -> Option<(String, f64)> {
    if matches!(record.point.wait, Wait::Spin | Wait::BusyPoll) {
        return None;
    }
    let [client, server] = record.nodes.as_slice() else { return None };
    let is_shared = client.side.cpu.is_some()
        && client.side.cpu == server.side.cpu
        && client.host.hostname == server.host.hostname;
    if is_shared {
        let names = format!("{} and {}", client.name, server.name);
        return Some((names, wanted(record, &[client, server])?));
    }
    let ends = [(client, wanted(record, &[client])?), (server, wanted(record, &[server])?)];
    let (node, share) = largest(ends.into_iter())?;
    Some((node.name.clone(), share))
}

/// Share of the run's time in which load threads of nodes that share a CPU ran, or would have run if other processes or
/// the hypervisor had not had the CPU.
fn wanted(record: &Record, nodes: &[&Node]) -> Option<f64> {
    // Without the warning, each of several loads has CPUs of its own.
    let shares_cpu = |warning: &Warning| matches!(warning, Warning::SharedCpu { .. });
    let is_shared = record.warnings.iter().any(shares_cpu);
    let (mut ran, mut waited) = (0.0, 0.0);
    for flow in record.load() {
        let elapsed_ns = flow.sent_thread?.elapsed_ns.max(1) as f64;
        let (mut flow_ran, mut flow_waited) = (0.0, 0.0);
        for node in nodes {
            let is_sender = flow.from == node.name;
            let thread = if is_sender { flow.sent_thread } else { flow.received_thread }?;
            flow_ran += thread.cpu_ns as f64 / elapsed_ns;
            flow_waited += thread.run_delay_ns.unwrap_or(0) as f64 / elapsed_ns;
        }
        if is_shared {
            (ran, waited) = (ran + flow_ran, waited + flow_waited);
        } else if flow_ran + flow_waited > ran + waited {
            (ran, waited) = (flow_ran, flow_waited);
        }
    }
    let cpu = nodes[0].side.cpu.and_then(|cpu| cpu_shares(nodes[0], cpu));
    let cpu = cpu.unwrap_or_default();
    // Of several threads only one was read, on any of their CPUs.
    let is_known = record.point.threads.is_none();
    let of_others = if is_known { taken_by_others(&cpu, ran, waited) } else { 0.0 };
    Some((ran + of_others + cpu.steal).min(1.0))
}

/// Share of the time in which others had a CPU while threads waited for it, of which these ran in the share `ran`. Threads
/// also wait for an idle CPU to wake up, which nobody else had.
pub(crate) fn taken_by_others(cpu: &CpuShares, ran: f64, waited: f64) -> f64 {
    (cpu.busy() - ran).clamp(0.0, waited)
}

/// How a CPU of a node's machine spent its time; `None` if it is not known.
pub(crate) fn cpu_shares(node: &Node, cpu: u32) -> Option<CpuShares> {
    let cpus = &node.usage.as_ref()?.machine.as_ref()?.per_cpu;
    Some(cpus.iter().find(|one| one.cpu == cpu)?.shares)
}

/// Limits that show in TCP's own counters.
fn tcp(record: &Record, tcp: &TcpCounters) -> Option<Bottleneck> {
    if !is_train(&record.point) {
        return None;
    }
    let busy_ns = tcp.busy_ns.filter(|&ns| ns > 0)? as f64;
    let window = tcp.rwnd_limited_ns? as f64 / busy_ns;
    // The counters are those of the first direction.
    let goodput = match record.point.direction {
        Some(Direction::Both) => Figure::ForwardGoodput,
        _ => Figure::Goodput,
    };
    let flow_bps = record.figures.value(goodput)? / f64::from(record.point.flows);
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

/// Payload that the send buffer holds, if its size was requested: half of what was granted, since the kernel uses
/// the other half (socket(7)). The kernel does not count a congestion window that fills the buffer as limited by it
/// (tcp_cwnd_validate).
fn granted_bytes(record: &Record) -> Option<f64> {
    record.point.send_buffer?;
    let flow = record.load().next()?;
    let sender = record.nodes.iter().find(|node| node.name == flow.from)?;
    Some(sender.side.send_buffer_bytes? as f64 / 2.0)
}

/// Goodput that the congestion control allows at a loss; `None` if it does not react to single losses.
fn allowed_bps(tcp: &TcpCounters, loss: f64) -> Option<f64> {
    let law = match tcp.congestion.as_str() {
        "reno" => Law::Reno,
        "cubic" => Law::Cubic,
        _ => return None,
    };
    let rtt = Nanos(tcp.srtt_ns);
    let connection = Connection {
        mss_bytes: tcp.mss_bytes,
        rtt,
        timeout: rtt,
        window_bytes: lfn::WINDOW_MAX,
        acks: Acks::Delayed,
        fit: Fit::default(),
    };
    Some(lfn::law_goodput(law, &connection, loss)?.value.as_f64())
}

/// Where a datagram stream lost datagrams.
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
