//! The figures of a run.

use std::collections::BTreeMap;

use fabricmark_plan::{Figure, Network, Pattern, Point, Purpose};
use fabricmark_proto::EndReport;
use fabricmark_record::{Counts, Figures, Pacing, Provenance, RelayTimes, Sourced};
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;
use fabricmark_wire::{Kind, Path, Stack, frame, lfn, one_way_floor, path_stream_goodput};

use crate::Part;

/// Flows from which on the memory per flow is meaningful: with fewer, the process itself dominates.
const FLOWS_TO_SHARE_MEMORY: u32 = 100;

/// Figures of the whole run, or of one of its groups of flows: those of the load (of a bidirectional stream, the
/// sums of both directions), and those of the probe.
pub(crate) fn together(parts: &[(&Part, Figures)], has_others: bool) -> Figures {
    let is_alone = parts.len() == 1 && !has_others;
    let of = |purpose: Purpose| parts.iter().filter(move |(part, _)| part.purpose == purpose);
    let loads: Vec<&Figures> = of(Purpose::Load).map(|(_, figures)| figures).collect();
    let mut whole = loads.first().map(|&first| first.clone()).unwrap_or_default();
    if let [forward, reverse] = loads.as_slice() {
        for figure in [
            Figure::Goodput,
            Figure::SendRate,
            Figure::PayloadRate,
            Figure::LandSpeed,
            Figure::Retransmits,
        ] {
            let sum = forward
                .get(figure)
                .zip(reverse.get(figure))
                .map(|(a, b)| Sourced { value: a.value + b.value, provenance: a.provenance });
            whole.set(figure, sum);
        }
        for figure in [Figure::Jitter, Figure::Loss, Figure::Fairness] {
            let both = forward.get(figure).zip(reverse.get(figure));
            let mean = both.map(|(a, b)| Sourced { value: (a.value + b.value) / 2.0, ..a });
            whole.set(figure, mean);
        }
        whole.set(Figure::ForwardGoodput, forward.get(Figure::Goodput));
        whole.set(Figure::ReverseGoodput, reverse.get(Figure::Goodput));
    }
    for (purpose, p50, p99) in [
        (Purpose::ProbeIdle, Figure::IdleRttP50, Figure::IdleRttP99),
        (Purpose::Probe, Figure::LoadedRttP50, Figure::LoadedRttP99),
    ] {
        if let Some((_, probe)) = of(purpose).next() {
            whole.set(p50, probe.get(Figure::RttP50));
            whole.set(p99, probe.get(Figure::RttP99));
        }
    }
    if !is_alone {
        // CPU time of the machine cannot be attributed to one of several parts.
        for demand in [
            Figure::SenderDemand,
            Figure::ReceiverDemand,
            Figure::ClientDemand,
            Figure::ServerDemand,
        ] {
            whole.set(demand, None);
        }
    }
    if loads.len() > 1 {
        // Each part has a relay of its own.
        whole.set(Figure::RelayDemand, None);
    }
    whole
}

/// Bytes that a new connection sends before the first acknowledgement: ten segments (RFC 6928, section 2), with the
/// timestamp option of Linux.
fn initial_window(point: &Point) -> u64 {
    let headers =
        point.family.header_bytes() + frame::TCP_HEADER + u64::from(frame::TCP_TIMESTAMPS);
    10 * u64::from(point.link_as_set().mtu()).saturating_sub(headers)
}

