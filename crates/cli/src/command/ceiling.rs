//! `fabricmark ceiling`: what the wire allows, without traffic.

mod lfn;
mod link;
mod number;

use std::process::ExitCode;

use crate::exit::Failure;
use crate::options::ceiling::{Ceiling, Subject};
use crate::output::{pretty, print};

/// Prints ceilings and floors; nothing is sent.
pub fn ceiling(options: &Ceiling) -> Result<ExitCode, Failure> {
    match &options.subject {
        Subject::Lfn(options) => {
            let answer = lfn::Answer::of(options)?;
            print(&match options.json {
                true => pretty(&lfn::as_json(&answer)),
                false => lfn::as_text(&answer),
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
