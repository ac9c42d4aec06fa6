//! Invariants of every record: physics and bookkeeping. A run that violates one is invalid.

use std::iter;

use fabricmark_plan::{
    Delivery, Figure, Headers, Network, Pace, Path as DataPath, Pattern, Point, RAMP_SHARE, Socket,
    Testbed,
};
use fabricmark_record::{
    Alignment, Carrier, Counts, EmulatedWay, Emulation, Flow, Node, Pacing, Record, THE_EMULATOR,
};
use fabricmark_stats::{LATENCY_TIE, THROUGHPUT_TIE};
use fabricmark_units::Nanos;
use fabricmark_wire::{Kind, Stack, exceeds, frame, goodput, stream_goodput};

use crate::bottleneck::{cpu_shares, taken_by_others};
use crate::limits::stack;
use crate::{mpi, shop, steady};

/// Bucket error of a histogram, for both of two numbers that are compared.
const BUCKETS: f64 = 2e-3;

/// Least share of the requested time that a stream must count, so that its start and end do not dominate.
const COUNTED_MIN: f64 = 0.25;

/// How long a machine may delay the first request of a load thread, or its continuation, in nanoseconds.
const IDLE_MAX_NS: f64 = 50e6;

/// Share of a closed loop's exchanges that may have started before the count.
const EDGE_MAX: f64 = 0.05;

/// Mean time in nanoseconds that an emulator adds to an RTT, above which it may dominate the RTT, however short that is.
const LATE_MIN_NS: f64 = 50_000.0;

/// All violations of a record, a sentence each; empty if the run may count. The wire may be exceeded by
/// `bucket_bytes`, if a token bucket replaces it.
pub fn violations(record: &Record, bucket_bytes: u64) -> Vec<String> {
    if record.measured_value().is_none() {
        return iter::once(no_figure(record)).chain(emulator(record)).collect();
    }
    let mut found = Vec::new();
    found.extend(mpi::violations(record));
    found.extend(record.shop.iter().flat_map(|run| shop::shop_violations(&record.point, run)));
    found.extend(wire(record, bucket_bytes));
    found.extend(open_exchanges(record, bucket_bytes));
    found.extend(round_trips(record));
    found.extend(emulator(record));
    found.extend(passed_emulator(record));
    found.extend(passed_device(record));
    for flow in &record.flows {
        let is_load = record.load().any(|load| std::ptr::eq(load, flow));
        if is_load {
            found.extend(counts(record, flow));
        }
        found.extend(series(record, flow));
        if is_load && record.load().count() == 1 {
            found.extend(loop_of(record, flow));
        }
    }
    found.extend(processors(record));
    found.extend(apart(record));
    found.extend(steady::violation(record));
    found
}

/// Senders that may have started so far apart that a part of what counts was measured without the others.
fn apart(record: &Record) -> Option<String> {
    let Alignment { starts_apart_ns, uncertainty_ns, .. } = record.alignment?;
    let most = Nanos(record.omit_ns.0.max(record.duration_ns.0 / RAMP_SHARE));
    let apart = Nanos(starts_apart_ns.saturating_add(uncertainty_ns));
    (apart > most && !record.place.warm_up).then(|| {
        format!(
            "the senders started up to {apart} apart, more than the ramp of {most}; use a longer duration"
        )
    })
}

/// Why a finished run has no figure, and where packets were lost.
fn no_figure(record: &Record) -> String {
    if let Some(run) = &record.shop {
        return shop::no_figure(run);
    }
    if record.mpi.is_some() {
        return "no operation started at its common time at all ranks; use sync=barrier".to_owned();
    }
    let total = |count: fn(&Flow) -> u64| -> u64 { record.load().map(count).sum() };
    let is_stream = record.point.pattern == Pattern::Stream;
    let (all, counted, units) = if is_stream {
        (total(|flow| flow.received.bytes), total(|flow| flow.received.counted_bytes()), "bytes")
    } else {
        (total(|flow| flow.sent.calls), total(|flow| flow.sent.counted_calls()), "responses")
    };
    let is_open_loop = record.load().any(|flow| flow.pacing.is_some());
    let (what, remedy) = match (all, counted) {
        (0, _) if is_stream => ("nothing arrived".to_owned(), ""),
        (0, _) => ("no response arrived".to_owned(), ""),
        (_, 0) if is_open_loop && record.omit_ns.0 > 0 => (
            format!("all {all} {units} that arrived belong to the omitted time"),
            "; use a lower rate, or omit less time",
        ),
        _ => (
            format!("the {all} {units} arrived in too short a time to compute a rate"),
            "; use a longer duration or a larger amount",
        ),
    };
    let places = [
        (total(|flow| flow.drops.link), "packets dropped by the link"),
        (total(|flow| flow.drops.socket), "datagrams dropped by the receiving socket"),
        (total(|flow| flow.drops.reassembly), "reassembly failures"),
        (total(|flow| flow.drops.unexplained), "datagrams lost without a drop counter"),
    ];
    let places = places.iter().filter(|(count, _)| *count > 0);
    let places: Vec<_> = places.map(|(count, place)| format!("{count} {place}")).collect();
    let colon = if places.is_empty() { "" } else { ": " };
    format!("{what}{colon}{}{remedy}", places.join(", "))
}

