//! `fabricmark doctor`: what on this machine would spoil a measurement.

use std::path::Path;
use std::process::ExitCode;

use fabricmark_host::doctor::{System, examine, text};
use fabricmark_host::facts;
use fabricmark_record::HostFacts;
use serde_json::json;

use crate::exit::Failure;
use crate::options::Doctor;
use crate::output::{pretty, print, terminal_columns};

/// Columns where standard output is no terminal: those of a mail or an issue.
const COLUMNS: usize = 80;

mod rdma;

/// Prints the findings. They are an answer, whatever they say: the exit code is 0.
pub fn doctor(options: &Doctor) -> Result<ExitCode, Failure> {
    if options.part.is_some() {
        return rdma::survey(options.json);
    }
    let findings = examine(Path::new("/"), &System::here());
    let host = facts();
    print(&if options.json {
        pretty(&json!({ "host": host, "findings": findings }))
    } else {
        let findings = text(&findings, options.all, terminal_columns().unwrap_or(COLUMNS));
        let HostFacts { hostname, kernel, cpu, cpus, .. } = &host;
        format!("{hostname}: Linux {kernel}, {cpus} CPUs: {cpu}\n\n{findings}")
    })?;
    Ok(ExitCode::SUCCESS)
}
