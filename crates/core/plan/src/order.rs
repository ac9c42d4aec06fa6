//! The order of runs: randomised blocks, a pure function of the seed, the block and the outcomes so far.
//!
//! A block runs each point of every unfinished comparison group once. The members of a group run consecutively, in
//! random order, so that compared points are measured close together in time. The groups are in random order, too.
//! Drift of the machine then affects all members alike. Rules:
//!
//! 1. Block `b` depends only on the outcomes of earlier blocks, so that an interrupted block resumes in the same order.
//! 2. A group is finished when each of its members meets the stopping rule after the same block.
//! 3. An invalid run is repeated in a later block. A point with more than max(`runs_min`, 2) invalid runs is not run
//!    again and keeps the runs that it has. If `runs_min` is 1, a run without any figure is not repeated: the plan
//!    waits only once for a peer that does not respond.
//! 4. A skipped point is not run again, and the other points do not wait for it.
//! 5. Points that run at once (one for each group of flows) are one step, and so are the points of a comparison
//!    group that is compared in slices.
//! 6. With MPI a step is a job, which has all points of the block with the same library, transport and ranks. The jobs
//!    are in random order; the points of a job take turns.
//!    With the bookstore a step is a run, which has all its interactions.
//! 7. In block 0 each counted run follows a warm-up run of its point, if the plan has warm-ups. Slices and MPI jobs have none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::factor::{Factor, Point};
use crate::figure::Figure;
use crate::pair::Pair;
use crate::plan::{Plan, Testbed};
use crate::shop::Interaction;
use fabricmark_stats::{Comparison, Sample};
use fabricmark_units::{Nanos, Stream};

/// Invalid runs of a point that are repeated even if `runs_min` is less, an arbitrary choice: a virtual machine that was
/// suspended in one run may be suspended in the next.
const REPEATED: usize = 2;

/// Largest number of invalid runs of a point that are repeated.
fn invalid_max(plan: &Plan) -> usize {
    plan.stop.runs_min.max(REPEATED)
}

/// A step of a block: the run of one point, or of several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the block, from 0.
    pub block: u32,
    /// Place of the first point in the block, from 0; the others follow.
    pub place: u32,
    /// Indexes of the points in the plan: one point, those that run at once, or those that take turns in slices.
    pub points: Vec<usize>,
    /// Length of a slice; `None` if the points do not take turns.
    pub slice: Option<Nanos>,
    /// Whether the run only warms up and does not count.
    pub warm_up: bool,
}

impl Step {
    /// The places of its points in the block.
    pub fn places(&self) -> Range<u32> {
        self.place..self.place + self.points.len() as u32
    }

    /// The run of only one of its points; `place` is an index into `points`.
    pub fn alone(&self, place: usize) -> Self {
        let (at, points) = (self.place + place as u32, vec![self.points[place]]);
        Self { place: at, points, slice: None, ..*self }
    }
}

/// The result of a counted run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of the block.
    pub block: u32,
    /// Index of its point in the plan.
    pub point: usize,
    /// Value of the deciding figure, such as goodput in bit/s for streams and bursts or mean RTT in nanoseconds for
    /// ping-pong; `None` if the run was invalid.
    pub value: Option<Sample>,
    /// Whether the run came to a figure, which does not count if the run is invalid.
    pub has_figure: bool,
    /// Whether the run may have reached the rate of its link at times.
    pub fills_link: bool,
    /// Whether it was a whole run, and no turns in slices.
    pub is_whole: bool,
}

/// Results of the counted runs of each point, by block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcomes {
    values: BTreeMap<usize, BTreeMap<u32, Option<Sample>>>,
    /// Runs that filled their links, or may have: points, with their blocks.
    fills_link: BTreeSet<(usize, u32)>,
    /// Whole runs: points, with their blocks.
    whole: BTreeSet<(usize, u32)>,
    /// Runs without any figure: points, with their blocks.
    failed: BTreeSet<(usize, u32)>,
    /// Points that cannot be run here, with the block in which they were skipped.
    skipped: BTreeMap<usize, u32>,
}

impl Outcomes {
    /// Records the result of a run.
    pub fn add(&mut self, outcome: Outcome) {
        if outcome.fills_link {
            self.fills_link.insert((outcome.point, outcome.block));
        }
        if outcome.is_whole {
            self.whole.insert((outcome.point, outcome.block));
        }
        if !outcome.has_figure {
            self.failed.insert((outcome.point, outcome.block));
        }
        self.values.entry(outcome.point).or_default().insert(outcome.block, outcome.value);
    }

