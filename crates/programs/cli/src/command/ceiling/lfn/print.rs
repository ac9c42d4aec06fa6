//! Prints the results for a long path as text or JSON.

use std::collections::BTreeSet;

use fabricmark_report::{Side, fixed, grid};
use fabricmark_wire::Kind;
use fabricmark_wire::lfn::{Figure, Value, window_scale};
use serde_json::{Value as Json, json};

use super::super::number::{bytes, kind, mbps, time};
use super::{Answer, name};

/// Tables: the limits, what it takes to sustain the goodput, and the tolerated loss rates.
pub fn as_text(answer: &Answer) -> String {
    let Answer { path, limits, least, .. } = answer;
    let (limiting, goodput) = &limits[*least];
    let verb = if goodput.kind == Kind::Estimate { "expected" } else { "at most" };
    let rate = |figure: &Figure| fixed(figure.value.as_f64() / 1e6, 3);
    let limits: Vec<Vec<String>> = limits
        .iter()
        .map(|(what, figure)| {
            vec![what.clone(), rate(figure), kind(figure.kind), figure.source.to_owned()]
        })
        .collect();
    let tolerated: Vec<Vec<String>> = answer
        .tolerated
        .iter()
        .map(|(law, found)| match found {
            Some((loss, apart)) => vec![
                name(*law).to_owned(),
                format!("{:.1e}", loss.value.as_f64()),
                time(apart.value.as_f64()),
                kind(loss.kind),
                loss.source.to_owned(),
            ],
            None => vec![
                name(*law).to_owned(),
                "none".to_owned(),
                String::new(),
                kind(Kind::Estimate),
                "needs a larger window".to_owned(),
            ],
        })
        .collect();
    let headers: String = path.sources.iter().map(|source| format!("  {source}\n")).collect();
    let headers = match headers.as_str() {
        "" => headers,
        _ => format!("\nheaders of the link\n{headers}"),
    };
    format!(
        "goodput {verb}: {}, {}, limited by {limiting}\nRTT {}, segments of \
         {}\n\n{}\n{}\n{}{headers}",
        mbps(goodput.value.as_f64()),
        kind(goodput.kind),
        time(path.rtt.0 as f64),
        bytes(path.mss_bytes as f64),
        grid(
            &[
                ("limit", Side::Left),
                ("goodput (Mbit/s)", Side::Right),
                ("kind", Side::Left),
                ("source", Side::Left)
            ],
            &limits
        ),
        needs(answer),
        grid(
            &[
                ("law", Side::Left),
                ("loss tolerated", Side::Right),
                ("one in", Side::Right),
                ("kind", Side::Left),
                ("source", Side::Left)
            ],
            &tolerated
        ),
    )
}

fn needs(answer: &Answer) -> String {
    let Answer { ramp, window_needed, .. } = answer;
    let needed = window_needed.value.as_f64().ceil();
    let shift = match window_scale(needed as u64) {
        Some(shift) => format!(", shift {shift}"),
        None => ", more than TCP supports".to_owned(),
    };
    let row = |what: String, value: String, figure: &Figure| {
        vec![what, value, kind(figure.kind), figure.source.to_owned()]
    };
    let of = |what: &str, value: String, figure: &Figure| row(what.to_owned(), value, figure);
    let mut rows = vec![
        of("bandwidth-delay product", bytes(answer.product.value.as_f64()), &answer.product),
        of("window", format!("{}{shift}", bytes(needed)), window_needed),
        of(
            "RTT with TCP's largest window",
            format!("at most {}", time(answer.longest_rtt.value.as_f64())),
            &answer.longest_rtt,
        ),
        row(
            format!("slow start from {} segments", answer.initial_segments),
            format!(
                "{} RTTs, {}, {} sent",
                ramp.rounds,
                time(ramp.time_ns.value.as_f64()),
                bytes(ramp.sent_bytes.value.as_f64())
            ),
            &ramp.time_ns,
        ),
        of(
            "recovery from a loss, reno",
            time(answer.reno_recovery.value.as_f64()),
            &answer.reno_recovery,
        ),
        of(
            "recovery from a loss, cubic",
            time(answer.cubic_recovery.value.as_f64()),
            &answer.cubic_recovery,
        ),
    ];
    if let Some((light, record)) = &answer.distance {
        rows.push(of(
            "RTT of light in fibre",
            format!("at least {}", time(light.value.as_f64())),
            light,
        ));
        let terabit_metres = fixed(record.value.as_f64() / 1e12, 0);
        rows.push(of("land speed", format!("{terabit_metres} Tbit·m/s"), record));
    }
    let heading = format!("to sustain {}", mbps(answer.wanted_bps.as_f64()));
    grid(
        &[
            (heading.as_str(), Side::Left),
            ("", Side::Left),
            ("kind", Side::Left),
            ("source", Side::Left),
        ],
        &rows,
    )
}

