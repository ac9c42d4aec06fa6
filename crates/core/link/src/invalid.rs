//! Why an element cannot be built; each says what would do.

/// A parameter with which no element could work.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    #[error("{0} is 0: give at least 1")]
    Zero(&'static str),
    #[error("{name} is {value}: give a share from 0 to 1")]
    Share { name: &'static str, value: f64 },
    #[error("{low} is not below {high}: give a lower one")]
    Order { low: &'static str, high: &'static str },
    #[error("{name} is {value}: give a finite number above 0")]
    Positive { name: &'static str, value: f64 },
    #[error("`{word}` does nothing without {needs}: give that too, or {word}=none")]
    Alone { word: &'static str, needs: &'static str },
    #[error(
        "half of a queue with `pause` is room for what comes before the sender is stopped: give it \
         four packets or more"
    )]
    Narrow,
    #[error("the file of `trace=` was not read: hand over its text first")]
    Unread,
}

/// `value` where it is a probability.
pub(crate) fn share(name: &'static str, value: f64) -> Result<f64, Invalid> {
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(Invalid::Share { name, value }) }
}

/// `value` where it is finite and above 0.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, Invalid> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Invalid::Positive { name, value })
    }
}

/// Nothing where `value` is not 0, and [`Invalid::Zero`] of that name where it is: so refuse elements,
/// and what sends over them.
pub fn some(name: &'static str, value: u64) -> Result<(), Invalid> {
    if value > 0 { Ok(()) } else { Err(Invalid::Zero(name)) }
}
