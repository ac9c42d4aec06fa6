//! Records kept: an embedded SQLite file in write-ahead mode, one transaction a record.
//!
//! A process that is killed at any moment loses at most the run in flight. The schema carries a
//! version; older files are migrated when they are opened, newer ones refused.
//!
//! Deliberately not here: what records mean. A record is kept as the JSON text that it travels as.

mod error;
mod store;

pub use error::StoreError;
pub use store::{Experiment, Facts, Store};
