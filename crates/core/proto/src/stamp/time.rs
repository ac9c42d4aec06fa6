//! Timestamps and error estimates as packets carry them.

use fabricmark_units::Nanos;

/// Seconds from the NTP epoch, 1900, to the Unix epoch, 1970 (RFC 5905, section 6).
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// Timestamp of a packet, in the format that [`ErrorEstimate::is_ptp`] of the estimate beside it states:
///
/// - NTP format, used in all packets sent here: seconds since 1900 in the upper 32 bits, which wrap in 2036, and
///   their fraction in the lower (RFC 5905, section 6);
/// - truncated PTP format: seconds in the upper 32 bits, nanoseconds in the lower (RFC 8186, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// A time since the Unix epoch, in NTP format.
    pub fn from_unix(Nanos(ns): Nanos) -> Self {
        let seconds = ns / 1_000_000_000 + UNIX_EPOCH_S;
        let fraction = ((ns % 1_000_000_000) << 32) / 1_000_000_000;
        Self(seconds << 32 | fraction)
    }

    /// Nanoseconds from an earlier time to this one, both in NTP format; negative if `earlier` is later. Correct
    /// for times less than 68 years apart, also across 2036.
    pub fn since_ns(self, earlier: Self) -> i64 {
        let units = self.0.wrapping_sub(earlier.0).cast_signed();
        let ns = (i128::from(units) * 1_000_000_000) >> 32;
        // Fits: less than 2^63 units of a quarter of a nanosecond.
        ns as i64
    }

    /// The same for two times in PTP format.
    pub fn ptp_since_ns(self, earlier: Self) -> i64 {
        let [(seconds, ns), (earlier_seconds, earlier_ns)] =
            [self, earlier].map(|Self(bits)| ((bits >> 32) as u32, bits as u32));
        let seconds = seconds.wrapping_sub(earlier_seconds).cast_signed();
        i64::from(seconds) * 1_000_000_000 + i64::from(ns) - i64::from(earlier_ns)
    }
}

/// Largest deviation of a clock from UTC (RFC 4656, section 4.1.2, with the Z bit of RFC 8186, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// S bit: the clock follows UTC.
    pub is_synchronised: bool,
    /// Z bit: timestamps beside it are in PTP format, 32 bits of seconds and 32 of nanoseconds, not in NTP format.
    pub is_ptp: bool,
    /// Scale, 0 to 63: the error is `multiplier * 2^scale` units of 2^-32 s.
    pub scale: u8,
    /// 0 is invalid.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The smallest estimate in NTP format that is at least this error, or the largest estimate for longer errors.
    pub fn of(is_synchronised: bool, Nanos(error_ns): Nanos) -> Self {
        let units = ((u128::from(error_ns) << 32).div_ceil(1_000_000_000)).max(1);
        let mut scale = 0;
        while units.div_ceil(1 << scale) > u128::from(u8::MAX) && scale < 63 {
            scale += 1;
        }
        let multiplier = u8::try_from(units.div_ceil(1 << scale)).unwrap_or(u8::MAX);
        Self { is_synchronised, is_ptp: false, scale, multiplier }
    }

    /// Parses 16 bits; `None` if the multiplier is 0, which means no estimate.
    pub fn parse(bits: u16) -> Option<Self> {
        let [flags, multiplier] = bits.to_be_bytes();
        (multiplier != 0).then_some(Self {
            is_synchronised: flags & 0x80 != 0,
            is_ptp: flags & 0x40 != 0,
            scale: flags & 0x3f,
            multiplier,
        })
    }

    /// Whether timestamps beside these bits are in PTP format, whether or not the estimate is valid.
    pub(super) fn is_ptp_in(bits: u16) -> bool {
        bits & 0x4000 != 0
    }

    /// Serializes to 16 bits.
    pub fn emit(self) -> u16 {
        let flags = u8::from(self.is_synchronised) << 7 | u8::from(self.is_ptp) << 6;
        u16::from_be_bytes([flags | self.scale & 0x3f, self.multiplier])
    }

    /// The error, rounded up; saturates at the longest [`Nanos`].
    pub fn error(self) -> Nanos {
        let units = u128::from(self.multiplier) << self.scale;
        let ns = units.saturating_mul(1_000_000_000).div_ceil(1 << 32);
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_epoch_of_unix_is_the_one_of_rfc_5905() {
        assert_eq!(Timestamp::from_unix(Nanos(0)), Timestamp(0x83aa_7e80_0000_0000));
        let half = Timestamp::from_unix(Nanos(500_000_000));
        assert_eq!(half, Timestamp(0x83aa_7e80_8000_0000));
        assert_eq!(half.since_ns(Timestamp::from_unix(Nanos(0))), 500_000_000);
    }

    #[test]
    fn differences_hold_across_the_new_era_of_2036() {
        let (before, after) = (Timestamp(u64::MAX - (1 << 31) + 1), Timestamp(1 << 31));
        assert_eq!(after.since_ns(before), 1_000_000_000);
        assert_eq!(before.since_ns(after), -1_000_000_000);
    }

    #[test]
    fn seconds_and_nanoseconds_of_ptp_are_told_from_fractions_of_ntp() {
        let (before, after) = (Timestamp(7 << 32 | 999_999_999), Timestamp(8 << 32 | 1));
        assert_eq!(after.ptp_since_ns(before), 2);
        assert_eq!(before.ptp_since_ns(after), -2);
        assert_eq!(Timestamp(5).ptp_since_ns(Timestamp(u64::from(u32::MAX) << 32)), 1_000_000_005);
    }

    #[test]
    fn an_estimate_of_zero_is_none() {
        assert_eq!(ErrorEstimate::parse(0x8100), None);
        let estimate = ErrorEstimate::parse(0x8101).unwrap();
        assert!(estimate.is_synchronised && !estimate.is_ptp);
        assert_eq!((estimate.scale, estimate.multiplier), (1, 1));
    }

    proptest! {
        #[test]
        fn an_estimate_is_never_below_the_error_nor_more_than_a_hundredth_above(error in 1u64..1 << 40) {
            let estimate = ErrorEstimate::of(true, Nanos(error)).error().0;
            prop_assert!(estimate >= error, "{}", estimate);
            prop_assert!(estimate <= error + error / 100 + 1, "{}", estimate);
        }

        #[test]
        fn an_estimate_survives_its_bits(bits in any::<u16>()) {
            if let Some(estimate) = ErrorEstimate::parse(bits) {
                prop_assert_eq!(estimate.emit(), bits);
            }
        }

        #[test]
        fn a_difference_is_that_of_the_times(a in 0u64..1 << 61, ns in 0u64..1 << 60) {
            let found = Timestamp::from_unix(Nanos(a + ns)).since_ns(Timestamp::from_unix(Nanos(a)));
            prop_assert!((found - ns.cast_signed()).abs() <= 1, "{}", found);
        }
    }
}
