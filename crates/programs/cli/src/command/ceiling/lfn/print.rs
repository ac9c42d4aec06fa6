//! Prints the results for a long path as text or JSON.

use std::collections::BTreeSet;

use fabricmark_report::{Side, fixed, grid};
use fabricmark_units::Nanos;
use fabricmark_wire::lfn::{Figure, Law, Value, window_scale};
use fabricmark_wire::{Inputs, Kind};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::number::{bytes, kind, mbps, time};
use super::{Answer, name};

/// What a long fat network requires of a TCP connection. Values are also given as exact fractions, unless their formula
/// has roots.
#[derive(Serialize, JsonSchema)]
pub struct LfnResults {
    /// Expected goodput: the smallest of `limits`.
    goodput_bps: f64,
    /// The same as a fraction.
    goodput_exact: Option<String>,
    /// How firmly it stands.
    kind: Kind,
    /// What sets it.
    limited_by: String,
    /// RTT of the path.
    rtt_ns: Nanos,
    /// Size of a segment.
    mss_bytes: u64,
    /// Limits of the goodput.
    limits: Vec<LimitResult>,
    /// Goodput to sustain, to which the figures below refer.
    wanted_bps: f64,
    /// The same as a fraction.
    wanted_exact: String,
    /// Bandwidth-delay product.
    bdp: InBytes,
    /// Window that sustains the goodput.
    window_needed: InBytes,
    /// Longest RTT over which TCP's largest window sustains it.
    longest_rtt: InNanos,
    /// Duration of slow start.
    slow_start_time: InNanos,
    /// Bytes sent in slow start.
    slow_start_sent: InBytes,
    /// Time to recover from a loss with Reno.
    reno_recovery: InNanos,
    /// Time to recover from a loss with CUBIC.
    cubic_recovery: InNanos,
    /// Shift count of TCP's window scale option for that window; `null` if it is larger than TCP supports.
    window_scale: Option<u8>,
    /// RTTs of slow start.
    slow_start_rounds: u32,
    /// Loss rate that each response function tolerates.
    tolerated_loss: Vec<ToleratedLoss>,
    /// All sources.
    sources: BTreeSet<&'static str>,
    /// RTT of light in fibre; absent without `--distance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fibre_rtt: Option<InNanos>,
    /// Goodput times distance; absent without `--distance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    land_speed: Option<LandSpeed>,
}

/// A limit of the goodput.
#[derive(Serialize, JsonSchema)]
struct LimitResult {
    /// What sets it.
    limit: String,
    /// Goodput.
    goodput_bps: f64,
    /// The same as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    goodput_exact: Option<String>,
    #[serde(flatten)]
    origin: Origin,
}

/// A number of bytes.
#[derive(Serialize, JsonSchema)]
struct InBytes {
    /// Value.
    bytes: f64,
    /// The same as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<String>,
    #[serde(flatten)]
    origin: Origin,
}

/// A time.
#[derive(Serialize, JsonSchema)]
struct InNanos {
    /// Value.
    ns: f64,
    /// The same as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<String>,
    #[serde(flatten)]
    origin: Origin,
}

/// Goodput times distance.
#[derive(Serialize, JsonSchema)]
struct LandSpeed {
    /// Value.
    bit_m_per_s: f64,
    /// The same as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<String>,
    #[serde(flatten)]
    origin: Origin,
}

/// The loss rate that a response function tolerates.
#[derive(Serialize, JsonSchema)]
struct ToleratedLoss {
    /// Name of the response function.
    law: &'static str,
    /// Lost packets as a share of those sent; `null` if no loss rate is small enough.
    loss_share: Option<f64>,
    /// The same as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<String>,
    /// Time between losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    between_losses_ns: Option<f64>,
    /// How firmly it stands.
    kind: Kind,
    /// Formula, in terms of the names in `inputs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    formula: Option<&'static str>,
    /// Inputs of the formula; the unit is in each name.
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<Inputs>,
    /// Source of the formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
}

