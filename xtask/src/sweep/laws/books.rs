//! Laws of bookkeeping: numbers that are counted twice agree, and expected figures are present.

use serde_json::Value;

use super::{Found, Law};
use crate::sweep::record::{Flow, Record};

pub const LAWS: &[Law] = &[
    ("figures-are-numbers", figures_are_numbers),
    ("figures-are-there", figures_are_there),
    ("received-within-sent", received_within_sent),
    ("counted-within-received", counted_within_received),
    ("bytes-are-calls-times-payload", bytes_are_calls),
    ("loss-is-accounted", loss_is_accounted),
    ("intervals-sum", intervals_sum),
    ("intervals-join", intervals_join),
    ("tcp-counters", tcp_counters),
    ("quic-counters", quic_counters),
    ("fairness", fairness),
];

/// Maximum count: a larger one is an integer underflow.
const COUNT_MAX: f64 = 1e18;

/// Figures that may be 0.
const MAY_BE_ZERO: [&str; 11] = [
    "link_dropped_packets",
    "loss_share",
    "retransmitted_segments",
    "departure_lag_p50_ns",
    "departure_lag_p99_ns",
    "departure_lag_without_pauses_p99_ns",
    "sender_demand_us_per_kib",
    "receiver_demand_us_per_kib",
    "client_demand_us_per_transaction",
    "server_demand_us_per_transaction",
    "application_p50_ns",
];

/// Figures are finite and above 0; counts are not negative.
fn figures_are_numbers(record: &Record, found: &mut Found) {
    let figures = record.0.pointer("/figures").and_then(Value::as_object);
    for (name, figure) in figures.into_iter().flatten().filter(|(_, figure)| !figure.is_null()) {
        let value = figure.get("value").and_then(Value::as_f64);
        let least = if MAY_BE_ZERO.contains(&name.as_str()) { 0.0 } else { f64::MIN_POSITIVE };
        let is_number = value.is_some_and(|value| value.is_finite() && value >= least);
        found.unless(is_number, || format!("{name} is {value:?}"));
    }
    for flow in record.loads() {
        for end in ["sent", "received"] {
            for name in ["bytes", "calls", "elapsed_ns", "ramp_bytes", "ramp_calls"] {
                let count = flow.count(end, name);
                found.unless((0.0..COUNT_MAX).contains(&count), || {
                    format!("{end} {name} is {count}")
                });
            }
        }
    }
}

/// A valid run has the figures of its pattern.
fn figures_are_there(record: &Record, found: &mut Found) {
    let mut names = match record.pattern() {
        "stream" => vec!["goodput_bps", "payloads_per_s", "sent_bps"],
        "ping-ping" => {
            vec!["step_mean_ns", "step_p50_ns", "step_p99_ns", "step_p999_ns", "transactions_per_s"]
        }
        _ => vec!["rtt_mean_ns", "rtt_p50_ns", "rtt_p99_ns", "rtt_p999_ns", "transactions_per_s"],
    };
    if record.pattern() == "burst" {
        names.push("goodput_bps");
    }
    if !record.is_closed() {
        names.extend(["departure_lag_p50_ns", "departure_lag_p99_ns"]);
    }
    if record.0.pointer("/point/probe").is_some_and(Value::is_string) {
        names.push("idle_rtt_p50_ns");
        // If all packets of a probe are lost, the record has a warning, and the load is still valid.
        if !record.warns("lost-round-trips") {
            names.push("loaded_rtt_p50_ns");
        }
    }
    if record.transport() == "null" && record.is_stream() {
        // The null transport has no receiver.
        names.retain(|name| *name == "sent_bps");
    }
    for name in names {
        found.unless(record.figure(name).is_some(), || {
            format!("{name} is absent (warns {})", record.warnings())
        });
    }
    let count = record.loads().count();
    let expected = if record.text("/point/direction") == "both" { 2 } else { 1 };
    found.unless(count == expected, || format!("{count} flows of the load, not {expected}"));
}

/// Received data does not exceed sent data, except for duplicates that the link was asked to make.
fn received_within_sent(record: &Record, found: &mut Found) {
    if !record.is_stream() || record.transport() == "null" {
        return;
    }
    for flow in record.loads() {
        let copies = flow.number("/duplicates").unwrap_or(0.0);
        let (sent, received) = (flow.count("sent", "bytes"), flow.count("received", "bytes"));
        let has_copies = record.word("duplicate").is_some();
        found.unless(received <= sent + copies * record.payload(), || {
            format!("{received} bytes arrived of {sent} that were sent, {copies} copies")
        });
        found.unless(copies == 0.0 || has_copies, || {
            format!("{copies} copies, and the link makes none")
        });
    }
}

