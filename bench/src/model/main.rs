//! Benchmarks without a network: header codecs against etherparse, and a table of ceilings against its time limit.
//! Results are in `docs/bench.md`.
#![expect(clippy::print_stdout, reason = "this is a program: it prints")]

mod ceilings;
mod codecs;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use comfy_table::Table;
use fabricmark_stats::{Better, Estimate, StopRule, THROUGHPUT_TIE, median, paired};

/// Codecs against etherparse, ceilings against the clock; pin it to a processor (taskset -c 0)
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    /// Interleaved rounds; in each, everybody runs once
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(6..))]
    rounds: u32,
    /// Seed of the order within rounds
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// Exit code for a missed goal (docs/exit-codes.md).
const MISSED: u8 = 1;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let is_fast = codecs::compare(options.rounds, options.seed);
    let is_soon = ceilings::time(options.rounds)?;
    Ok(if is_fast && is_soon { ExitCode::SUCCESS } else { MISSED.into() })
}

/// Mean time of one of `operations`, in nanoseconds.
fn timed(operations: u32, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..operations {
        work();
    }
    start.elapsed().as_nanos() as f64 / f64::from(operations)
}

/// Ratio of `theirs` to `ours`, two series of paired times: above 1 if ours is faster.
fn speed(ours: &[f64], theirs: &[f64]) -> Option<Estimate> {
    let rule = StopRule::of_runs(CONFIDENCE, ours.len());
    Some(paired(ours, theirs, &rule, Better::Higher, THROUGHPUT_TIE)?.ratio())
}

/// Formats an estimate: `0.98 [0.97, 0.99]`.
fn with_interval(estimate: &Estimate, decimals: usize) -> String {
    let value = format!("{:.decimals$}", estimate.value);
    match estimate.interval {
        Some(interval) => {
            format!("{value} [{:.decimals$}, {:.decimals$}]", interval.low, interval.high)
        }
        None => value,
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.set_header(header);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_documents_are_accepted() {
        fabricmark_testkit::documents::assert_accepted("fabricmark-bench-model", |words| {
            Options::try_parse_from(words)
        });
    }
}
