//! Errors of element parameters; each message names the remedy.

/// A parameter that cannot work.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    #[error("{0} is 0: give at least 1")]
    Zero(&'static str),
    #[error("{name} is {value}: give a share from 0 to 1")]
    Share { name: &'static str, value: f64 },
    #[error("{low} is not below {high}: lower it")]
    Order { low: &'static str, high: &'static str },
    #[error("{name} is {value}: give a finite number above 0")]
    Positive { name: &'static str, value: f64 },
    #[error("`{word}` has no effect without {needs}: add that, or use {word}=none")]
    Alone { word: &'static str, needs: &'static str },
    #[error("the queue is too short for `pause`: give it four packets or more")]
    Narrow,
    #[error("a file that the options name was not read")]
    Unread,
}

/// Checks that `value` is a probability.
pub(crate) fn share(name: &'static str, value: f64) -> Result<f64, Invalid> {
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(Invalid::Share { name, value }) }
}

/// Checks that `value` is finite and above 0.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64, Invalid> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Invalid::Positive { name, value })
    }
}

/// Checks a parameter of an element or a sender: [`Invalid::Zero`] with `name` if `value` is 0.
pub fn some(name: &'static str, value: u64) -> Result<(), Invalid> {
    if value > 0 { Ok(()) } else { Err(Invalid::Zero(name)) }
}