/// The goodput is no higher than the wire allows, in each direction.
fn wire(record: &Record, bucket_bytes: u64) -> Option<String> {
    let figures = &record.figures;
    let bound_bps = record.limits.arrival_bound_bps()?;
    // Data of an open loop are counted over its schedule.
    let counted_ns = |flow: &Flow| {
        let window_ns = flow.pacing.as_ref().map_or(0, Pacing::window_ns);
        flow.received.elapsed_ns.max(window_ns.saturating_sub(record.omit_ns.0))
    };
    let seconds = record.load().map(counted_ns).min()? as f64 / 1e9;
    // One direction alone may fill a medium that both share.
    let of_one = if record.limits.is_of_both_ways() { bound_bps / 2.0 } else { bound_bps };
    let ways = [
        (Figure::Goodput, bound_bps),
        (Figure::ForwardGoodput, of_one),
        (Figure::ReverseGoodput, of_one),
    ];
    ways.into_iter().find_map(|(goodput, bound_bps)| {
        let goodput_bps = figures.value(goodput)?;
        exceeds(goodput_bps, bound_bps, bucket_bytes, seconds).then(|| {
            let beyond = 100.0 * (goodput_bps / bound_bps - 1.0);
            let [goodput, bound] = [goodput_bps, bound_bps].map(|bps| bps / 1e6);
            // Packets that a late emulator held back before the counted time arrive within it.
            let excess_ns = (goodput_bps / bound_bps - 1.0) * seconds * 1e9;
            let waited_ns =
                record.emulation.as_ref().and_then(|emulation| waited_ns(record, emulation));
            let remedy = match bucket_bytes {
                0 => waited_ns
                    .filter(|&waited_ns| waited_ns >= excess_ns)
                    .map_or_else(String::new, |waited_ns| {
                        format!(": the emulator {}", waited_for_a_cpu(waited_ns))
                    }),
                bytes => format!(
                    ": the token bucket passes {bytes} bytes at once; use a longer \
                                  duration"
                ),
            };
            format!(
                "goodput of {goodput:.2} Mbit/s exceeds the ceiling of {bound:.2} by {beyond:.2} \
                 %{remedy}"
            )
        })
    })
}

/// Requests and responses of an open loop are no more than the wire carries. If the schedule offers more, it may be
/// shorter than the time that queues hold.
fn open_exchanges(record: &Record, bucket_bytes: u64) -> Option<String> {
    let (point, flow) = (&record.point, record.load().next()?);
    let window_ns = flow.pacing.as_ref()?.window_ns().saturating_sub(record.omit_ns.0);
    let seconds = flow.sent.elapsed_ns.max(window_ns) as f64 / 1e9;
    let per_s = record.figures.value(Figure::TransactionRate)?;
    let payload = point.payload.0;
    let request = u64::from(point.payloads_per_request()) * payload;
    let response = point.response.map_or(payload, |response| response.0);
    [("requests", request), ("responses", response)].into_iter().find_map(|(name, bytes)| {
        let tcp = Stack::Tcp { family: point.family, option_bytes: 0 };
        let bound = match point.transport.traits().headers {
            // The others have longer headers.
            Headers::Tcp | Headers::AtLeastTcp | Headers::Tls | Headers::Quic => {
                stream_goodput(point.link_as_set(), tcp)
            }
            Headers::Udp | Headers::Connection | Headers::Datagram => {
                let (link, stack) = stack(point)?;
                goodput(link, stack, bytes)
            }
            Headers::Unknown => return None,
        };
        let bound_bps = bound.ok()?.goodput_bps.as_f64();
        let moved_bps = 8.0 * bytes as f64 * per_s;
        exceeds(moved_bps, bound_bps, bucket_bytes, seconds).then(|| {
            format!(
                "{per_s:.3} transactions/s with {name} of {bytes} bytes are {:.2} Mbit/s, above \
                 the ceiling of {:.2}: the run is too short for the queued data; use a longer \
                 duration",
                moved_bps / 1e6,
                bound_bps / 1e6
            )
        })
    })
}

