//! A text that a user wrote and that is not valid.

/// Why what a user wrote is not valid, and what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);
