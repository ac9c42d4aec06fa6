//! The largest TCP window, in bytes or in bandwidth-delay products of the path.

use std::fmt;
use std::str::FromStr;

use fabricmark_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;

/// What TCP may have under way and unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Window {
    /// Bandwidth-delay products of the emulated link, but at least [`Window::LEAST`].
    Bdp(u32),
    /// A number of bytes.
    Bytes(Bytes),
}

impl Window {
    /// Smallest window that is given in BDPs: 4 MiB, so that it does not limit a short path (the experiment of P3:
    /// the larger of k x BDP and this).
    pub const LEAST: Bytes = Bytes(4 << 20);

    /// The window in bytes, over a path with this bandwidth-delay product.
    pub fn bytes(self, bdp: Bytes) -> Bytes {
        match self {
            Self::Bdp(count) => Self::LEAST.max(Bytes(bdp.0.saturating_mul(count.into()))),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for Window {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let error = || {
            Invalid(format!(
                "`{text}` is not a window such as 2bdp (1 to 100 bandwidth-delay products) or 64MiB"
            ))
        };
        if let Some(count) = text.strip_suffix("bdp") {
            let count = count.trim().parse().map_err(|_| error())?;
            return (1..=100).contains(&count).then_some(Self::Bdp(count)).ok_or_else(error);
        }
        let bytes: Bytes = text.parse().map_err(|_| error())?;
        (bytes.0 > 0).then_some(Self::Bytes(bytes)).ok_or_else(error)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bdp(count) => write!(f, "{count}bdp"),
            Self::Bytes(Bytes(bytes)) => write!(f, "{bytes}"),
        }
    }
}

impl TryFrom<String> for Window {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_size_or_a_count_of_products() {
        for (text, printed) in [("2bdp", "2bdp"), ("64MiB", "67108864"), ("1", "1")] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), printed);
        }
        for text in ["0bdp", "101bdp", "bdp", "1.5bdp", "0", "wide"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }

    #[test]
    fn products_are_at_least_4_mib() {
        assert_eq!(Window::Bdp(2).bytes(Bytes(500_000_000)), Bytes(1_000_000_000));
        assert_eq!(Window::Bdp(3).bytes(Bytes(0)), Bytes(4 << 20));
        assert_eq!(Window::Bytes(Bytes(1000)).bytes(Bytes(500_000_000)), Bytes(1000));
    }
}
