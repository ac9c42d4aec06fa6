//! Traces of links: delivery opportunities in mahimahi's format, and the delay or the fate of each packet.

use std::num::ParseIntError;

use fabricmark_units::Nanos;

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
    #[error("the trace has more than {} entries: shorten it, it repeats", Trace::LINES_MAX)]
    Long,
    #[error("line {line}: write one delay per line, such as 12.5ms")]
    Delay {
        /// The line, from 1.
        line: usize,
    },
    #[error("line {line}: write 0 for a packet that is delivered and 1 for one that is lost")]
    Fate {
        /// The line, from 1.
        line: usize,
    },
    #[error("the trace has no packets")]
    NoPackets,
}

/// Reads a trace of delays: one per line, for one packet after the other.
pub(crate) fn delays(text: &str) -> Result<Vec<Nanos>, TraceError> {
    let delay = |(line, text): (usize, &str)| match line {
        _ if line > Trace::LINES_MAX => Err(TraceError::Long),
        line => text.trim().parse().map_err(|_| TraceError::Delay { line }),
    };
    let delays: Vec<Nanos> = (1..).zip(text.lines()).map(delay).collect::<Result<_, _>>()?;
    if delays.is_empty() { Err(TraceError::NoPackets) } else { Ok(delays) }
}

/// Reads a trace of losses: `0` for each packet that is delivered and `1` for each that is lost, with or without spaces and
/// line breaks between them.
pub(crate) fn losses(text: &str) -> Result<Vec<bool>, TraceError> {
    let mut losses = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        for character in text.chars().filter(|character| !character.is_whitespace()) {
            losses.push(match character {
                '0' => false,
                '1' => true,
                _ => return Err(TraceError::Fate { line }),
            });
        }
        if losses.len() > Trace::LINES_MAX {
            return Err(TraceError::Long);
        }
    }
    if losses.is_empty() { Err(TraceError::NoPackets) } else { Ok(losses) }
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

    #[test]
    fn delays_and_fates_of_packets_are_read_one_after_the_other() {
        let read = |text| delays(text).map_err(|error| error.to_string());
        assert_eq!(read("1ms\r\n 2.5us \n0ns\n"), Ok([1_000_000, 2_500, 0].map(Nanos).to_vec()));
        assert_eq!(
            read("1ms\n-2ms"),
            Err("line 2: write one delay per line, such as 12.5ms".into())
        );
        assert_eq!(read(""), Err("the trace has no packets".into()));
        assert_eq!(delays(&"0ns\n".repeat(Trace::LINES_MAX + 1)), Err(TraceError::Long));
        assert_eq!(losses("0 1\n10"), Ok(vec![false, true, true, false]));
        assert_eq!(losses("01\n02"), Err(TraceError::Fate { line: 2 }));
        assert_eq!(losses(" \n"), Err(TraceError::NoPackets));
        assert_eq!(losses(&"0".repeat(Trace::LINES_MAX + 1)), Err(TraceError::Long));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(
            text in ".{0,40}",
            near in "([0-9]{0,11}\\r?\\n){0,9}",
        ) {
            let _ = (Trace::parse(&text), Trace::parse(&near));
            let _ = (delays(&text), delays(&near), losses(&text), losses(&near));
        }
    }
}
