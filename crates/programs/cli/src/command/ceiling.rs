//! `fabricmark ceiling`: what the wire allows, without traffic.

mod lfn;
mod message;
pub mod number;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit::{Code, Failure};
use crate::options::ceiling::{Ceiling, Subject};
use crate::output::{pretty, print};

/// Prints ceilings and floors; nothing is sent.
pub fn ceiling(options: &Ceiling) -> Result<ExitCode, Failure> {
    if let Some(Subject::Lfn(options)) = &options.subject {
        let answer = lfn::Answer::of(options)?;
        print(&match options.json {
            true => pretty(&lfn::as_json(&answer)),
            false => lfn::as_text(&answer),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = message::Answer::of(options)?;
    if options.plot.is_some() && !answer.has_several_payloads() {
        let message = "one payload is no line: give --plot a range such as --payload 4..32768";
        return Err(Failure::new(Code::Input, message));
    }
    print(&match options.json {
        true => pretty(&message::as_json(&answer)),
        false => message::as_text(&answer),
    })?;
    if let Some(file) = &options.plot {
        let file = file.clone().unwrap_or_else(|| PathBuf::from(message::default_name(&answer)));
        fs::write(&file, message::chart(&answer))
            .map_err(|error| Failure::output(file.display(), &error))?;
        eprintln!("chart    {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}
