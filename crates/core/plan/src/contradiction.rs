//! Why levels do not go together.

use crate::factor::Factor;

/// Why levels do not make a point together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct Contradiction {
    /// The factor whose level does not fit.
    pub factor: Factor,
    /// What does not fit.
    pub message: String,
    /// What would.
    pub help: String,
}

pub(crate) fn contradiction(
    factor: Factor,
    message: String,
    help: impl Into<String>,
) -> Contradiction {
    Contradiction { factor, message, help: help.into() }
}
