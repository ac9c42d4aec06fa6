//! The records of each point, divided into valid runs and others.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};

use fabricmark_plan::{Figure, Point};
use fabricmark_record::{Bottleneck, INVALID_SHARE_MAX, Outcome, Record};

use fabricmark_stats::{Sample, StopRule};

use crate::number::count;

/// Runs of one point, without warm-ups.
#[derive(Debug, Default)]
pub(crate) struct Runs<'a> {
    /// Valid runs, in order of blocks.
    pub counted: Vec<&'a Record>,
    /// Skipped and invalid runs.
    pub failed: Vec<&'a Record>,
}

/// Why the comparison of existing runs is withheld.
#[derive(Clone, Debug)]
pub enum Withheld {
    /// Too many runs of a side are invalid: `12 of 40 runs invalid: nothing arrived`, with the most frequent reason.
    Invalid(String),
    /// In some blocks a run has 0.
    Zeros {
        /// Number of these blocks.
        with_zero: usize,
        /// Number of all blocks with runs of both points.
        all: usize,
    },
}

impl Withheld {
    /// Why a 0 is not compared.
    pub(crate) const ZEROS: &str = "a ratio to 0 is undefined";
}

impl Display for Withheld {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => f.write_str(text),
            Self::Zeros { with_zero, all } => {
                write!(f, "0 in {with_zero} of {}: {}", count(*all, "run"), Self::ZEROS)
            }
        }
    }
}

/// Runs by key of their point.
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

impl<'a> Runs<'a> {
    /// A figure of each valid run, in order of blocks.
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

    /// Logarithms of the ratios of `other` to this point, for each block in which both have a value. Runs in slices
    /// are compared by rounds, see [`Sample::log_ratio_to`].
    pub(crate) fn log_ratios(&self, other: &Self, figure: Figure) -> Vec<f64> {
        self.ratios(other, |record| record.sample(figure))
    }

    /// The same for whole runs.
    pub(crate) fn log_ratios_of_wholes(&self, other: &Self, figure: Figure) -> Vec<f64> {
        self.ratios(other, |record| Some(record.figures.value(figure)?.into()))
    }

    fn ratios(&self, other: &Self, sample: impl Fn(&Record) -> Option<Sample>) -> Vec<f64> {
        let by_block = |runs: &Self| -> BTreeMap<u32, Sample> {
            let of = |record: &&Record| Some((record.place.block, sample(record)?));
            runs.counted.iter().filter_map(of).collect()
        };
        let (own, others) = (by_block(self), by_block(other));
        own.iter().filter_map(|(block, own)| own.log_ratio_to(others.get(block)?)).collect()
    }

    /// Why there is no comparison by block if a run of either point has 0.
    pub(crate) fn zeros(&self, other: &Self, figure: Figure) -> Option<Withheld> {
        let (own, others) = (self.by_block(figure), other.by_block(figure));
        let pairs = own.iter().filter_map(|(block, own)| Some((own, others.get(block)?)));
        let have_zero = pairs.map(|(own, other)| *own <= 0.0 || *other <= 0.0);
        let (with_zero, all) = have_zero.fold((0, 0), |(with_zero, all), has_zero| {
            (with_zero + usize::from(has_zero), all + 1)
        });
        (with_zero > 0).then_some(Withheld::Zeros { with_zero, all })
    }

    /// Reason of each invalid run, in order of blocks.
    pub(crate) fn invalid(&self) -> impl Iterator<Item = &str> {
        self.failed.iter().filter_map(|record| match &record.outcome {
            Outcome::Invalid(reason) => Some(reason.as_str()),
            Outcome::Completed | Outcome::Skipped(_) => None,
        })
    }

    /// Whether the point was given up: it was skipped, or has too many invalid runs (rule 3 of the order of runs).
    pub(crate) fn is_given_up(&self, rule: &StopRule) -> bool {
        let is_skipped = |record: &&Record| matches!(record.outcome, Outcome::Skipped(_));
        self.failed.iter().any(is_skipped) || self.invalid().count() > rule.runs_min.max(2)
    }

    /// Share of invalid runs.
    fn invalid_share(&self) -> f64 {
        let invalid = self.invalid().count();
        invalid as f64 / (invalid + self.counted.len()).max(1) as f64
    }

    /// Why there is no comparison if too many runs of either point are invalid.
    pub(crate) fn withheld(&self, other: &Self) -> Option<Withheld> {
        let worse = if other.invalid_share() > self.invalid_share() { other } else { self };
        if worse.invalid_share() <= INVALID_SHARE_MAX {
            return None;
        }
        let mut reasons: Vec<(String, &str, usize)> = Vec::new();
        for reason in worse.invalid() {
            let kind = without_numbers(reason);
            match reasons.iter_mut().find(|(known, ..)| *known == kind) {
                Some((.., times)) => *times += 1,
                None => reasons.push((kind, reason, 1)),
            }
        }
        // Of equally frequent reasons, the first.
        let (_, reason, _) = reasons.iter().rev().max_by_key(|(.., times)| *times)?;
        let invalid = worse.invalid().count();
        let all = count(invalid + worse.counted.len(), "run");
        Some(Withheld::Invalid(format!("{invalid} of {all} invalid: {reason}")))
    }

    /// What limited most valid runs, from the run with the median share; `None` if it is unknown for most.
    pub(crate) fn bottleneck(&self) -> Option<&'a Bottleneck> {
        let mut all: Vec<_> = self
            .counted
            .iter()
            .map(|record| record.bottleneck.as_ref())
            .map(|found| (found.map_or_else(String::new, Bottleneck::to_string), found))
            .collect();
        let share = |found: Option<&Bottleneck>| found.map_or(0.0, Bottleneck::share);
        all.sort_by(|a, b| a.0.cmp(&b.0).then(share(a.1).total_cmp(&share(b.1))));
        let most = all.chunk_by(|a, b| a.0 == b.0).max_by_key(|same| same.len())?;
        most[most.len() / 2].1
    }

    /// Values that decided the number of runs, in order of blocks.
    pub(crate) fn deciding(&self) -> Vec<f64> {
        self.counted.iter().filter_map(|record| record.deciding_value()).collect()
    }
}

/// A reason without numbers; reasons that differ only in numbers count as equal.
pub(crate) fn without_numbers(reason: &str) -> String {
    reason.chars().filter(|letter| !letter.is_ascii_digit() && !".,-".contains(*letter)).collect()
}

/// Why a run does not count: `invalid: worker died`.
pub(crate) fn failure(record: &Record) -> Option<String> {
    match &record.outcome {
        Outcome::Completed => None,
        Outcome::Skipped(reason) => Some(format!("skipped: {reason}")),
        Outcome::Invalid(reason) => Some(format!("invalid: {reason}")),
    }
}
