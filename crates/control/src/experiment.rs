//! Runs a plan from its first block, or from where an earlier process stopped, to its end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_judge::{Route, correlated, judge, missed, outcome};
use fabricmark_plan::{Plan, Step, block};
use fabricmark_record::{
    Calibration, Figures, HostFacts, Limits, Outcome, Place, Record, SCHEMA_VERSION,
};
use fabricmark_store::StoreError;
use fabricmark_units::Stream;

use crate::coordinator::Coordinator;
use crate::emulated::emulation;
use crate::error::PlanError;
use crate::history::History;
use crate::iperf3;
use crate::memory;
use crate::nodes::nodes;
use crate::peer::{Peer, Workers};
use crate::progress::Progress;
use crate::run::{Run, RunResult};
use crate::skip;

/// Runs what is left of a plan.
///
/// `kept` are the records of an earlier process, and `keep` takes each new one before the next run
/// begins.
pub fn run_plan(
    plan: &Plan,
    kept: &[Record],
    keep: &mut dyn FnMut(&Record) -> Result<(), StoreError>,
    workers: &Workers<'_>,
    progress: &mut dyn Progress,
    interrupted: &AtomicBool,
) -> Result<(), PlanError> {
    let mut history = History::of(kept);
    if let Some(memory) = fabricmark_host::Memory::now() {
        memory::check(plan, &memory, rustix::param::page_size() as u64)?;
    }
    let mut coordinator = Coordinator::start(plan, workers)?;
    // What leads to another host is no emulator of this one.
    let calibration = workers.calibration.filter(|_| matches!(workers.peer, Peer::Here));
    let (digest, host) = (plan.digest(), fabricmark_host::facts());
    let context = Context { plan, digest, host, calibration, interrupted };
    for number in 0.. {
        let steps = block(plan, number, &history.outcomes);
        if steps.is_empty() {
            break;
        }
        for (index, step) in steps.iter().enumerate() {
            if history.done.contains(&(step.block, step.place)) {
                continue;
            }
            if interrupted.load(Relaxed) {
                return Err(PlanError::Interrupted);
            }
            let point = &plan.points[step.point];
            let skipped = skip::reason(point).or_else(|| history.refusal(step.point));
            if skipped.is_some() && step.warm_up {
                continue;
            }
            progress.begins(history.position(plan, number, &steps[index..]), point, step);
            let record = match skipped {
                Some(reason) => context.record(step, Outcome::Skipped(reason)),
                None => context.run(step, &mut coordinator, &mut history, progress)?,
            };
            keep(&record)?;
            history.add(&record);
            progress.ends(&record);
        }
    }
    history.finish()
}

/// What is the same for every run of a plan.
pub(crate) struct Context<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) digest: String,
    pub(crate) host: HostFacts,
    /// How true this machine's emulator is, where that is known.
    pub(crate) calibration: Option<&'a Calibration>,
    pub(crate) interrupted: &'a AtomicBool,
}

impl Context<'_> {
    /// A record in which nothing was found yet.
    pub(crate) fn record(&self, step: &Step, outcome: Outcome) -> Record {
        let Self { plan, digest, .. } = self;
        Record {
            schema: SCHEMA_VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            place: Place {
                plan_digest: digest.clone(),
                seed: plan.seed,
                block: step.block,
                place: step.place,
                point: step.point as u32,
                warm_up: step.warm_up,
            },
            point: plan.points[step.point].clone(),
            testbed: plan.testbed,
            duration_ns: plan.duration_ns,
            omit_ns: plan.omitted(&plan.points[step.point]),
            started: jiff::Timestamp::now().to_string(),
            nodes: Vec::new(),
            flows: Vec::new(),
            figures: Figures::default(),
            limits: Limits::default(),
            emulation: None,
            warnings: Vec::new(),
            outcome,
        }
    }

    fn run(
        &self,
        step: &Step,
        coordinator: &mut Coordinator,
        history: &mut History,
        progress: &mut dyn Progress,
    ) -> Result<Record, PlanError> {
        let Self { plan, host, interrupted, .. } = self;
        let point = &plan.points[step.point];
        let duration = if step.warm_up { plan.warm_up_ns } else { plan.duration_ns };
        let started = jiff::Timestamp::now().to_string();
        // Only datagrams are lost for good, and asking the queues starts a program for each.
        let asks_queues = point.transport.is_lossy();
        let link_drops = |coordinator: &Coordinator| {
            if asks_queues { coordinator.testbed().drops(point) } else { Ok(0) }
        };
        coordinator.drain_link(point)?;
        let before = link_drops(coordinator)?;
        let traffic = coordinator.testbed().traffic(point)?;
        // What is compared within a block sees the same departures.
        let seed = Stream::new(plan.seed, &format!("runs of block {}", step.block)).next_u64();
        let run = Run { plan, point, duration, seed, interrupted };
        let carried_out = match coordinator.testbed().iperf3().cloned() {
            Some(access) => iperf3::carry_out(&run, coordinator, &access, progress),
            None => run.carry_out(coordinator, progress),
        };
        let result = match carried_out {
            // The next run may have it back.
            Err(PlanError::AgentLost(error)) => {
                coordinator.start_over(interrupted)?;
                RunResult::Invalid(error.to_string())
            }
            result => result?,
        };
        let dropped = link_drops(coordinator)?.saturating_sub(before);
        let emulation = emulation(coordinator, point, traffic.as_ref(), self.calibration)?;
        let mut record = self.record(step, Outcome::Completed);
        record.emulation = emulation;
        record.duration_ns = duration;
        record.started = started;
        match result {
            RunResult::Invalid(reason) => {
                history.is_missing = false;
                record.outcome = Outcome::Invalid(reason);
            }
            RunResult::Unusable(error) => {
                history.is_missing = error.is_missing();
                record.outcome = Outcome::Skipped(error.to_string());
            }
            RunResult::Finished(parts) => {
                let provenance = coordinator.provenance(point);
                let path = coordinator.testbed().path();
                let route = Route { testbed: record.testbed, path: path.as_ref() };
                let found = judge(point, &parts, route, provenance, dropped);
                record.nodes = nodes(coordinator, host, point, &parts)?;
                record.flows = found.flows;
                record.figures = found.figures;
                record.limits = found.limits;
                record.warnings = found.warnings;
                record.warnings.extend(record.emulation.as_ref().and_then(missed));
                record.outcome = outcome(&record);
                if !step.warm_up && record.outcome == Outcome::Completed {
                    let mut values = history.outcomes.samples(step.point, step.block);
                    values.extend(record.deciding_value());
                    record.warnings.extend(correlated(&values));
                }
            }
        }
        history.give_up(step, &mut record);
        Ok(record)
    }
}
