//! Results of a sweep, as text and JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::laws::Breach;
use super::point::Point;
use super::run::{Outcome, kind};

/// Counts of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seed of the points.
    pub seed: u64,
    /// Points that were run.
    pub points: u64,
    /// Valid runs whose record satisfies every law.
    pub completed: u64,
    /// Invalid runs, by reason.
    pub invalid: BTreeMap<String, u64>,
    /// Refused points, by message.
    pub refused: BTreeMap<String, u64>,
    /// Points that broke a law, by law.
    pub broken: BTreeMap<&'static str, u64>,
    /// Failures, each with its shrunk point.
    pub failures: Vec<Failure>,
    /// Number of failed points.
    pub failed: u64,
    /// Elapsed time.
    pub took: Duration,
}

/// A point that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Number of the point.
    pub k: u64,
    /// The point as drawn.
    pub drawn: Point,
    /// The simplest point that still fails.
    pub shrunk: Point,
    /// The broken laws.
    pub breaches: Vec<Breach>,
}

impl Summary {
    /// Counts the result of a point.
    pub fn count(&mut self, outcome: &Outcome) {
        self.points += 1;
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Invalid(reason) => *self.invalid.entry(kind(reason)).or_default() += 1,
            Outcome::Refused(message) => *self.refused.entry(kind(message)).or_default() += 1,
            Outcome::Broken(_) | Outcome::Failed(_) => {
                self.failed += 1;
                let laws = outcome.breaches().iter().map(|breach| breach.law);
                for law in laws.collect::<BTreeSet<_>>() {
                    *self.broken.entry(law).or_default() += 1;
                }
            }
            Outcome::Interrupted => self.points -= 1,
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let failure = |failure: &Failure| {
            json!({
                "point": failure.k,
                "drawn": failure.drawn.to_string(),
                "shrunk": failure.shrunk.to_string(),
                "breaches": failure.breaches.iter().map(Breach::json).collect::<Vec<_>>(),
            })
        };
        json!({
            "seed": self.seed,
            "points": self.points,
            "seconds": self.took.as_secs_f64(),
            "completed": self.completed,
            "invalid": self.invalid,
            "refused": self.refused,
            "failed": self.failed,
            "broken": self.broken,
            "failures": self.failures.iter().map(failure).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, count: u64, what: &str| {
            let share = 100.0 * count as f64 / self.points.max(1) as f64;
            writeln!(f, "{count:>8} {share:>6.1} %  {what}")
        };
        let seconds = self.took.as_secs();
        writeln!(f, "seed {}: {} points in {seconds} s", self.seed, self.points)?;
        row(f, self.completed, "completed, and every law kept")?;
        for (name, counts) in [("invalid", &self.invalid), ("refused", &self.refused)] {
            row(f, counts.values().sum(), name)?;
            let mut all: Vec<(&String, &u64)> = counts.iter().collect();
            all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (reason, count) in all {
                writeln!(f, "{count:>17}    {reason}")?;
            }
        }
        row(f, self.failed, "failed")?;
        for (law, count) in &self.broken {
            writeln!(f, "{count:>17}    {law}")?;
        }
        Ok(())
    }
}
