//! `cargo xtask`: developer tasks of this repository.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program: it prints")]

use std::collections::HashMap;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use fabricmark_xtask::sweep::generate;
use fabricmark_xtask::sweep::laws::Breach;
use fabricmark_xtask::sweep::point::Point;
use fabricmark_xtask::sweep::run::{Outcome, Program, Run, said};
use fabricmark_xtask::sweep::shrink::shrink;
use fabricmark_xtask::sweep::summary::{Failure, Summary};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Maximum runs to shrink one failure.
const SHRINK_RUNS: usize = 50;

/// Number of failures of one kind that are shrunk; later ones are counted and reported as drawn.
const SHRUNK_OF_A_KIND: u32 = 1;

/// Chores of this repository
#[derive(Debug, Parser)]
#[command(name = "xtask", max_term_width = 100)]
struct Options {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run random points and hold every record against physics and bookkeeping
    Sweep(Sweep),
    /// A command in a guest kernel: `fabricmark lab guest` from the sources
    Guest {
        /// Options and the command of `fabricmark lab guest`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Sweep {
    /// How long points are drawn
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,
    /// Seed of the points
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The program to try; a release build of the sources where it is not named
    #[arg(long)]
    program: Option<PathBuf>,
    /// Append a line of JSON for each point to this file, with the records of those that fail
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Only point K, again and again until the time is over, or once with --minutes 0
    #[arg(long, value_name = "K")]
    only: Option<u64>,
    /// The first point
    #[arg(long, value_name = "K", default_value_t = 0)]
    from: u64,
    /// Show failures as they were drawn
    #[arg(long)]
    no_shrink: bool,
    /// Print the points and run none
    #[arg(long, value_name = "COUNT")]
    list: Option<u64>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let done = match Options::parse().chore {
        Chore::Sweep(options) => sweep(&options),
        Chore::Guest { words } => guest(&words),
    };
    done.unwrap_or_else(|message| {
        eprintln!("xtask: {message}");
        ExitCode::from(66)
    })
}

fn cargo<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<ExitStatus, String> {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(words)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))
}

fn guest(words: &[String]) -> Result<ExitCode, String> {
    let run = ["run", "--quiet", "--package", "fabricmark", "--", "lab", "guest"];
    let status = cargo(run.into_iter().chain(words.iter().map(String::as_str)))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(70)))
}

/// Builds the program from these sources; returns its path.
fn built() -> Result<PathBuf, String> {
    if !cargo(["build", "--release", "--package", "fabricmark", "--quiet"])?.success() {
        return Err("the program cannot be built".to_owned());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/fabricmark"))
}

fn sweep(options: &Sweep) -> Result<ExitCode, String> {
    if let Some(count) = options.list {
        for k in options.from..options.from + count {
            println!("{k}: {}", generate::point(options.seed, k));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let path = options.program.clone().map_or_else(built, Ok)?;
    if !path.is_file() {
        return Err(format!("{} is no program", path.display()));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| error.to_string())?;
    }
    let state = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = Program { path, state: state.path().to_owned() };
    let store = options.store.as_deref().map(append).transpose()?;
    let mut session = Session { options, program, interrupted, store, kinds: HashMap::new() };
    let summary = session.run();
    if options.json {
        println!("{:#}", summary.json());
    } else {
        for failure in &summary.failures {
            println!("point {} of seed {}: {}", failure.k, options.seed, failure.shrunk);
            print!("{}", said(&failure.breaches));
        }
        print!("{summary}");
    }
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn append(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

struct Session<'a> {
    options: &'a Sweep,
    program: Program,
    interrupted: Arc<AtomicBool>,
    store: Option<File>,
    /// Number of shrunk failures by kind.
    kinds: HashMap<String, u32>,
}

impl Session<'_> {
    fn run(&mut self) -> Summary {
        let started = Instant::now();
        let until = started + Duration::from_secs_f64(60.0 * self.options.minutes.max(0.0));
        let mut summary = Summary { seed: self.options.seed, ..Summary::default() };
        let mut k = self.options.only.unwrap_or(self.options.from);
        loop {
            let point = generate::point(self.options.seed, k);
            let run = self.program.run(&point, &self.interrupted);
            if self.interrupted.load(Relaxed) {
                break;
            }
            summary.count(&run.outcome);
            self.keep(k, &point, &run);
            if !run.outcome.breaches().is_empty() {
                let failure = self.failure(k, point, &run);
                eprintln!("point {k}: {}", failure.shrunk);
                eprint!("{}", said(&failure.breaches));
                summary.failures.push(failure);
            }
            if Instant::now() >= until || self.interrupted.load(Relaxed) {
                break;
            }
            k += u64::from(self.options.only.is_none());
        }
        summary.took = started.elapsed();
        summary
    }

    /// The failure, shrunk unless enough failures of its kind have been.
    fn failure(&mut self, k: u64, drawn: Point, run: &Run) -> Failure {
        let breaches = run.outcome.breaches().to_vec();
        let mut failure = Failure { k, shrunk: drawn.clone(), drawn, breaches };
        let Some(law) = failure.breaches.first().map(|breach| breach.law) else { return failure };
        let transport = failure.drawn.option("transport").unwrap_or("tcp");
        let kind = format!("{law} {} {transport}", failure.drawn.pattern);
        let shrunk = self.kinds.entry(kind).or_default();
        *shrunk += 1;
        // Each run of a hang takes the whole time-out.
        if self.options.no_shrink || *shrunk > SHRUNK_OF_A_KIND || law == "ends" {
            return failure;
        }
        let mut last = failure.breaches.clone();
        let (program, interrupted) = (&self.program, &self.interrupted);
        failure.shrunk = shrink(&failure.drawn, SHRINK_RUNS, |candidate| {
            let run = program.run(candidate, interrupted);
            let is_same = run.outcome.breaches().iter().any(|breach| breach.law == law);
            if is_same {
                last = run.outcome.breaches().to_vec();
            }
            is_same
        });
        failure.breaches = last;
        failure
    }

    /// Appends a line to the store file, if there is one.
    fn keep(&mut self, k: u64, point: &Point, run: &Run) {
        let Some(file) = &mut self.store else { return };
        let breaches: Vec<_> = run.outcome.breaches().iter().map(Breach::json).collect();
        let line = json!({
            "seed": self.options.seed,
            "point": k,
            "command": point.to_string(),
            "outcome": format!("{:?}", run.outcome).split(['(', ' ']).next(),
            "says": match &run.outcome {
                Outcome::Invalid(text) | Outcome::Refused(text) => text.as_str(),
                _ => "",
            },
            "breaches": breaches,
            "seconds": run.took.as_secs_f64(),
            "document": if breaches.is_empty() { None } else { run.document.as_ref() },
        });
        if let Err(error) = writeln!(file, "{line}") {
            eprintln!("xtask: the store cannot be written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory};
    use fabricmark_testkit::documents::{assert_accepted, assert_rows};

    use super::*;

    #[test]
    fn options_of_the_sweep_are_the_rows_of_its_document_and_command_lines_of_documents_are_accepted()
     {
        assert_accepted("xtask", |words| Options::try_parse_from(words));
        let command = Options::command();
        let sweep = command.find_subcommand("sweep").unwrap();
        assert_rows("docs/sweep.md", sweep.get_arguments().filter_map(Arg::get_long));
    }
}
