//! Progress of a plan, as reported to an observer.

use fabricmark_plan::{Point, Role, Step};
use fabricmark_record::{Interval, Record};
use fabricmark_units::Nanos;

use crate::carrier::AgentError;

/// Progress of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Runs that are done, warm-ups included.
    pub done: usize,
    /// All runs of the plan if each group stops as soon as its rule allows, `done` included.
    pub planned: usize,
    /// Number of the current block, from 0.
    pub block: u32,
    /// Lower bound of the remaining time.
    pub left: Nanos,
    /// Number of decided comparison groups, and of all; `None` unless the plan runs until they are decided.
    pub decided: Option<(usize, usize)>,
    /// The verdict on the comparison that was decided last, as a sentence.
    pub last_verdict: Option<String>,
    /// Remaining budget; `None` without one.
    pub budget_left: Option<Nanos>,
}

/// Observer of a plan that runs.
pub trait Progress {
    /// A run starts.
    fn begins(&mut self, position: Position, point: &Point, step: &Step);
    /// An interval of the current run has ended at one end of a load, if the plan has intervals. A stream in both
    /// directions is two loads.
    fn interval(&mut self, _load: &Point, _end: Role, _interval: &Interval) {}
    /// The current run waits at this place in an agent's queue, since others measure with the same agent.
    fn waits(&mut self, _place: u32) {}
    /// The connection to an agent is lost, and with it the current run. The plan tries to connect again.
    fn loses(&mut self, _error: &AgentError) {}
    /// A round of the current MPI job is complete, the warm-up included; or a second of the current run of the bookstore.
    fn round(&mut self, _done: u32, _of: u32) {}
    /// Before its runs a plan prepares something, such as a database: how many of how many parts are done; of 0 if it has no
    /// parts.
    fn prepares(&mut self, _what: &str, _done: u32, _of: u32) {}
    /// A run has ended, and its record is stored.
    fn ends(&mut self, record: &Record);
}
