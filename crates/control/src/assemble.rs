//! From what two ends counted to a record.

use fabricmark_lab::{End, Shaper};
use fabricmark_plan::{Direction, Pattern, Point, Transport};
use fabricmark_proto::{EndReport, Ends};
use fabricmark_record::{
    Carrier, Counts, Drops, Figure, Figures, Flow, HostFacts, Limits, Node, Pacing, Provenance,
    Warning,
};
use fabricmark_units::Bytes;
use fabricmark_wire::{
    Link, frame, quic_goodput, tcp_message_goodput, tcp_stream_goodput, udp_goodput,
};

use crate::coordinator::Coordinator;

/// Flows from which on a process's memory says something about one of them.
const FLOWS_TO_SHARE_MEMORY: u32 = 100;

/// The parts of a record that follow from a run.
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Node>,
    pub(crate) flow: Flow,
    pub(crate) figures: Figures,
    pub(crate) limits: Limits,
    pub(crate) warnings: Vec<Warning>,
}

/// Puts a run's parts together; `queue_drops` are packets dropped in front of the link meanwhile.
pub(crate) fn assemble(
    coordinator: &Coordinator,
    host: &HostFacts,
    point: &Point,
    ends: Ends,
    queue_drops: u64,
) -> Parts {
    let Ends { start, answer } = ends;
    let is_reverse = point.direction == Some(Direction::Reverse);
    let provenance = provenance(point);
    let (active, passive) = if is_reverse { (&answer, &start) } else { (&start, &answer) };
    let figures = figures(point, active, passive, provenance);
    let limits = limits(point);
    let drops = drops(point, active, passive, queue_drops);
    let mut warnings = Vec::new();
    for (end, report) in [(End::Client, &start), (End::Server, &answer)] {
        if let Some(reason) = report.not_pinned.clone() {
            warnings.push(Warning::NotPinned { node: end.name().to_owned(), reason });
        }
    }
    warnings.extend(above_ceiling(point, &figures, &limits, &passive.counts));
    warnings.extend(backlog(point, &passive.counts));
    warnings.extend(active.pacing.as_ref().and_then(Pacing::warning));
    if drops.unexplained > 0 {
        warnings.push(Warning::UnexplainedLoss { datagrams: drops.unexplained });
    }
    if start.lost_round_trips > 0 {
        warnings.push(Warning::LostRoundTrips { count: start.lost_round_trips });
    }
    warnings.extend(small_buffer(point, passive));
    if start.side.cpu.is_some() && start.side.cpu == answer.side.cpu {
        warnings.push(Warning::SharedCpu);
    }
    let nodes = vec![
        node(coordinator, host, point, End::Client, &start),
        node(coordinator, host, point, End::Server, &answer),
    ];
    let (from, to) =
        if is_reverse { (End::Server, End::Client) } else { (End::Client, End::Server) };
    let flow = Flow {
        group: "load".to_owned(),
        from: from.name().to_owned(),
        to: to.name().to_owned(),
        sent: active.counts,
        received: passive.counts,
        sent_series: active.series.clone(),
        received_series: passive.series.clone(),
        drops,
        reordered: passive.sequence.map(|counts| counts.reordered),
        duplicates: passive.sequence.map(|counts| counts.duplicates),
        fairness: active.fairness,
        rtt_ns: active.rtt_ns.clone(),
        pacing: active.pacing.clone(),
        tcp: active.tcp.clone(),
    };
    Parts { nodes, flow, figures, limits, warnings }
}

/// A shaped link imitates a wire; a bare veth is what it is.
fn provenance(point: &Point) -> Provenance {
    if point.link.has_wire() { Provenance::Emulated } else { Provenance::Measured }
}

