//! Errors in texts that a user wrote.

/// Why a user's text is invalid, and what would be valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);
