//! `fabricmark papers`: published figures, beside what the wire allows, and what the papers claim.

mod run;
mod verify;

use std::process::ExitCode;

use fabricmark_report as report;

use crate::exit::{Code, Failure};
use crate::options::{ListPapers, Papers, ShowPaper};
use crate::output::{pretty, print, width};

/// Prints what a sub-command asks for.
pub fn papers(command: &Papers) -> Result<ExitCode, Failure> {
    match command {
        Papers::List(options) => list(options),
        Papers::Show(options) => show(options),
        Papers::Verify(options) => verify::verify(options),
        Papers::Run(options) => run::run(options),
    }
}

fn list(options: &ListPapers) -> Result<ExitCode, Failure> {
    let list =
        if options.json { pretty(&report::papers_json()) } else { report::papers_text(width()) };
    print(&list)?;
    Ok(ExitCode::SUCCESS)
}

fn show(options: &ShowPaper) -> Result<ExitCode, Failure> {
    let part = match &options.table {
        Some(table) => report::PaperPart::Table(table),
        None if options.text => report::PaperPart::Text,
        None => report::PaperPart::All,
    };
    let view = report::PaperView::of(&options.paper, part)
        .map_err(|error| Failure::new(Code::Input, error.to_string()))?;
    print(&if options.json { pretty(&view.json()) } else { view.text(width()) })?;
    Ok(ExitCode::SUCCESS)
}
