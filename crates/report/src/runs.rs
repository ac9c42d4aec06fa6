//! The records of each point, parted into those that count and those that do not.

use std::collections::{BTreeMap, HashMap};

use fabricmark_plan::{Figure, Point};
use fabricmark_record::{Outcome, Record};

/// What was run of one point, warm-ups left out.
#[derive(Debug, Default)]
pub(crate) struct Runs<'a> {
    /// Runs that count, in the order of their blocks.
    pub counted: Vec<&'a Record>,
    /// Runs that were skipped or are invalid.
    pub failed: Vec<&'a Record>,
}

/// The runs of every point, by the point's key.
pub(crate) struct ByPoint<'a>(HashMap<String, Runs<'a>>);

impl<'a> ByPoint<'a> {
    pub(crate) fn of(records: &'a [Record]) -> Self {
        let mut points: HashMap<String, Runs<'a>> = HashMap::new();
        for record in records.iter().filter(|record| !record.place.warm_up) {
            let runs = points.entry(record.point.key()).or_default();
            match record.outcome {
                Outcome::Completed => runs.counted.push(record),
                Outcome::Skipped(_) | Outcome::Invalid(_) => runs.failed.push(record),
            }
        }
        for runs in points.values_mut() {
            runs.counted.sort_by_key(|record| record.place.block);
            runs.failed.sort_by_key(|record| record.place.block);
        }
        Self(points)
    }

    pub(crate) fn get(&self, point: &Point) -> Option<&Runs<'a>> {
        self.0.get(&point.key())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get_key(&self, key: &str) -> Option<&Runs<'a>> {
        self.0.get(key)
    }
}

impl Runs<'_> {
    /// A figure of each counted run, in the order of blocks.
    pub(crate) fn values(&self, figure: Figure) -> Vec<f64> {
        self.by_block(figure).into_values().collect()
    }

    fn by_block(&self, figure: Figure) -> BTreeMap<u32, f64> {
        let value = |record: &&Record| {
            let value = record.figures.get(figure)?.value;
            value.is_finite().then_some((record.place.block, value))
        };
        self.counted.iter().filter_map(value).collect()
    }

    /// The values of two points from the blocks in which both have one.
    pub(crate) fn paired(&self, other: &Self, figure: Figure) -> (Vec<f64>, Vec<f64>) {
        let others = other.by_block(figure);
        self.by_block(figure)
            .into_iter()
            .filter_map(|(block, value)| Some((value, *others.get(&block)?)))
            .unzip()
    }

    /// The values that decided how often the point was run, in the order of blocks.
    pub(crate) fn deciding(&self) -> Vec<f64> {
        self.counted.iter().filter_map(|record| record.deciding_value()).collect()
    }
}

/// Why a run does not count: `invalid: worker died`.
pub(crate) fn failure(record: &Record) -> Option<String> {
    match &record.outcome {
        Outcome::Completed => None,
        Outcome::Skipped(reason) => Some(format!("skipped: {reason}")),
        Outcome::Invalid(reason) => Some(format!("invalid: {reason}")),
    }
}
