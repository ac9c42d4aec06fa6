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
use serde_json::Value;

/// A law: its name, and what a record says against it.
pub struct Law {
    /// Names the law in reports; a failure is shrunk as long as the same law is broken.
    pub name: &'static str,
    /// The numbers of each breach; none where the record keeps the law.
    pub check: fn(&Record) -> Vec<String>,
}

/// A law that a record breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The law.
    pub law: &'static str,
    /// The numbers.
    pub numbers: String,
}

/// Two clocks, and what a reading costs, may differ by this share (docs/statistics.md).
pub const CLOCKS: f64 = 2e-4;

/// A quantile carries the bucket error of a histogram of three digits; both ends of a comparison have one.
pub const BUCKET: f64 = 2.1e-3;

/// Every law of a single record.
pub fn all() -> Vec<Law> {
    [rates::LAWS, latency::LAWS, books::LAWS, pace::LAWS, machine::LAWS]
        .into_iter()
        .flatten()
        .map(|&(name, check)| Law { name, check })
        .collect()
}

/// A law as modules list them.
type Entry = (&'static str, fn(&Record) -> Vec<String>);

/// What the document that `fabricmark measure --json` prints breaks: laws of each run that counts, and
/// those of the whole.
pub fn breaches(point: &Point, document: &Value) -> Vec<Breach> {
    let records = document.pointer("/records").and_then(Value::as_array);
    let counted = records.into_iter().flatten().map(Record).filter(is_counted);
    let mut found: Vec<Breach> = Vec::new();
    for record in counted {
        for law in all() {
            found.extend(
                (law.check)(&record).into_iter().map(|numbers| Breach { law: law.name, numbers }),
            );
        }
        found.extend(whole::asked(point, &record));
        found.extend(whole::settings(document, &record));
    }
    found
}

/// Whether a run counts: it ran to its end and is no warm-up.
pub fn is_counted(record: &Record) -> bool {
    let is_warm_up = record.0.pointer("/place/warm_up").and_then(Value::as_bool) == Some(true);
    record.text("/outcome/kind") == "completed" && !is_warm_up
}

/// A breach if `is_kept` is false.
fn unless(is_kept: bool, numbers: impl FnOnce() -> String) -> Vec<String> {
    if is_kept { Vec::new() } else { vec![numbers()] }
}