fn figures(
    point: &Point,
    active: &EndReport,
    passive: &EndReport,
    provenance: Provenance,
) -> Figures {
    let figure = |value: f64| Figure { value, provenance };
    // Two ends on one machine read the same processors: each has the work of both.
    let us_per_kib = |end: &EndReport| {
        end.usage.as_ref()?.service_demand_us_per_kib(end.counts.bytes).map(figure)
    };
    let us_per_transaction = |end: &EndReport| {
        end.usage.as_ref()?.service_demand_us_per_transaction(end.counts.calls).map(figure)
    };
    let slip = |q| {
        let slip_ns = active.pacing.as_ref()?.slip_ns.quantile(q)?;
        Some(figure(slip_ns as f64))
    };
    let figures = match point.pattern {
        Pattern::Stream => Figures {
            goodput_bps: passive.counts.received_bps().map(figure),
            sent_bps: active.counts.sent_bps().map(figure),
            payloads_per_s: passive.counts.received_per_s().map(figure),
            sender_demand_us_per_kib: us_per_kib(active),
            receiver_demand_us_per_kib: us_per_kib(passive),
            ..Figures::default()
        },
        Pattern::PingPong | Pattern::Exchange | Pattern::ConnectExchange => {
            let rtt = active.rtt_ns.as_ref();
            let quantile = |q| rtt.and_then(|rtt| rtt.quantile(q)).map(|ns| figure(ns as f64));
            let mean = rtt.and_then(fabricmark_stats::Histogram::mean_ns);
            Figures {
                rtt_mean_ns: mean.map(figure),
                half_rtt_mean_ns: mean
                    .filter(|_| point.pattern == Pattern::PingPong)
                    .map(|mean| figure(mean / 2.0)),
                exchanges_per_s: active.counts.calls_per_s().map(figure),
                rtt_p50_ns: quantile(0.5),
                rtt_p99_ns: quantile(0.99),
                rtt_p999_ns: quantile(0.999),
                asker_demand_us_per_transaction: us_per_transaction(active),
                answerer_demand_us_per_transaction: us_per_transaction(passive),
                ..Figures::default()
            }
        }
    };
    let peak_bytes = [active, passive]
        .into_iter()
        .filter_map(|end| Some(end.usage.as_ref()?.process.max_rss_bytes))
        .max()
        .filter(|_| point.flows >= FLOWS_TO_SHARE_MEMORY);
    Figures {
        slip_p50_ns: slip(0.5),
        slip_p99_ns: slip(0.99),
        memory_per_flow_bytes: peak_bytes
            .map(|bytes| figure(bytes as f64 / f64::from(point.flows))),
        ..figures
    }
}

/// The hard bound first, then what holds under a condition. A token bucket passes a message that
/// fits into it at once, so a shaped link has no floor of the round trip.
fn limits(point: &Point) -> Limits {
    let (link, family, Bytes(payload)) = (point.link, point.family, point.payload);
    let ceilings = match (point.pattern, point.transport) {
        (Pattern::Stream, Transport::Udp) => {
            udp_goodput(link, family, payload).into_iter().collect()
        }
        (Pattern::Stream, Transport::Tcp | Transport::Mptcp) => [
            tcp_stream_goodput(link, family, 0),
            tcp_stream_goodput(link, family, frame::TCP_TIMESTAMPS),
            tcp_message_goodput(link, family, payload, frame::TCP_TIMESTAMPS),
        ]
        .into_iter()
        .flatten()
        .collect(),
        // Records only add to what TCP carries, so that its bounds on a stream hold. What holds for
        // writes that leave alone does not: a record is longer than its payload.
        (Pattern::Stream, Transport::Tls) => [
            tcp_stream_goodput(link, family, 0),
            tcp_stream_goodput(link, family, frame::TCP_TIMESTAMPS),
        ]
        .into_iter()
        .flatten()
        .collect(),
        (Pattern::Stream, Transport::Quic) => quic_goodput(link, family).into_iter().collect(),
        _ => Vec::new(),
    };
    Limits { ceilings, rtt_floor: None }
}

/// Where datagrams of a stream were lost: each kind of drop explains as many as it counted.
fn drops(point: &Point, active: &EndReport, passive: &EndReport, queue_drops: u64) -> Drops {
    if point.transport != Transport::Udp || point.pattern != Pattern::Stream {
        return Drops::default();
    }
    let arrived = passive.sequence.map_or(passive.counts.calls, |counts| counts.unique);
    let lost = active.counts.calls.saturating_sub(arrived);
    let link = queue_drops + passive.device_drops;
    let (socket, reassembly) = (passive.socket_drops, passive.reassembly_failures);
    // What is dropped is a buffer, and counts as one.
    let explained = (socket + link + reassembly) * point.datagrams_per_buffer();
    let unexplained = lost.saturating_sub(explained);
    Drops { lost, socket, link, reassembly, unexplained }
}

fn above_ceiling(
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

/// A wire cannot be overtaken by its receiver: one that lags behind it at first and not later has been
/// asleep. Worth a word above a hundredth of what was counted.
fn backlog(point: &Point, counts: &Counts) -> Option<Warning> {
    let bytes = counts.waiting_bytes;
    (point.link.has_wire() && bytes > counts.bytes / 100).then_some(Warning::Backlog { bytes })
}

/// The kernel reports twice what it granted (socket(7)).
fn small_buffer(point: &Point, passive: &EndReport) -> Option<Warning> {
    let asked_bytes = point.receive_buffer?.0;
    let granted_bytes = passive.side.receive_buffer_bytes? / 2;
    (granted_bytes < asked_bytes).then_some(Warning::SmallBuffer { asked_bytes, granted_bytes })
}

fn node(
    coordinator: &Coordinator,
    host: &HostFacts,
    point: &Point,
    end: End,
    report: &EndReport,
) -> Node {
    let attachment = coordinator.attach(end, point);
    let is_home = point.link == Link::Loopback;
    Node {
        name: end.name().to_owned(),
        carrier: Carrier::LocalSocket,
        namespace: (!is_home).then(|| end.name().to_owned()),
        address: Some(attachment.address),
        device: Some(attachment.device),
        side: report.side.clone(),
        usage: report.usage.clone(),
        kernel: report.kernel,
        host: host.clone(),
    }
}
