//! What the records so far determine: which runs are done, and which points are given up.

use std::collections::{HashMap, HashSet};

use fabricmark_plan::{
    Compare, Outcome as RunOutcome, Outcomes, Plan, Step, comparisons, unfinished_groups,
};
use fabricmark_record::{Outcome, Record};
use fabricmark_units::Nanos;

use crate::error::{Cause, PlanError};
use crate::progress::Position;

/// Number of consecutive runs of a point without a measured value, after which it is skipped.
const FAILED_MAX: u32 = 3;

/// Share of a ceiling from which on a stream may empty a token bucket at times: an arbitrary choice. Over 1 Gbit/s a CPU
/// limits streams of 4 B, and UDP of 64 B, at shares of 0.05 to 0.46 (`make demo`).
const FILLS_LINK: f64 = 0.5;

/// State of an experiment, derived from its records.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) done: HashSet<(u32, u32)>,
    pub(crate) outcomes: Outcomes,
    /// Consecutive runs without a measured value, by point, up to its last run.
    failed: HashMap<usize, u32>,
    /// Why a point cannot be run, as its warm-up found.
    refused: HashMap<usize, String>,
    /// Whether any run measured something, valid or not.
    has_measured: bool,
    /// Reason of the last run that was invalid or skipped.
    reason: Option<String>,
    /// Why the last failed run of this process measured nothing.
    pub(crate) cause: Cause,
    /// Comparison groups that were not finished at the last call of [`Self::position`].
    unfinished: Vec<usize>,
    last_verdict: Option<String>,
}

