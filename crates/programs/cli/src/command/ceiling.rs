//! `fabricmark ceiling`: computes what a link allows, without traffic.

mod lfn;
mod message;
pub mod number;

use std::fs;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::exit::Failure;
use crate::options::ceiling::{Ceiling, Subject};
use crate::output::answer;

/// What `ceiling --json` prints. Values are in the unit that their key names; counts have no unit.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CeilingResults {
    /// `ceiling`.
    Message(Box<message::MessageResults>),
    /// `ceiling lfn`.
    Lfn(Box<lfn::LfnResults>),
}

/// Prints ceilings and floors.
pub fn ceiling(options: &Ceiling) -> Result<(), Failure> {
    if let Some(Subject::Lfn(options)) = &options.subject {
        let found = lfn::Answer::of(options)?;
        let json = || json!(CeilingResults::Lfn(lfn::results(&found).into()));
        return answer(options.json, json, || lfn::as_text(&found));
    }
    let found = message::Answer::of(options)?;
    if options.plot.is_some() && !found.has_several_payloads() {
        let message = "--plot needs several payloads: give a range such as --payload 4..32768";
        return Err(Failure::input(message));
    }
    let json = || json!(CeilingResults::Message(message::results(&found).into()));
    answer(options.json, json, || message::as_text(&found))?;
    if let Some(file) = &options.plot {
        let file = file.clone().unwrap_or_else(|| PathBuf::from(message::default_name(&found)));
        fs::write(&file, message::chart(&found)).map_err(Failure::output(file.display()))?;
        note!("chart    {}", file.display());
    }
    Ok(())
}
