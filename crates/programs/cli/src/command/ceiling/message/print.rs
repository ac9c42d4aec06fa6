//! Prints ceilings and floors of messages as a table, JSON or a chart.

use fabricmark_report::{Curve, Side, fixed, goodput_chart, grid};
use fabricmark_units::Nanos;
use fabricmark_wire::{Exact, Family, Inputs, Kind};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::number::{kind, time};
use super::{Answer, Row};

/// Ceilings and floors of messages over a path. With one payload its row is at the top level, with several there are
/// `rows`.
#[derive(Serialize, JsonSchema)]
pub struct MessageResults {
    /// The links.
    path: String,
    /// Transport.
    transport: &'static str,
    /// The transport and its options.
    what: String,
    /// Propagation delay of the path.
    propagation_ns: Nanos,
    /// Sources of the figures.
    sources: Vec<&'static str>,
    /// Further assumptions.
    notes: Vec<String>,
    #[serde(flatten)]
    rows: Rows,
}

/// One row or several.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Rows {
    One(Box<RowResults>),
    Several {
        /// A row for each IP version and payload.
        rows: Vec<RowResults>,
    },
}

/// Ceiling and floor of a payload, or the ceiling of a stream.
#[derive(Serialize, JsonSchema)]
struct RowResults {
    /// IP version.
    family: Family,
    /// Size of the payload; `null` for a stream.
    payload_bytes: Option<u64>,
    /// Packets per message; `null` for a stream.
    packets: Option<u64>,
    /// Bytes on the bottleneck link, per message or per packet of a stream.
    wire_bytes: u64,
    /// The ceiling of the goodput.
    goodput_bps: f64,
    /// The same as a fraction.
    goodput_exact: String,
    /// The same as a share of the bottleneck link's rate.
    share_of_line_rate: f64,
    /// How firmly it stands.
    kind: Kind,
    /// What sets it.
    limited_by: String,
    /// How it was computed, over the names in `inputs`.
    formula: String,
    /// What it was computed from; the unit is in each name.
    inputs: Inputs,
    #[serde(flatten)]
    latency: Option<Latency>,
}

/// Floor of the one-way latency; absent for a stream.
#[derive(Serialize, JsonSchema)]
struct Latency {
    /// The floor.
    latency_s: Option<f64>,
    /// The same as a fraction.
    latency_exact: Option<String>,
    /// How firmly it stands.
    latency_kind: Kind,
    /// How it was computed, over the names in `latency_inputs`.
    latency_formula: String,
    /// What it was computed from; the unit is in each name.
    latency_inputs: Inputs,
}

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

/// The answer in JSON.
pub fn results(answer: &Answer) -> MessageResults {
    MessageResults {
        path: answer.path.to_string(),
        transport: answer.transport.word(),
        what: answer.what.clone(),
        propagation_ns: answer.path.propagation_ns,
        sources: answer.sources.clone(),
        notes: answer.notes.clone(),
        rows: match answer.rows.as_slice() {
            [only] => Rows::One(Box::new(only.into())),
            several => Rows::Several { rows: several.iter().map(Into::into).collect() },
        },
    }
}

impl From<&Row> for RowResults {
    fn from(row: &Row) -> Self {
        let Row { ceiling, floor, .. } = row;
        let latency = floor.as_ref().map(|floor| {
            let latency_s = seconds(floor.time_ns);
            Latency {
                latency_s: latency_s.map(Exact::as_f64),
                latency_exact: latency_s.map(|exact| exact.to_string()),
                latency_kind: floor.kind,
                latency_formula: floor.formula.clone(),
                latency_inputs: floor.inputs.clone(),
            }
        });
        Self {
            family: row.family,
            payload_bytes: row.payload,
            packets: row.packets,
            wire_bytes: row.wire_bytes,
            goodput_bps: ceiling.goodput_bps.as_f64(),
            goodput_exact: ceiling.goodput_bps.to_string(),
            share_of_line_rate: row.share,
            kind: ceiling.kind,
            limited_by: row.limit.clone(),
            formula: ceiling.formula.clone(),
            inputs: ceiling.inputs.clone(),
            latency,
        }
    }
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
