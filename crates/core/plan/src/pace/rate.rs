//! How fast payloads depart: in bits or in payloads.

use std::fmt;
use std::str::FromStr;

use fabricmark_units::BitRate;

use super::ParsePaceError;

/// How fast payloads depart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// Application bits per second.
    Bits(BitRate),
    /// Payloads per second.
    PerSecond(u64),
}

impl FromStr for Rate {
    type Err = ParsePaceError;

    /// Reads `1G`, `10Mbit/s` (bits) and `1000/s` (payloads).
    fn from_str(text: &str) -> Result<Self, ParsePaceError> {
        let bits = || text.parse().ok().map(Self::Bits);
        let per_second = || text.strip_suffix("/s")?.parse().ok().map(Self::PerSecond);
        bits()
            .or_else(per_second)
            .filter(|rate| !matches!(rate, Self::Bits(BitRate(0)) | Self::PerSecond(0)))
            .ok_or_else(|| ParsePaceError::Rate(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(rate) => write!(f, "{rate}"),
            Self::PerSecond(count) => write!(f, "{count}/s"),
        }
    }
}
