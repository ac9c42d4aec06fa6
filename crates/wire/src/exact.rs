//! Exact figures of the model: how firm they are, and what they were computed from.

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
    /// `numerator / denominator` in lowest terms; `None` where the denominator is 0.
    pub fn new(numerator: u128, denominator: u128) -> Option<Self> {
        (denominator > 0).then(|| Self(Ratio::new(numerator, denominator)))
    }

    /// Nothing.
    pub(crate) const ZERO: Self = Self(Ratio::new_raw(0, 1));

    /// Times `numerator / denominator`; `None` where the denominator is 0 or the product does not fit.
    pub(crate) fn times(self, numerator: u128, denominator: u128) -> Option<Self> {
        let by = Self::new(numerator, denominator)?.0;
        let (a, b) =
            (Ratio::new(*self.0.numer(), *by.denom()), Ratio::new(*by.numer(), *self.0.denom()));
        Self::new(a.numer().checked_mul(*b.numer())?, a.denom().checked_mul(*b.denom())?)
    }

    /// One over it; `None` for 0.
    pub(crate) fn inverse(self) -> Option<Self> {
        Self::new(*self.0.denom(), *self.0.numer())
    }

    /// Twice as much.
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

/// What a figure was computed from, by the names that its formula uses.
pub type Inputs = BTreeMap<String, Input>;

/// One quantity that went into a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Input {
    /// A whole number; its unit is in its name.
    Number(u64),
    /// A word, such as the link.
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
