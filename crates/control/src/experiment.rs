//! Runs a plan from its first block, or from where an earlier process stopped, to its end.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_lab::LabError;
use fabricmark_plan::{Plan, Point, Role, Step, block};
use fabricmark_proto::ConversationError;
use fabricmark_record::{
    Calibration, Figures, HostFacts, Interval, Limits, Outcome, Place, Record, SCHEMA_VERSION,
    Warning, violations,
};
use fabricmark_stats::{LAG1_WARNING, lag1};
use fabricmark_store::StoreError;
use fabricmark_units::{Nanos, Stream};
use fabricmark_wire::Link;

use crate::assemble::assemble;
use crate::carrier::AgentError;
use crate::coordinator::{Coordinator, Peer, Workers};
use crate::emulated::{emulation, missed};
use crate::history::History;
use crate::limits::bucket_bytes;
use crate::memory::{self, MemoryError};
use crate::run::{Run, RunResult};
use crate::skip;

/// Runs that a correlation needs to mean anything.
const CORRELATION_RUNS: usize = 10;

/// Why a plan did not come to its end. Every finished run is kept.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The user asked for it.
    #[error("interrupted")]
    Interrupted,
    /// There is no lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The windows of the plan do not fit into memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A point asks for a link that was not built.
    #[error("no link {0} was built")]
    NoLink(Link),
    /// No device of this machine has an address that an end is to have.
    #[error("no device of this machine has the address {0}: see `ip address`")]
    NoAddress(IpAddr),
    /// Records cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A worker is gone.
    #[error("the worker of node {node} {what} in mid-run ({how})")]
    WorkerLost {
        /// The node.
        node: &'static str,
        /// What was noticed.
        what: String,
        /// What became of the process.
        how: String,
    },
    /// An agent cannot be used.
    #[error(transparent)]
    AgentLost(#[from] AgentError),
    /// A run failed in a way that the next one would, too.
    #[error("{0}")]
    Run(ConversationError),
    /// No run of any point counts.
    #[error("no run counts: {reason}")]
    Nothing {
        /// Why the last one does not.
        reason: String,
        /// Whether this host lacks what the last one needs.
        is_missing: bool,
    },
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl PlanError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

/// How far a plan has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Runs that are done, warm-ups included.
    pub done: usize,
    /// Runs that the plan will take if each group stops as soon as its rule allows.
    pub planned: usize,
    /// The block under way, from 0.
    pub block: u32,
    /// What the rest takes at least.
    pub left: Nanos,
}

/// Somebody who watches a plan being run.
pub trait Progress {
    /// A run begins.
    fn begins(&mut self, position: Position, point: &Point, step: &Step);
    /// An interval of the run under way has ended at one end of a load, where the plan asks for
    /// intervals; a stream both ways is two loads, each with its direction.
    fn interval(&mut self, _load: &Point, _end: Role, _interval: &Interval) {}
    /// The run under way waits, since others measure with the same agent.
    fn waits(&mut self, _place: u32) {}
    /// A run is done and its record kept.
    fn ends(&mut self, record: &Record);
}

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
            if asks_queues { coordinator.link_drops(point) } else { Ok(0) }
        };
        coordinator.drain_link(point)?;
        let before = link_drops(coordinator)?;
        let traffic = coordinator.traffic(point)?;
        // What is compared within a block sees the same departures.
        let seed = Stream::new(plan.seed, &format!("runs of block {}", step.block)).next_u64();
        let run = Run { plan, point, duration, seed, interrupted };
        let result = match run.carry_out(coordinator, progress) {
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
                let parts = assemble(coordinator, host, point, &parts, dropped)?;
                record.nodes = parts.nodes;
                record.flows = parts.flows;
                record.figures = parts.figures;
                record.limits = parts.limits;
                record.warnings = parts.warnings;
                record.warnings.extend(record.emulation.as_ref().and_then(missed));
                let broken = violations(&record, bucket_bytes(point));
                // What a warm-up measured enters nothing.
                let has_figure = record.deciding_value().is_some();
                if !has_figure || (!step.warm_up && !broken.is_empty()) {
                    record.outcome = Outcome::Invalid(broken.join("; "));
                } else if !step.warm_up {
                    record.warnings.extend(correlated(step, history, &record));
                }
            }
        }
        history.give_up(step, &mut record);
        Ok(record)
    }
}

/// Whether this point's runs, this one included, follow one another.
fn correlated(step: &Step, history: &History, record: &Record) -> Option<Warning> {
    let mut values = history.outcomes.samples(step.point, step.block);
    values.extend(record.deciding_value());
    let lag1 = lag1(&values).filter(|_| values.len() >= CORRELATION_RUNS)?;
    (lag1 > LAG1_WARNING).then_some(Warning::Correlated { lag1 })
}