fn counted_within_received(record: &Record, found: &mut Found) {
    for flow in record.loads() {
        for end in ["sent", "received"] {
            for name in ["bytes", "calls"] {
                let (ramp, all) = (flow.count(end, &format!("ramp_{name}")), flow.count(end, name));
                found.unless(ramp <= all, || format!("{end}: ramp {ramp} of {all} {name}"));
            }
            let waiting = flow.count(end, "waiting_bytes");
            let all = flow.count(end, "bytes");
            found.unless(waiting <= all || record.transport() == "null", || {
                format!("{end}: {waiting} bytes waited of {all} in all")
            });
        }
    }
}

/// Datagrams, requests and answered bursts are whole: bytes are count times size.
fn bytes_are_calls(record: &Record, found: &mut Found) {
    let payload = record.payload() * record.payloads_per_request();
    for flow in record.loads() {
        let is_datagram = record.is_stream() && record.transport() == "udp";
        let ends: &[&str] = if is_datagram && record.word("corrupt").is_none() {
            &["sent", "received"]
        } else if !record.is_stream() && record.transport() != "null" {
            &["sent"]
        } else {
            &[]
        };
        for end in ends {
            let (bytes, calls) = (flow.count(end, "bytes"), flow.count(end, "calls"));
            // Paths with several datagrams per call count datagrams, too.
            found.unless(bytes == calls * payload, || {
                format!("{end}: {bytes} bytes in {calls} of {payload}")
            });
        }
    }
}

/// Datagrams that did not arrive count as lost. The figure is the lost share; with two directions, the mean of both.
fn loss_is_accounted(record: &Record, found: &mut Found) {
    if !record.is_stream() || record.transport() != "udp" {
        return;
    }
    for flow in record.loads() {
        let lost = flow.number("/drops/lost").unwrap_or(0.0);
        let (sent, arrived) = (flow.count("sent", "calls"), flow.count("received", "calls"));
        let copies = flow.number("/duplicates").unwrap_or(0.0);
        let mine = (sent - (arrived - copies)).max(0.0);
        // Payloads without a sequence number hide duplicates.
        let is_numbered = flow.number("/duplicates").is_some();
        found.unless(lost == mine || !is_numbered, || {
            format!(
                "{lost} lost, where {sent} were sent, {arrived} arrived, {copies} of them copies"
            )
        });
    }
    if let Some(figure) = record.figure("loss_share") {
        let share = |flow: Flow<'_>| {
            flow.number("/drops/lost").unwrap_or(0.0) / flow.count("sent", "calls")
        };
        let mean = record.loads().map(share).sum::<f64>() / record.loads().count() as f64;
        found.unless((figure - mean).abs() < 1e-9, || {
            format!("loss_share is {figure}, that of the flows {mean}")
        });
    }
}

fn series<'a>(flow: &Flow<'a>, end: &str) -> Option<&'a Vec<Value>> {
    flow.0.pointer(&format!("/{end}_series/intervals")).and_then(Value::as_array)
}

/// Intervals add up to the end's total. A response that arrives after its request timed out is only in an interval.
fn intervals_sum(record: &Record, found: &mut Found) {
    for flow in record.loads() {
        for end in ["sent", "received"] {
            let Some(intervals) = series(&flow, end) else { continue };
            for name in ["bytes", "calls"] {
                let of_one = |interval: &Value| interval.get(name).and_then(Value::as_f64);
                let sum: f64 = intervals.iter().filter_map(of_one).sum();
                let all = flow.count(end, name);
                found.unless(sum == all, || {
                    format!("{end}: intervals have {sum} {name}, the end {all}")
                });
            }
        }
    }
}

/// Intervals are contiguous and time increases; TCP's counters do not decrease.
fn intervals_join(record: &Record, found: &mut Found) {
    for flow in record.loads() {
        for end in ["sent", "received"] {
            let Some(intervals) = series(&flow, end) else { continue };
            let number =
                |interval: &Value, path: &str| interval.pointer(path).and_then(Value::as_f64);
            let mut before = 0.0;
            for interval in intervals {
                let (start, stop) = (number(interval, "/start_ns"), number(interval, "/end_ns"));
                let (Some(start), Some(stop)) = (start, stop) else { continue };
                found.unless(start == before && stop >= start, || {
                    format!("{end}: an interval from {start} to {stop} behind {before}")
                });
                before = stop;
            }
            for name in ["bytes_acked", "bytes_received", "bytes_sent", "retransmitted_segments"] {
                let values: Vec<f64> = intervals
                    .iter()
                    .filter_map(|interval| number(interval, &format!("/tcp/{name}")))
                    .collect();
                found.unless(values.is_sorted(), || format!("{end}: tcp {name} goes back"));
            }
        }
    }
}

