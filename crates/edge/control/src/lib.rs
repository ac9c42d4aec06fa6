//! Runs a plan: a worker process in each node, a conversation for each run, and a record of each run.
//!
//! - [`work`] is the worker's side: a process that carries out orders from a local socket.
//! - [`run_plan`] is the coordinator's side: it builds the lab, drives the workers through the plan, and stores the
//!   record of each run before the next one starts.
//! - [`Agent`] serves coordinators on other hosts with workers of its own.
//! - [`read_files`] reads the traces and the topology that a plan names.

mod agent;
mod attachment;
mod carrier;
mod coordinator;
mod emulated;
mod error;
mod experiment;
mod files;
mod history;
mod host;
mod interfaces;
mod iperf3;
mod memory;
mod mpi;
mod node;
mod nodes;
mod pair;
mod peer;
mod process;
mod progress;
mod relay;
mod run;
mod secured;
mod settings;
mod skip;
mod testbed;
mod tiers;
mod worker;

pub use agent::{Agent, Load, Settings};
pub use carrier::{AgentError, interfaces_of};
pub use error::{Cause, PlanError};
pub use experiment::run_plan;
pub use files::{FileError, read_files};
pub use host::{AGENT_PORT, AddressError, AgentHost, check_syntax, link_towards, look_up};
pub use mpi::check_mpi;
pub use peer::{AgentAccess, Iperf3Access, Peer, Workers};
pub use process::THIS_PROGRAM;
pub use progress::{Position, Progress};
pub use settings::recover_settings;
pub use testbed::RECONNECTS_FOR;
pub use tiers::{Browse, Load as ShopLoad, Shop, Watch};
pub use worker::work;