/// RTTs are not below the floor, and percentiles ascend.
fn round_trips(record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    let figures = &record.figures;
    for (name, shown) in [
        ("RTT", [Figure::RttP50, Figure::RttP99, Figure::RttP999]),
        ("step", [Figure::StepP50, Figure::StepP99, Figure::StepP999]),
    ] {
        let shown = shown.map(|figure| figures.value(figure));
        if !shown.is_sorted_by(|a, b| a.zip(*b).is_none_or(|(a, b)| a <= b)) {
            found.push(format!("percentiles of the {name} are not in order: {shown:?} ns"));
        }
    }
    if let (Some(half), Some(whole)) = (figures.value(Figure::HalfRtt), figures.value(Figure::Rtt))
        && (2.0 * half - whole).abs() > 1e-6 * whole
    {
        found.push(format!("RTT/2 of {half} ns is not half the RTT of {whole} ns"));
    }
    let Some(rtt_ns) = record.load().next().and_then(|flow| flow.rtt_ns.as_ref()) else {
        return found;
    };
    let (Some(least), Some(mean), Some(most)) = (rtt_ns.min(), rtt_ns.mean_ns(), rtt_ns.max())
    else {
        return found;
    };
    let (least, most) = (least as f64, most as f64);
    if rtt_ns.clamped() == 0 && !(least * (1.0 - BUCKETS) <= mean && mean <= most * (1.0 + BUCKETS))
    {
        found.push(format!("the mean RTT of {mean:.0} ns is not between {least} and {most} ns"));
    }
    let floor = record.limits.rtt_floor.as_ref().filter(|floor| floor.kind == Kind::Bound);
    if let Some(floor_ns) = floor.map(|floor| floor.time_ns.as_f64())
        && least < floor_ns * (1.0 - BUCKETS)
    {
        found.push(format!(
            "an RTT of {:.3} us is below the floor of {:.3} us",
            least / 1e3,
            floor_ns / 1e3
        ));
    }
    found
}

