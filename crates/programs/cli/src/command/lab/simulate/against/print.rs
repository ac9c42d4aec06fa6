//! Prints measured and modelled goodput as text or JSON.

use fabricmark_report::{Side, fixed, grid};
use fabricmark_stats::Estimate;
use fabricmark_units::Percent;
use serde_json::{Value as Json, json};

use super::{ARRIVED, Answer, Row};

/// A row per point, and a summary of the errors.
pub fn as_text(answer: &Answer) -> String {
    let rows: Vec<Vec<String>> = answer.rows.iter().map(row).collect();
    let table = grid(
        &[
            ("point", Side::Left),
            ("runs", Side::Right),
            ("measured (Mbit/s)", Side::Right),
            ("modelled (Mbit/s)", Side::Right),
            ("error", Side::Right),
            ("rise measured (s)", Side::Right),
            ("rise modelled (s)", Side::Right),
        ],
        &rows,
    );
    let left_out: String = answer
        .left_out
        .iter()
        .map(|(name, reason)| format!("not modelled: {name}: {reason}\n"))
        .collect();
    format!(
        "{}, measured over emulated links, against the model; {} intervals\n\n{table}\nerror: of \
         the model, relative to the measurement; mean {} %, maximum {} %\nrise: time until the \
         goodput of an interval reaches {} % of that of the second half\n{left_out}",
        answer.experiment,
        Percent(answer.confidence),
        fixed(100.0 * mean_error(answer), 1),
        fixed(100.0 * errors(answer).fold(0.0, f64::max), 1),
        fixed(100.0 * ARRIVED, 0),
    )
}

/// Absolute relative errors.
fn errors(answer: &Answer) -> impl Iterator<Item = f64> {
    answer.rows.iter().map(|row| row.error().abs())
}

fn mean_error(answer: &Answer) -> f64 {
    errors(answer).sum::<f64>() / answer.rows.len() as f64
}

fn row(row: &Row) -> Vec<String> {
    let written = |estimate: &Estimate, unit: f64, decimals| {
        let value = fixed(estimate.value / unit, decimals);
        match estimate.half_width() {
            Some(half_width) => format!("{value} ± {}", fixed(half_width / unit, decimals)),
            None => value,
        }
    };
    let error = 100.0 * row.error();
    let sign = if error > 0.0 { "+" } else { "" };
    vec![
        row.name.clone(),
        row.measured.n.to_string(),
        written(&row.measured, 1e6, 1),
        fixed(row.modelled_bps / 1e6, 1),
        format!("{sign}{} %", fixed(error, 1)),
        row.measured_rise_s.as_ref().map(|rise| written(rise, 1.0, 2)).unwrap_or_default(),
        row.modelled_rise_s.map(|rise| fixed(rise, 2)).unwrap_or_default(),
    ]
}

/// JSON with units in the keys.
pub fn as_json(answer: &Answer) -> Json {
    let rows: Vec<Json> = answer
        .rows
        .iter()
        .map(|row| {
            json!({
                "point": row.name,
                "options": row.options,
                "measured_bps": row.measured,
                "modelled_bps": row.modelled_bps,
                "error": row.error(),
                "measured_rise_s": row.measured_rise_s,
                "modelled_rise_s": row.modelled_rise_s,
            })
        })
        .collect();
    let left_out: Vec<Json> = answer
        .left_out
        .iter()
        .map(|(name, reason)| json!({ "point": name, "reason": reason }))
        .collect();
    json!({
        "experiment": answer.experiment,
        "mean_error": mean_error(answer),
        "points": rows,
        "not_modelled": left_out,
    })
}
