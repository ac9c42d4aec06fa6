//! Runs a plan: a worker process in each node, one conversation a run, a record of each.
//!
//! - [`work`] is the worker's side: a process that carries out orders from a local socket.
//! - [`run_plan`] is the coordinator's side: it builds the lab, drives the workers through the
//!   plan's order and keeps a record of each run before it begins the next.
//! - [`read_traces`] reads the files of departures that a plan names.

mod assemble;
mod coordinator;
mod experiment;
mod limits;
mod node;
mod run;
mod traces;
mod worker;

pub use experiment::{PlanError, Position, Progress, run_plan};
pub use fabricmark_proto::Role;
pub use traces::{TraceFileError, read_traces};
pub use worker::work;
