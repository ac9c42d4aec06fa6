//! `fabricmark report`: an experiment of the store, shown again.

use std::process::ExitCode;

use fabricmark_store::Store;

use crate::exit::Failure;
use crate::options::Report;
use crate::output;

/// Prints the tables and writes the report's files.
pub fn report(options: &Report) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&options.place.store_file())?;
    let experiment = store.find(&options.experiment)?;
    let files = output::show(&store, &experiment, &options.place.out, options.json)?;
    eprintln!("{files}");
    Ok(ExitCode::SUCCESS)
}
