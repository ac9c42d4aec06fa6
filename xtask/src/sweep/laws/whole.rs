//! Laws beyond a single record: its point is the requested one, and the summary agrees with it.

use serde_json::Value;

use super::Found;
use crate::sweep::point::{Point, nanos};
use crate::sweep::record::Record;

/// The record's point has the levels of the command line.
pub fn asked(point: &Point, record: &Record, found: &mut Found) {
    let number = |name: &str| record.number(&format!("/point/{name}"));
    let mut expect = |name: &str, asked: Option<f64>, got: Option<f64>| {
        found.unless(asked.is_none() || asked == got, || {
            format!("{name} was asked for as {asked:?} and is {got:?}")
        });
    };
    let plain = |name: &str| point.option(name).and_then(|value| value.parse::<f64>().ok());
    for name in ["flows", "outstanding", "family"] {
        expect(name, plain(name), number(name));
    }
    for name in ["payload", "response"] {
        expect(name, plain(name), number(&format!("{name}_bytes")));
    }
    let time = |name: &str| point.option(name).and_then(nanos).map(|ns| ns as f64);
    expect("rtt", time("rtt"), number("rtt_ns"));
    expect("duration", time("duration"), record.number("/duration_ns"));
    for name in ["transport", "pattern", "path", "wait", "direction", "congestion"] {
        let asked =
            if name == "pattern" { Some(point.pattern.as_str()) } else { point.option(name) };
        let got = record.text(&format!("/point/{name}"));
        if let Some(asked) = asked {
            found.unless(asked == got || got.is_empty(), || {
                format!("{name} was asked for as {asked} and is {got}")
            });
        }
    }
}

/// With one run, the figures of a setting are those of its record.
pub fn settings(document: &Value, record: &Record, found: &mut Found) {
    let figures = document.pointer("/settings/0/figures").and_then(Value::as_object);
    for (name, figure) in figures.into_iter().flatten() {
        let value = figure.get("value").and_then(Value::as_f64);
        let (Some(value), Some(ours)) = (value, record.figure(name)) else { continue };
        found.unless((value - ours).abs() <= 1e-9 * ours.abs(), || {
            format!("{name} is {value} in the summary and {ours} in the record")
        });
    }
}
