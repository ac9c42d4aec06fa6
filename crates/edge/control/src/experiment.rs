//! Runs a plan to its end, from its first block or from where an earlier process stopped.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use fabricmark_judge::{Part, Route, bottleneck, correlated, judge, missed, outcome, steady};
use fabricmark_plan::{Figure, Plan, Point, Role, Step, Testbed, block};
use fabricmark_record::{
    Alignment, Calibration, Emulation, Figures, HostFacts, Limits, Outcome, Place, Provenance,
    Record, SCHEMA_VERSION, SliceRates, Sourced,
};
use fabricmark_store::StoreError;
use fabricmark_units::{Nanos, Stream};

use crate::coordinator::Coordinator;
use crate::emulated::emulation;
use crate::error::{Cause, PlanError};
use crate::history::History;
use crate::iperf3;
use crate::memory;
use crate::mpi;
use crate::nodes::nodes;
use crate::peer::{Peer, Workers};
use crate::progress::{Position, Progress};
use crate::run::{Run, RunResult};
use crate::settings;
use crate::skip;
use crate::testbed::PathTraffic;
use crate::tiers;

/// Runs the rest of a plan.
///
/// `kept` are the records of an earlier process. `keep` stores the records of each run, one for each group of
/// flows, before the next run starts. Returns whether the plan is complete: the budget may be spent before
/// everything is decided.
pub fn run_plan(
    plan: &Plan,
    kept: &[Record],
    keep: &mut dyn FnMut(&[Record]) -> Result<(), StoreError>,
    workers: &Workers<'_>,
    progress: &mut dyn Progress,
    interrupted: &AtomicBool,
) -> Result<bool, PlanError> {
    let mut history = History::of(kept);
    if let Some(memory) = fabricmark_host::Memory::now() {
        memory::check(plan, &memory, rustix::param::page_size() as u64)?;
    }
    settings::check(plan)?;
    let mut coordinator = Coordinator::start(plan, workers, kept.len())?;
    let programs = match plan.testbed {
        Testbed::Mpi => mpi::Programs::of(plan, workers.program)?,
        Testbed::Lab | Testbed::Hosts | Testbed::Tiers => mpi::Programs::default(),
    };
    let mut shop = match plan.testbed {
        Testbed::Tiers => {
            Some(tiers::start(plan, workers, coordinator.emulator_cpu(), interrupted, progress)?)
        }
        Testbed::Lab | Testbed::Hosts | Testbed::Mpi => None,
    };
    let cpus = fabricmark_host::cpus().len();
    // Paths to other hosts do not use the emulator of this machine.
    let calibration = workers.calibration.filter(|_| matches!(workers.peer, Peer::Here));
    let (digest, host) = (plan.digest(), fabricmark_host::facts());
    let context = Context { plan, digest, host, calibration, interrupted };
    let began = Instant::now();
    let is_spent = || plan.budget_ns.is_some_and(|budget| Nanos::from(began.elapsed()) >= budget);
    for number in 0.. {
        let steps = block(plan, number, &history.outcomes);
        // A block that was started is completed, so that all of its points have it.
        if steps.is_empty() {
            break;
        }
        if number > 0 && is_spent() {
            return history.finish().map(|()| false);
        }
        for (index, step) in steps.iter().enumerate() {
            if step.places().any(|place| history.done.contains(&(step.block, place))) {
                continue;
            }
            if interrupted.load(Relaxed) {
                return Err(PlanError::Interrupted);
            }
            let why_not = |&point: &usize| {
                let too_many = |point: &Point| {
                    let is_mpi = plan.testbed == Testbed::Mpi;
                    is_mpi.then(|| programs.reason(point, cpus))?
                };
                let point_of = &plan.points[point];
                skip::reason(point_of)
                    .or_else(|| too_many(point_of))
                    .or_else(|| history.refusal(point))
            };
            let refusals: Vec<Option<String>> = step.points.iter().map(why_not).collect();
            let skipped = refusals.iter().flatten().next();
            if skipped.is_some() && step.warm_up {
                continue;
            }
            let point = &plan.points[step.points[0]];
            let budget_left = plan
                .budget_ns
                .map(|Nanos(budget)| Nanos(budget.saturating_sub(Nanos::from(began.elapsed()).0)));
            let position = history.position(plan, number, &steps[index..]);
            progress.begins(Position { budget_left, ..position }, point, step);
            let records = match skipped {
                // In the next blocks the other points of a slice are compared without those that cannot be run.
                Some(reason) => refusals
                    .iter()
                    .enumerate()
                    .filter(|(_, refusal)| refusal.is_some() || step.slice.is_none())
                    .map(|(place, refusal)| {
                        let reason = refusal.as_ref().unwrap_or(reason).clone();
                        context.record(step, place, Outcome::Skipped(reason))
                    })
                    .collect(),
                None if plan.testbed == Testbed::Mpi => {
                    mpi::run(&context, step, &coordinator, &programs, &mut history, progress)?
                }
                None => match &mut shop {
                    Some(shop) => tiers::run(&context, step, shop, &mut history, progress)?,
                    None => context.run(step, &mut coordinator, &mut history, progress)?,
                },
            };
            keep(&records)?;
            for record in &records {
                history.add(record);
                progress.ends(record);
            }
        }
    }
    history.finish().map(|()| true)
}

