//! Reports of a fabricated experiment as a whole.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p fabricmark-report` rewrites the stored texts. `PAGE=FILE` also writes the page
//! to look at, `LFN_PAGE=FILE` that of long fat networks.

#![expect(clippy::unwrap_used, reason = "a broken fixture may end its test")]

mod claims;
mod compare;
mod course;
mod fabricated;
mod invalid;
mod lfn;
mod page;
mod shop;
mod text;
