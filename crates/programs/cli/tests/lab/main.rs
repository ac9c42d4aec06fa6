//! The built program in a real lab: namespaces, veth pairs, shaped links, worker processes.
//!
//! If namespaces cannot be created, each test is counted as skipped, with the reason (see `support.rs`).
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod aa;
mod agent;
mod bottleneck;
mod burst;
mod calibrate;
mod emulated;
mod fabric;
mod groups;
mod hostile;
mod hosts;
mod ipoib;
mod main_job;
mod outside;
mod pace;
mod page;
mod relay;
mod resume;
mod round_trip;
mod rr;
#[path = "../schema/mod.rs"]
mod schema;
mod shapes;
mod slices;
mod support;
mod users;
