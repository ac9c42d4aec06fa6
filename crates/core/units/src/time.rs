//! Durations and instants in whole nanoseconds.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use crate::quantity::{ParseQuantityError, exact, scale, split_number, whole_number};

whole_number! {
    /// A duration in nanoseconds; 584 years at most.
    Nanos
}

/// Reading of a monotonic clock in nanoseconds; only differences are meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// Bits in a byte times nanoseconds in a second: bytes times this are bit/s times nanoseconds.
pub const BIT_NS: u128 = 8_000_000_000;

impl Nanos {
    /// A duration of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A duration of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The duration in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl From<Duration> for Nanos {
    /// Saturates beyond 584 years.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    fn add(self, duration: Nanos) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl Sub for Instant {
    type Output = Nanos;
    /// Time from `earlier` to `self`; 0 if `earlier` is later.
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl FromStr for Nanos {
    type Err = ParseQuantityError;

    /// Parses `400ms`, `1s`, `20us`, `1.5s`, `2min`, `1h`. Rejects a bare number.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let error = || ParseQuantityError::new(text, "a duration such as 400ms, 1s or 20us");
        let (number, unit) = split_number(text);
        let factor = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(error()),
        };
        scale(number, factor).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Nanos {
    /// Writes the shortest exact form that the parser accepts: `400ms`, `1s`, `1500us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        let (value, unit) = exact(self.0, &units, "ns");
        write!(f, "{value}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ns) in [
            ("400ms", 400_000_000),
            ("1s", 1_000_000_000),
            ("20us", 20_000),
            ("1.5s", 1_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_refused() {
        assert!("1".parse::<Nanos>().is_err());
        assert!("1 fortnight".parse::<Nanos>().is_err());
    }

    #[test]
    fn an_instant_before_another_is_no_time_after_it() {
        assert_eq!(Instant(3) - Instant(5), Nanos(0));
        assert_eq!(Instant(5) - Instant(3), Nanos(2));
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_duration(ns: u64) {
            prop_assert_eq!(Nanos(ns).to_string().parse(), Ok(Nanos(ns)));
        }
    }
}
