//! Accuracy of the emulated links.

use fabricmark_record::{Calibrated, EmulatedWay, Emulation, Record};

use crate::number::{bit_rate, fixed, share};

/// Accuracy of the emulator in the runs: `emulated by fabricmark: true to 10 Gbit/s (2026-11-22), delay within 21 µs
/// (p99), late p99 12 µs in these runs`; `None` if no link was emulated.
pub(super) fn line(records: &[Record]) -> Option<String> {
    let counted = records.iter().filter(|record| !record.place.warm_up);
    let runs: Vec<&Emulation> = counted.filter_map(|record| record.emulation.as_ref()).collect();
    // An experiment may be continued after a new calibration: the latest is used.
    let calibration = runs.last()?.calibration.as_ref();
    let known = calibration.map_or_else(
        || "not calibrated on this machine: run fabricmark lab calibrate".to_owned(),
        |calibration| told(calibration, &runs),
    );
    let late = |way: &EmulatedWay| way.late_p99_ns;
    let ways = runs.iter().flat_map(|run| [&run.forward, &run.reverse]);
    let late = ways.filter_map(late).max().map_or_else(String::new, |ns| {
        format!(", lateness p99 {} µs in these runs", micros(ns as f64))
    });
    Some(format!("emulated by fabricmark: {known}{late}"))
}

/// Results of a calibration for the kinds of packets of the runs.
fn told(calibration: &Calibrated, runs: &[&Emulation]) -> String {
    let rate = |bps: Option<f64>| {
        bps.map_or_else(|| "at no tested rate".to_owned(), |bps| format!("up to {}", bit_rate(bps)))
    };
    let single = format!("{} in single packets", rate(calibration.true_rate_single_bps));
    let whole = rate(calibration.true_rate_bps);
    let has = |offloaded: bool| runs.iter().any(|run| run.offloaded == offloaded);
    let rates = match (has(true), has(false)) {
        (true, true) => format!("{whole}, {single}"),
        (true, false) => whole,
        _ => single,
    };
    let day = calibration.at.split('T').next().unwrap_or_default();
    let delay = calibration
        .delay_error_p99_ns
        .map_or_else(String::new, |ns| format!(", delay within {} µs (p99)", micros(ns)));
    let busy = calibration.too_busy().map_or_else(String::new, |busy| {
        format!(", calibrated on a busy machine: others used {} % of the CPU time", share(busy))
    });
    format!("accurate {rates} ({day}{busy}){delay}")
}

fn micros(ns: f64) -> String {
    fixed((ns / 1e3).ceil(), 0)
}
