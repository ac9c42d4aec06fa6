//! The figures of a run.

use std::collections::BTreeMap;

use fabricmark_plan::{Group, Pattern, Point, Transport};
use fabricmark_proto::EndReport;
use fabricmark_record::{Counts, Figure, Figures, KernelTimes, Pacing, Provenance};
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;
use fabricmark_wire::{Kind, lfn};

use crate::Part;

/// Flows from which on a process's memory says something about one of them.
const FLOWS_TO_SHARE_MEMORY: u32 = 100;

/// The figures of the whole run: those of the load, of a stream both ways the sums, and what the probe
/// found.
pub(crate) fn together(parts: &[(&Part, Figures)]) -> Figures {
    let is_alone = parts.len() == 1;
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
    if !is_alone {
        // What the machine did for one part is not told from what it did for another.
        whole.sender_demand_us_per_kib = None;
        whole.receiver_demand_us_per_kib = None;
        whole.asker_demand_us_per_transaction = None;
        whole.answerer_demand_us_per_transaction = None;
    }
    whole
}

/// The figures of one part of a run.
pub(crate) fn figures(
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
        Pattern::PingPong | Pattern::PingPing | Pattern::Rr | Pattern::Crr | Pattern::Burst => {
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
