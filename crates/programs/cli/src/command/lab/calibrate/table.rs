//! Formats a calibration as text.

use fabricmark_record::{Calibration, CalibrationRow, Quantity, Unit};
use fabricmark_report::bit_rate;

use crate::output::aligned;

/// The table and its conclusions.
pub fn text(calibration: &Calibration) -> String {
    let head = ["emulated", "link", "asked", "delivered", "interval", "error", ""];
    let rows = [head.map(str::to_owned)].into_iter().chain(calibration.rows.iter().map(cells));
    let table = aligned(&rows.collect::<Vec<_>>());
    let Calibration { hostname, kernel, cpus, confidence, at, .. } = calibration;
    let missed = calibration.rows.iter().filter(|row| row.holds == Some(false)).count();
    let of = calibration.rows.iter().filter(|row| row.holds.is_some()).count();
    let judged = if missed == 0 {
        format!("all {of} goals are met")
    } else {
        format!("{missed} of {of} goals are not met on this machine")
    };
    format!(
        "{table}\n{judged}\n{}{hostname}, kernel {kernel}, {cpus} CPUs; {} % intervals; {at}\n",
        in_short(calibration),
        (1000.0 * confidence).round() / 10.0,
    )
}

/// The conclusions of a calibration, one per line.
pub fn in_short(calibration: &Calibration) -> String {
    let rate = |bps: Option<f64>| {
        bps.map_or_else(|| "at no tested rate".to_owned(), |bps| format!("up to {}", bit_rate(bps)))
    };
    let time = |ns: Option<f64>| ns.map_or_else(|| "unknown".to_owned(), micros);
    let busy = calibration.in_short().too_busy().map_or_else(String::new, |share| {
        format!(
            "calibrated on a busy machine: others used {:.1} % of the CPU time; run `lab calibrate` \
             again when the machine is idle\n",
            100.0 * share
        )
    });
    format!(
        "accurate {}, in single packets {}; highest rate {}\n\
         delay within {} (p99) on an idle link, {} under load\n{busy}",
        rate(calibration.true_rate_bps),
        rate(calibration.true_rate_single_bps),
        calibration.highest_rate_bps.map_or_else(|| "unknown".to_owned(), bit_rate),
        time(calibration.delay_error_p99_ns),
        time(calibration.loaded_delay_error_p99_ns),
    )
}

fn cells(row: &CalibrationRow) -> [String; 7] {
    let value = |value: f64| match row.unit {
        Unit::Nanoseconds if value.abs() < 1e6 => micros(value),
        Unit::Nanoseconds => format!("{:.4} ms", value / 1e6),
        Unit::BitsPerSecond if value < 1e9 => format!("{:.4} Mbit/s", value / 1e6),
        Unit::BitsPerSecond => format!("{:.4} Gbit/s", value / 1e9),
        Unit::Share => format!("{:.3} %", 100.0 * value),
    };
    let single = if row.offloaded { "" } else { ", single packets" };
    let interval = match (row.low, row.high) {
        (Some(low), Some(high)) => format!("{} to {}", value(low), value(high)),
        _ => "too few runs".to_owned(),
    };
    let is_time = row.unit == Unit::Nanoseconds && row.what != Quantity::Jitter;
    let error = |error: f64| match is_time {
        true => format!("{}{}", if error < 0.0 { "" } else { "+" }, micros(error)),
        false => format!("{:+.2} %", 100.0 * error),
    };
    let holds = match row.holds {
        Some(true) => "ok",
        Some(false) => "missed",
        None => "",
    };
    [
        row.what.to_string(),
        format!("{}{single}", row.options),
        row.asked.map(value).unwrap_or_default(),
        value(row.delivered),
        interval,
        row.error.map(error).unwrap_or_default(),
        holds.to_owned(),
    ]
}

fn micros(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}
