//! MPI operations side by side: `fabricmark-mpi`, a bare loop in C, and the Intel MPI Benchmarks where `scripts/imb` has
//! built them. Every run is a job of its own with two ranks; the jobs are interleaved. Results are in `docs/bench.md`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program: it prints")]

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use fabricmark_record::MpiLine;
use fabricmark_stats::{Better, StopRule, THROUGHPUT_TIE, mean, median, paired};

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// The bare loop.
const BARE: &str = include_str!("../../bare/mpi.c");

/// MPI operations side by side
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    /// MPI library: openmpi or mpich
    #[arg(long, default_value = "openmpi")]
    library: String,
    /// Interleaved rounds
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Length of each run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    rows: String,
}

/// Half the round trip by the OSU Micro-Benchmarks.
const OSU: &str = "osu_latency";

/// Rows: operation and payload.
const ROWS: [(&str, u64); 7] = [
    ("PingPong", 0),
    ("PingPong", 8),
    ("PingPong", 1 << 20),
    ("Allreduce", 8),
    ("Allreduce", 1 << 20),
    ("Alltoall", 8),
    ("Alltoall", 1 << 20),
];

fn main() -> ExitCode {
    match compare(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fabricmark-bench-mpi: {error}");
            // RunFailed of docs/exit-codes.md.
            67.into()
        }
    }
}

/// A program that times operations.
struct Contender {
    name: &'static str,
    program: PathBuf,
}

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let here = env::current_exe()?;
    let folder = here.parent().ok_or("this program has no folder")?;
    let ours = folder.join(format!("fabricmark-mpi-{}", options.library));
    if !ours.is_file() {
        return Err(format!("{} is missing: run `make mpi`", ours.display()).into());
    }
    let temporary = tempfile::tempdir()?;
    let bare = built(temporary.path(), &options.library)?;
    let mut contenders = vec![
        Contender { name: "fabricmark-mpi", program: ours },
        Contender { name: "bare loop", program: bare },
    ];
    let imb = PathBuf::from(format!("target/bench/imb-{}/IMB-MPI1", options.library));
    if imb.is_file() {
        contenders.push(Contender { name: "IMB-MPI1", program: imb });
    } else {
        eprintln!("{} is missing: scripts/imb builds it", imb.display());
    }
    let osu = format!("target/bench/osu-{}/mpi/pt2pt/osu_latency", options.library);
    let osu = PathBuf::from(osu);
    if !osu.is_file() {
        eprintln!("{} is missing: scripts/osu builds it", osu.display());
    }
    for (operation, bytes) in ROWS {
        let name = format!("{operation} {bytes} B");
        if name.contains(&options.rows) {
            // Its collective operations are timed one by one between barriers.
            if operation == "PingPong" && osu.is_file() {
                contenders.push(Contender { name: OSU, program: osu.clone() });
            }
            row(options, &contenders, operation, bytes)?;
            contenders.retain(|contender| contender.name != OSU);
        }
    }
    Ok(())
}

/// Compiles the bare loop.
fn built(folder: &Path, library: &str) -> Result<PathBuf, Box<dyn Error>> {
    let (source, program) = (folder.join("mpi.c"), folder.join("bare-mpi"));
    fs::write(&source, BARE)?;
    let mpicc = format!("mpicc.{library}");
    let status = Command::new(&mpicc).arg("-O2").arg(&source).arg("-o").arg(&program).status()?;
    if status.success() { Ok(program) } else { Err(format!("{mpicc} failed").into()) }
}