/// What all runs of a plan share.
pub(crate) struct Context<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) digest: String,
    pub(crate) host: HostFacts,
    /// Accuracy of this machine's emulator, if it was measured.
    pub(crate) calibration: Option<&'a Calibration>,
    pub(crate) interrupted: &'a AtomicBool,
}

impl Context<'_> {
    /// A record of the point at `place` in a step, without any results.
    pub(crate) fn record(&self, step: &Step, place: usize, outcome: Outcome) -> Record {
        let Self { plan, digest, .. } = self;
        let point = step.points[place];
        Record {
            schema: SCHEMA_VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            place: Place {
                plan_digest: digest.clone(),
                seed: plan.seed,
                block: step.block,
                place: step.place + place as u32,
                point: point as u32,
                warm_up: step.warm_up,
            },
            point: plan.points[point].clone(),
            testbed: plan.testbed,
            duration_ns: plan.duration_ns,
            // Slices omit their first rounds instead.
            omit_ns: match step.slice {
                Some(_) => Nanos(0),
                None => plan.omitted(&plan.points[point]),
            },
            start_ns: plan.start(&plan.points[point]),
            steady: None,
            slice_ns: step.slice,
            slice_rates: None,
            started: jiff::Timestamp::now().to_string(),
            nodes: Vec::new(),
            flows: Vec::new(),
            alignment: None,
            figures: Figures::default(),
            limits: Limits::default(),
            emulation: None,
            mpi: None,
            shop: None,
            bottleneck: None,
            warnings: Vec::new(),
            outcome,
        }
    }

    /// Carries out a step; returns a record for each of its points.
    fn run(
        &self,
        step: &Step,
        coordinator: &mut Coordinator,
        history: &mut History,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Record>, PlanError> {
        let duration = match (step.warm_up, step.slice) {
            (true, _) => self.plan.warm_up_ns,
            (false, Some(_)) => self.plan.duration_ns,
            (false, None) => self.plan.whole_run(),
        };
        self.run_for(duration, step, coordinator, history, progress)
    }

    fn run_for(
        &self,
        duration: Nanos,
        step: &Step,
        coordinator: &mut Coordinator,
        history: &mut History,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Record>, PlanError> {
        let Self { plan, interrupted, .. } = self;
        let points: Vec<Point> =
            step.points.iter().map(|&point| plan.points[point].clone()).collect();
        let points = points.as_slice();
        let started = jiff::Timestamp::now().to_string();
        for point in points {
            coordinator.drain_link(point)?;
        }
        let before: Vec<Counters> = points
            .iter()
            .map(|point| Counters::of(coordinator, point))
            .collect::<Result<_, _>>()?;
        // Points that are compared within a block have the same departures.
        let seed = Stream::new(plan.seed, &format!("runs of block {}", step.block)).next_u64();
        let run = Run { plan, points, duration, slice: step.slice, seed, interrupted };
        let carried_out = match coordinator.testbed().iperf3().cloned() {
            Some(access) => iperf3::carry_out(&run, coordinator, &access, progress),
            None => run.carry_out(coordinator, progress),
        };
        let result = match carried_out {
            // The agent may be back for the next run.
            Err(PlanError::AgentLost(error)) => {
                progress.loses(&error);
                coordinator.start_over(interrupted)?;
                RunResult::Invalid(error.to_string(), Cause::Unreachable)
            }
            result => result?,
        };
        let mut records = Vec::new();
        if step.slice.is_some() && !matches!(result, RunResult::Finished(_)) {
            // One of the levels failed, or orders take too long.
            return self.run_whole(step, coordinator, history, progress);
        }
        for (place, before) in before.iter().enumerate() {
            let mut record = self.record(step, place, Outcome::Completed);
            let after = Counters::of(coordinator, &record.point)?;
            let dropped = after.dropped.saturating_sub(before.dropped);
            record.emulation = emulation(
                coordinator,
                &record.point,
                step.slice.is_some(),
                [before.traffic.as_ref(), after.traffic.as_ref()],
                self.calibration,
            );
            record.duration_ns = duration;
            record.started.clone_from(&started);
            match &result {
                RunResult::Invalid(reason, cause) => {
                    history.cause = *cause;
                    record.outcome = Outcome::Invalid(reason.clone());
                }
                RunResult::Unusable(error) => {
                    history.cause = match error.is_missing() {
                        true => Cause::Missing,
                        false => Cause::Other,
                    };
                    record.outcome = Outcome::Skipped(error.to_string());
                }
                RunResult::Finished(parts) => {
                    if step.slice.is_none() {
                        let time = |part: &Part| {
                            let (time, error_ns) = part.active?;
                            Some((time, error_ns, plan.start(&part.point)))
                        };
                        let times: Vec<_> = parts.iter().filter_map(time).collect();
                        record.alignment = Alignment::of(&times);
                    }
                    let is_own = |part: &&Part| match step.slice {
                        Some(_) => part.point == record.point,
                        None => {
                            part.point.group == record.point.group || record.point.group.is_none()
                        }
                    };
                    let parts: Vec<Part> = parts.iter().filter(is_own).cloned().collect();
                    self.find(&mut record, &parts, dropped, coordinator)?;
                }
            }
            records.push(record);
        }
        let exceeds = |record: &Record| {
            let is_invalid = matches!(record.outcome, Outcome::Invalid(_));
            is_invalid && record.ceiling_shares().any(|share| share > 1.0)
        };
        if step.slice.is_some() && records.iter().any(exceeds) {
            // A flow that is little faster than its link takes most of a slice to empty the token bucket, which was
            // filled while others had their turn.
            return self.run_whole(step, coordinator, history, progress);
        }
        all_or_none(&mut records);
        for record in &mut records {
            let point = record.place.point as usize;
            if !step.warm_up && record.outcome == Outcome::Completed {
                let mut values = history.outcomes.samples(point, step.block);
                values.extend(record.deciding_value());
                record.warnings.extend(correlated(&values));
            }
            history.give_up(record);
        }
        Ok(records)
    }

    /// Runs each point of a step whose slices have failed as a whole.
    fn run_whole(
        &self,
        step: &Step,
        coordinator: &mut Coordinator,
        history: &mut History,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Record>, PlanError> {
        let mut records = Vec::new();
        for place in 0..step.points.len() {
            let alone = step.alone(place);
            let duration = self.plan.whole_run();
            records.extend(self.run_for(duration, &alone, coordinator, history, progress)?);
        }
        Ok(records)
    }

    /// Puts the results of a point into its record, from the parts of a run.
    fn find(
        &self,
        record: &mut Record,
        parts: &[Part],
        dropped: u64,
        coordinator: &Coordinator,
    ) -> Result<(), PlanError> {
        let (plan, point) = (self.plan, record.point.clone());
        let path = coordinator.testbed().path(&point);
        let route = Route {
            testbed: record.testbed,
            path: path.as_ref(),
            least_rtt: coordinator.testbed().least_rtt(&point),
            bus: coordinator.testbed().bus(&point),
            nodes: plan.nodes(&point),
            has_others: plan.at_once(record.place.point as usize).len() > 1
                || record.slice_ns.is_some(),
            is_one_machine: {
                let [client, server] =
                    [Role::Client, Role::Server].map(|role| coordinator.facts(role, &point).boot);
                client == server
            },
        };
        let found = judge(&point, parts, route, coordinator.provenance(&point), dropped);
        record.nodes = nodes(coordinator, &self.host, route.nodes, &point, parts)?;
        record.flows = found.flows;
        record.slice_rates =
            parts.first().and_then(|part| SliceRates::of(point.pattern, part.slice_rates.clone()));
        record.figures = found.figures;
        if let (Some(Emulation { forward, reverse, .. }), None) =
            (&record.emulation, record.slice_ns)
        {
            let value = (forward.dropped + reverse.dropped) as f64;
            let drops = Sourced { value, provenance: Provenance::Emulated };
            record.figures.set(Figure::LinkDrops, Some(drops));
        }
        record.limits = found.limits;
        record.warnings = found.warnings;
        record.warnings.extend(missed(record));
        record.steady = plan.steady.and_then(|most| steady(record, most));
        record.outcome = outcome(record);
        record.bottleneck = bottleneck(record).filter(|_| record.outcome == Outcome::Completed);
        Ok(())
    }
}

/// Counters of a lab before or after a run of a point. Reading those of the kernel's queues starts a program for each, so
/// they are read only for points of whose records they are part.
struct Counters {
    /// Of the links.
    traffic: Option<PathTraffic>,
    /// Packets that the path has dropped, if the transport is lossy: only datagrams are lost for good.
    dropped: u64,
}

impl Counters {
    fn of(coordinator: &Coordinator, point: &Point) -> Result<Self, PlanError> {
        let testbed = coordinator.testbed();
        let is_lossy = point.transport.is_lossy();
        let traffic = match is_lossy || point.link_options().is_some() {
            true => testbed.traffic(point)?,
            false => None,
        };
        let lossy = traffic.as_ref().filter(|_| is_lossy);
        let dropped = lossy.map(|traffic| testbed.drops(point, traffic)).transpose()?;
        Ok(Self { traffic, dropped: dropped.unwrap_or(0) })
    }
}

/// Makes all records of a run invalid if that of one group of flows is: the others ran beside other traffic than
/// asked for.
fn all_or_none(records: &mut [Record]) {
    let reason = records.iter().find_map(|record| match (&record.outcome, &record.point.group) {
        (Outcome::Invalid(reason), Some(group)) => Some((group.clone(), reason.clone())),
        _ => None,
    });
    let Some((group, reason)) = reason else { return };
    for record in records.iter_mut().filter(|record| record.outcome == Outcome::Completed) {
        record.outcome =
            Outcome::Invalid(format!("group {group} failed at the same time: {reason}"));
    }
}
