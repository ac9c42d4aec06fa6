//! What a person sees while a plan runs: one line on a terminal, nothing elsewhere.

use std::io::{IsTerminal, Write, stderr};

use fabricmark_control::{Position, Progress};
use fabricmark_plan::{Figure, Point, Step, Unit};
use fabricmark_record::{Outcome, Record};

/// A progress line on standard error.
pub struct Line {
    is_terminal: bool,
    last: String,
}

impl Line {
    /// A line that is quiet where standard error is no terminal.
    pub fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), last: String::new() }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn show(&self, text: &str) {
        // A line that wraps cannot be taken away again.
        let columns = 118;
        let text: String = text.chars().take(columns).collect();
        eprint!("\r\x1b[K{text}");
        // A terminal that is gone shows nothing.
        let _ = stderr().flush();
    }
}

impl Progress for Line {
    fn begins(&mut self, position: Position, point: &Point, step: &Step) {
        if !self.is_terminal {
            return;
        }
        let seconds = position.left.0.div_ceil(1_000_000_000);
        let left = if seconds >= 60 {
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        } else {
            format!("{seconds} s")
        };
        self.show(&format!(
            "{} of {} runs, {left} left at least · {}{} {} {} {} B over {}{}",
            position.done,
            position.planned,
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
        let text = format!("the agent measures for others: place {place} in its queue");
        if self.is_terminal {
            self.show(&text);
        } else {
            eprintln!("{text}");
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
