//! What a watcher of a plan is told.

use fabricmark_plan::{Point, Role, Step};
use fabricmark_record::{Interval, Record};
use fabricmark_units::Nanos;

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
    /// Comparison groups that are decided, where the plan runs until they are; and how many there are.
    pub decided: Option<(usize, usize)>,
    /// What is left of the budget, where there is one.
    pub budget_left: Option<Nanos>,
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
