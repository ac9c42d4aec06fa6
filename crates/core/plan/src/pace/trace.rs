//! Departures listed one by one.

use fabricmark_units::Nanos;
use serde::{Deserialize, Serialize};

/// Departures as a text lists them: one a line, counted from the start of the run, in nanoseconds or
/// with a unit (`1500`, `1.5us`, `20ms`), each no earlier than the one before.
///
/// Empty lines and lines that begin with `#` say nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>")]
pub struct Trace(Vec<u64>);

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line holds something else than a time.
    #[error(
        "line {line} of the trace: `{text}` is not a time since the start such as 1500 (ns) or 1.5us"
    )]
    NotATime {
        /// Line, from 1.
        line: usize,
        /// What it says, cut to 40 characters.
        text: String,
    },
    /// A departure before the one above it.
    #[error("line {line} of the trace: a departure at {at} after one at {before}")]
    Backwards {
        /// Line, from 1.
        line: usize,
        /// The departure.
        at: Nanos,
        /// The one above it.
        before: Nanos,
    },
    /// More departures than are kept.
    #[error("line {line} of the trace: a trace has at most {max} departures")]
    TooLong {
        /// Line of the first departure that is too many, from 1.
        line: usize,
        /// How many may be.
        max: usize,
    },
    /// No departure at all.
    #[error("the trace lists no departure")]
    Empty,
}

impl Trace {
    /// Most departures of a trace: 10,000 a second for 10 s. As JSON it takes at most 2.1 MB, which a
    /// control message still holds.
    pub const DEPARTURES_MAX: usize = 100_000;

    /// Reads the text of a trace.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        parse(text, Self::DEPARTURES_MAX)
    }

    /// The departures in nanoseconds since the start; at least one, in their order.
    pub fn departures_ns(&self) -> &[u64] {
        &self.0
    }
}

impl TryFrom<Vec<u64>> for Trace {
    type Error = TraceError;

    /// Takes the departures themselves, one a line.
    fn try_from(departures: Vec<u64>) -> Result<Self, TraceError> {
        let max = Self::DEPARTURES_MAX;
        if departures.len() > max {
            return Err(TraceError::TooLong { line: max + 1, max });
        }
        if let Some(place) = departures.windows(2).position(|pair| pair[1] < pair[0]) {
            let (before, at) = (Nanos(departures[place]), Nanos(departures[place + 1]));
            return Err(TraceError::Backwards { line: place + 2, at, before });
        }
        if departures.is_empty() { Err(TraceError::Empty) } else { Ok(Self(departures)) }
    }
}

fn parse(text: &str, max: usize) -> Result<Trace, TraceError> {
    let mut departures = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let Some(at) = text.parse().map(Nanos).ok().or_else(|| text.parse().ok()) else {
            return Err(TraceError::NotATime { line, text: text.chars().take(40).collect() });
        };
        if departures.len() == max {
            return Err(TraceError::TooLong { line, max });
        }
        let before = Nanos(departures.last().copied().unwrap_or(0));
        if at < before {
            return Err(TraceError::Backwards { line, at, before });
        }
        departures.push(at.0);
    }
    if departures.is_empty() { Err(TraceError::Empty) } else { Ok(Trace(departures)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn departures_are_read_in_nanoseconds_or_with_a_unit() {
        let trace = Trace::parse("# two bursts\n0\n0\n\n1500\n 1.5us \r\n20ms\n").unwrap();
        assert_eq!(trace.departures_ns(), [0, 0, 1_500, 1_500, 20_000_000]);
    }

    #[test]
    fn a_fault_is_named_with_its_line() {
        for (text, message) in [
            (
                "0\n# no time:\nsoon\n",
                "line 3 of the trace: `soon` is not a time since the start such as 1500 (ns) or 1.5us",
            ),
            (
                "-5",
                "line 1 of the trace: `-5` is not a time since the start such as 1500 (ns) or 1.5us",
            ),
            ("2ms\n\n1ms\n", "line 3 of the trace: a departure at 1ms after one at 2ms"),
            ("# nothing\n\n", "the trace lists no departure"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), message);
        }
        let long = Trace::parse(&"x".repeat(1_000)).unwrap_err();
        assert_eq!(long, TraceError::NotATime { line: 1, text: "x".repeat(40) });
    }

    #[test]
    fn a_trace_that_is_too_long_is_refused_at_the_first_line_too_many() {
        assert!(parse("1\n2\n", 2).is_ok());
        assert_eq!(parse("1\n2\n#\n3\n4\n", 2), Err(TraceError::TooLong { line: 4, max: 2 }));
    }

    #[test]
    fn a_trace_travels_as_its_departures_and_is_checked_on_arrival() {
        let trace = Trace::parse("0\n5us\n").unwrap();
        assert_eq!(serde_json::to_string(&trace).unwrap(), "[0,5000]");
        assert_eq!(serde_json::from_str::<Trace>("[0,5000]").unwrap(), trace);
        let refused = |json| serde_json::from_str::<Trace>(json).unwrap_err().to_string();
        assert!(refused("[1,3,2]").contains("line 3"), "{}", refused("[1,3,2]"));
        assert!(refused("[]").contains("no departure"), "{}", refused("[]"));
    }

    proptest! {
        #[test]
        fn a_trace_gives_back_what_was_listed(mut listed in proptest::collection::vec(0u64.., 1..50)) {
            listed.sort_unstable();
            let text: String = listed.iter().map(|ns| format!("{}\n", Nanos(*ns))).collect();
            let trace = Trace::parse(&text).unwrap();
            prop_assert_eq!(trace.departures_ns(), listed);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = Trace::parse(&text);
        }
    }
}
