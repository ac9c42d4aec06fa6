//! The commands and their options: the one definition behind parsing, help, man page and shell
//! completions.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fabricmark_plan::{Amount, Factor};
use fabricmark_report::Requirement;
use fabricmark_units::{Bytes, Nanos, Percent};

use crate::levels::Levels;

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
    /// Measure one setting now, or a few of them against the first
    Measure(Box<Measure>),
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

/// Options of `measure`.
#[derive(Args, Debug)]
pub struct Measure {
    /// How data moves
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Factor::Pattern.words()))]
    pub pattern: String,
    /// Where to: `loopback`, or `lab:LINK` for two namespaces on this machine, such as lab:veth or
    /// lab:ethernet:10G,mtu=9000
    pub target: String,
    /// Length of a run; the longest where --bytes or --count ends it [default: 2s, or 1h with those]
    #[arg(long, short = 't', value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// A run ends when it has sent so much, of requests where there are some; each way of a stream both
    /// ways
    #[arg(long, short = 'n', value_name = "SIZE", value_parser = amount_of_bytes)]
    pub bytes: Option<Amount>,
    /// A run ends after so many payloads or requests
    #[arg(long, short = 'k', value_name = "N", value_parser = amount_of_payloads, conflicts_with = "bytes")]
    pub count: Option<Amount>,
    /// A run does not count its first so long, which is added to its length
    #[arg(long, short = 'O', value_name = "TIME", conflicts_with_all = ["bytes", "count"])]
    pub omit: Option<Nanos>,
    /// Length of a run before the first that counts; 0s for none
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub warm_up: Nanos,
    /// Runs of each setting [default: 1, or 10 with --vs]
    #[arg(long, visible_alias = "repeat", value_name = "N", value_parser = runs)]
    pub runs: Option<usize>,
    /// Tell what each interval moved, while it runs; alone, of 100 ms. On a terminal a single setting is
    /// told each second unless another time is named
    #[arg(long, short = 'i', value_name = "TIME", num_args = 0..=1, default_missing_value = "100ms")]
    pub interval: Option<Nanos>,
    /// Levels to lay over the others, such as path=gso; several are run in turn and compared with the
    /// first
    #[arg(long, value_name = "FACTOR=LEVEL,..")]
    pub vs: Vec<String>,
    /// A threshold that every setting has to keep, such as goodput>=9G or rtt-p99<=50us
    #[arg(long, value_name = "FIGURE>=VALUE")]
    pub require: Vec<Requirement>,
    /// The other end sends: --direction reverse
    #[arg(long, short = 'R', conflicts_with = "direction")]
    pub reverse: bool,
    /// Both ends send at once, in flows of their own: --direction both
    #[arg(long, conflicts_with_all = ["direction", "reverse"])]
    pub bidir: bool,
    /// Socket buffers of both ends, each way
    #[arg(long, short = 'w', value_name = "SIZE", conflicts_with_all = ["receive_buffer", "send_buffer"],
        value_parser = |text: &str| Factor::ReceiveBuffer.level(text))]
    pub window: Option<String>,
    /// Payloads or requests depart at this rate: 1G is bits, 1000/s payloads; --pace fixed:RATE
    #[arg(long, short = 'b', value_name = "RATE", conflicts_with = "pace",
        value_parser = |text: &str| Factor::Pace.level(&format!("fixed:{text}")))]
    pub rate: Option<String>,
    /// Processors of the starting and the answering end [default: the first two]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpu: Option<(u32, u32)>,
    /// Port of the answering end [default: the kernel chooses]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub port: u16,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Print records and figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Levels of factors
    #[command(flatten)]
    pub levels: Levels,
}

impl Measure {
    /// What ends a run before its length does.
    pub fn amount(&self) -> Option<Amount> {
        self.bytes.or(self.count)
    }

    /// Length of a run, at most.
    pub fn duration(&self) -> Nanos {
        let unless_told = if self.amount().is_some() { LONGEST } else { USUAL };
        self.duration.unwrap_or(unless_told)
    }
}

/// Length of a run where nobody says.
const USUAL: Nanos = Nanos::from_secs(2);

/// Longest run where its end is an amount: an hour, in case that nothing moves.
const LONGEST: Nanos = Nanos::from_secs(3600);

/// An amount in bytes.
fn amount_of_bytes(text: &str) -> Result<Amount, String> {
    match text.parse() {
        Ok(Bytes(bytes)) if bytes > 0 => Ok(Amount::Bytes(bytes)),
        Ok(_) => Err("use at least 1 byte".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// An amount in payloads.
fn amount_of_payloads(text: &str) -> Result<Amount, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(Amount::Payloads(count)),
        _ => Err("use a number from 1".to_owned()),
    }
}

/// A number of runs.
fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs @ 1..=10_000) => Ok(runs),
        _ => Err("use a number from 1 to 10000".to_owned()),
    }
}

/// Two processors, or one for both ends.
fn cpus(text: &str) -> Result<(u32, u32), String> {
    let (start, answer) = text.split_once(',').unwrap_or((text, text));
    match (start.trim().parse(), answer.trim().parse()) {
        (Ok(start), Ok(answer)) => Ok((start, answer)),
        _ => Err("use two numbers of processors, such as 0,1".to_owned()),
    }
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
