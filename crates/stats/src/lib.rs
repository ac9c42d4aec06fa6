//! Estimates.
