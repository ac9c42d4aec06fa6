//! Chores of this repository.
//!
//! `cargo xtask sweep` runs the program at random points and holds every record against what must be
//! true of it, by formulas of its own: docs/sweep.md.

pub mod sweep;
