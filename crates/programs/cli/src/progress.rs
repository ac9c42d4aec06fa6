//! Progress of a plan: one line that is overwritten on a terminal, a line every minute elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use fabricmark_control::{AgentError, Position, Progress, RECONNECTS_FOR};
use fabricmark_plan::{Figure, Point, Step, Unit};
use fabricmark_record::{Outcome, Record};
use fabricmark_units::Nanos;

use crate::locale;

/// Time between lines where standard error is not a terminal.
const EVERY: Duration = Duration::from_secs(60);

/// Columns of a terminal that does not say how many it has.
const USUAL_COLUMNS: usize = 80;

/// A progress line on standard error.
pub struct Line {
    is_terminal: bool,
    last: String,
    /// The MPI job or the run of the bookstore.
    job: String,
    printed: Instant,
}

impl Line {
    /// The line of a plan that begins now.
    pub fn new() -> Self {
        // A dumb terminal cannot erase a line.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = stderr().is_terminal() && !is_dumb;
        Self { is_terminal, last: String::new(), job: String::new(), printed: Instant::now() }
    }

    /// Erases the line.
    pub fn clear(&self) {
        if self.is_terminal {
            status!("\r\x1b[K");
        }
    }

    fn show(&self, text: &str) {
        // A line that wraps cannot be erased.
        let text: String = text.chars().take(columns().saturating_sub(1)).collect();
        status!("\r\x1b[K{}", locale::shown(&locale::harmless(&text)));
    }
}

/// Columns of the terminal of standard error.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(stderr()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(USUAL_COLUMNS)
}

/// For example `3 min 05 s`.
fn minutes(time: Nanos) -> String {
    match time.0.div_ceil(1_000_000_000) {
        seconds if seconds >= 60 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{seconds} s"),
    }
}

impl Progress for Line {
    fn begins(&mut self, position: Position, point: &Point, step: &Step) {
        if !self.is_terminal && self.printed.elapsed() < EVERY {
            return;
        }
        let how_far = match (position.decided, position.budget_left) {
            (Some((decided, all)), Some(left)) => {
                format!("{decided} of {all} comparisons decided, at most {} left", minutes(left))
            }
            _ => {
                let Position { done, planned, left, .. } = position;
                format!("{done} of {planned} runs, at least {} left", minutes(left))
            }
        };
        let last = position.last_verdict.map(|verdict| format!(" · last: {verdict}"));
        if !self.is_terminal {
            self.printed = Instant::now();
            note!("{how_far}{}", last.unwrap_or_default());
            return;
        }
        if let Some(last) = last {
            self.show(&format!("{how_far}{last}"));
            return;
        }
        if let (Some(browsers), Some(link)) = (point.browsers, point.app_db) {
            self.job =
                format!("{how_far} · {browsers} browsers, {link} to the database{}", self.last);
            self.show(&self.job);
            return;
        }
        if let Some(benchmark) = point.benchmark.filter(|_| step.points.len() > 1) {
            let transport = point.mpi_transport.map_or("", |transport| transport.word());
            self.job = format!(
                "{how_far} · MPI over {transport}, {} points of {benchmark} and others{}",
                step.points.len(),
                self.last
            );
            self.show(&self.job);
            return;
        }
        self.show(&format!(
            "{how_far} · {}{} {} {} {} B over {}{}",
            if step.warm_up { "warm-up " } else { "" },
            point.pattern,
            point.transport,
            point.family,
            point.payload.0,
            point.link,
            self.last,
        ));
    }

    fn waits(&mut self, place: u32) {
        let text = format!("the agent is busy with other runs: position {place} in its queue");
        if self.is_terminal {
            self.show(&text);
        } else {
            note!("{text}");
        }
    }

    fn loses(&mut self, error: &AgentError) {
        self.clear();
        let seconds = RECONNECTS_FOR.as_secs();
        note!("{error}; this run is lost; trying to connect again for up to {seconds} s");
    }

    fn round(&mut self, done: u32, of: u32) {
        if self.is_terminal {
            self.show(&format!("{} · {done} of {of}", self.job));
        }
    }

    fn prepares(&mut self, what: &str, done: u32, of: u32) {
        if self.is_terminal {
            match of {
                0 => self.show(what),
                _ => self.show(&format!("{what}: {} %", 100 * u64::from(done) / u64::from(of))),
            }
        } else if self.job != what {
            self.job = what.to_owned();
            note!("{what}");
        }
    }

    fn ends(&mut self, record: &Record) {
        self.last = match &record.outcome {
            Outcome::Skipped(reason) | Outcome::Invalid(reason) => {
                format!(" · last: {reason}")
            }
            Outcome::Completed => {
                let figure = Figure::deciding(&record.point);
                let written = record.figures.value(figure).map(|value| match figure.spec().unit {
                    Unit::Bps => format!(" · last {:.1} Mbit/s", value / 1e6),
                    Unit::PerSecond => format!(" · last {value:.0}/s"),
                    _ => format!(" · last {:.1} µs", value / 1e3),
                });
                written.unwrap_or_default()
            }
        };
    }
}
