//! `fabricmark export`: the records of an experiment, for other programs.

use std::process::ExitCode;

use fabricmark_report::{csv, json_lines};
use fabricmark_store::Store;

use crate::exit::Failure;
use crate::options::{Export, Format};
use crate::output::{Loaded, print};

/// Prints the records.
pub fn export(options: &Export) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&options.place.store_file())?;
    let experiment = store.find(&options.experiment)?;
    let records = Loaded::of(&store, &experiment)?.records;
    print(&match options.format {
        Format::Csv => csv(&records),
        Format::Json => json_lines(&records),
    })?;
    Ok(ExitCode::SUCCESS)
}