    /// Records that a point cannot be run, or cannot be run any more.
    pub fn skip(&mut self, block: u32, point: usize) {
        self.skipped.entry(point).or_insert(block);
    }

    /// Whether a point is left out of blocks from `block` on: it, or one that runs at once with it, was skipped, has
    /// failed in its only run, or has more than [`invalid_max`] invalid runs.
    fn is_left_out(&self, plan: &Plan, point: usize, block: u32) -> bool {
        plan.at_once(point).any(|point| {
            let is_skipped = self.skipped.get(&point).is_some_and(|&skipped| skipped < block);
            let has_failed = plan.stop.runs_min == 1
                && self.failed.range((point, 0)..(point, block)).next().is_some();
            is_skipped || has_failed || self.invalid(point, block) > invalid_max(plan)
        })
    }

    /// Number of invalid runs of a point in blocks before `before`.
    fn invalid(&self, point: usize, before: u32) -> usize {
        let runs = self.values.get(&point).into_iter().flat_map(|runs| runs.range(..before));
        runs.filter(|(_, value)| value.is_none()).count()
    }

    /// Whether any of these points has filled its link in a block before `before`, or may fill it, since it has no run.
    fn fill_link(&self, points: &[usize], before: u32) -> bool {
        points.iter().any(|&point| {
            let has_run =
                self.values.get(&point).is_some_and(|runs| runs.range(..before).next().is_some());
            !has_run || self.fills_link.range((point, 0)..(point, before)).next().is_some()
        })
    }

    /// Whether any of these points had a whole run in a block before `before`.
    fn were_whole(&self, points: &[usize], before: u32) -> bool {
        let mut points = points.iter();
        points.any(|&point| self.whole.range((point, 0)..(point, before)).next().is_some())
    }

    /// Whether a point has a valid value.
    pub fn has_value(&self, point: usize) -> bool {
        !self.samples(point, u32::MAX).is_empty()
    }

    /// The valid values of a point in blocks before `before`, in the order of blocks.
    pub fn samples(&self, point: usize, before: u32) -> Vec<f64> {
        let runs = self.values.get(&point).into_iter().flat_map(|runs| runs.range(..before));
        runs.filter_map(|(_, sample)| Some(sample.as_ref()?.value)).collect()
    }
}

impl Outcomes {
    /// Logarithms of the ratios candidate / baseline, from blocks before `before` in which both have a value.
    fn log_ratios(&self, pair: &Pair, before: u32) -> Vec<f64> {
        let (Some(baseline), Some(candidate)) =
            (self.values.get(&pair.baseline), self.values.get(&pair.candidate))
        else {
            return Vec::new();
        };
        let ratio = |(block, sample): (&u32, &Option<Sample>)| {
            sample.as_ref()?.log_ratio_to(candidate.get(block)?.as_ref()?)
        };
        baseline.range(..before).filter_map(ratio).collect()
    }
}

impl FromIterator<Outcome> for Outcomes {
    fn from_iter<T: IntoIterator<Item = Outcome>>(runs: T) -> Self {
        let mut outcomes = Self::default();
        runs.into_iter().for_each(|outcome| outcomes.add(outcome));
        outcomes
    }
}

/// The comparison groups that need runs in block `block`, by index.
pub fn unfinished_groups(plan: &Plan, block: u32, outcomes: &Outcomes) -> Vec<usize> {
    let families = if plan.stop.decides { plan.families() } else { BTreeMap::new() };
    let is_finished = |group: &usize| group_is_finished(plan, *group, block, outcomes, &families);
    (0..plan.comparison_groups.len())
        .filter(|&group| !is_finished(&of_all_interactions(plan, group).unwrap_or(group)))
        .collect()
}

/// The group that decides for a group of the bookstore: a run measures all interactions, and is not repeated because
/// nobody visited a rare page.
fn of_all_interactions(plan: &Plan, group: usize) -> Option<usize> {
    let &first = plan.comparison_groups[group].first()?;
    let of_all = |point: &Point| {
        point.interaction == Some(Interaction::All) && point.shares_shop_run(&plan.points[first])
    };
    let mut groups = plan.comparison_groups.iter();
    groups.position(|members| members.iter().any(|&member| of_all(&plan.points[member])))
}

