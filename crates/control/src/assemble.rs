//! From what two ends counted to a record.

use std::collections::BTreeMap;

use fabricmark_plan::{Direction, Group, Pattern, Point, Role, Transport};
use fabricmark_proto::{EndReport, Ends};
use fabricmark_record::{
    Counts, Drops, Figure, Figures, Flow, HostFacts, KernelTimes, Limits, Node, Pacing, Provenance,
    Usage, Warning,
};
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;
use fabricmark_wire::{Kind, lfn};

use crate::coordinator::Coordinator;
use crate::experiment::PlanError;
use crate::limits::limits;
use crate::run::Part;

/// Flows from which on a process's memory says something about one of them.
const FLOWS_TO_SHARE_MEMORY: u32 = 100;

/// What of a record follows from a run.
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Node>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) figures: Figures,
    pub(crate) limits: Limits,
    pub(crate) warnings: Vec<Warning>,
}

/// Puts a run's parts together, the load first; `link_drops` are packets that the link dropped
/// meanwhile.
pub(crate) fn assemble(
    coordinator: &Coordinator,
    host: &HostFacts,
    point: &Point,
    parts: &[Part],
    link_drops: u64,
) -> Result<Parts, PlanError> {
    let is_alone = parts.len() == 1;
    let (mut flows, mut figures) = (Vec::new(), Vec::new());
    let mut warnings: Vec<Warning> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    for part in parts {
        let provenance = coordinator.provenance(&part.point);
        let (flow, found, noted) = of_part(part, provenance, link_drops);
        flows.push(flow);
        figures.push((part, found));
        for warning in noted {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    if let Some(Ends { client, server }) = parts.first().map(|part| &part.ends) {
        nodes.push(node(coordinator, host, point, Role::Client, client)?);
        nodes.push(node(coordinator, host, point, Role::Server, server)?);
    }
    // Beside the load, so that one that ran earlier does not count.
    let at_once = || parts.iter().filter(|part| part.group != Group::ProbeIdle);
    let cpus = at_once().flat_map(|part| [part.ends.client.side.cpu, part.ends.server.side.cpu]);
    let mut cpus: Vec<u32> = cpus.flatten().collect();
    let threads = cpus.len();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < threads {
        let processors = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        let ends = u32::try_from(threads).unwrap_or(u32::MAX);
        warnings.push(Warning::SharedCpu { ends, processors });
    }
    let mut figures = together(&figures);
    if !is_alone {
        // What the machine did for one part is not told from what it did for another.
        figures = Figures {
            sender_demand_us_per_kib: None,
            receiver_demand_us_per_kib: None,
            asker_demand_us_per_transaction: None,
            answerer_demand_us_per_transaction: None,
            ..figures
        };
    }
    Ok(Parts { nodes, flows, figures, limits: limits(point), warnings })
}

/// What one part of a run found: its flow, its figures, and what to know before trusting them.
fn of_part(part: &Part, provenance: Provenance, link_drops: u64) -> (Flow, Figures, Vec<Warning>) {
    let Part { group, point, omit, ends: Ends { client, server } } = part;
    let is_reverse = point.direction == Some(Direction::Reverse);
    let (active, passive) = if is_reverse { (server, client) } else { (client, server) };
    let figures = figures(point, *omit, active, passive, provenance);
    let drops = drops(point, active, passive, link_drops);
    let mut warnings = Vec::new();
    for (end, report) in [(Role::Client, client), (Role::Server, server)] {
        if let Some(reason) = report.not_pinned.clone() {
            warnings.push(Warning::NotPinned { node: end.name().to_owned(), reason });
        }
    }
    warnings.extend(stolen(client, server));
    warnings.extend(active.pacing.as_ref().and_then(Pacing::warning));
    if drops.unexplained > 0 {
        warnings.push(Warning::UnexplainedLoss { datagrams: drops.unexplained });
    }
    if client.lost_round_trips > 0 {
        warnings.push(Warning::LostRoundTrips { count: client.lost_round_trips });
    }
    warnings.extend(active.kernel_times.as_ref().and_then(KernelTimes::warning));
    warnings.extend(small_buffer(point, passive));
    warnings.extend(small_send_buffer(point, active));
    let (from, to) =
        if is_reverse { (Role::Server, Role::Client) } else { (Role::Client, Role::Server) };
    let flow = Flow {
        group: group.word().to_owned(),
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
        kernel_times: active.kernel_times.clone(),
        pacing: active.pacing.clone(),
        tcp: active.tcp.clone(),
        quic: active.quic,
    };
    (flow, figures, warnings)
}

/// The figures of the whole run: those of the load, of a stream both ways the sums, and what the probe
/// found.
fn together(parts: &[(&Part, Figures)]) -> Figures {
    let of = |group: Group| parts.iter().filter(move |(part, _)| part.group == group);
    let loads: Vec<&Figures> = of(Group::Load).map(|(_, figures)| figures).collect();
    let mut whole = loads.first().map(|&&first| first).unwrap_or_default();
    if let [forward, reverse] = loads.as_slice() {
        let sum = |figure: fn(&Figures) -> Option<Figure>| {
            let (a, b) = (figure(forward)?, figure(reverse)?);
            Some(Figure { value: a.value + b.value, provenance: a.provenance })
        };
        whole.goodput_bps = sum(|figures| figures.goodput_bps);
        whole.sent_bps = sum(|figures| figures.sent_bps);
        whole.payloads_per_s = sum(|figures| figures.payloads_per_s);
        whole.land_speed_bit_m_per_s = sum(|figures| figures.land_speed_bit_m_per_s);
        whole.retransmitted_segments = sum(|figures| figures.retransmitted_segments);
        whole.forward_goodput_bps = forward.goodput_bps;
        whole.reverse_goodput_bps = reverse.goodput_bps;
    }
    if let Some((_, idle)) = of(Group::ProbeIdle).next() {
        (whole.idle_rtt_p50_ns, whole.idle_rtt_p99_ns) = (idle.rtt_p50_ns, idle.rtt_p99_ns);
    }
    if let Some((_, loaded)) = of(Group::Probe).next() {
        (whole.loaded_rtt_p50_ns, whole.loaded_rtt_p99_ns) = (loaded.rtt_p50_ns, loaded.rtt_p99_ns);
    }
    whole
}

fn figures(
    point: &Point,
    Nanos(omit_ns): Nanos,
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
    // An open loop's rates are over its schedule.
    let (received, asked) = match active.pacing.as_ref().map(Pacing::window_ns) {
        Some(window_ns) => {
            let asked = active.counts.answers_over_schedule(window_ns, omit_ns);
            (passive.counts.over_schedule(window_ns, omit_ns), asked)
        }
        None => (passive.counts, active.counts),
    };
    let sent = active
        .pacing
        .as_ref()
        .map_or(active.counts, |pacing| Counts { elapsed_ns: pacing.window_ns(), ..active.counts });
    // Over `null` nothing arrives, and the sender's figure stands.
    let received = Some(received).filter(|_| point.transport != Transport::Null);
    let received_bps = received.and_then(|counts| counts.received_bps());
    let payload_bits = 8.0 * point.payload.0 as f64;
    let figures = match point.pattern {
        Pattern::Stream => Figures {
            goodput_bps: received_bps.map(figure),
            land_speed_bit_m_per_s: received_bps.and_then(|bps| land_speed(point, bps)).map(figure),
            retransmitted_segments: active.tcp.as_ref().map(|tcp| figure(tcp.retransmitted as f64)),
            sent_bps: sent.sent_bps().map(figure),
            payloads_per_s: received_bps.map(|bps| figure(bps / payload_bits)),
            sender_demand_us_per_kib: us_per_kib(active),
            receiver_demand_us_per_kib: us_per_kib(passive),
            ..Figures::default()
        },
        Pattern::PingPong
        | Pattern::PingPing
        | Pattern::Exchange
        | Pattern::ConnectExchange
        | Pattern::Burst => {
            let rtt = active.rtt_ns.as_ref();
            let quantile = |q| rtt.and_then(|rtt| rtt.quantile(q)).map(|ns| figure(ns as f64));
            let mean = rtt.and_then(Histogram::mean_ns);
            let is_burst = point.pattern == Pattern::Burst;
            let is_ping_ping = point.pattern == Pattern::PingPing;
            let trip = |figure: Option<Figure>| figure.filter(|_| !is_ping_ping);
            let step = |figure: Option<Figure>| figure.filter(|_| is_ping_ping);
            let payloads = f64::from(point.payloads_per_request());
            let payloads_per_s = asked.received_per_s().map(|bursts| bursts * payloads);
            let stamped = |part: fn(&KernelTimes) -> &Histogram, q| {
                part(active.kernel_times.as_ref()?).quantile(q).map(|ns| figure(ns as f64))
            };
            Figures {
                // What is answered has arrived.
                goodput_bps: asked.received_bps().filter(|_| is_burst).map(figure),
                payloads_per_s: payloads_per_s.filter(|_| is_burst).map(figure),
                rtt_mean_ns: trip(mean.map(figure)),
                half_rtt_mean_ns: mean
                    .filter(|_| point.pattern == Pattern::PingPong)
                    .map(|mean| figure(mean / 2.0)),
                exchanges_per_s: asked.received_per_s().map(figure),
                rtt_p50_ns: trip(quantile(0.5)),
                rtt_p99_ns: trip(quantile(0.99)),
                rtt_p999_ns: trip(quantile(0.999)),
                step_mean_ns: step(mean.map(figure)),
                step_p50_ns: step(quantile(0.5)),
                step_p99_ns: step(quantile(0.99)),
                step_p999_ns: step(quantile(0.999)),
                kernel_rtt_p50_ns: stamped(|times| &times.rtt_ns, 0.5),
                kernel_rtt_p99_ns: stamped(|times| &times.rtt_ns, 0.99),
                application_p50_ns: stamped(|times| &times.application_ns, 0.5),
                application_p99_ns: stamped(|times| &times.application_ns, 0.99),
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

/// Goodput over the distance of the emulated round trip, in bit-metres per second.
fn land_speed(point: &Point, goodput_bps: f64) -> Option<f64> {
    let rtt = point.rtt.filter(|&rtt| rtt > Nanos(0))?;
    let rate = lfn::Figure {
        kind: Kind::Estimate,
        value: lfn::Value::Rounded(goodput_bps),
        formula: "goodput_bps",
        inputs: BTreeMap::new(),
        source: "measured",
    };
    Some(lfn::land_speed(&rate, lfn::fibre_distance(rtt))?.value.as_f64())
}

/// Where datagrams of a stream were lost: each kind of drop explains as many as it counted.
fn drops(point: &Point, active: &EndReport, passive: &EndReport, link_drops: u64) -> Drops {
    if !point.transport.is_lossy() || point.pattern != Pattern::Stream {
        return Drops::default();
    }
    let arrived = passive.sequence.map_or(passive.counts.calls, |counts| counts.unique);
    let lost = active.counts.calls.saturating_sub(arrived);
    let link = link_drops + passive.device_drops;
    let (socket, reassembly) = (passive.socket_drops, passive.reassembly_failures);
    // What is dropped is a buffer, and counts as one.
    let explained = (socket + link + reassembly) * point.datagrams_per_buffer();
    let unexplained = lost.saturating_sub(explained);
    Drops { lost, socket, link, reassembly, unexplained }
}

/// Two ends on one machine lose the same time, so that one word about the worse is enough.
fn stolen(client: &EndReport, server: &EndReport) -> Option<Warning> {
    let share = |end: &EndReport| end.usage.as_ref().and_then(Usage::stolen_share).unwrap_or(0.0);
    let (end, report) = match share(server) > share(client) {
        true => (Role::Server, server),
        false => (Role::Client, client),
    };
    report.usage.as_ref()?.warning(end.name())
}

/// The kernel reports twice what it granted (socket(7)).
fn small_buffer(point: &Point, passive: &EndReport) -> Option<Warning> {
    let asked_bytes = point.receive_buffer?.0;
    let granted_bytes = passive.side.receive_buffer_bytes? / 2;
    (granted_bytes < asked_bytes).then_some(Warning::SmallBuffer { asked_bytes, granted_bytes })
}

/// As [`small_buffer`], of the end that sends.
fn small_send_buffer(point: &Point, active: &EndReport) -> Option<Warning> {
    let asked_bytes = point.send_buffer?.0;
    let granted_bytes = active.side.send_buffer_bytes? / 2;
    (granted_bytes < asked_bytes).then_some(Warning::SmallSendBuffer { asked_bytes, granted_bytes })
}

fn node(
    coordinator: &Coordinator,
    host: &HostFacts,
    point: &Point,
    role: Role,
    report: &EndReport,
) -> Result<Node, PlanError> {
    let attachment = coordinator.attach(role, point)?;
    let facts = coordinator.facts(role, point);
    Ok(Node {
        name: role.name().to_owned(),
        carrier: facts.carrier,
        namespace: facts.namespace,
        address: Some(attachment.address),
        device: Some(attachment.device),
        side: report.side.clone(),
        usage: report.usage.clone(),
        kernel: report.kernel,
        host: facts.host.unwrap_or_else(|| host.clone()),
        clock_offset: facts.clock_offset,
    })
}
