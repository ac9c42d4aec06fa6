//! Comparison of two sets of records, for regression tests.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use fabricmark_plan::{Figure, Point};
use fabricmark_record::{Provenance, Record};
use fabricmark_stats::{Better, Estimate, Verdict, holm, mean};
use fabricmark_units::Percent;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::grid::{Side, grid};
use crate::number::{self, Scale};
use crate::runs::{ByPoint, Runs};
use crate::table::Change;
use crate::{label, results};

/// Comparison of the points that two sets of records share.
#[derive(Clone, Debug)]
pub struct ComparisonReport {
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the candidate.
    pub candidate: String,
    /// One row per shared point, in the order of the baseline's plan.
    pub rows: Vec<ComparedPoint>,
    /// Keys of points that only one set has.
    pub unmatched: Vec<String>,
    /// Accepted change for the worse, as a fraction.
    pub gate_share: f64,
    /// Whether the candidate passes.
    pub gate: GateResult,
    /// Nominal coverage of intervals as a fraction.
    pub confidence: f64,
}

/// Comparison of one point.
#[derive(Clone, Debug)]
pub struct ComparedPoint {
    /// Key of the point.
    pub point: String,
    /// The compared figure.
    pub figure: Figure,
    /// Provenance of the figures of both sets; more than one if they differ.
    pub provenance: Vec<Provenance>,
    /// Estimate of the baseline in base units; `None` without valid runs.
    pub baseline: Option<Estimate>,
    /// Estimate of the candidate.
    pub candidate: Option<Estimate>,
    /// Change from the baseline to the candidate.
    pub change: Change,
}

/// Result of a regression gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateResult {
    /// No point is worse by more than the gate, there are enough runs to exclude it, and the candidate has all points.
    Pass,
    /// At least one point is slower by more than the gate.
    Worse,
    /// No point is known to be worse, but some may be.
    Inconclusive,
}

/// What `compare --json` prints. Values are in the base unit that their key names; changes and shares are fractions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareResults {
    /// Name of the baseline.
    baseline: String,
    /// Name of the candidate.
    candidate: String,
    /// Whether the candidate passes.
    gate: GateResult,
    /// Accepted change for the worse, as a fraction.
    gate_share: f64,
    /// One entry per shared point.
    rows: Vec<PointResults>,
    /// Points that only one experiment has.
    unmatched: Vec<String>,
}

/// Comparison of one point. Further keys are `baseline_KEY` and `candidate_KEY`, with the key of the compared figure
/// (`baseline_goodput_bps`): the estimates, `null` without valid runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PointResults {
    /// Levels of the point, as text.
    point: String,
    /// Origins of the figures of both experiments; more than one if they differ.
    provenance: Vec<Provenance>,
    #[serde(flatten)]
    estimates: BTreeMap<String, Option<Estimate>>,
    /// Change and verdict; `null` if there are too few valid runs, or they are withheld.
    comparison: Option<results::Comparison>,
    /// Why they are withheld.
    withheld: Option<String>,
}

/// Compares the deciding figure of each shared point: Welch's t test on logarithms with Holm's correction over all
/// points.
///
/// `gate` is the accepted change for the worse, beyond which the whole interval of a point that fails has to be; without it
/// any `slower` fails.
pub fn compare(
    baseline: (&str, &[Record]),
    candidate: (&str, &[Record]),
    confidence: f64,
    gate: Option<Percent>,
) -> ComparisonReport {
    let (a, b) = (ByPoint::of(baseline.1), ByPoint::of(candidate.1));
    let mut keys: Vec<&str> = a.keys().filter(|key| b.get_key(key).is_some()).collect();
    keys.sort_by_key(|key| first_place(&a, key));
    let shared: HashSet<&str> = keys.iter().copied().collect();
    let mut unmatched: Vec<String> =
        a.keys().chain(b.keys()).filter(|key| !shared.contains(key)).map(str::to_owned).collect();
    unmatched.sort_unstable();
    let mut rows: Vec<ComparedPoint> = keys
        .into_iter()
        .filter_map(|key| Some(compared(key, a.get_key(key)?, b.get_key(key)?, confidence)))
        .collect();
    holm(rows.iter_mut().filter_map(|row| row.change.comparison.as_mut()));
    let gate_share = gate.map_or(0.0, |share| share.0);
    let gate = match judge(&rows, gate.map(|share| share.0)) {
        // A point that the candidate lacks may be worse.
        GateResult::Pass if a.keys().any(|key| !shared.contains(key)) => GateResult::Inconclusive,
        gate => gate,
    };
    ComparisonReport {
        gate,
        baseline: baseline.0.to_owned(),
        candidate: candidate.0.to_owned(),
        rows,
        unmatched,
        gate_share,
        confidence,
    }
}

/// Sort key: index of the point in its plan.
fn first_place(runs: &ByPoint<'_>, key: &str) -> Option<u32> {
    let runs = runs.get_key(key)?;
    runs.counted.iter().chain(&runs.failed).map(|record| record.place.point).min()
}

fn compared(key: &str, a: &Runs<'_>, b: &Runs<'_>, confidence: f64) -> ComparedPoint {
    let first: Option<&Point> =
        a.counted.iter().chain(&a.failed).next().map(|record| &record.point);
    let figure = first.map_or(Figure::Goodput, Figure::deciding);
    let figures = a.counted.iter().chain(&b.counted).filter_map(|run| run.figures.get(figure));
    ComparedPoint {
        point: key.to_owned(),
        figure,
        provenance: label::distinct(figures.map(|figure| figure.provenance)),
        baseline: mean(&a.deciding(), confidence),
        candidate: mean(&b.deciding(), confidence),
        change: Change::unpaired(a, b, figure, confidence),
    }
}

