//! What is true of every record that counts, computed from its JSON by formulas of this crate.

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

/// A law: its name in reports, and what finds the breaches of a record. A failure is shrunk as long as the same
/// law is broken.
type Law = (&'static str, fn(&Record, &mut Found));

/// A law that a record breaks, and the numbers that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Its name.
    pub law: &'static str,
    /// What the record says, and what it should.
    pub numbers: String,
}

impl Breach {
    /// As data.
    pub fn json(&self) -> Value {
        json!({ "law": self.law, "numbers": self.numbers })
    }
}

/// The breaches of one law after the other.
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

/// Two clocks, and what a reading costs, may differ by this share (docs/statistics.md).
pub const CLOCKS: f64 = 2e-4;

/// A quantile carries the bucket error of a histogram of three digits; both ends of a comparison have one.
pub const BUCKET: f64 = 2.1e-3;

/// Every law of a single record.
const ALL: [&[Law]; 5] = [rates::LAWS, latency::LAWS, books::LAWS, pace::LAWS, machine::LAWS];

/// What a single record breaks.
fn broken(record: &Record) -> Vec<Breach> {
    let mut found = Found::default();
    for &(law, check) in ALL.into_iter().flatten() {
        found.law = law;
        check(record, &mut found);
    }
    found.breaches
}

/// What the document that `fabricmark measure --json` prints breaks: laws of each run that counts, and
/// those of the whole.
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

/// Whether a run counts: it ran to its end and is no warm-up.
pub fn is_counted(record: &Record) -> bool {
    let is_warm_up = record.0.pointer("/place/warm_up").and_then(Value::as_bool) == Some(true);
    record.text("/outcome/kind") == "completed" && !is_warm_up
}
