//! Compares fabricmark with its peers and with bare loops in C: interleaved runs, ratios with confidence intervals.
//!
//! docs/bench.md describes the measurements and how to read the results.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program: it prints")]

mod bare;
mod contender;
mod emulation;
mod emulator;
mod fabricmark;
mod json;
mod judge;
mod peer;
mod place;
mod process;
mod rows;
mod session;
mod table;
mod work;

use std::env;
use std::error::Error;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::Parser;
use regex::Regex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::bare::Bare;
use crate::contender::Contender;
use crate::fabricmark::Fabricmark;
use crate::place::Target;
use crate::rows::Row;
use crate::session::{Field, Played, Playing, Settings};

/// fabricmark against its peers and against bare loops in C
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    /// Most interleaved rounds of a row with its peers; fewer if its ratios are known within 2 % before [default: 50; 10
    /// for emulated links, RDMA, thousands of flows and idle processes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pairs: Option<u32>,
    /// Duration of a run in seconds, rounded up for programs that accept only whole seconds [default: 0.1 for rr, crr and
    /// datagrams; 1 for emulated links, RDMA, thousands of flows and idle processes; 0.5 for others]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// After N minutes only rows that have had fewer than ten rounds with peers have more
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// A look instead of an answer: 3 rounds with peers, of 0.3 s
    #[arg(long, conflicts_with_all = ["pairs", "seconds"])]
    quick: bool,
    /// Only rows whose name and target match, such as 'UDP.*veth'
    #[arg(long, value_name = "REGEX", default_value = "")]
    rows: Regex,
    /// Print the rows and end
    #[arg(long)]
    list: bool,
    /// Keep all single values in this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the order within rounds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Congestion control of TCP on the veth pair [default: the machine's]; on loopback all have
    /// the machine's
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Rows of RDMA between two addresses of this machine, and no others: 10.9.0.1,10.9.0.2 in a guest kernel
    #[arg(long, value_name = "ADDRESS,ADDRESS", value_delimiter = ',')]
    ends: Vec<IpAddr>,
    /// The program to judge [default: the fabricmark beside this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// An earlier version of fabricmark, to compare with it
    #[arg(long, value_name = "FILE")]
    earlier: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .ok_or_else(|| "write seconds from 0.1 to 3600".to_owned())
}

/// Exit codes of docs/exit-codes.md.
const MISSED: u8 = 1;
const FAILED: u8 = 67;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match bench(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fabricmark-bench: {error}");
            FAILED.into()
        }
    }
}

fn bench(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut targets = vec![Target::Loopback, Target::Veth, Target::Emulated];
    // Before any thread starts, because this process may have to enter its own user namespace.
    if let [from, to] = options.ends[..] {
        targets = vec![Target::Adapters([from, to])];
    } else if let Err(error) = fabricmark_lab::acquire() {
        eprintln!("no veth pair, so loopback only: {error}");
        targets.truncate(1);
    }
    let chosen: Vec<Row> = targets
        .into_iter()
        .flat_map(rows::rows)
        .filter(|row| options.rows.is_match(&format!("{}, {}", row.name, row.target)))
        .map(|row| if options.earlier.is_some() { row.earlier() } else { row })
        .collect();
    if options.list {
        chosen.iter().for_each(|row| println!("{}, {}", row.name, row.target));
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }

    let here = env::current_exe()?;
    let folder = here.parent().ok_or("this program has no folder")?;
    let program = options.program.clone().unwrap_or_else(|| folder.join("fabricmark"));
    for file in [&program].into_iter().chain(&options.earlier) {
        if !file.is_file() {
            return Err(format!(
                "no {}: build it, or name another with --program or --earlier",
                file.display()
            )
            .into());
        }
    }
    let bare = Bare::compile(&folder.parent().unwrap_or(folder).join("bench"))?;
    let (mut peers, absent) = peer::find();
    let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
    for other in emulator::OTHERS {
        peers.push(Box::new(other));
    }
    let earlier = options
        .earlier
        .clone()
        .map(|program| -> Box<dyn Contender> { Box::new(Fabricmark { program }) });
    let field =
        Field { ours: Box::new(Fabricmark { program }), earlier, bare: Box::new(bare), peers };
    let (pairs, seconds) =
        if options.quick { (Some(3), Some(0.3)) } else { (options.pairs, options.seconds) };
    let settings = Settings {
        pairs,
        seconds,
        seed: options.seed,
        congestion: options.congestion.clone().unwrap_or_else(default_congestion),
    };
    println!("{}", conditions(&settings, &names, &absent));

    let mut rows: Vec<_> = chosen.iter().map(|row| field.begin(row, &settings, &stop)).collect();
    let limit = options.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let mut progress = |place: usize, round, who: &str| {
        let (number, count, row) = (place + 1, chosen.len(), &chosen[place]);
        let most = settings.rounds(row.work);
        let Row { name, target, .. } = row;
        eprintln!("row {number}/{count} {name}, {target}: round {round} of at most {most}, {who}");
    };
    let results =
        |rows: &[Playing<'_>]| -> Vec<Played> { rows.iter().filter_map(Playing::result).collect() };
    let write = |results: &[Played]| match &options.json {
        None => Ok(()),
        Some(file) => {
            let document = json::document(results, &settings, &absent);
            fs::write(file, format!("{document:#}\n"))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))
        }
    };
    session::play_all(&mut rows, limit, &mut progress, &mut |rows| {
        // For a machine that stops: the final values are written below, and a failure is reported there.
        let _ = write(&results(rows));
    });
    let results = results(&rows);
    print!("{}", table::text(&results, &names));
    write(&results)?;
    Ok(code(&results, stop.load(Relaxed)))
}

