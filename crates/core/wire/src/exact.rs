//! Exact fractions, their kinds and their inputs.

use std::collections::BTreeMap;
use std::fmt;

use num_rational::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How firmly a modelled figure stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No correct measurement at the stated line rate can beat it.
    Bound,
    /// A bound only where the behaviour that it assumes holds.
    Conditional,
    /// A model of the expected value.
    Estimate,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bound => "bound",
            Self::Conditional => "conditional",
            Self::Estimate => "estimate",
        })
    }
}

/// A fraction in the base unit that its key names.
///
/// In JSON `{"value": 957087126.1, "exact": "736000000000/769"}`: `value` is `exact` rounded to a
/// double, for readers who need no more. Reading takes `exact` and ignores `value`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "ExactJson", into = "ExactJson")]
pub struct Exact(Ratio<u128>);

/// A rounded value and the exact fraction behind it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Exact")]
struct ExactJson {
    /// The fraction, rounded to the nearest double.
    value: f64,
    /// `numerator/denominator` in lowest terms.
    exact: String,
}

impl Exact {
    /// `numerator / denominator` in lowest terms; `None` if the denominator is 0.
    pub fn new(numerator: u128, denominator: u128) -> Option<Self> {
        (denominator > 0).then(|| Self(Ratio::new(numerator, denominator)))
    }

    /// 0.
    pub(crate) const ZERO: Self = Self(Ratio::new_raw(0, 1));

    /// Numerator in lowest terms.
    pub fn numerator(self) -> u128 {
        *self.0.numer()
    }

    /// Denominator in lowest terms; never 0.
    pub fn denominator(self) -> u128 {
        *self.0.denom()
    }

    /// `self * numerator / denominator`; `None` on overflow or if the denominator is 0. Reduces before multiplying,
    /// so it overflows only if the result does.
    pub(crate) fn scaled(self, numerator: u128, denominator: u128) -> Option<Self> {
        let by = Self::new(numerator, denominator)?;
        let left = Self::new(self.numerator(), by.denominator())?;
        let right = Self::new(by.numerator(), self.denominator())?;
        Self::new(
            left.numerator().checked_mul(right.numerator())?,
            left.denominator().checked_mul(right.denominator())?,
        )
    }

    /// The sum; `None` on overflow of 128 bits.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let left = self.numerator().checked_mul(other.denominator())?;
        let right = other.numerator().checked_mul(self.denominator())?;
        let denominator = self.denominator().checked_mul(other.denominator())?;
        Self::new(left.checked_add(right)?, denominator)
    }

    /// `2 * self`.
    #[must_use]
    pub fn doubled(self) -> Self {
        Self(self.0 * 2)
    }

    /// The fraction as a double.
    pub fn as_f64(self) -> f64 {
        *self.0.numer() as f64 / *self.0.denom() as f64
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.numer(), self.0.denom())
    }
}

impl From<Exact> for ExactJson {
    fn from(exact: Exact) -> Self {
        Self { value: exact.as_f64(), exact: exact.to_string() }
    }
}

impl TryFrom<ExactJson> for Exact {
    type Error = String;

    fn try_from(json: ExactJson) -> Result<Self, String> {
        json.exact
            .split_once('/')
            .and_then(|(n, d)| Self::new(n.parse().ok()?, d.parse().ok()?))
            .ok_or_else(|| format!("`{}` is not a fraction such as 3/2", json.exact))
    }
}

/// Inputs of a figure, by the names that its formula uses.
pub type Inputs = BTreeMap<String, Input>;

/// One quantity that went into a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Input {
    /// A whole number; its unit is in its name.
    Number(u64),
    /// A word, such as the link; or a fraction, such as the rate of 4X FDR.
    Text(String),
}

impl From<u64> for Input {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Exact> for Input {
    /// A number if the fraction is whole and fits in 64 bits, else the fraction as text.
    fn from(exact: Exact) -> Self {
        match u64::try_from(exact.numerator()) {
            Ok(whole) if exact.denominator() == 1 => Self::Number(whole),
            _ => Self::Text(exact.to_string()),
        }
    }
}

pub(crate) fn inputs<const N: usize>(pairs: [(&str, Input); N]) -> Inputs {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_carries_a_rounded_value_and_the_fraction() {
        let third = Exact::new(2, 6).unwrap();
        let json = serde_json::to_string(&third).unwrap();
        assert_eq!(json, r#"{"value":0.3333333333333333,"exact":"1/3"}"#);
        assert_eq!(serde_json::from_str::<Exact>(&json).unwrap(), third);
    }

    #[test]
    fn what_is_not_a_fraction_is_refused() {
        for exact in ["", "1", "1/0", "-1/2", "1/2/3"] {
            let json = format!(r#"{{"value":1.0,"exact":"{exact}"}}"#);
            assert!(serde_json::from_str::<Exact>(&json).is_err(), "{exact}");
        }
    }

    #[test]
    fn the_schema_describes_both_members() {
        let schema = serde_json::to_value(schemars::schema_for!(Exact)).unwrap();
        assert_eq!(schema["properties"]["exact"]["type"], "string");
        assert_eq!(schema["properties"]["value"]["type"], "number");
    }
}
