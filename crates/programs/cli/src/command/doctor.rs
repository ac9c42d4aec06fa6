//! `fabricmark doctor`: conditions on this machine that distort measurements.

use std::path::Path;

use fabricmark_host::doctor::{System, examine, text};
use fabricmark_host::facts;
use fabricmark_record::{Calibration, HostFacts};
use serde_json::json;

use crate::calibration;
use crate::command::lab::calibrate::table::in_short;
use crate::exit::Failure;
use crate::options::Doctor;
use crate::output::{answer, terminal_columns};

/// Width if standard output is not a terminal: that of a mail or an issue.
const COLUMNS: usize = 80;

mod rdma;

/// Prints the findings. The exit code is 0 whatever they are.
pub fn doctor(options: &Doctor) -> Result<(), Failure> {
    if options.part.is_some() {
        return rdma::survey(options.json);
    }
    let findings = examine(Path::new("/"), &System::here());
    let host = facts();
    let calibration = calibration::of_this_machine();
    let json = || {
        let calibration = calibration.as_ref().map(Calibration::in_short);
        json!({ "host": host, "findings": findings, "calibration": calibration })
    };
    answer(options.json, json, || {
        let findings = text(&findings, options.all, terminal_columns().unwrap_or(COLUMNS));
        let HostFacts { hostname, kernel, cpu, cpus, .. } = &host;
        let emulator = calibration.as_ref().map_or_else(
            || "not calibrated on this machine: run `fabricmark lab calibrate`\n".to_owned(),
            |calibration| format!("calibrated {}\n{}", calibration.at, in_short(calibration)),
        );
        let emulator = emulator.trim_end().replace('\n', "\n  ");
        format!(
            "{hostname}: Linux {kernel}, {cpus} CPUs: {cpu}\n\n{findings}\nLink emulator\n  {emulator}\n"
        )
    })
}
