//! Changes settings of this host for an experiment, and puts them back: at the end, or, if the process was killed, when
//! the next one recovers.
//!
//! A [`Change`] such as `mtu=9000` is made through [`Applied`], which puts back what it changed when it is dropped.
//! A [`Journal`] in a folder has the old value on disk before the new one is set.
//!
//! Out of scope: which settings an experiment varies (`plan`), and what their values do to a measurement (`host`).

mod applied;
mod entry;
mod error;
mod journal;
mod kind;
mod namespace;
mod nic;
mod owner;
mod place;
mod qdisc;
mod setting;
mod store;
mod system;
mod undo;
mod value;

pub use applied::Applied;
pub use error::{Cause, JournalError, SettingError};
pub use journal::Journal;
pub use setting::{Change, ParseError, Setting};
pub use undo::{Outcome, Restored};