/// Runs all contenders in turn, and prints their medians and the ratio of ours to each.
fn row(
    options: &Options,
    contenders: &[Contender],
    operation: &str,
    bytes: u64,
) -> Result<(), Box<dyn Error>> {
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for round in 0..options.rounds {
        // Every round begins with another contender.
        for place in 0..contenders.len() {
            let place = (place + round) % contenders.len();
            // Ours runs first of all; IMB needs a number of operations.
            let expected_ns = rounds[0].first().copied().unwrap_or(1.0);
            let ns = run(options, &contenders[place], operation, bytes, expected_ns)?;
            rounds[place].push(ns);
        }
    }
    println!("{operation}, {bytes} B, 2 ranks, {}", options.library);
    for (contender, theirs) in contenders.iter().zip(&rounds) {
        let value = median(theirs, CONFIDENCE).map_or(f64::NAN, |median| median.value);
        let mut line = format!("  {:<16}{:>12.1} ns", contender.name, value);
        if contender.name != contenders[0].name {
            let rule = StopRule::of_runs(CONFIDENCE, theirs.len());
            let ratio = paired(theirs, &rounds[0], &rule, Better::Lower, THROUGHPUT_TIE);
            if let Some(interval) = ratio.as_ref().and_then(|found| found.ratio().interval) {
                let value = ratio.map_or(f64::NAN, |found| found.ratio().value);
                line += &format!(
                    "   fabricmark-mpi / it {value:.3} [{:.3}, {:.3}]",
                    interval.low, interval.high
                );
            }
            let differences: Vec<f64> =
                rounds[0].iter().zip(theirs).map(|(own, their)| own - their).collect();
            if let Some(difference) = mean(&differences, CONFIDENCE) {
                let half = difference.half_width().unwrap_or(f64::NAN);
                line += &format!("   difference {:.1} ± {half:.1} ns", difference.value);
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// Time of an operation in ns, by a job of its own.
fn run(
    options: &Options,
    contender: &Contender,
    operation: &str,
    bytes: u64,
    expected_ns: f64,
) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", "120"]).arg(format!("mpirun.{}", options.library));
    let bind = if options.library == "openmpi" { "--bind-to" } else { "-bind-to" };
    command.args([bind, "core", "-n", "2"]).arg(&contender.program);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let (payload, seconds) = (bytes.to_string(), options.seconds.to_string());
    match contender.name {
        "bare loop" => command.args([operation, &payload, &seconds]),
        // All sizes in one run, with its own number of operations: an option would set that of long messages, too.
        OSU => &mut command,
        "IMB-MPI1" => {
            // Its limits of time and of bytes would cut the number of operations; without its barriers between them.
            let length = bytes.max(1).ilog2();
            let lengths = if bytes == 0 { "0:1".to_owned() } else { format!("{length}:{length}") };
            let per_iteration = if operation == "PingPong" { 2.0 } else { 1.0 };
            let count = (1e9 * options.seconds / (per_iteration * expected_ns)).ceil();
            command.args(["-npmin", "2", "-iter", &format!("{count},100000000"), "-time", "100"]);
            command.args(["-iter_policy", "off", "-sync", "0", "-msglog", &lengths, operation])
        }
        _ => {
            let duration = format!("{}ms", (1000.0 * options.seconds).round());
            let sync: &[&str] =
                if operation == "PingPong" { &[] } else { &["--sync", "back-to-back"] };
            command.args([operation, "-l", &payload, "--json", "--duration", &duration]).args(sync)
        }
    };
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = match contender.name {
        "bare loop" => text.trim().parse().ok(),
        "IMB-MPI1" => of_imb(&text, bytes),
        OSU => of_osu(&text, bytes),
        _ => of_ours(&text),
    };
    found.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{} printed no time: {text}{errors}", contender.name).into()
    })
}

/// The row of a payload: bytes, and microseconds.
fn of_osu(text: &str, bytes: u64) -> Option<f64> {
    text.lines().find_map(|line| {
        let (size, us) = line.trim().split_once(char::is_whitespace)?;
        (size.parse() == Ok(bytes)).then(|| us.trim().parse::<f64>().ok())?.map(|us| 1e3 * us)
    })
}

/// Mean over the slices.
fn of_ours(text: &str) -> Option<f64> {
    text.lines().find_map(|line| match serde_json::from_str(line).ok()? {
        MpiLine::Measured { result, .. } => Some(mean(&result.slices_ns, CONFIDENCE)?.value),
        _ => None,
    })
}

/// The longest time over the ranks of the row with this payload, which IMB prints in microseconds.
fn of_imb(text: &str, bytes: u64) -> Option<f64> {
    text.lines().find_map(|line| {
        let numbers: Option<Vec<f64>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() >= 4)?;
        // PingPong: bytes, repetitions, t, Mbytes/sec; collective: bytes, repetitions, t_min, t_max, t_avg.
        let time = if numbers.len() == 4 { numbers[2] } else { numbers[3] };
        (numbers[0] == bytes as f64).then_some(1e3 * time)
    })
}