impl History {
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut history = Self::default();
        for record in records {
            history.add(record);
        }
        history
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let place = &record.place;
        let (block, point) = (place.block, place.point as usize);
        self.done.insert((block, place.place));
        match &record.outcome {
            Outcome::Skipped(reason) if place.warm_up => {
                self.refused.insert(point, reason.clone());
                return;
            }
            _ if place.warm_up => return,
            Outcome::Completed => {}
            Outcome::Skipped(reason) => {
                self.reason = Some(reason.clone());
                self.outcomes.skip(block, point);
                return;
            }
            Outcome::Invalid(reason) => self.reason = Some(reason.clone()),
        }
        self.has_measured |= record.measured_value().is_some();
        match record.measured_value() {
            Some(_) => self.failed.remove(&point),
            None => self.failed.insert(point, self.failed_in_a_row(point) + 1),
        };
        let value = record.deciding_sample();
        let fills_link =
            value.is_none() || record.ceiling_shares().any(|share| share >= FILLS_LINK);
        let is_whole = record.slice_ns.is_none();
        let has_figure = record.measured_value().is_some();
        self.outcomes.add(RunOutcome { block, point, value, has_figure, fills_link, is_whole });
    }

    fn failed_in_a_row(&self, point: usize) -> u32 {
        self.failed.get(&point).copied().unwrap_or_default()
    }

    /// Why a point cannot be run, as its warm-up found.
    pub(crate) fn refusal(&self, point: usize) -> Option<String> {
        self.refused.get(&point).cloned()
    }

    /// Skips a point after [`FAILED_MAX`] consecutive runs without a measured value.
    pub(crate) fn give_up(&self, record: &mut Record) {
        if let Outcome::Invalid(reason) = &record.outcome
            && !record.place.warm_up
            && record.measured_value().is_none()
            && self.failed_in_a_row(record.place.point as usize) + 1 >= FAILED_MAX
        {
            record.outcome = Outcome::Skipped(format!(
                "{FAILED_MAX} runs in a row gave no result; the last one: {reason}"
            ));
        }
    }

    /// Ends a plan. Fails if none of its runs measured anything.
    pub(crate) fn finish(self) -> Result<(), PlanError> {
        match self.reason {
            Some(reason) if !self.has_measured => {
                Err(PlanError::Nothing { reason, cause: self.cause })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn position(&mut self, plan: &Plan, number: u32, rest: &[Step]) -> Position {
        let runs_min = u32::try_from(plan.stop.runs_min).unwrap_or(u32::MAX);
        let later_blocks = u64::from(runs_min.saturating_sub(number + 1));
        let unfinished = unfinished_groups(plan, number, &self.outcomes);
        let all = plan.comparison_groups.len();
        if plan.stop.decides && self.unfinished != unfinished {
            let decided = self.unfinished.iter().rfind(|group| !unfinished.contains(group));
            let verdict = decided.and_then(|&group| verdict(plan, group, number, &self.outcomes));
            self.last_verdict = verdict.or(self.last_verdict.take());
            self.unfinished.clone_from(&unfinished);
        }
        let decided = plan.stop.decides.then_some((all - unfinished.len(), all));
        let members: Vec<usize> = unfinished
            .into_iter()
            .flat_map(|group| plan.comparison_groups[group].iter().copied())
            // Points that run at once take one run.
            .filter(|&point| plan.at_once(point).start == point)
            .collect();
        let takes = |point: usize, warm_up| plan.run_takes(&plan.points[point], warm_up).0;
        let sum = |times: &mut dyn Iterator<Item = u64>| times.fold(0, u64::saturating_add);
        let later = sum(&mut members.iter().map(|&point| takes(point, false)));
        let now = sum(&mut rest.iter().map(|step| match step.slice {
            Some(_) => sum(&mut step.points.iter().map(|&point| takes(point, false))),
            None => takes(step.points[0], step.warm_up),
        }));
        let left = Nanos(later_blocks.saturating_mul(later).saturating_add(now));
        // Points that share a step are counted each, but not groups of flows that run at once.
        let shares = |step: &Step| step.slice.is_some() || plan.groups.is_empty();
        let now_runs: usize =
            rest.iter().map(|step| if shares(step) { step.points.len() } else { 1 }).sum();
        let runs = now_runs + later_blocks as usize * members.len();
        let done = self.done.len() / plan.groups.len().max(1);
        Position {
            done,
            planned: done + runs,
            block: number,
            left,
            decided,
            last_verdict: self.last_verdict.clone(),
            budget_left: None,
        }
    }
}

/// The verdict on a comparison group, as a sentence; `None` if it was not compared.
fn verdict(plan: &Plan, group: usize, block: u32, outcomes: &Outcomes) -> Option<String> {
    let (pair, comparison) = comparisons(plan, group, block, outcomes).pop()?;
    let Compare { factor, baseline, candidate } = &plan.compare[pair.compare];
    let point = &plan.points[pair.baseline];
    let change = 100.0 * (comparison.ratio().value - 1.0);
    Some(format!(
        "{} {} {} B over {}: {factor} {candidate} against {baseline} {change:+.1} %, {}",
        point.pattern, point.transport, point.payload.0, point.link, comparison.verdict
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use fabricmark_plan::Figure;
    use fabricmark_plan::{Size, block, parse};
    use fabricmark_record::{HostFacts, Provenance, Sourced};

    use super::*;
    use crate::experiment::Context;

    const PLAN: &str = r#"
        title = "t"
        [factors]
        pattern = ["stream"]
        transport = ["tcp"]
        family = [4, 6]
        payload = [4, 64]
        link = ["loopback"]
        [settings]
        congestion = "cubic"
        [stop]
        runs = 5
        [[compare]]
        factor = "family"
        baseline = 4
        candidate = 6
        "#;

    /// How a run of the simulated network ends.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        Completes,
        MeasuresWhatDoesNotCount,
        MeasuresNothing,
        CannotBeRun,
    }

    /// `kept`, and the records of the runs that follow; `end` says how the run of a block and point ends.
    fn carried_out(plan: &Plan, kept: &[Record], end: impl Fn(u32, usize) -> End) -> Vec<Record> {
        let interrupted = AtomicBool::new(false);
        let context = Context {
            plan,
            digest: plan.digest(),
            host: HostFacts::default(),
            calibration: None,
            interrupted: &interrupted,
        };
        let mut history = History::of(kept);
        let mut records = kept.to_vec();
        for number in 0.. {
            let steps = block(plan, number, &history.outcomes);
            if steps.is_empty() {
                break;
            }
            for step in steps {
                if history.done.contains(&(step.block, step.place)) {
                    continue;
                }
                let refusal = history.refusal(step.points[0]);
                let end = end(step.block, step.points[0]);
                let outcome = match (refusal, end) {
                    (Some(reason), _) => Outcome::Skipped(reason),
                    (_, End::Completes) => Outcome::Completed,
                    (_, End::CannotBeRun) => Outcome::Skipped("no SCTP".to_owned()),
                    _ => Outcome::Invalid("it was late".to_owned()),
                };
                let mut record = context.record(&step, 0, outcome);
                record.started = String::new();
                if matches!(end, End::Completes | End::MeasuresWhatDoesNotCount) {
                    let value = 1e9 + f64::from(step.block);
                    let provenance = Provenance::Measured;
                    record.figures.set(Figure::Goodput, Some(Sourced { value, provenance }));
                }
                history.give_up(&mut record);
                history.add(&record);
                records.push(record);
            }
        }
        records
    }

    fn plan() -> Plan {
        parse("plan.toml", PLAN, Size::Full, &[]).unwrap()
    }

    /// Outcomes of the counted runs of a point, one letter each.
    fn letters(records: &[Record], point: usize) -> String {
        let own = records.iter().filter(|record| record.place.point as usize == point);
        let counted = own.filter(|record| !record.place.warm_up);
        let letter = |record: &Record| match record.outcome {
            Outcome::Completed => 'c',
            Outcome::Invalid(_) => 'i',
            Outcome::Skipped(_) => 's',
        };
        counted.map(letter).collect()
    }

    #[test]
    fn a_point_whose_runs_measure_nothing_three_times_in_a_row_is_skipped_and_the_plan_goes_on() {
        let plan = plan();
        for (fails, expected) in [
            ([0, 1, 2].as_slice(), "iis"),
            (&[1, 2, 3], "ciis"),
            (&[0, 1, 3, 4], "iiciicccc"),
            (&[2], "ccicc c"),
        ] {
            let records = carried_out(&plan, &[], |block, point| {
                let fails = point == 1 && fails.contains(&block);
                if fails { End::MeasuresNothing } else { End::Completes }
            });
            assert_eq!(letters(&records, 1), expected.replace(' ', ""), "{fails:?}");
            let other = plan.comparison_groups.iter().flatten().find(|&&point| point != 1).unwrap();
            assert!(letters(&records, *other).len() >= 5);
            assert!(!letters(&records, *other).contains(['i', 's']));
        }
    }

    #[test]
    fn a_run_that_measures_what_does_not_count_is_repeated_up_to_runs_min_times() {
        let plan = plan();
        let spoiled = |spoiled: u32| {
            let records = carried_out(&plan, &[], |block, point| {
                let is_spoiled = point == 1 && block < spoiled;
                if is_spoiled { End::MeasuresWhatDoesNotCount } else { End::Completes }
            });
            letters(&records, 1)
        };
        assert_eq!(spoiled(4), "iiiiccccc", "three in a row are no reason to give it up");
        assert_eq!(spoiled(5), "iiiiiccccc");
        assert_eq!(spoiled(100), "iiiiii");
    }

    #[test]
    fn a_point_that_cannot_be_run_is_skipped_at_its_first_run() {
        let records =
            carried_out(
                &plan(),
                &[],
                |_, point| {
                    if point == 1 { End::CannotBeRun } else { End::Completes }
                },
            );
        assert_eq!(letters(&records, 1), "s");
        assert!(["ccccc"; 3] == [0, 2, 3].map(|point| letters(&records, point)));
    }

    #[test]
    fn what_is_resumed_after_any_run_goes_on_as_if_it_had_not_stopped() {
        let plan = plan();
        let end = |block: u32, point: usize| match (point, block) {
            (0, _) => End::MeasuresNothing,
            (1, 0..=2) => End::MeasuresWhatDoesNotCount,
            (2, 1) => End::CannotBeRun,
            _ => End::Completes,
        };
        let whole = carried_out(&plan, &[], end);
        assert!(["iis", "iiiccccc", "cs"] == [0, 1, 2].map(|point| letters(&whole, point)));
        for kept in 0..whole.len() {
            assert_eq!(carried_out(&plan, &whole[..kept], end), whole, "after {kept} runs");
        }
    }

    #[test]
    fn a_plan_fails_at_its_end_only_if_no_run_measured_anything() {
        let plan = plan();
        let end = |good: usize| {
            let records = carried_out(&plan, &[], |_, point| {
                if point == good { End::Completes } else { End::MeasuresNothing }
            });
            History::of(&records).finish()
        };
        assert!(end(2).is_ok());
        let error = end(99).unwrap_err().to_string();
        assert!(error.starts_with("no valid run: 3 runs in a row gave no result"), "{error}");
    }
}
