//! Estimates with confidence intervals, comparisons, stopping rules and histograms.
//!
//! An [`Estimate`] carries an interval, or says how many samples one would need. Samples are runs, never single
//! operations: operations of one run depend on each other, and an interval over them would be far too narrow.
//!
//! Deliberately absent: where samples come from, and how an estimate is printed. `tests/coverage` simulates how often
//! each interval contains the true value; the results are in `COVERAGE.md`.

mod compare;
mod correlation;
mod estimate;
mod histogram;
mod rank;
mod stop;
mod student;

pub use compare::{
    Better, Comparison, LATENCY_TIE, Sample, THROUGHPUT_TIE, Verdict, holm, holm_adjust, paired,
    paired_ratios, unpaired,
};
pub use correlation::{LAG1_WARNING, lag1};
pub use estimate::{Estimate, Interval, geometric_mean, mean, median, proportion, quantile};
pub use histogram::{DecodeError, Histogram};
pub use rank::{hodges_lehmann, mann_whitney, wilcoxon_signed_rank};
pub use stop::{PEEKING_SURCHARGE, StopRule};
