//! Relays side by side: `fabricmark relay` with each path, HAProxy, nginx, socat and a bare loop in C, over loopback.
//! Results are in `docs/bench.md`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program: it prints")]

mod load;
mod relays;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use comfy_table::{CellAlignment, Table};
use fabricmark_stats::{Better, StopRule, THROUGHPUT_TIE, median, paired};
use load::{Figures, Load, Server};
use relays::{Relays, Started};

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// Buffers of P5's tables 1 and 2, in bytes.
const BUFFERS: [usize; 6] = [375, 750, 1500, 3000, 5000, 8192];

/// Relays side by side
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    /// The program to judge [default: the fabricmark beside this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Interleaved rounds
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Length of each run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Buffer size of the relays in bytes, except in the rows that vary it
    #[arg(long, default_value_t = 262_144)]
    buffer: usize,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    rows: String,
}

fn main() -> ExitCode {
    match compare(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fabricmark-bench-relay: {error}");
            // RunFailed of docs/exit-codes.md.
            67.into()
        }
    }
}

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let here = env::current_exe()?;
    let beside = here.parent().ok_or("this program has no folder")?.join("fabricmark");
    let program = options.program.clone().unwrap_or(beside);
    let folder = tempfile::tempdir()?;
    let relays = Relays::find(&program, folder.path())?;
    for connections in [1, 8, 256] {
        row(options, &relays, &relays.all(options.buffer), Load::Bulk { connections })?;
    }
    for connections in [1, 8, 256] {
        row(options, &relays, &relays.all(options.buffer), Load::Transfers { connections })?;
    }
    row(options, &relays, &relays.all(options.buffer), Load::Rr)?;
    row(options, &relays, &relays.all(options.buffer), Load::Connect)?;
    for buffer_bytes in BUFFERS {
        let two = relays.bare_and_copy(buffer_bytes);
        row(options, &relays, &two, Load::Bulk { connections: 1 })?;
    }
    Ok(())
}

/// Runs all relays in turn, and prints their medians and the ratio of ours to each.
fn row(
    options: &Options,
    relays: &Relays,
    contenders: &[relays::Contender],
    load: Load,
) -> Result<(), Box<dyn Error>> {
    let name = format!("{load}, buffer of {} bytes", contenders[0].buffer_bytes());
    if !name.contains(&options.rows) {
        return Ok(());
    }
    let server = Server::start()?;
    let mut started: Vec<Started> = Vec::new();
    for contender in contenders {
        started.push(relays.start(contender, server.port())?);
    }
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); started.len()];
    for round in 0..options.rounds {
        // Every round begins with another relay.
        for place in 0..started.len() {
            let place = (place + round) % started.len();
            let relay = &started[place];
            let cpu_before = relay.cpu_s();
            let mut figures = load
                .run(relay.port(), &server, options.seconds)
                .map_err(|error| format!("{name} through {}: {error}", relay.name()))?;
            let cpu_s = relay.cpu_s() - cpu_before;
            figures.cpu_s_per_gib = cpu_s / (figures.bytes as f64 / f64::from(1 << 30));
            rounds[place].push(figures);
        }
    }
    println!("{name}");
    let mut table = Table::new();
    let ours: Vec<&str> =
        started.iter().map(Started::name).filter(|name| name.starts_with("fabricmark")).collect();
    let mut heading = vec!["relay".to_owned(), load.unit().to_owned()];
    heading.extend(ours.iter().map(|name| format!("{name} / it")));
    let has_bytes = matches!(load, Load::Bulk { .. } | Load::Transfers { .. });
    if has_bytes {
        heading.push("CPU s/GiB".to_owned());
        heading.extend(ours.iter().map(|name| format!("CPU of {name} / it")));
    }
    table.set_header(heading);
    let of = |place: usize, figure: fn(&Figures) -> f64| -> Vec<f64> {
        rounds[place].iter().map(figure).collect()
    };
    for (place, relay) in started.iter().enumerate() {
        let mut cells = vec![relay.name().to_owned()];
        let mut figure = |figure: fn(&Figures) -> f64, better| {
            let theirs = of(place, figure);
            let value = median(&theirs, CONFIDENCE).map_or(f64::NAN, |median| median.value);
            cells.push(format!("{value:.3}"));
            for our in &ours {
                let our_place = started.iter().position(|relay| relay.name() == *our);
                let ratio = our_place.filter(|&our| our != place).and_then(|our| {
                    let rule = StopRule::of_runs(CONFIDENCE, theirs.len());
                    Some(paired(&theirs, &of(our, figure), &rule, better, THROUGHPUT_TIE)?.ratio())
                });
                cells.push(match ratio.map(|ratio| (ratio.value, ratio.interval)) {
                    Some((value, Some(interval))) => {
                        format!("{value:.3} [{:.3}, {:.3}]", interval.low, interval.high)
                    }
                    _ => String::new(),
                });
            }
        };
        let better = if load == Load::Rr { Better::Lower } else { Better::Higher };
        figure(|figures| figures.main, better);
        if has_bytes && relay.has_cpu() {
            figure(|figures| figures.cpu_s_per_gib, Better::Lower);
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_documents_are_accepted() {
        fabricmark_testkit::documents::assert_accepted("fabricmark-bench-relay", |words| {
            Options::try_parse_from(words)
        });
    }
}
