//! The commands and their options: the one definition behind parsing, help, man page and shell
//! completions.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fabricmark_units::Percent;

/// Which way of moving these bytes is better here, by how much, is the difference real, and how far
/// is it from what the wire allows?
#[derive(Debug, Parser)]
#[command(name = "fabricmark", version, max_term_width = 100)]
pub struct Options {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a plan: measure its points, keep the records, show tables and charts
    Run(Run),
    /// Show an experiment of the store again: tables, and the report's files
    Report(Report),
    /// Print the records of an experiment
    Export(Export),
    /// Compare two experiments point by point
    Compare(Compare),
    /// Say what on this machine would spoil a measurement, and how to mend it
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Serve a coordinator (started by `run`, not by people)
    #[command(hide = true)]
    Worker,
}

/// Where records are and reports go.
#[derive(Args, Debug)]
pub struct Place {
    /// Folder for the store and the reports
    #[arg(long, value_name = "DIR", default_value = "fabricmark-results")]
    pub out: PathBuf,
    /// File of the store [default: store.sqlite in the folder of --out]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl Place {
    /// The store's file.
    pub fn store_file(&self) -> PathBuf {
        self.store.clone().unwrap_or_else(|| self.out.join("store.sqlite"))
    }
}

/// Options of `run`.
#[derive(Args, Debug)]
pub struct Run {
    /// The plan file
    pub plan: PathBuf,
    /// Lay the plan's [quick] table over it: a look in minutes instead of an answer in an hour
    #[arg(long)]
    pub quick: bool,
    /// Begin anew, even where records of the same plan could be continued
    #[arg(long)]
    pub fresh: bool,
    /// Only check the plan file and say what would be run
    #[arg(long)]
    pub check: bool,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Where records are kept and reports written
    #[command(flatten)]
    pub place: Place,
}

/// Options of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Name of the experiment
    #[arg(default_value = "latest")]
    pub experiment: String,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Where records are kept and reports written
    #[command(flatten)]
    pub place: Place,
}

/// Options of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// Name of the experiment
    #[arg(default_value = "latest")]
    pub experiment: String,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
    /// Where records are kept
    #[command(flatten)]
    pub place: Place,
}

/// Forms of exported records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One row a run, for spreadsheets
    Csv,
    /// One record a line, whole, as docs/record.schema.json says
    Json,
}

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct Compare {
    /// Name of the experiment to compare against
    pub baseline: String,
    /// Name of the experiment to judge
    pub candidate: String,
    /// Fail only when a point is worse by more than this, such as 2%
    #[arg(long, value_name = "SHARE")]
    pub gate: Option<Percent>,
    /// Print the comparison as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Where records are kept
    #[command(flatten)]
    pub place: Place,
}

/// Options of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Show what is fine, too, and the evidence for what is not observable
    #[arg(long)]
    pub all: bool,
    /// Print the findings as JSON instead of text
    #[arg(long)]
    pub json: bool,
}
