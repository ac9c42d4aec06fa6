//! What five papers print, as data: every number of their tables and of their text.
//!
//! A [`Cell`] is one printed number with its place, and nothing is corrected. Where a paper
//! contradicts itself, the cell carries the numbers of its [`Doubt`]s. The files behind it are
//! `data/*.csv`; `docs/papers.md` describes their form.
//!
//! [`limit`] says what the wire allows where a figure stands: published figures are published, limits
//! are modelled, and the two are never one number.
//!
//! P1's latency is half a round trip, averaged over many exchanges, not a one-way delay.
//!
//! What the papers claim is in [`claims`], as predicates over these numbers or over those of new runs.
//!
//! Deliberately not here: numbers that are names (versions, models, sections, references), and what can
//! only be read off a figure.

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