/// The emulator was no later than the figures tolerate, and dropped nothing that it should have passed.
fn emulator(record: &Record) -> Vec<String> {
    let Some(emulation) = &record.emulation else { return Vec::new() };
    let ways = [emulation.forward, emulation.reverse];
    let mut found = Vec::new();
    let missed: u64 = ways.iter().map(|way| way.missed).sum();
    let all: u64 = ways.iter().map(|way| way.arrived.saturating_add(way.missed)).sum();
    let waited_ns = waited_ns(record, emulation);
    // Why, if it waited for a CPU for at least this time.
    let by_others = |least_ns: f64| {
        let waited_ns = waited_ns.filter(|&waited_ns| waited_ns >= least_ns)?;
        Some(format!(": it {}", waited_for_a_cpu(waited_ns)))
    };
    if missed as f64 > MISSED_MAX * all as f64 && !is_flood(record) {
        let too_slow = ": this machine is too slow for the link; use a lower rate";
        let cause = by_others(THROUGHPUT_TIE * record.duration_ns.0 as f64);
        let cause = cause.unwrap_or_else(|| too_slow.to_owned());
        found.push(format!(
            "{THE_EMULATOR} dropped {missed} of {all} packets for lack of time{cause}"
        ));
    }
    // Packets that the emulator was told to duplicate leave it twice.
    if record.point.link_options().is_none_or(|options| options.describe().duplicate == 0.0) {
        for (name, way) in ["forward", "reverse"].iter().zip(ways) {
            // Acknowledgements of the previous run and neighbour discovery take some packets.
            let allowed = way.arrived.saturating_add(way.arrived / 50).saturating_add(16);
            let left = way.departed.saturating_add(way.dropped);
            if left > allowed {
                found.push(format!(
                    "{THE_EMULATOR} received {} packets in the {name} direction, but delivered or dropped {left}: \
                     the link was not empty when the run began; use a shorter queue",
                    way.arrived
                ));
            }
        }
    }
    let late_p99_ns = ways.iter().filter_map(|way| way.late_p99_ns).max().unwrap_or(0) as f64;
    for flow in record.load().filter(|_| record.point.pattern == Pattern::Stream) {
        // Data of an open loop are counted over its schedule.
        let window_ns = flow.pacing.as_ref().map_or(0, Pacing::window_ns);
        let elapsed_ns = flow.received.elapsed_ns.max(window_ns) as f64;
        if elapsed_ns > 0.0 && late_p99_ns > THROUGHPUT_TIE * elapsed_ns {
            let cause = by_others(late_p99_ns).unwrap_or_default();
            found.push(format!(
                "{THE_EMULATOR} was {:.1} ms late (p99), too much for a count of {:.1} ms{cause}",
                late_p99_ns / 1e6,
                elapsed_ns / 1e6
            ));
        }
    }
    let late_ns: u64 = ways.iter().filter_map(|way| way.late_mean_ns).sum();
    let late_ns = late_ns as f64;
    // It reads packets late if it waits for a CPU. Each wait delays at least one exchange, and at most all under way.
    let exchanges = record.load().map(|flow| flow.sent.calls).sum::<u64>().max(1) as f64;
    let waited_ns = waited_ns.unwrap_or(0.0);
    if let Some(mean_ns) = record.figures.time_mean().map(|mean| mean.value) {
        let is_long = |ns: f64| ns > LATE_MIN_NS.max(LATENCY_TIE * mean_ns);
        let step = if record.point.pattern == Pattern::PingPing { "step" } else { "RTT" };
        let of_mean = format!("too much for a mean {step} of {:.0} us", mean_ns / 1e3);
        // With several groups, the wait may have delayed another one.
        if record.point.group.is_none() && is_long(waited_ns / exchanges) {
            found.push(format!(
                "{THE_EMULATOR} waited for a CPU for {:.0} us in each {step}, {of_mean}; stop other processes",
                waited_ns / exchanges / 1e3
            ));
        } else if is_long(late_ns) {
            let without_waits_ns =
                late_ns - waited_ns * f64::from(record.point.in_flight()) / exchanges;
            let cause = if is_long(without_waits_ns) {
                String::new()
            } else {
                format!(": it {}", waited_for_a_cpu(waited_ns))
            };
            found.push(format!(
                "{THE_EMULATOR} was {:.0} us late (mean), {of_mean}{cause}",
                late_ns / 1e3
            ));
        }
    }
    found
}

/// That the emulator waited so long for a CPU, and what to do.
fn waited_for_a_cpu(waited_ns: f64) -> String {
    format!("waited for a CPU for {:.0} ms; stop other processes", waited_ns / 1e6)
}

/// Time in which the emulator waited for a CPU that other processes had, in nanoseconds; `None` if it is not known.
fn waited_ns(record: &Record, emulation: &Emulation) -> Option<f64> {
    let node = record.nodes.first()?;
    let cpu = cpu_shares(node, emulation.cpu?)?;
    let elapsed_ns = node.usage.as_ref()?.elapsed_ns.max(1) as f64;
    let [ran, waited] =
        [emulation.cpu_ns?, emulation.run_delay_ns?].map(|ns| ns as f64 / elapsed_ns);
    Some(taken_by_others(&cpu, ran, waited) * elapsed_ns)
}

/// Share of packets that may be dropped for lack of time: one of a thousand slows a TCP stream down, and changes a
/// count of datagrams by less than its confidence interval.
const MISSED_MAX: f64 = 1e-3;

/// Whether datagrams came faster than the wire or the hosts carry them, so that losses anywhere are expected.
pub(crate) fn is_flood(record: &Record) -> bool {
    let goodput_bps = record.figures.value(Figure::Goodput).unwrap_or(0.0);
    let bound_bps = record.limits.bound_bps();
    let is_full = bound_bps.is_none_or(|bps| goodput_bps > (1.0 - THROUGHPUT_TIE) * bps);
    record.point.transport.is_lossy() && record.point.pattern == Pattern::Stream && is_full
}

