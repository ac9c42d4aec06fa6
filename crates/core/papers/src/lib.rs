//! The numbers of five papers as data: every number of their tables and text.
//!
//! A [`Cell`] is one number as printed, with its place; nothing is corrected. If a paper contradicts itself, the
//! cells concerned list the [`Doubt`]s. The data is in `data/*.csv`; `docs/papers.md` describes the format. Numbers
//! that are names (versions, models, sections, references) and values in graphs are not included.
//!
//! [`limit`] computes what the wire allows for a published figure. The figures are published, the limits are
//! modelled, and the two are never merged. [`claims`] has the papers' claims as predicates over these numbers or new
//! runs.
//!
//! P1's latency is RTT/2, averaged over many exchanges, not a one-way delay.

mod cell;
pub mod claims;
mod doubt;
mod limit;
mod number;
mod paper;
mod table;

pub use cell::{Cell, cells, value};
pub use doubt::{Doubt, doubt, doubts};
pub use limit::{Limit, limit};
pub use number::base_unit;
pub use paper::{Heading, Paper, paper, papers};
pub use table::{Table, Technology, names, published};
