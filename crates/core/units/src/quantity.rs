//! Sizes, bit rates and percentages.
//!
//! K, M, G, T are powers of 1,000; Ki, Mi, Gi, Ti are powers of 1,024, for both sizes and rates.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares a newtype for a whole number of a unit.
macro_rules! whole_number {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);
    };
}
pub(crate) use whole_number;

whole_number! {
    /// A size in bytes.
    Bytes
}

whole_number! {
    /// A rate in bit/s.
    BitRate
}

/// A share, held as a fraction: 5 % is `Percent(0.05)`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Percent(pub f64);

/// Why a text is not a quantity; the message gives an example of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    text: String,
    expected: &'static str,
}

impl ParseQuantityError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl std::error::Error for ParseQuantityError {}

const BINARY: [(&str, u64); 4] =
    [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40)];
const DECIMAL: [(&str, u64); 4] =
    [("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// Splits `12.5Gbit/s` into `12.5` and `Gbit/s`.
pub(crate) fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Number times factor, or `None` if the product is not a whole number or overflows.
pub(crate) fn scale(number: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let (whole, fraction) = number.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 15 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let digits: u128 = fraction.parse().ok()?;
    let denominator = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = digits * u128::from(factor);
    if !part.is_multiple_of(denominator) {
        return None;
    }
    let part = part / denominator;
    whole.checked_mul(factor)?.checked_add(u64::try_from(part).ok()?)
}

/// Parses a number, a prefix and one of `units`; prefix and unit are optional.
fn read(text: &str, units: &[&str], expected: &'static str) -> Result<u64, ParseQuantityError> {
    let (number, unit) = split_number(text);
    let prefix = units.iter().find_map(|suffix| unit.strip_suffix(suffix)).unwrap_or(unit);
    let mut known = [("", 1)].iter().chain(&BINARY).chain(&DECIMAL);
    let factor = known.find(|(known, _)| known.eq_ignore_ascii_case(prefix));
    let value = factor.and_then(|&(_, factor)| scale(number, factor));
    value.ok_or_else(|| ParseQuantityError::new(text, expected))
}

/// The value in the largest of `units` that divides it, else in `base`, so that printing is lossless.
pub(crate) fn exact<'a>(value: u64, units: &[(&'a str, u64)], base: &'a str) -> (u64, &'a str) {
    let divides = |&&(_, factor): &&(&str, u64)| value >= factor && value.is_multiple_of(factor);
    let largest = units.iter().rev().find(divides);
    largest.map_or((value, base), |&(unit, factor)| (value / factor, unit))
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Parses `1500`, `64KiB`, `4 MiB`, `1.5K`, `1500B`.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        read(text, &["B", "b"], "a size such as 1500, 64KiB or 4MiB").map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, prefix) = exact(self.0, &BINARY, "");
        if prefix.is_empty() { write!(f, "{value}") } else { write!(f, "{value}{prefix}B") }
    }
}

impl FromStr for BitRate {
    type Err = ParseQuantityError;

    /// Parses `1G`, `10Gbit/s`, `2.5Gb/s`, `100M`, `9600`.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let units = ["bit/s", "b/s", "bps", "bit"];
        read(text, &units, "a bit rate such as 100M, 1G or 2.5Gbit/s").map(Self)
    }
}

impl fmt::Display for BitRate {
    /// Writes the shortest exact form that the parser accepts: `1G`, `2500M`, `9600`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, prefix) = exact(self.0, &DECIMAL, "");
        write!(f, "{value}{prefix}")
    }
}

impl FromStr for Percent {
    type Err = ParseQuantityError;

    /// Parses `5%` or `99.5 %`. Rejects a bare number, because 0.05 and 5 would be ambiguous.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let error = || ParseQuantityError::new(text, "a share such as 5% or 99.5%");
        let number = text.trim().strip_suffix('%').ok_or_else(error)?.trim_end();
        let value: f64 = number.parse().map_err(|_| error())?;
        if value.is_finite() && value >= 0.0 { Ok(Self(value / 100.0)) } else { Err(error()) }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to a millionth of a percent, because 0.07 * 100 is 7.000000000000001.
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("1500", 1500), ("64KiB", 65_536), ("4 MiB", 4 << 20), ("1.5K", 1500), ("9000B", 9000)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, bps) in [
            ("1G", 1_000_000_000),
            ("10Gbit/s", 10_000_000_000),
            ("2.5Gb/s", 2_500_000_000),
            ("100Mbps", 100_000_000),
            ("9600", 9600),
        ] {
            assert_eq!(text.parse(), Ok(BitRate(bps)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_refused_with_an_example() {
        for text in ["", "x", "1.5", "1..2K", "-1", "1GiBs", "99999999999G", "1 parsec"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        let message = "10Gx".parse::<BitRate>().unwrap_err().to_string();
        assert_eq!(message, "`10Gx` is not a bit rate such as 100M, 1G or 2.5Gbit/s");
        assert!("0.05".parse::<Percent>().is_err());
    }

    #[test]
    fn shares_are_fractions_inside_and_percent_outside() {
        assert_eq!("99.5 %".parse(), Ok(Percent(0.995)));
        assert_eq!(Percent(0.07).to_string(), "7%");
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_quantity(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(BitRate(value).to_string().parse(), Ok(BitRate(value)));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,24}") {
            let _ = (text.parse::<Bytes>(), text.parse::<BitRate>(), text.parse::<Percent>());
        }
    }
}