/// The emulator has delivered at least what was received, with its headers.
fn passed_emulator(record: &Record) -> Vec<String> {
    let Some(emulation) = &record.emulation else { return Vec::new() };
    let [client, server] = record.nodes.as_slice() else { return Vec::new() };
    let sides = [("forward", emulation.forward, client), ("reverse", emulation.reverse, server)];
    let beyond = |(name, way, from): (&str, EmulatedWay, &Node)| {
        let departed_bytes = way.departed_bytes?;
        let flows = record.load().filter(|flow| flow.from == from.name);
        let each = flows.map(|flow| least_ip_bytes(&record.point, &flow.received));
        let least = each.fold(0, u64::saturating_add);
        (record.point.pattern == Pattern::Stream && least > departed_bytes).then(|| {
            format!(
                "the received payload needs at least {least} bytes of IP, but the emulator \
                 delivered {departed_bytes} in the {name} direction"
            )
        })
    };
    sides.into_iter().filter_map(beyond).collect()
}

/// The receiver's device has received at least what the flow received, with its headers. Outside a lab packets may
/// arrive at another device than that of the address.
fn passed_device(record: &Record) -> Option<String> {
    let point = &record.point;
    let traits = point.transport.traits();
    let has_one_device = match traits.headers {
        Headers::Tcp | Headers::Tls | Headers::Udp | Headers::Quic | Headers::AtLeastTcp => {
            traits.socket != Socket::Mptcp
        }
        Headers::Connection | Headers::Datagram | Headers::Unknown => false,
    };
    if record.testbed != Testbed::Lab || point.pattern != Pattern::Stream || !has_one_device {
        return None;
    }
    // The counters of nodes cover the first flow.
    let flow = record.load().next()?;
    let node = record.nodes.iter().find(|node| node.name == flow.to)?;
    let received_bytes = node.kernel?.device_received_bytes?;
    // Datagrams that the sender's device does not segment cross a veth with one header.
    let least_bytes = match point.path {
        DataPath::Gso => flow.received.bytes,
        _ => least_ip_bytes(point, &flow.received),
    };
    (received_bytes < least_bytes).then(|| {
        format!(
            "the received payload needs at least {least_bytes} bytes of IP, but the device of node \
             {} received {received_bytes}",
            node.name
        )
    })
}

/// Least number of IP bytes that carried the received payload.
fn least_ip_bytes(point: &Point, received: &Counts) -> u64 {
    let headers = match point.transport.traits().headers {
        Headers::Udp => point.family.header_bytes() + frame::UDP_HEADER,
        _ => 0,
    };
    received.bytes.saturating_add(received.calls.saturating_mul(headers))
}

/// No more is received than was sent, no more is counted than was received, and enough is counted.
fn counts(record: &Record, flow: &Flow) -> Vec<String> {
    let Flow { sent, received, .. } = flow;
    let mut found = Vec::new();
    let point = &record.point;
    if point.pattern != Pattern::Stream
        || point.transport.traits().network == Network::Nothing
        || is_iperf3(record)
    {
        return found;
    }
    // A copy that the link made is received, too.
    if record.load().count() > 1 && received.counted_bytes() == 0 {
        found.push(format!(
            "no bytes from the {} arrived in the counted time; use a longer duration",
            flow.from
        ));
    }
    let copies_bytes = flow.duplicates.unwrap_or(0).saturating_mul(point.payload.0);
    if received.bytes > sent.bytes.saturating_add(copies_bytes) {
        let remedy = match flow.duplicates {
            None if point.transport.is_lossy() => {
                "; duplicates cannot be detected in payloads this short: use a longer payload"
            }
            _ => "",
        };
        found.push(format!(
            "{} bytes were sent, but {} received{remedy}",
            sent.bytes, received.bytes
        ));
    }
    let is_whole = point.transport.traits().delivery == Delivery::Bytes;
    if is_whole && received.bytes < sent.bytes {
        found.push(format!("{} bytes were sent, but only {} received", sent.bytes, received.bytes));
    }
    let left_out = [
        (received.ramp_bytes, received.tail_bytes, received.bytes, "bytes"),
        (received.ramp_calls, received.tail_calls, received.calls, "calls"),
    ];
    for (ramp, tail, all, unit) in left_out {
        if ramp.saturating_add(tail) > all {
            found.push(format!(
                "{ramp} {unit} before the count and {tail} after it exceed the {all} received"
            ));
        }
    }
    if point.pace != Pace::Closed {
        found.extend(stall(record, flow));
        return found;
    }
    let asked_ns = record.duration_ns.0.min(sent.elapsed_ns) as f64;
    let elapsed_ns = received.elapsed_ns as f64;
    if received.bytes > 0 && elapsed_ns < COUNTED_MIN * asked_ns {
        found.push(format!(
            "only {:.1} of {:.1} ms were counted; use a longer duration or a larger amount",
            elapsed_ns / 1e6,
            asked_ns / 1e6
        ));
    }
    let counted_bytes = received.counted_bytes() as f64;
    if received.uncertain_bytes as f64 > THROUGHPUT_TIE / 2.0 * counted_bytes {
        found.push(format!(
            "TCP was always in loss recovery when the count began or ended: {} of {counted_bytes} \
             bytes are uncertain; use a longer duration",
            received.uncertain_bytes
        ));
    }
    found
}