fn judge(rows: &[ComparedPoint], gate: Option<f64>) -> GateResult {
    let is_worse = |row: &ComparedPoint| {
        row.change.comparison.as_ref().is_some_and(|comparison| {
            let Some(gate) = gate else { return comparison.verdict == Verdict::Slower };
            let is_significant = comparison.p_adjusted < 1.0 - comparison.change.confidence;
            // A tie band wider than the gate excuses nothing.
            let is_beyond = comparison.change.interval.is_some_and(|interval| {
                let better = comparison.better;
                loss(better, interval.low).min(loss(better, interval.high)) > gate
            });
            is_significant && is_beyond
        })
    };
    let may_be_worse = |row: &ComparedPoint| {
        let Some(comparison) = &row.change.comparison else {
            return true;
        };
        let Some(gate) = gate else { return comparison.verdict == Verdict::Inconclusive };
        comparison.change.interval.is_none_or(|interval| {
            let better = comparison.better;
            loss(better, interval.low).max(loss(better, interval.high)) > gate
        })
    };
    if rows.iter().any(is_worse) {
        GateResult::Worse
    } else if rows.is_empty() || rows.iter().any(may_be_worse) {
        GateResult::Inconclusive
    } else {
        GateResult::Pass
    }
}

/// Change for the worse as a fraction; negative if it is better.
fn loss(better: Better, change: f64) -> f64 {
    match better {
        Better::Higher => -change,
        Better::Lower => change,
    }
}

impl GateResult {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Worse => "worse",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl ComparisonReport {
    /// The comparison as a text table, below the result.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let count = |verdict| {
            let found = self.rows.iter().filter_map(|row| row.change.comparison.as_ref());
            found.filter(|comparison| comparison.verdict == verdict).count()
        };
        let is_withheld = |row: &&ComparedPoint| row.change.withheld.is_some();
        let withheld = self.rows.iter().filter(is_withheld).count();
        let has_none = |row: &&ComparedPoint| row.change.comparison.is_none() && !is_withheld(row);
        let too_few = self.rows.iter().filter(has_none).count();
        let withheld = match withheld {
            0 => String::new(),
            rows => format!(", {rows} with too many invalid runs"),
        };
        let _ = writeln!(
            out,
            "{} against {}: {}. {} slower, {} faster, {} same, {} inconclusive{withheld}.\n",
            self.candidate,
            self.baseline,
            self.gate_text(),
            count(Verdict::Slower),
            count(Verdict::Faster),
            count(Verdict::Same),
            count(Verdict::Inconclusive) + too_few
        );
        let shared = self.shared_levels();
        if !shared.is_empty() {
            let _ = writeln!(out, "All points: {}.\n", shared.join(" "));
        }
        let columns = ["point", &self.baseline, &self.candidate, "change", "verdict"];
        let rows: Vec<_> = self.rows.iter().map(|row| row.written(&shared)).collect();
        out.push_str(&grid(&columns.map(|heading| (heading, Side::Left)), &rows));
        let _ = writeln!(
            out,
            "\n{} intervals; Welch's t test on logarithms, with Holm's correction over all points.",
            Percent(self.confidence)
        );
        for key in &self.unmatched {
            let _ = writeln!(out, "only in one of the experiments: {key}");
        }
        out
    }

    /// [`CompareResults`] as JSON.
    pub fn json(&self) -> Value {
        json!(CompareResults {
            baseline: self.baseline.clone(),
            candidate: self.candidate.clone(),
            gate: self.gate,
            gate_share: self.gate_share,
            rows: self.rows.iter().map(ComparedPoint::results).collect(),
            unmatched: self.unmatched.clone(),
        })
    }

    /// Levels that all points share and rows can omit.
    fn shared_levels(&self) -> Vec<&str> {
        let Some(first) = self.rows.first().filter(|_| self.rows.len() > 1) else {
            return Vec::new();
        };
        let is_shared = |level: &&str| {
            self.rows.iter().all(|row| row.point.split(' ').any(|other| other == *level))
        };
        first.point.split(' ').filter(is_shared).collect()
    }

    fn gate_text(&self) -> String {
        let word = self.gate.word();
        if self.gate_share > 0.0 {
            format!("{word} (gate {})", Percent(self.gate_share))
        } else {
            word.to_owned()
        }
    }
}

impl ComparedPoint {
    fn results(&self) -> PointResults {
        let key = self.figure.spec().key;
        let estimates = [
            (format!("baseline_{key}"), self.baseline.clone()),
            (format!("candidate_{key}"), self.candidate.clone()),
        ];
        PointResults {
            point: self.point.clone(),
            provenance: self.provenance.clone(),
            estimates: estimates.into(),
            comparison: self.change.comparison.as_ref().map(Into::into),
            withheld: self.change.reason(),
        }
    }

    fn written(&self, shared: &[&str]) -> Vec<String> {
        let unit = Scale::of(self.figure);
        let value = |estimate: &Option<Estimate>| {
            estimate.as_ref().map_or_else(
                || "no valid run".to_owned(),
                |estimate| format!("{} {}", number::estimate(estimate, unit), unit.name),
            )
        };
        let [change, verdict] = match &self.change {
            Change { comparison: None, withheld: None, .. } => {
                ["too few runs".to_owned(), Verdict::Inconclusive.to_string()]
            }
            change => change.written(),
        };
        let own: Vec<&str> =
            self.point.split(' ').filter(|level| !shared.contains(level)).collect();
        let name = own.join(" ") + &label::origin(&self.provenance);
        vec![
            name.trim_start().to_owned(),
            value(&self.baseline),
            value(&self.candidate),
            change,
            verdict,
        ]
    }
}