fn code(results: &[Played], is_interrupted: bool) -> ExitCode {
    let mut answers = results.iter().flat_map(|result| &result.answers);
    let mut rounds = results.iter().flat_map(|result| &result.rounds);
    let is_ours_measured = |round: &judge::Round| round.get(rows::OURS).is_some_and(Result::is_ok);
    if is_interrupted {
        INTERRUPTED.into()
    } else if !rounds.any(is_ours_measured) {
        // No row at all, or a program that does not run.
        FAILED.into()
    } else if answers.any(|answer| answer.verdict == judge::Verdict::Missed) {
        MISSED.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn default_congestion() -> String {
    read("/proc/sys/net/ipv4/tcp_congestion_control")
}

/// First line of a kernel file, or `unknown`.
fn read(file: &str) -> String {
    fs::read_to_string(file).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Conditions common to all runs, and the peers that are missing.
fn conditions(settings: &Settings, peers: &[&str], absent: &[&str]) -> String {
    let list = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let (client, server) =
        (place::cpu(fabricmark_lab::Role::Client), place::cpu(fabricmark_lab::Role::Server));
    format!(
        "peers: {}; absent: {}\n\
         at most {} rounds with peers of {} s, order seeded with {}; the client on CPU {client}, the server on {server}\n\
         TCP's congestion control, for all: {} on loopback, {} on veth, {} on emulated links\n\
         Linux {}\n",
        list(peers),
        list(absent),
        settings.pairs.map_or_else(|| "10 or 50".to_owned(), |pairs| pairs.to_string()),
        settings.seconds.map_or_else(|| "0.1, 0.5 or 1".to_owned(), |seconds| seconds.to_string()),
        settings.seed,
        default_congestion(),
        settings.congestion,
        emulator::CONGESTION,
        read("/proc/sys/kernel/osrelease"),
    )
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory};
    use fabricmark_testkit::documents::{
        assert_accepted, assert_rows, invocations, simple_commands,
    };

    use super::*;

    #[test]
    fn nothing_measured_is_no_success() {
        let text = |code| format!("{code:?}");
        assert_eq!(text(code(&[], false)), text(ExitCode::from(FAILED)));
        assert_eq!(text(code(&[], true)), text(ExitCode::from(INTERRUPTED)));
    }

    #[test]
    fn its_options_are_the_rows_of_its_document_and_command_lines_of_documents_are_accepted() {
        assert_accepted("fabricmark-bench", |words| Options::try_parse_from(words));
        let command = Options::command();
        assert_rows("docs/bench.md", command.get_arguments().filter_map(Arg::get_long));
        let lines = invocations("make")
            .into_iter()
            .filter(|line| line.words[1..].contains(&"bench".to_owned()));
        let options = lines
            .flat_map(|line| line.words)
            .filter_map(|word| Some(word.strip_prefix("BENCH=")?.to_owned()));
        let options: Vec<String> = options.collect();
        assert!(!options.is_empty());
        for options in options {
            let words = simple_commands(&format!("bench {options}")).unwrap().concat();
            Options::try_parse_from(words).unwrap();
        }
    }
}
