//! `fabricmark report`: shows an experiment of the store again.

use crate::exit::Failure;
use crate::options::Report;
use crate::output::{Loaded, show};

/// Prints the tables and writes the report's files.
pub fn report(options: &Report) -> Result<(), Failure> {
    let loaded = Loaded::find(&options.place, &options.experiment)?;
    show(&loaded, &options.place.out, options.json)
}
