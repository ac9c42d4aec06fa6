//! Laws that every valid record satisfies, computed from its JSON by formulas of this crate.

mod books;
mod latency;
mod machine;
mod pace;
mod rates;
#[cfg(test)]
mod tests;
mod whole;

use super::point::Point;
use super::record::Record;
use serde_json::{Value, json};

/// Name of a law in reports, and the function that finds its breaches. A failure is shrunk while the same law is
/// broken.
type Law = (&'static str, fn(&Record, &mut Found));

/// A law that a record breaks, with the contradicting numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Name of the law.
    pub law: &'static str,
    /// The value in the record, and the expected one.
    pub numbers: String,
}

impl Breach {
    /// As JSON.
    pub fn json(&self) -> Value {
        json!({ "law": self.law, "numbers": self.numbers })
    }
}

/// Collects breaches; `law` is the law being checked.
#[derive(Default)]
struct Found {
    law: &'static str,
    breaches: Vec<Breach>,
}

impl Found {
    fn unless(&mut self, is_kept: bool, numbers: impl FnOnce() -> String) {
        if !is_kept {
            self.breaches.push(Breach { law: self.law, numbers: numbers() });
        }
    }
}

/// Maximum relative difference of two clocks, including the cost of a reading (docs/statistics.md).
pub const CLOCKS: f64 = 2e-4;

/// Maximum bucket error of quantiles from two histograms with three digits.
pub const BUCKET: f64 = 2.1e-3;

/// All laws of a single record.
const ALL: [&[Law]; 5] = [rates::LAWS, latency::LAWS, books::LAWS, pace::LAWS, machine::LAWS];

/// All laws that a single record breaks.
fn broken(record: &Record) -> Vec<Breach> {
    let mut found = Found::default();
    for &(law, check) in ALL.into_iter().flatten() {
        found.law = law;
        check(record, &mut found);
    }
    found.breaches
}

/// All laws that the output of `fabricmark measure --json` breaks: those of each valid run, and those of the whole
/// document.
pub fn breaches(point: &Point, document: &Value) -> Vec<Breach> {
    let records = document.pointer("/records").and_then(Value::as_array);
    let counted = records.into_iter().flatten().map(Record).filter(is_counted);
    counted
        .flat_map(|record| {
            let breaches = broken(&record);
            let mut found = Found { law: "point-is-as-asked", breaches };
            whole::asked(point, &record, &mut found);
            found.law = "summary-is-the-record";
            whole::settings(document, &record, &mut found);
            found.breaches
        })
        .collect()
}

/// Whether a run is valid and not a warm-up.
pub fn is_counted(record: &Record) -> bool {
    let is_warm_up = record.0.pointer("/place/warm_up").and_then(Value::as_bool) == Some(true);
    record.text("/outcome/kind") == "completed" && !is_warm_up
}
