//! Link traces in mahimahi's format.

use std::num::ParseIntError;

/// Delivery opportunities: milliseconds at which 1500 bytes may leave, in order. The trace repeats after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub(crate) stamps_ms: Vec<u32>,
}

/// Why a text is not a valid trace.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("the trace is empty: write one time in milliseconds per line")]
    Empty,
    #[error("line {line}: {reason}: write one time in whole milliseconds, up to 4294967295")]
    Number {
        /// The line, from 1.
        line: usize,
        reason: ParseIntError,
    },
    #[error("line {line}: {ms} ms is earlier than the line above: sort the times")]
    Order {
        /// The line, from 1.
        line: usize,
        ms: u32,
    },
    #[error("the last time is 0: end with the length of the trace in milliseconds")]
    NoTime,
    #[error("the trace has more than {} lines: shorten it, it repeats", Trace::LINES_MAX)]
    Long,
}

impl Trace {
    /// Maximum number of lines: 25 s at 1 Gbit/s, 8 MiB in memory.
    pub const LINES_MAX: usize = 1 << 21;

    /// Bytes of IP packets per opportunity. mahimahi's 1504 include the four bytes of its tunnel.
    pub const BYTES: u64 = 1500;

    /// Reads a mahimahi trace: one time per line, in milliseconds from the start, not decreasing. A repeated time is
    /// another opportunity.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut stamps_ms = Vec::new();
        for (text, line) in text.lines().zip(1..) {
            if line > Self::LINES_MAX {
                return Err(TraceError::Long);
            }
            let ms = text.trim().parse().map_err(|reason| TraceError::Number { line, reason })?;
            if stamps_ms.last().is_some_and(|&last| last > ms) {
                return Err(TraceError::Order { line, ms });
            }
            stamps_ms.push(ms);
        }
        match stamps_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoTime),
            Some(_) => Ok(Self { stamps_ms }),
        }
    }

    /// Mean rate in bit/s of IP packets.
    pub fn mean_rate_bps(&self) -> f64 {
        (8 * Self::BYTES * 1000) as f64 * self.stamps_ms.len() as f64 / self.period_ms() as f64
    }

    /// The last time in ms; never 0.
    pub(crate) fn period_ms(&self) -> u64 {
        self.stamps_ms.last().copied().unwrap_or(1).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, message) in [
            ("", "the trace is empty: write one time in milliseconds per line"),
            (
                "1\nx\n",
                "line 2: invalid digit found in string: write one time in whole milliseconds, up to 4294967295",
            ),
            ("5\n4\n", "line 2: 4 ms is earlier than the line above: sort the times"),
            ("0\n0\n", "the last time is 0: end with the length of the trace in milliseconds"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), message, "{text}");
        }
        assert!(Trace::parse(" 1\r\n2\r\n").is_ok());
        let long = "1\n".repeat(Trace::LINES_MAX + 1);
        assert_eq!(Trace::parse(&long), Err(TraceError::Long));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(
            text in ".{0,40}",
            near in "([0-9]{0,11}\\r?\\n){0,9}",
        ) {
            let _ = (Trace::parse(&text), Trace::parse(&near));
        }
    }
}
