//! `fabricmark ceiling`: computes what a link allows, without traffic.

mod lfn;
mod message;
pub mod number;

use std::fs;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::options::ceiling::{Ceiling, Subject};
use crate::output::answer;

/// Prints ceilings and floors.
pub fn ceiling(options: &Ceiling) -> Result<(), Failure> {
    if let Some(Subject::Lfn(options)) = &options.subject {
        let found = lfn::Answer::of(options)?;
        return answer(options.json, || lfn::as_json(&found), || lfn::as_text(&found));
    }
    let found = message::Answer::of(options)?;
    if options.plot.is_some() && !found.has_several_payloads() {
        let message = "--plot needs several payloads: give a range such as --payload 4..32768";
        return Err(Failure::input(message));
    }
    answer(options.json, || message::as_json(&found), || message::as_text(&found))?;
    if let Some(file) = &options.plot {
        let file = file.clone().unwrap_or_else(|| PathBuf::from(message::default_name(&found)));
        fs::write(&file, message::chart(&found)).map_err(Failure::output(file.display()))?;
        note!("chart    {}", file.display());
    }
    Ok(())
}