/// What the pairs of a comparison group have shown before block `block`, each as one of its family. A pair with fewer than
/// two ratios is left out.
pub fn comparisons(
    plan: &Plan,
    group: usize,
    block: u32,
    outcomes: &Outcomes,
) -> Vec<(Pair, Comparison)> {
    let pairs = plan.pairs_among(&plan.comparison_groups[group]);
    let families = plan.families();
    let compared = |pair: Pair| {
        let comparison = pair.compared(plan, &outcomes.log_ratios(&pair, block))?;
        let rows = families.get(&pair.family(plan)).copied().unwrap_or(1);
        Some((pair, comparison.in_family(rows)))
    };
    pairs.into_iter().filter_map(compared).collect()
}

/// Whether a comparison group needs no run in block `block`.
fn group_is_finished(
    plan: &Plan,
    group: usize,
    block: u32,
    outcomes: &Outcomes,
    families: &BTreeMap<(Factor, Figure), usize>,
) -> bool {
    // A finished group stays finished: later blocks do not change its samples.
    let members = plan.comparison_groups[group].iter().copied();
    let tried: Vec<usize> =
        members.filter(|&point| !outcomes.is_left_out(plan, point, block)).collect();
    let pairs = if plan.stop.decides { plan.pairs_among(&tried) } else { Vec::new() };
    if !pairs.is_empty() {
        return pairs.iter().all(|pair| {
            let ratios = outcomes.log_ratios(pair, block);
            let rows = families.get(&pair.family(plan)).copied().unwrap_or(1);
            // After an invalid run the pairs have their checks in unlike blocks.
            let decides = |runs: usize| pair.is_decided(plan, &ratios[..runs], rows);
            ratios.len() >= plan.stop.runs_max
                || plan.stop.latest_look(ratios.len()).is_some_and(decides)
        });
    }
    let members: Vec<Vec<f64>> =
        tried.iter().map(|&point| outcomes.samples(point, block)).collect();
    let members: Vec<&[f64]> = members.iter().map(Vec::as_slice).collect();
    members.is_empty() || plan.stop.is_finished(&members)
}

/// The steps of block `block`, in order; empty when the plan is finished.
pub fn block(plan: &Plan, block: u32, outcomes: &Outcomes) -> Vec<Step> {
    let mut stream = Stream::new(plan.seed, &format!("order of block {block}"));
    let mut groups = unfinished_groups(plan, block, outcomes);
    stream.shuffle(&mut groups);
    if matches!(plan.testbed, Testbed::Mpi | Testbed::Tiers) {
        return jobs(plan, block, &groups, outcomes, &mut stream);
    }
    let mut steps = Vec::new();
    let mut place = 0;
    for group in groups {
        let mut members = plan.comparison_groups[group].clone();
        // One step for all points that run at once.
        members.retain(|&point| plan.at_once(point).start == point);
        members.retain(|&point| !outcomes.is_left_out(plan, point, block));
        stream.shuffle(&mut members);
        // Slices that have failed once would fail again, and both methods would be mixed.
        let slice = plan
            .slice(&members, outcomes.fill_link(&members, block))
            .filter(|_| !outcomes.were_whole(&members, block));
        if let Some(slice) = slice {
            let count = members.len() as u32;
            steps.push(Step { block, place, points: members, slice: Some(slice), warm_up: false });
            place += count;
            continue;
        }
        for point in members {
            let warms_up = block == 0 && plan.warm_up_ns.0 > 0;
            let warm_ups: &[bool] = if warms_up { &[true, false] } else { &[false] };
            for &warm_up in warm_ups {
                let points: Vec<usize> = plan.at_once(point).collect();
                let count = points.len() as u32;
                steps.push(Step { block, place, points, slice: None, warm_up });
                place += count;
            }
        }
    }
    steps
}

