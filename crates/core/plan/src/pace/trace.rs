//! Traces: departures listed one by one.

use fabricmark_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;

/// Departures listed as text: one per line, as time since the start of the run in nanoseconds or with a unit
/// (`1500`, `1.5us`, `20ms`), each no earlier than the previous one.
///
/// Empty lines and lines that begin with `#` are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>")]
pub struct Trace(Vec<u64>);

impl Trace {
    /// Largest number of departures: 10,000 per second for 10 s. As JSON they take at most 2.1 MB, which fits into
    /// a control message.
    pub const DEPARTURES_MAX: usize = 100_000;

    /// Parses the text of a trace.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse(text, Self::DEPARTURES_MAX)
    }

    /// The departures in nanoseconds since the start of the run, in order; at least one.
    pub fn departures_ns(&self) -> &[u64] {
        &self.0
    }
}

impl TryFrom<Vec<u64>> for Trace {
    type Error = Invalid;

    /// Errors number the departures as lines of a trace, from 1.
    fn try_from(departures: Vec<u64>) -> Result<Self, Invalid> {
        checked((1..).zip(departures.into_iter().map(|ns| Ok(Nanos(ns)))), Self::DEPARTURES_MAX)
    }
}

fn parse(text: &str, max: usize) -> Result<Trace, Invalid> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let said = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
    let departure = |text: &str| {
        let at = text.parse().map(Nanos).ok().or_else(|| text.parse().ok());
        at.ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            format!("`{text}` is not a time since the start such as 1500 (ns) or 1.5us")
        })
    };
    checked(said.map(|(line, text)| (line, departure(text))), max)
}

/// Checks a trace of at most `max` departures, each given with its line number and as a time or as why it is not one.
fn checked(
    listed: impl Iterator<Item = (usize, Result<Nanos, String>)>,
    max: usize,
) -> Result<Trace, Invalid> {
    let mut departures = Vec::new();
    for (line, at) in listed {
        let wrong = |what: String| Invalid(format!("line {line} of the trace: {what}"));
        let at = at.map_err(wrong)?;
        if departures.len() == max {
            return Err(wrong(format!("a trace has at most {max} departures")));
        }
        let before = Nanos(departures.last().copied().unwrap_or(0));
        if at < before {
            return Err(wrong(format!(
                "departure {at} is earlier than the previous one, {before}"
            )));
        }
        departures.push(at.0);
    }
    if departures.is_empty() {
        return Err(Invalid("the trace has no departures".to_owned()));
    }
    Ok(Trace(departures))
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
            (
                "2ms\n\n1ms\n",
                "line 3 of the trace: departure 1ms is earlier than the previous one, \
                              2ms",
            ),
            ("# nothing\n\n", "the trace has no departures"),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), message);
        }
        let long = Trace::parse(&"x".repeat(1_000)).unwrap_err();
        let shown = format!("line 1 of the trace: `{}` is not a time", "x".repeat(40));
        assert!(long.to_string().starts_with(&shown), "{long}");
    }

    #[test]
    fn a_trace_that_is_too_long_is_refused_at_the_first_line_too_many() {
        assert!(parse("1\n2\n", 2).is_ok());
        let refused = parse("1\n2\n#\n3\n4\n", 2).unwrap_err().to_string();
        assert_eq!(refused, "line 4 of the trace: a trace has at most 2 departures");
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