fn tcp_counters(record: &Record, found: &mut Found) {
    let lossless = ["loss", "corrupt"].iter().all(|key| record.word(key).is_none());
    for flow in record.loads().filter(|flow| flow.0.pointer("/tcp").is_some_and(Value::is_object)) {
        let number = |name: &str| flow.number(&format!("/tcp/{name}")).unwrap_or(0.0);
        let (segments, again) = (number("data_segments"), number("retransmitted"));
        let (mss, srtt) = (number("mss_bytes"), number("srtt_ns"));
        found.unless(again <= segments, || {
            format!("{again} of {segments} segments were sent again")
        });
        let sent = match record.pattern() {
            "stream" => flow.count("received", "bytes"),
            _ => flow.count("sent", "bytes"),
        };
        // A connection's last segment may be sent after its counters are read.
        let sent = sent - number("unsent_bytes");
        let room = ((segments - again).max(0.0) + record.flow_count()) * mss;
        found.unless(sent <= room || !lossless || record.transport() == "mptcp", || {
            format!("{sent} bytes in {segments} segments of {mss}, {again} of them again")
        });
        let floor = if record.has_chance() { 0.0 } else { record.rtt_ns().unwrap_or(0.0) };
        found.unless(srtt >= 0.99 * floor || srtt == 0.0, || {
            format!("a smoothed round trip of {srtt} over a delay of {floor}")
        });
        if let (Some(wire), true) = (record.wire(), mss > 0.0) {
            let most = wire.room(20.0);
            found.unless(mss <= most, || format!("segments of {mss}, where {most} fit"));
        }
        if record.is_stream()
            && record.text("/point/direction") != "both"
            && let Some(figure) = record.figure("retransmitted_segments")
        {
            found.unless(figure == again, || {
                format!("retransmitted_segments is {figure}, the flow says {again}")
            });
        }
    }
}

fn quic_counters(record: &Record, found: &mut Found) {
    for flow in record.loads().filter(|flow| flow.0.pointer("/quic").is_some_and(Value::is_object))
    {
        let number = |name: &str| flow.number(&format!("/quic/{name}")).unwrap_or(0.0);
        let (sent, lost) = (number("sent_packets"), number("lost_packets"));
        found.unless(lost <= sent, || format!("{lost} of {sent} packets were lost"));
        let mtu = number("mtu_bytes");
        let most = record.wire().map_or(1452.0, |wire| wire.room(8.0).min(1452.0));
        found.unless(mtu <= most, || format!("packets of {mtu}, where {most} fit"));
        let floor = if record.has_chance() { 0.0 } else { record.rtt_ns().unwrap_or(0.0) };
        let srtt = number("srtt_ns");
        found.unless(srtt >= 0.99 * floor, || {
            format!("a smoothed round trip of {srtt} over a delay of {floor}")
        });
        let lost_bytes = number("lost_bytes");
        found.unless(lost_bytes <= lost * 1500.0, || {
            format!("{lost_bytes} bytes of {lost} lost packets")
        });
    }
}

/// Jain's index is between 1/n and 1; the mean of the flows is between their minimum and maximum.
fn fairness(record: &Record, found: &mut Found) {
    let flows = record.flow_count();
    for flow in
        record.loads().filter(|flow| flow.0.pointer("/fairness").is_some_and(Value::is_object))
    {
        let number = |name: &str| flow.number(&format!("/fairness/{name}")).unwrap_or(f64::NAN);
        let (jain, fewest, most) = (number("jain"), number("fewest"), number("most"));
        let is_index = jain >= 1.0 / flows - 1e-9 && jain <= 1.0 + 1e-9;
        found.unless(is_index && fewest <= most, || {
            format!("Jain {jain} of {flows} flows, from {fewest} to {most}")
        });
        let calls = flow.count("sent", "calls");
        let is_between = fewest * flows <= calls && calls <= most * flows;
        found.unless(is_between || record.is_stream(), || {
            format!("{calls} of {flows} flows with {fewest} to {most} each")
        });
    }
}
