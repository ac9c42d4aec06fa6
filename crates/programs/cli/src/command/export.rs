//! `fabricmark export`: prints the records of an experiment for other programs.

use fabricmark_report::{csv, json_lines};

use crate::exit::Failure;
use crate::options::{Export, Format};
use crate::output::{Loaded, print};

pub fn export(options: &Export) -> Result<(), Failure> {
    let records = Loaded::find(&options.place, &options.experiment)?.records;
    print(&match options.format {
        Format::Csv => csv(&records),
        Format::Json => json_lines(&records),
    })
}