/// JSON with units in the keys; fractions are also given exactly.
pub fn as_json(answer: &Answer) -> Json {
    let Answer { path, limits, least, ramp, .. } = answer;
    let (limiting, goodput) = &limits[*least];
    let limits: Vec<Json> = limits
        .iter()
        .map(|(what, figure)| {
            let mut limit = object(figure, "goodput_bps", "goodput_exact");
            limit["limit"] = json!(what);
            limit
        })
        .collect();
    let tolerated: Vec<Json> = answer
        .tolerated
        .iter()
        .map(|(law, found)| match found {
            Some((loss, apart)) => {
                let mut row = object(loss, "loss", "exact");
                row["law"] = json!(name(*law));
                row["between_losses_ns"] = json!(apart.value.as_f64());
                row
            }
            None => json!({"law": name(*law), "loss": null, "kind": Kind::Estimate}),
        })
        .collect();
    let mut out = json!({
        "goodput_bps": goodput.value.as_f64(),
        "goodput_exact": exact(goodput),
        "kind": goodput.kind,
        "limited_by": limiting,
        "rtt_ns": path.rtt,
        "mss_bytes": path.mss_bytes,
        "limits": limits,
        "wanted_bps": answer.wanted_bps.as_f64(),
        "wanted_exact": answer.wanted_bps.to_string(),
        "bdp": object(&answer.product, "bytes", "exact"),
        "window_needed": object(&answer.window_needed, "bytes", "exact"),
        "longest_rtt": object(&answer.longest_rtt, "ns", "exact"),
        "slow_start_time": object(&ramp.time_ns, "ns", "exact"),
        "slow_start_sent": object(&ramp.sent_bytes, "bytes", "exact"),
        "reno_recovery": object(&answer.reno_recovery, "ns", "exact"),
        "cubic_recovery": object(&answer.cubic_recovery, "ns", "exact"),
        "window_scale": window_scale(answer.window_needed.value.as_f64().ceil() as u64),
        "slow_start_rounds": ramp.rounds,
        "tolerated_loss": tolerated,
        "sources": sources(answer),
    });
    if let Some((light, record)) = &answer.distance {
        out["fibre_rtt"] = object(light, "ns", "exact");
        out["land_speed"] = object(record, "bit_m_per_s", "exact");
    }
    out
}

/// All sources, without duplicates, in alphabetical order.
fn sources(answer: &Answer) -> BTreeSet<&'static str> {
    let tolerated = answer.tolerated.iter().flat_map(|(_, found)| found).map(|(loss, _)| loss);
    let distance = answer.distance.iter().flat_map(|(light, record)| [light, record]);
    let limits = answer.limits.iter().map(|(_, figure)| figure);
    let others = [
        &answer.product,
        &answer.longest_rtt,
        &answer.ramp.time_ns,
        &answer.reno_recovery,
        &answer.cubic_recovery,
    ];
    let all = limits.chain(others).chain(tolerated).chain(distance).map(|figure| figure.source);
    all.chain(answer.path.sources.iter().copied()).collect()
}

fn exact(figure: &Figure) -> Option<String> {
    match figure.value {
        Value::Exact(exact) => Some(exact.to_string()),
        Value::Rounded(_) => None,
    }
}

fn object(figure: &Figure, value_key: &str, exact_key: &str) -> Json {
    let mut out = json!({
        (value_key): figure.value.as_f64(),
        "kind": figure.kind,
        "formula": figure.formula,
        "inputs": figure.inputs,
        "source": figure.source,
    });
    if let Some(exact) = exact(figure) {
        out[exact_key] = json!(exact);
    }
    out
}
