//! `fabricmark compare`: compares two experiments point by point; a gate for continuous integration.

use std::process::ExitCode;

use fabricmark_report::{GateResult, compare as compare_records};

use crate::exit::{Code, Failure};
use crate::options::Compare;
use crate::output::{Loaded, answer};

/// Prints the comparison. The exit code says whether something is worse.
pub fn compare(options: &Compare) -> Result<ExitCode, Failure> {
    let load = |name: &str| Loaded::find(&options.place, name);
    let (baseline, candidate) = (load(&options.baseline)?, load(&options.candidate)?);
    let report = compare_records(
        (&options.baseline, &baseline.records),
        (&options.candidate, &candidate.records),
        baseline.confidence(),
        options.gate,
    );
    if report.rows.is_empty() {
        let message =
            format!("{} and {} have no point in common", options.baseline, options.candidate);
        return Err(Failure::input(message));
    }
    answer(options.json, || report.json(), || report.text())?;
    Ok(match report.gate {
        GateResult::Pass => ExitCode::SUCCESS,
        GateResult::Worse => Code::Worse.into(),
        GateResult::Inconclusive => Code::Inconclusive.into(),
    })
}