/// The figures of one part of a run.
pub(crate) fn figures(
    point: &Point,
    Nanos(omit_ns): Nanos,
    active: &EndReport,
    passive: &EndReport,
    relay: Option<RelayTimes>,
    path: Option<&Path>,
    provenance: Provenance,
) -> Figures {
    let pacing = active.pacing.as_ref();
    // Rates of an open loop are over its schedule.
    let (received, asked) = match pacing.map(Pacing::window_ns) {
        Some(window_ns) => {
            let asked = active.counts.answers_over_schedule(window_ns, omit_ns);
            (passive.counts.over_schedule(window_ns, omit_ns), asked)
        }
        None => (passive.counts, active.counts),
    };
    let sent = pacing
        .map_or(active.counts, |pacing| Counts { elapsed_ns: pacing.window_ns(), ..active.counts });
    // Nothing arrives over `null`; only the sender has a rate.
    let received = Some(received).filter(|_| point.transport.traits().network != Network::Nothing);
    let received_bps = received.and_then(|counts| counts.received_bps());
    let transactions_per_s = asked.received_per_s();
    // A burst that is answered has arrived.
    let answered_bps = asked.received_bps();
    let payload_bits = 8.0 * point.payload.0 as f64;
    let payloads = f64::from(point.payloads_per_request());
    let quantile = |times: Option<&Histogram>, q| Some(times?.quantile(q)? as f64);
    let (rtt, kernel, lag) = (
        active.rtt_ns.as_ref(),
        active.kernel_times.as_ref(),
        pacing.map(|pacing| &pacing.slip_ns),
    );
    let own_lag = pacing.and_then(|pacing| pacing.slip_without_pauses_ns.as_ref());
    let mean = rtt.and_then(Histogram::mean_ns);
    let delay = |times: Option<&Histogram>| times?.mean_ns();
    let reassembly_ns = delay(passive.kernel_times.as_ref().map(|times| &times.reassembly_ns));
    // Two ends on one machine read the same CPUs: each reading includes the work of both.
    let us_per_kib =
        |end: &EndReport| end.usage.as_ref()?.service_demand_us_per_kib(end.counts.bytes);
    let us_per_transaction =
        |end: &EndReport| end.usage.as_ref()?.service_demand_us_per_transaction(end.counts.calls);
    let peak_bytes = [active, passive]
        .into_iter()
        .filter_map(|end| Some(end.usage.as_ref()?.process.max_rss_bytes))
        .max()
        .filter(|_| point.flows >= FLOWS_TO_SHARE_MEMORY);
    let is_burst = point.pattern == Pattern::Burst;
    let value = |figure: Figure| match figure {
        Figure::Goodput if is_burst => answered_bps,
        Figure::Goodput => received_bps,
        Figure::SendRate => sent.sent_bps(),
        Figure::PayloadRate if is_burst => transactions_per_s.map(|bursts| bursts * payloads),
        Figure::PayloadRate => received_bps.map(|bps| bps / payload_bits),
        Figure::TransactionRate => transactions_per_s,
        Figure::HalfRtt => mean.map(|mean| mean / 2.0),
        Figure::Rtt | Figure::Step => mean,
        Figure::RttP50 | Figure::StepP50 => quantile(rtt, 0.5),
        Figure::RttP99 | Figure::StepP99 => quantile(rtt, 0.99),
        Figure::RttP999 | Figure::StepP999 => quantile(rtt, 0.999),
        Figure::SenderDemand => us_per_kib(active),
        Figure::ReceiverDemand => us_per_kib(passive),
        Figure::ClientDemand => us_per_transaction(active),
        Figure::ServerDemand => us_per_transaction(passive),
        Figure::MemoryPerFlow => peak_bytes.map(|bytes| bytes as f64 / f64::from(point.flows)),
        Figure::DepartureLagP50 => quantile(lag, 0.5),
        Figure::DepartureLagP99 => quantile(lag, 0.99),
        Figure::DepartureLagWithoutPausesP99 => quantile(own_lag, 0.99),
        Figure::SwitchingTime => relay.map(|relay| relay.switching_ns),
        Figure::SwitchingSpeed => relay.map(|relay| 8e9 * relay.bytes / relay.switching_ns),
        Figure::AccessDelay => delay(kernel.map(|times| &times.access_ns)),
        Figure::PacketisationDelay => delay(kernel.map(|times| &times.packetisation_ns)),
        Figure::TransmissionDelay => transmission_ns(point, path?, relay?.bytes),
        Figure::PropagationDelay => relay.and(path).and(point.rtt).map(|rtt| rtt.0 as f64 / 2.0),
        Figure::SwitchingDelay => relay.map(RelayTimes::switching_delay_ns),
        Figure::ReassemblyDelay => reassembly_ns,
        Figure::QueueingDelay => {
            let known_ns = transmission_ns(point, path?, relay?.bytes)?
                + point.rtt?.0 as f64
                + relay?.switching_delay_ns()
                + reassembly_ns?;
            let rest_ns = kernel?.rtt_ns.mean_ns()? - known_ns;
            // Of a longer request the first packets have left before the timestamp of the last one.
            let is_at_once = point.payload.0 <= initial_window(point);
            Some(rest_ns).filter(|&rest_ns| is_at_once && rest_ns >= 0.0)
        }
        Figure::OperationTime
        | Figure::OperationTimeP50
        | Figure::OperationTimeP99
        | Figure::ArrivalImbalance
        | Figure::Overlap
        | Figure::InteractionRate
        | Figure::ResponseTime
        | Figure::ResponseTimeP50
        | Figure::ResponseTimeP90
        | Figure::WithinLimit
        | Figure::AppTime
        | Figure::DatabaseTime
        | Figure::WebDemand
        | Figure::AppDemand
        | Figure::DatabaseDemand => None,
        Figure::SendingTime => relay.map(|_| active.counts.elapsed_ns as f64),
        Figure::ReceivingTime => relay.map(|_| passive.counts.elapsed_ns as f64),
        Figure::RelayReceivingTime => relay.map(|relay| relay.receiving_ns),
        Figure::RelayDemand => relay.map(|relay| relay.demand_us_per_kib),
        Figure::Jitter => passive.jitter_ns,
        Figure::Fairness => active.fairness.as_ref().map(|fairness| fairness.jain),
        // Counted from the drops of the part.
        Figure::Loss | Figure::LinkDrops => None,
        Figure::KernelRttP50 => quantile(kernel.map(|times| &times.rtt_ns), 0.5),
        Figure::KernelRttP99 => quantile(kernel.map(|times| &times.rtt_ns), 0.99),
        Figure::ApplicationP50 => quantile(kernel.map(|times| &times.application_ns), 0.5),
        Figure::ApplicationP99 => quantile(kernel.map(|times| &times.application_ns), 0.99),
        Figure::LandSpeed => land_speed(point, received_bps?),
        Figure::Retransmits => active.tcp.as_ref().map(|tcp| tcp.retransmitted as f64),
        // Figures of runs with several parts.
        Figure::ForwardGoodput
        | Figure::ReverseGoodput
        | Figure::IdleRttP50
        | Figure::IdleRttP99
        | Figure::LoadedRttP50
        | Figure::LoadedRttP99 => None,
    };
    let yielded = Figure::ALL.into_iter().filter(|figure| figure.applies(point));
    yielded
        .filter_map(|figure| {
            let provenance = match figure {
                Figure::TransmissionDelay | Figure::PropagationDelay | Figure::QueueingDelay => {
                    Provenance::Modelled
                }
                _ => provenance,
            };
            Some((figure, Sourced { value: value(figure)?, provenance }))
        })
        .collect()
}

