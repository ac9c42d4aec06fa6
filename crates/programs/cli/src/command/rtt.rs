//! `fabricmark rtt`: measures the RTT to a STAMP or TWAMP-Light reflector, of another vendor or of an agent.

use std::collections::BTreeSet;

use fabricmark_control::look_up;
use fabricmark_interop::stamp::{self, MeasureError, Measured, Session, Settings, Spread, Wanted};
use serde_json::{Value, json};

use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::options::Rtt;
use crate::{output, services};

/// Quantiles in the output.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// Measures and prints.
pub fn rtt(options: &Rtt) -> Result<(), Failure> {
    let found = look_up(&options.target, stamp::PORT)?;
    let target = *found.first().ok_or_else(|| {
        Failure::new(Code::Unreachable, format!("{} has no address", options.target))
    })?;
    let session = Session {
        protocol: options.protocol,
        key: options.stamp_key.as_deref().map(services::stamp_key).transpose()?,
        identifier: options.identifier,
        wanted: Wanted {
            timestamp_information: options.protocol == stamp::Protocol::Stamp,
            answer_dscp: options.answer_dscp,
            padding_bytes: options.padding,
        },
        packets: options.count,
        interval: options.interval,
        timeout: options.timeout,
    };
    let stop = interruptions()?;
    let settings = Settings { target, session, dscp: options.dscp };
    let measured = stamp::measure(&settings, &stop).map_err(|error| match error {
        MeasureError::Closed(_) => Failure::new(Code::Unreachable, error.to_string()),
        MeasureError::Socket { .. } => Failure::new(Code::RunFailed, error.to_string()),
    })?;
    output::answer(options.json, || as_json(&measured), || as_text(&measured))?;
    if measured.counts.answered == 0 {
        let message = format!(
            "no reply to {} packets: no reflector listens at {target}, it has another key, or a \
             firewall drops them",
            measured.counts.sent
        );
        return Err(Failure::new(Code::Unreachable, message));
    }
    Ok(())
}

fn as_json(measured: &Measured) -> Value {
    let Measured { counts, rtt, .. } = measured;
    let spread = |spread: &Spread| json!({"min_ns": spread.min_ns, "mean_ns": spread.mean_ns, "max_ns": spread.max_ns});
    let one_way = measured.one_way.as_ref().map(|ways| {
        json!({
            "answers": ways.answers,
            "forward": spread(&ways.forward),
            "backward": spread(&ways.backward),
            "uncertainty_ns": ways.uncertainty,
            "sender_synchronised": ways.is_sender_synchronised,
            "reflector_synchronised": ways.is_reflector_synchronised,
        })
    });
    let mut round_trip =
        json!({"mean_ns": rtt.mean_ns(), "min_ns": rtt.min(), "max_ns": rtt.max()});
    for (name, quantile) in QUANTILES {
        round_trip[format!("{name}_ns")] = json!(rtt.quantile(quantile));
    }
    json!({
        "sent": counts.sent,
        "answered": counts.answered,
        "lost": counts.lost,
        "late": counts.late,
        "duplicates": counts.duplicates,
        "reordered": counts.reordered,
        "implausible": counts.implausible,
        "ignored": counts.ignored,
        "rtt": round_trip,
        "one_way": one_way,
        "ttl": {"forward": measured.forward.ttl, "backward": measured.backward.ttl},
        "traffic_class": {
            "forward": measured.forward.traffic_class,
            "backward": measured.backward.traffic_class,
        },
    })
}

fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

fn min_mean_max(min_ns: f64, mean_ns: f64, max_ns: f64) -> String {
    format!("min {}, mean {}, max {}", us(min_ns), us(mean_ns), us(max_ns))
}

fn as_text(measured: &Measured) -> String {
    let Measured { counts, rtt, .. } = measured;
    let share = 100.0 * counts.lost as f64 / counts.sent.max(1) as f64;
    let (sent, answered, lost) = (counts.sent, counts.answered, counts.lost);
    let packets = format!("{sent} sent, {answered} answered, {lost} lost ({share:.1} %)");
    let mut lines = vec![("packets", packets)];
    for (what, count) in [
        ("late", counts.late),
        ("duplicates", counts.duplicates),
        ("reordered", counts.reordered),
        ("implausible", counts.implausible),
    ] {
        if count > 0 {
            lines.push((what, count.to_string()));
        }
    }
    if let (Some(min), Some(mean), Some(max)) = (rtt.min(), rtt.mean_ns(), rtt.max()) {
        lines.push(("RTT", min_mean_max(min as f64, mean, max as f64)));
        let of = |(name, quantile)| Some(format!("{name} {}", us(rtt.quantile(quantile)? as f64)));
        lines.push(("", QUANTILES.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")));
    }
    let spread =
        |spread: &Spread| min_mean_max(spread.min_ns as f64, spread.mean_ns, spread.max_ns as f64);
    match &measured.one_way {
        Some(ways) => {
            lines.push(("forward", spread(&ways.forward)));
            lines.push(("backward", spread(&ways.backward)));
            lines.push(("uncertainty", us(ways.uncertainty.0 as f64)));
        }
        None if answered > 0 => {
            lines.push((
                "one-way delay",
                "not shown: the clocks of the ends are not synchronised \
                                          to UTC"
                    .to_owned(),
            ));
        }
        None => {}
    }
    let list =
        |values: &BTreeSet<u8>| values.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    if answered > 0 {
        let (there, here) = (list(&measured.forward.ttl), list(&measured.backward.ttl));
        lines.push(("TTL on arrival", format!("{there} at the reflector, {here} here")));
    }
    lines.into_iter().map(|(what, value)| format!("{what:<15} {value}\n")).collect()
}
