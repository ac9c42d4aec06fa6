//! Reports of a fabricated experiment, whole.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p fabricmark-report` writes the stored texts anew; `PAGE=FILE`
//! also keeps the page to look at, `LFN_PAGE=FILE` that of long fat networks.

#![expect(clippy::unwrap_used, reason = "a broken fixture may end its test")]

mod claims;
mod compare;
mod course;
mod fabricated;
mod invalid;
mod lfn;
mod page;
mod text;