/// Time that the wires of a path need for the bytes of a TCP connection. Over a half-duplex medium no two of its
/// packets are under way at once; elsewhere they follow each other from link to link.
fn transmission_ns(point: &Point, path: &Path, bytes: f64) -> Option<f64> {
    let stack = Stack::Tcp { family: point.family, option_bytes: 0 };
    if path.is_half_duplex() {
        let ceiling = path_stream_goodput(path, stack).ok()?;
        return Some(8e9 * bytes / ceiling.goodput_bps.as_f64());
    }
    Some(one_way_floor(path, stack, bytes.round() as u64).ok()?.time_ns.as_f64())
}

/// Rate of a slice, by the counts of the sender of the stream or requests (`active`) and of the other end: goodput
/// in bit/s of a stream or of bursts, else responses per second; 0 if nothing arrived.
pub fn slice_rate(point: &Point, active: &Counts, passive: &Counts) -> f64 {
    let rate = match point.pattern {
        Pattern::Stream => passive.received_bps(),
        Pattern::Burst => active.received_bps(),
        Pattern::Rr | Pattern::Crr | Pattern::PingPong | Pattern::PingPing => {
            active.received_per_s()
        }
        // Ranks report times.
        Pattern::Mpi | Pattern::Shop => None,
    };
    rate.unwrap_or(0.0)
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
