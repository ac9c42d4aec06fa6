//! Storage of records in an SQLite file: write-ahead log, one transaction for the records of a step.
//!
//! A process that is killed at any moment loses at most the run in flight. The schema has a version: older files
//! are migrated when they are opened, newer ones are refused.
//!
//! Not here: the meaning of records. A record is stored as the JSON text in which it is transferred.

mod error;
mod store;

pub use error::StoreError;
pub use store::{Experiment, Facts, Store};