/// Kind and origin of a figure.
#[derive(Serialize, JsonSchema)]
struct Origin {
    /// How firmly it stands.
    kind: Kind,
    /// Formula, in terms of the names in `inputs`.
    formula: &'static str,
    /// Inputs of the formula; the unit is in each name.
    inputs: Inputs,
    /// Source of the formula.
    source: &'static str,
}

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
    let Answer { path, ramp, window_needed, .. } = answer;
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
            format!(
                "at least {}{}",
                time(light.value.as_f64()),
                if light.value.as_f64() > path.rtt.0 as f64 {
                    ", more than the RTT: part of the path is not fibre"
                } else {
                    ""
                }
            ),
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

/// The answer in JSON.
pub fn results(answer: &Answer) -> LfnResults {
    let Answer { path, limits, least, ramp, .. } = answer;
    let (limiting, goodput) = &limits[*least];
    let limit = |(what, figure): &(String, Figure)| LimitResult {
        limit: what.clone(),
        goodput_bps: figure.value.as_f64(),
        goodput_exact: exact(figure),
        origin: figure.into(),
    };
    let light = answer.distance.as_ref().map(|(light, _)| light.into());
    let land_speed = answer.distance.as_ref().map(|(_, record)| LandSpeed {
        bit_m_per_s: record.value.as_f64(),
        exact: exact(record),
        origin: record.into(),
    });
    LfnResults {
        goodput_bps: goodput.value.as_f64(),
        goodput_exact: exact(goodput),
        kind: goodput.kind,
        limited_by: limiting.clone(),
        rtt_ns: path.rtt,
        mss_bytes: path.mss_bytes,
        limits: limits.iter().map(limit).collect(),
        wanted_bps: answer.wanted_bps.as_f64(),
        wanted_exact: answer.wanted_bps.to_string(),
        bdp: (&answer.product).into(),
        window_needed: (&answer.window_needed).into(),
        longest_rtt: (&answer.longest_rtt).into(),
        slow_start_time: (&ramp.time_ns).into(),
        slow_start_sent: (&ramp.sent_bytes).into(),
        reno_recovery: (&answer.reno_recovery).into(),
        cubic_recovery: (&answer.cubic_recovery).into(),
        window_scale: window_scale(answer.window_needed.value.as_f64().ceil() as u64),
        slow_start_rounds: ramp.rounds,
        tolerated_loss: answer.tolerated.iter().map(tolerated).collect(),
        sources: sources(answer),
        fibre_rtt: light,
        land_speed,
    }
}

fn tolerated((law, found): &(Law, Option<(Figure, Figure)>)) -> ToleratedLoss {
    let loss = found.as_ref().map(|(loss, _)| loss);
    ToleratedLoss {
        law: name(*law),
        loss_share: loss.map(|loss| loss.value.as_f64()),
        exact: loss.and_then(exact),
        between_losses_ns: found.as_ref().map(|(_, apart)| apart.value.as_f64()),
        kind: loss.map_or(Kind::Estimate, |loss| loss.kind),
        formula: loss.map(|loss| loss.formula),
        inputs: loss.map(|loss| loss.inputs.clone()),
        source: loss.map(|loss| loss.source),
    }
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

impl From<&Figure> for Origin {
    fn from(figure: &Figure) -> Self {
        let &Figure { kind, formula, source, .. } = figure;
        Self { kind, formula, inputs: figure.inputs.clone(), source }
    }
}

impl From<&Figure> for InBytes {
    fn from(figure: &Figure) -> Self {
        Self { bytes: figure.value.as_f64(), exact: exact(figure), origin: figure.into() }
    }
}

impl From<&Figure> for InNanos {
    fn from(figure: &Figure) -> Self {
        Self { ns: figure.value.as_f64(), exact: exact(figure), origin: figure.into() }
    }
}