/// Without loss and below line rate, data of an open loop arrive in the time of its schedule; more time is a stall.
fn stall(record: &Record, flow: &Flow) -> Option<String> {
    /// Share of the line rate above which a queue may spread arrivals.
    const FULL: f64 = 0.9;
    let (point, received) = (&record.point, &flow.received);
    let pacing = flow.pacing.as_ref().filter(|pacing| pacing.departures > 0)?;
    // Impairments that spread arrivals by themselves.
    let spreads = point.link_options().is_some_and(|options| {
        let link = options.describe();
        link.jitter > Nanos(0) || link.reorder.is_some() || options.files().next().is_some()
    });
    if !point.transport.is_lossy() || flow.drops.lost > 0 || spreads {
        return None;
    }
    let offered_bps = 8.0 * point.payload.0 as f64 * pacing.intended_per_s()?;
    if record.limits.bound_bps().is_some_and(|bps| offered_bps > FULL * bps) {
        return None;
    }
    let window_ns = pacing.window_ns().saturating_sub(record.omit_ns.0) as f64;
    let gap_ns = pacing.window_ns() as f64 / pacing.departures as f64;
    let elapsed_ns = received.elapsed_ns as f64;
    (elapsed_ns > window_ns * (1.0 + THROUGHPUT_TIE) + gap_ns).then(|| {
        format!(
            "nothing was lost, but data sent in {:.1} ms took {:.1} ms to arrive: a host or the \
             emulator stalled",
            window_ns / 1e6,
            elapsed_ns / 1e6
        )
    })
}

/// Whether the other end is an iperf3 server.
fn is_iperf3(record: &Record) -> bool {
    record.nodes.iter().any(|node| node.carrier == Carrier::Iperf3)
}

/// Intervals add up to the total; over iperf3 the total does not include the omitted part.
fn series(record: &Record, flow: &Flow) -> impl Iterator<Item = String> {
    let is_whole = record.omit_ns == Nanos(0) || !is_iperf3(record);
    let ends = [
        ("sent", &flow.sent_series, flow.sent),
        ("received", &flow.received_series, flow.received),
    ];
    ends.into_iter().filter_map(move |(what, series, Counts { bytes: all, .. })| {
        let sum = series.as_ref().filter(|_| is_whole)?.bytes();
        (sum != all).then(|| format!("{all} bytes were {what}, but the intervals add up to {sum}"))
    })
}

