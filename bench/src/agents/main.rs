//! Agents under load: many coordinators, floods of connections, and whether two hosts with an agent give the same
//! figures as the lab. Results are in `docs/agent.md`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program: it prints")]

mod agent;
mod clients;
mod flood;
mod hosts;
mod latency;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Agents under load
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    /// The program to judge [default: the fabricmark beside this program]
    #[arg(long, value_name = "FILE", global = true)]
    program: Option<PathBuf>,
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// How fast coordinators connect, and what each costs; exit code 1 if the goal is missed
    Connect {
        /// Coordinators
        #[arg(long, default_value_t = 1000)]
        clients: usize,
    },
    /// Whether memory stays flat while coordinators measure at once
    Measure {
        /// Coordinators
        #[arg(long, default_value_t = 200)]
        clients: usize,
        /// Length of each run
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// How much goodput a measurement loses while unauthenticated connections flood the agent's port; exit code 1 if the
    /// goal is missed, 2 if the result is inconclusive
    Flood {
        /// Connections a second
        #[arg(long, default_value_t = 500)]
        rate: u32,
        /// Interleaved pairs
        #[arg(long, default_value_t = 10)]
        pairs: usize,
        /// Length of each run
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// How much time an agent adds to a run; exit code 1 if the goal is missed, 2 if the result
    /// is inconclusive
    Latency {
        /// Interleaved pairs
        #[arg(long, default_value_t = 10)]
        pairs: usize,
    },
    /// Whether a host with an agent gives the figures of the lab, over the same link; exit code 1 if one differs, 2 if
    /// one is inconclusive
    Hosts {
        /// Interleaved pairs of each figure
        #[arg(long, default_value_t = 20)]
        pairs: usize,
        /// Length of each run
        #[arg(long, default_value_t = 0.4)]
        seconds: f64,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    match answer(&options) {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("fabricmark-bench-agents: {error}");
            // RunFailed of docs/exit-codes.md.
            67.into()
        }
    }
}

/// The exit code.
fn answer(options: &Options) -> Result<u8, Box<dyn Error>> {
    let here = env::current_exe()?;
    let beside = here.parent().ok_or("this program has no folder")?.join("fabricmark");
    let program = options.program.clone().unwrap_or(beside);
    match &options.question {
        Question::Connect { clients } => clients::connect(&program, *clients),
        Question::Measure { clients, seconds } => {
            clients::measure(&program, *clients, *seconds).map(|()| 0)
        }
        Question::Flood { rate, pairs, seconds } => flood::flood(&program, *rate, *pairs, *seconds),
        Question::Latency { pairs } => latency::latency(&program, *pairs),
        Question::Hosts { pairs, seconds } => hosts::hosts(&program, *pairs, *seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_documents_are_accepted() {
        fabricmark_testkit::documents::assert_accepted("fabricmark-bench-agents", |words| {
            Options::try_parse_from(words)
        });
    }
}