/// The MPI jobs of a block, in random order: a step for each, whose points take turns. Or the runs of the bookstore: a
/// step for each, whose points are its interactions.
fn jobs(
    plan: &Plan,
    block: u32,
    groups: &[usize],
    outcomes: &Outcomes,
    stream: &mut Stream,
) -> Vec<Step> {
    let mut jobs: Vec<Vec<usize>> = Vec::new();
    for &point in groups.iter().flat_map(|&group| &plan.comparison_groups[group]) {
        if outcomes.is_left_out(plan, point, block) {
            continue;
        }
        let point_of = &plan.points[point];
        let shares = |job: &&mut Vec<usize>| match (plan.testbed, &plan.points[job[0]]) {
            (Testbed::Tiers, first) => first.shares_shop_run(point_of),
            (_, first) => first.shares_job(point_of),
        };
        match jobs.iter_mut().find(shares) {
            Some(job) => job.push(point),
            None => jobs.push(vec![point]),
        }
    }
    stream.shuffle(&mut jobs);
    let mut place = 0;
    let mut step = |points: Vec<usize>| {
        let first = place;
        place += points.len() as u32;
        let slice = (plan.testbed == Testbed::Mpi).then(|| plan.mpi_slice());
        Step { block, place: first, points, slice, warm_up: false }
    };
    jobs.into_iter().map(&mut step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Size, parse};
    use proptest::prelude::*;

    fn plan(seed: u64) -> Plan {
        let text = format!(
            r#"title = "t"
            seed = {seed}
            [factors]
            pattern = ["stream"]
            transport = ["tcp"]
            family = [4, 6]
            payload = [4, 64, 1024]
            link = ["veth"]
            [settings]
            congestion = "cubic"
            [stop]
            runs = {{ min = 3, max = 6 }}
            [[compare]]
            factor = "family"
            baseline = 4
            candidate = 6
            "#
        );
        parse("plan.toml", &text, Size::Full, &[]).unwrap()
    }

    fn nothing() -> Outcomes {
        Outcomes::default()
    }

    /// Outcomes of blocks `0..blocks`; `value` gives the result of each run.
    fn outcomes(plan: &Plan, blocks: u32, value: impl Fn(u32, usize) -> Option<f64>) -> Outcomes {
        let mut outcomes = nothing();
        for number in 0..blocks {
            for step in block(plan, number, &outcomes).iter().filter(|step| !step.warm_up) {
                let value = value(number, step.points[0]).map(Sample::from);
                outcomes.add(Outcome {
                    block: number,
                    point: step.points[0],
                    value,
                    has_figure: true,
                    fills_link: true,
                    is_whole: step.slice.is_none(),
                });
            }
        }
        outcomes
    }

    #[test]
    fn the_first_block_warms_each_point_up_directly_before_its_run() {
        let plan = plan(1);
        let steps = block(&plan, 0, &nothing());
        assert_eq!(steps.len(), 12);
        for pair in steps.chunks(2) {
            assert!(pair[0].warm_up && !pair[1].warm_up && pair[0].points == pair[1].points);
        }
        assert!(block(&plan, 1, &nothing()).iter().all(|step| !step.warm_up));
    }

    #[test]
    fn both_members_stay_until_both_meet_the_rule() {
        let plan = plan(1);
        let noisy = plan.comparison_groups[0][0];
        let all = outcomes(&plan, 6, |number, point| {
            let swing = if point == noisy { 50.0 } else { 0.0 };
            Some(100.0 + swing * f64::from(number % 2))
        });
        for &point in &plan.comparison_groups[0] {
            assert_eq!(all.samples(point, 6).len(), 6, "the noisy group runs to its maximum");
        }
        for group in &plan.comparison_groups[1..] {
            for &point in group {
                assert_eq!(all.samples(point, 6).len(), 3, "the quiet groups leave at once");
            }
        }
    }

    /// Number of blocks until the plan is finished, and its outcomes; `value` gives the result of each run.
    fn all_blocks(plan: &Plan, value: impl Fn(u32, usize) -> Option<f64>) -> (u32, Outcomes) {
        let all = outcomes(plan, 100, value);
        let blocks = (0..100).find(|&number| block(plan, number, &all).is_empty());
        (blocks.unwrap(), all)
    }

    #[test]
    fn a_point_with_more_invalid_runs_than_runs_min_is_left_with_what_it_has() {
        let plan = plan(1);
        assert_eq!(all_blocks(&plan, |_, _| None).0, 4, "three of them are repetitions");
        // Neither meets the rule; one of them is invalid in every second block.
        let (poor, other) = (plan.comparison_groups[0][0], plan.comparison_groups[0][1]);
        let noisy = |number: u32| Some(100.0 + 50.0 * f64::from(number / 2 % 2));
        let (blocks, all) =
            all_blocks(
                &plan,
                |number, point| {
                    if point == poor && number % 2 == 0 { None } else { noisy(number) }
                },
            );
        assert_eq!((all.samples(poor, 100).len(), all.invalid(poor, 100)), (3, 4));
        assert_eq!((blocks, all.samples(other, 100).len()), (7, 7));
    }

    #[test]
    fn a_single_run_is_repeated_twice_if_it_is_invalid_and_never_if_it_fails() {
        let mut plan = plan(1);
        (plan.stop.runs_min, plan.stop.runs_max) = (1, 1);
        for (has_figure, blocks) in [(true, 3), (false, 1)] {
            let mut outcomes = Outcomes::default();
            for number in 0..blocks {
                let steps = block(&plan, number, &outcomes);
                assert!(!steps.is_empty(), "block {number}");
                for step in steps.iter().filter(|step| !step.warm_up) {
                    outcomes.add(Outcome {
                        block: number,
                        point: step.points[0],
                        value: None,
                        has_figure,
                        fills_link: true,
                        is_whole: true,
                    });
                }
            }
            assert_eq!(block(&plan, blocks, &outcomes), []);
        }
    }

    #[test]
    fn an_invalid_run_is_repeated_in_a_later_block_with_its_whole_group() {
        let plan = plan(1);
        let poor = plan.comparison_groups[0][0];
        let (blocks, all) =
            all_blocks(&plan, |number, point| (point != poor || number > 0).then_some(100.0));
        assert_eq!(blocks, 4);
        let runs = |group: usize| -> Vec<usize> {
            plan.comparison_groups[group]
                .iter()
                .map(|&point| all.samples(point, 100).len())
                .collect()
        };
        assert_eq!((runs(0), runs(1)), (vec![3, 4], vec![3, 3]));
    }

    #[test]
    fn compared_points_that_take_turns_are_one_step_in_random_order() {
        let plan = Plan { slices: true, ..plan(1) };
        let steps = block(&plan, 0, &nothing());
        assert_eq!(steps.len(), 3);
        let mut places: Vec<u32> = steps.iter().map(|step| step.place).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 2, 4]);
        for step in &steps {
            assert!(!step.warm_up && step.slice == Some(Nanos::from_millis(1)));
            let mut points = step.points.clone();
            points.sort_unstable();
            assert!(plan.comparison_groups.contains(&points));
        }
        // With one of two points left out, the other has no point to take turns with.
        let mut outcomes = nothing();
        outcomes.skip(0, plan.comparison_groups[0][0]);
        let steps = block(&plan, 1, &outcomes);
        assert_eq!(steps.iter().filter(|step| step.slice.is_none()).count(), 1);
    }

    #[test]
    fn slices_are_shorter_from_the_block_on_in_which_no_point_fills_the_link() {
        let mut plan = Plan { slices: true, ..plan(1) };
        let link: fabricmark_wire::Link = "ethernet:1G".parse().unwrap();
        plan.points.iter_mut().for_each(|point| point.link = link);
        let [full, far, unknown] = [0, 1, 2].map(|group| plan.comparison_groups[group].clone());
        let mut outcomes = nothing();
        for &point in full.iter().chain(&far) {
            // One point of a group is enough to keep the slices of both long.
            let fills_link = point == full[0];
            let value = Some(1.0.into());
            outcomes.add(Outcome {
                block: 0,
                point,
                value,
                has_figure: true,
                fills_link,
                is_whole: false,
            });
        }
        let slice = |number: u32, group: &[usize]| {
            let steps = block(&plan, number, &outcomes);
            let step = steps.into_iter().find(|step| step.points.contains(&group[0])).unwrap();
            step.slice.unwrap().0 / 1000
        };
        assert_eq!((slice(0, &far), slice(1, &far)), (4800, 1000));
        assert_eq!((slice(1, &full), slice(1, &unknown)), (4800, 4800));
    }

    #[test]
    fn a_comparison_stays_with_whole_runs_once_its_slices_have_failed() {
        let plan = Plan { slices: true, ..plan(1) };
        let [failed, other] = [0, 1].map(|group| plan.comparison_groups[group].clone());
        let mut outcomes = nothing();
        for (group, is_whole) in [(&failed, true), (&other, false)] {
            for &point in group {
                let value = Some(1.0.into());
                outcomes.add(Outcome {
                    block: 0,
                    point,
                    value,
                    has_figure: true,
                    fills_link: true,
                    is_whole,
                });
            }
        }
        let steps = block(&plan, 1, &outcomes);
        let is_in_slices = |group: &[usize]| {
            let mut own = steps.iter().filter(|step| step.points.contains(&group[0]));
            own.any(|step| step.slice.is_some())
        };
        assert_eq!((is_in_slices(&failed), is_in_slices(&other)), (false, true));
    }

    #[test]
    fn a_comparison_ends_at_the_look_that_decides_it() {
        let mut plan = plan(1);
        (plan.stop.decides, plan.stop.runs_min, plan.stop.runs_max) = (true, 3, 12);
        let [differs, same, noisy] = [0, 1, 2].map(|group| plan.comparison_groups[group].clone());
        let all = outcomes(&plan, 12, |number, point| {
            let drift = 1.0 + f64::from(number);
            let noise = 1.0 + 0.3 * f64::from(number % 2);
            Some(match point {
                // 10 % more in each block, with the same drift.
                point if point == differs[1] => 110.0 * drift,
                // Within the tie band.
                point if point == same[1] => 100.5 * drift,
                point if point == noisy[1] => 100.0 * drift * noise,
                _ => 100.0 * drift,
            })
        });
        let runs = |members: &[usize]| all.samples(members[0], 12).len();
        assert_eq!((runs(&differs), runs(&same), runs(&noisy)), (3, 3, 12));
    }

    /// A plan that compares three levels, and ends comparisons that are decided.
    fn of_three() -> Plan {
        let text = r#"title = "t"
            seed = 1
            [factors]
            pattern = ["stream"]
            transport = ["tcp"]
            family = [4]
            payload = [64]
            link = ["veth"]
            congestion = ["cubic", "bbr", "reno"]
            [stop]
            runs = { min = 5, max = 40 }
            decide = true
            [[compare]]
            factor = "congestion"
            baseline = "cubic"
            candidate = "bbr"
            [[compare]]
            factor = "congestion"
            baseline = "cubic"
            candidate = "reno"
            "#;
        parse("plan.toml", text, Size::Full, &[]).unwrap()
    }

    #[test]
    fn pairs_that_are_decided_in_unlike_blocks_end_their_group() {
        let plan = of_three();
        // 10 % and 20 % more, but the first run of one level is invalid.
        let value = |number: u32, point: usize| {
            (number, point).ne(&(0, 1)).then_some(100.0 + 10.0 * point as f64)
        };
        let (blocks, _) = all_blocks(&plan, value);
        assert_eq!(blocks, 6);
    }

    #[test]
    fn the_comparisons_of_a_factor_are_one_family() {
        let rows: Vec<usize> = of_three().families().into_values().collect();
        assert_eq!(rows, [2]);
    }

    proptest! {
        #[test]
        fn the_members_of_a_group_follow_each_other(seed in 0..i64::MAX as u64, number in 0u32..3) {
            let plan = plan(seed);
            let points: Vec<usize> =
                block(&plan, number, &nothing()).iter().filter(|s| !s.warm_up).map(|s| s.points[0]).collect();
            for pair in points.chunks(2) {
                prop_assert!(plan.comparison_groups.iter().any(|g| g.contains(&pair[0]) && g.contains(&pair[1])));
            }
        }

        #[test]
        fn later_outcomes_do_not_change_an_earlier_block(seed in 0..i64::MAX as u64) {
            let plan = plan(seed);
            let value = |number: u32, point: usize| {
                let is_valid = !(number as usize + point).is_multiple_of(3);
                is_valid.then_some(100.0 + f64::from(number) * point as f64)
            };
            let (all, early) = (outcomes(&plan, 5, value), outcomes(&plan, 3, value));
            prop_assert_eq!(block(&plan, 3, &all), block(&plan, 3, &early));
        }
    }

    #[test]
    fn a_skipped_point_is_not_tried_again_and_holds_nobody_up() {
        let plan = plan(1);
        let mut outcomes = nothing();
        outcomes.skip(0, 2);
        let points = |number, outcomes: &Outcomes| {
            let steps = block(&plan, number, outcomes).into_iter();
            steps.map(|step| step.points[0]).collect::<BTreeSet<_>>()
        };
        assert!(points(0, &outcomes).contains(&2));
        assert!(!points(1, &outcomes).contains(&2));
        let group: Vec<usize> =
            plan.comparison_groups.iter().find(|group| group.contains(&2)).unwrap().clone();
        for &point in &group {
            outcomes.skip(0, point);
        }
        let index = plan.comparison_groups.iter().position(|known| *known == group).unwrap();
        assert!(unfinished_groups(&plan, 0, &outcomes).contains(&index));
        assert!(!unfinished_groups(&plan, 1, &outcomes).contains(&index));
    }
}