/// Little's law in a closed loop; no more than was offered in an open loop.
fn loop_of(record: &Record, flow: &Flow) -> Option<String> {
    let (point, figures) = (&record.point, &record.figures);
    if let Some(pacing) = &flow.pacing {
        let offered = pacing.intended_per_s()?;
        let (achieved, counts) = match point.pattern {
            Pattern::Stream => {
                let payload_bits = 8.0 * point.payload.0 as f64;
                (figures.value(Figure::Goodput)? / payload_bits, &flow.received)
            }
            _ => (figures.value(Figure::TransactionRate)?, &flow.sent),
        };
        let copies = flow.duplicates.unwrap_or(0) as f64 / pacing.departures.max(1) as f64;
        let edge_per_s = edge_per_s(point, counts, offered, record.omit_ns);
        return (achieved > offered * (1.0 + copies + BUCKETS) + edge_per_s).then(|| {
            format!("{achieved:.3} payloads or responses/s arrived, but only {offered:.3} were scheduled")
        });
    }
    if point.pattern == Pattern::Stream {
        return None;
    }
    let slots = f64::from(point.in_flight());
    let (rate_per_s, mean_ns) =
        (figures.value(Figure::TransactionRate)?, figures.time_mean().map(|mean| mean.value)?);
    let rtt_ns = flow.rtt_ns.as_ref()?;
    let elapsed_ns = flow.sent.elapsed_ns as f64;
    let under_way = rate_per_s * mean_ns / 1e9;
    // Requests of several slots are outstanding when counting begins; with too many, the rate is wrong.
    let edge_max = EDGE_MAX * slots;
    let edge = match point.pattern {
        // RTTs are those of pairs of steps, and the last step may have none.
        Pattern::PingPing => 1.0 / flow.sent.counted_calls().max(1) as f64,
        _ if slots > 1.0 => slots * rtt_ns.max()? as f64 / elapsed_ns,
        _ => 0.0,
    };
    // Such a loop is never idle: the next request departs when a response arrives. Connections take additional time.
    // Several slots may share a connection that holds fewer; at the end they wait for one last response.
    let asked_ns = record.duration_ns.0 as f64;
    let is_waiting = elapsed_ns - asked_ns > EDGE_MAX * elapsed_ns;
    let is_busy = !point.transport.is_lossy()
        && point.pattern != Pattern::Crr
        && (slots == 1.0 || is_waiting);
    let idle = 0.02 + (IDLE_MAX_NS + 2.0 * mean_ns) / elapsed_ns;
    let least = if is_busy { slots * (1.0 - idle) } else { 0.0 };
    let is_short = edge > edge_max || slots > 1.0 && under_way < least;
    let remedy = if is_short { "; use a longer duration" } else { "" };
    (under_way > slots * (1.0 + BUCKETS) + edge.min(edge_max) || under_way < least).then(|| {
        format!(
            "Little's law: {rate_per_s:.3} transactions/s x a mean RTT of {:.3} ms = \
             {under_way:.3} outstanding, expected {slots}{remedy}",
            mean_ns / 1e6
        )
    })
}

/// How far the rate in a part of the schedule may exceed that of the whole: by the departures of one instant, by
/// chance (six standard deviations), and by what was due before the count and had not arrived (in TCP's slow start).
fn edge_per_s(point: &Point, counts: &Counts, offered_per_s: f64, omit: Nanos) -> f64 {
    if counts.ramp_calls == 0 || counts.elapsed_ns == 0 {
        return 0.0;
    }
    let seconds = counts.elapsed_ns as f64 / 1e9;
    let departures = match &point.pace {
        Pace::Closed => 0.0,
        Pace::Fixed(_) => 1.0,
        Pace::Poisson(_) => 1.0 + 6.0 * (offered_per_s * seconds).sqrt(),
        Pace::Burst { bytes, .. } => 1.0 + bytes.0 as f64 / point.payload.0.max(1) as f64,
        // All departures may be in any part of a trace or between pauses; a rate that follows the network changes.
        Pace::Trace(_) | Pace::OnOff { .. } | Pace::Follow { .. } => f64::INFINITY,
    };
    let payload = point.payload.0.max(1) as f64;
    let arrived = match point.pattern {
        Pattern::Stream => counts.ramp_bytes as f64 / payload,
        _ => counts.ramp_calls as f64,
    };
    let backlog = (offered_per_s * omit.as_secs_f64() - arrived).max(0.0);
    (departures + backlog) / seconds
}

/// CPU time used is no more than there was.
fn processors(record: &Record) -> Option<String> {
    record.nodes.iter().find_map(|node| {
        let usage = node.usage.as_ref()?;
        let cpus = usage.machine.as_ref()?.per_cpu.len().max(1) as f64;
        // The two clocks are read one after the other.
        let there_was_ns = cpus * usage.elapsed_ns as f64 * 1.01 + 1e6;
        (usage.process.cpu_ns as f64 > there_was_ns).then(|| {
            format!(
                "node {} used {} ns of CPU time in {} ns, more than its CPUs provide",
                node.name, usage.process.cpu_ns, usage.elapsed_ns
            )
        })
    })
}
