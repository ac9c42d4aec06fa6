//! Prints ceilings and floors of messages as a table, JSON or a chart.

use fabricmark_report::{Curve, Side, fixed, goodput_chart, grid};
use fabricmark_wire::{Exact, Family, Kind};
use serde_json::{Value as Json, json};

use super::super::number::{kind, time};
use super::{Answer, Row};

/// A table with one line per row, followed by the assumptions.
pub fn as_text(answer: &Answer) -> String {
    let Answer { rows, sources, notes, .. } = answer;
    let several = |of: &dyn Fn(&Row) -> String| rows.iter().any(|row| of(row) != of(&rows[0]));
    let has_families = several(&|row| row.family.to_string());
    let has_limits = several(&|row| row.limit.clone()) || rows[0].limit != answer.path.to_string();
    let has_payloads = rows[0].payload.is_some();
    let has_messages = rows[0].packets.is_some();
    let mut columns: Vec<(&str, Side)> = Vec::new();
    let mut add = |wanted: bool, heading, side| {
        if wanted {
            columns.push((heading, side));
        }
    };
    add(has_families, "IP", Side::Left);
    add(has_payloads, "payload (B)", Side::Right);
    add(has_messages, "packets", Side::Right);
    add(true, if has_messages { "wire (B)" } else { "packet on the wire (B)" }, Side::Right);
    add(true, "goodput (Mbit/s)", Side::Right);
    add(true, "% of line rate", Side::Right);
    add(true, "kind", Side::Left);
    add(has_limits, "limit", Side::Left);
    add(has_payloads, "min one way (µs)", Side::Right);
    add(has_payloads, "kind", Side::Left);
    let whole = |number: u64| fixed(number as f64, 0);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = Vec::new();
            if has_families {
                cells.push(row.family.to_string());
            }
            cells.extend(row.payload.map(whole));
            cells.extend(row.packets.map(whole));
            cells.push(whole(row.wire_bytes));
            cells.push(fixed(row.ceiling.goodput_bps.as_f64() / 1e6, 3));
            cells.push(fixed(row.share * 100.0, 2));
            cells.push(kind(row.ceiling.kind));
            if has_limits {
                cells.push(row.limit.clone());
            }
            if let Some(floor) = &row.floor {
                cells.push(fixed(floor.time_ns.as_f64() / 1e3, 4));
                cells.push(kind(floor.kind));
            }
            cells
        })
        .collect();
    let list = |heading: &str, lines: &mut dyn Iterator<Item = &str>| {
        let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
        if lines.is_empty() { String::new() } else { format!("\n{heading}\n{}", lines.concat()) }
    };
    format!(
        "{}\n\n{}{}{}",
        title(answer),
        grid(&columns, &cells),
        list("assumed", &mut notes.iter().map(String::as_str)),
        list("sources", &mut sources.iter().copied()),
    )
}

/// Title, for example `udp over ethernet:25G, IPv4`.
fn title(answer: &Answer) -> String {
    let rows = answer.rows.iter().filter(|_| answer.has_ip);
    let mut families: Vec<String> = rows.map(|row| format!(", {}", row.family)).collect();
    families.dedup();
    let propagation = match answer.path.propagation_ns.0 {
        0 => String::new(),
        ns => format!(", {} propagation", time(ns as f64)),
    };
    let (what, path) = (&answer.what, &answer.path);
    format!("{what} over {path}{propagation}{}", families.concat())
}

/// JSON: one object for a single row; for several, a list `rows` beside the common fields.
pub fn as_json(answer: &Answer) -> Json {
    let common = json!({
        "path": answer.path.to_string(),
        "transport": answer.transport.word(),
        "what": answer.what,
        "propagation_ns": answer.path.propagation_ns,
        "sources": answer.sources,
        "notes": answer.notes,
    });
    let Json::Object(mut out) = common else { return common };
    match answer.rows.as_slice() {
        [only] => {
            if let Json::Object(row) = row_json(only) {
                out.extend(row);
            }
        }
        several => {
            out.insert("rows".to_owned(), several.iter().map(row_json).collect());
        }
    }
    Json::Object(out)
}

fn row_json(row: &Row) -> Json {
    let Row { ceiling, floor, .. } = row;
    let mut out = json!({
        "family": row.family,
        "payload_bytes": row.payload,
        "packets": row.packets,
        "wire_bytes": row.wire_bytes,
        "goodput_bps": ceiling.goodput_bps.as_f64(),
        "goodput_exact": ceiling.goodput_bps.to_string(),
        "share_of_line_rate": row.share,
        "kind": ceiling.kind,
        "limited_by": row.limit,
        "formula": ceiling.formula,
        "inputs": ceiling.inputs,
    });
    if let Some(floor) = floor {
        let latency_s = seconds(floor.time_ns);
        out["latency_s"] = json!(latency_s.map(Exact::as_f64));
        out["latency_exact"] = json!(latency_s.map(|exact| exact.to_string()));
        out["latency_kind"] = json!(floor.kind);
        out["latency_formula"] = json!(floor.formula);
        out["latency_inputs"] = json!(floor.inputs);
    }
    out
}

/// Converts nanoseconds to seconds, as an exact fraction.
fn seconds(time_ns: Exact) -> Option<Exact> {
    Exact::new(time_ns.numerator(), time_ns.denominator().checked_mul(1_000_000_000)?)
}

/// Chart of goodput by payload: one curve for each IP version and kind.
pub fn chart(answer: &Answer) -> String {
    let mut curves: Vec<(Family, Kind, Curve<u64>)> = Vec::new();
    for row in &answer.rows {
        let (family, kind) = (row.family, row.ceiling.kind);
        let Some(payload) = row.payload else { continue };
        let point = (payload, row.ceiling.goodput_bps.as_f64());
        match curves.iter_mut().find(|(f, k, _)| (*f, *k) == (family, kind)) {
            Some((.., curve)) => curve.points.push(point),
            None => {
                let mut label = super::super::number::kind(kind);
                if answer.has_ip {
                    label = format!("{family}, {label}");
                }
                curves.push((family, kind, Curve { label, points: vec![point] }));
            }
        }
    }
    let curves: Vec<Curve<u64>> = curves
        .into_iter()
        .map(|(.., mut curve)| {
            curve.points.sort_unstable_by_key(|point| point.0);
            curve
        })
        .collect();
    let title = format!("Ceiling: {} over {}", answer.what, answer.path);
    goodput_chart(&title, &curves)
}

/// File name of the chart, for example `ceiling-udp-ethernet-25g.svg`.
pub fn default_name(answer: &Answer) -> String {
    let words = format!("ceiling {} {}", answer.transport.word(), answer.path).to_lowercase();
    let words: Vec<&str> = words
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    format!("{}.svg", words.join("-"))
}
