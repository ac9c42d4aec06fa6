//! What a person sees while a plan runs: one line on a terminal, nothing elsewhere.

use std::io::{IsTerminal, Write, stderr};

use fabricmark_control::{Position, Progress};
use fabricmark_plan::{Pattern, Point, Step};
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
        let figures = &record.figures;
        self.last = match (&record.outcome, record.point.pattern) {
            (Outcome::Skipped(reason) | Outcome::Invalid(reason), _) => {
                format!(" · last: {reason}")
            }
            (_, Pattern::Stream | Pattern::Burst) => figures
                .goodput_bps
                .map(|figure| format!(" · last {:.1} Mbit/s", figure.value / 1e6))
                .unwrap_or_default(),
            (_, Pattern::Rr | Pattern::Crr) => figures
                .exchanges_per_s
                .map(|figure| format!(" · last {:.0}/s", figure.value))
                .unwrap_or_default(),
            (_, Pattern::PingPong | Pattern::PingPing) => figures
                .time_mean_ns()
                .map(|figure| format!(" · last {:.1} µs", figure.value / 1e3))
                .unwrap_or_default(),
        };
    }
}
