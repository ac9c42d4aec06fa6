//! The time-stamp counter as a clock, calibrated against CLOCK_MONOTONIC.

use std::fs;
use std::thread;
use std::time::Duration;

use super::{now_ns, sys};

/// Clock sources that the kernel would use, in a line. It lists the counter (`tsc`) unless it has found
/// it unsteady or out of step between processors (mark_tsc_unstable, arch/x86/kernel/tsc.c), and does
/// so beside a hypervisor's own clock (`kvm-clock`), too.
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The time between the two points of a calibration.
const SPAN: Duration = Duration::from_millis(20);

/// A calibrated time-stamp counter.
///
/// Its rate is CLOCK_MONOTONIC's during the calibration. The kernel may change that clock's rate by
/// up to 500 ppm later (adjtimex(2)), so the two part slowly; use the counter for intervals.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    origin_ticks: u64,
    origin_ns: u64,
    /// In units of 2^-32 ns: finer than a millionth of a ppm at 1 GHz.
    ns_per_tick: u64,
    uncertainty_ppm: f64,
    offset_uncertainty_ns: u64,
}

/// Why the time-stamp counter is no clock here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTsc {
    /// The processor has none, or one that changes its rate.
    #[error("this processor has no invariant time-stamp counter")]
    NotInvariant,
    /// The kernel does not trust it.
    #[error("the kernel does not count the time-stamp counter among its clock sources ({0})")]
    NotTrusted(String),
    /// It did not advance like a clock between two readings.
    #[error("the time-stamp counter does not advance like a clock")]
    Unsteady,
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    /// The counter just before and just after the other clock was read.
    ticks: [u64; 2],
    ns: u64,
}

impl Reading {
    /// The narrowest of some brackets: the one in which least came in between.
    fn take() -> Self {
        const TRIES: usize = 64;
        let one = || {
            let before = sys::ticks();
            let ns = now_ns();
            Self { ticks: [before, sys::ticks()], ns }
        };
        (1..TRIES).map(|_| one()).fold(
            one(),
            |best, next| {
                if next.width() < best.width() { next } else { best }
            },
        )
    }

    fn width(&self) -> u64 {
        self.ticks[1].saturating_sub(self.ticks[0])
    }

    fn middle(&self) -> u64 {
        self.ticks[0] + self.width() / 2
    }
}

impl Tsc {
    /// Compares the counter with CLOCK_MONOTONIC at two points 20 ms apart, which it waits for.
    pub fn calibrate() -> Result<Self, NoTsc> {
        if !sys::has_invariant_counter() {
            return Err(NoTsc::NotInvariant);
        }
        check_sources(&fs::read_to_string(CLOCK_SOURCES).unwrap_or_default())?;
        let first = Reading::take();
        thread::sleep(SPAN);
        Self::from_points(first, Reading::take()).ok_or(NoTsc::Unsteady)
    }

    /// The clock on which both points lie. Each point is uncertain by half its bracket and by the
    /// nanosecond to which the other clock is rounded.
    fn from_points(first: Reading, second: Reading) -> Option<Self> {
        let ticks = second.middle().checked_sub(first.middle()).filter(|ticks| *ticks > 0)?;
        let ns = second.ns.checked_sub(first.ns).filter(|ns| *ns > 0)?;
        let ns_per_tick = u64::try_from((u128::from(ns) << 32) / u128::from(ticks)).ok()?;
        let halves = (first.width() + second.width()) as f64 / 2.0;
        let offset_ns = to_ns(second.width().div_ceil(2), ns_per_tick) + 2;
        Some(Self {
            origin_ticks: second.middle(),
            origin_ns: second.ns,
            ns_per_tick,
            uncertainty_ppm: 1e6 * (halves / ticks as f64 + 1.0 / ns as f64),
            offset_uncertainty_ns: offset_ns,
        })
    }

    /// Nanoseconds since the first reading in this process.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.at(sys::ticks())
    }

    #[inline]
    fn at(&self, ticks: u64) -> u64 {
        // Another processor's counter may be some ticks behind the one of the calibration.
        self.origin_ns + to_ns(ticks.saturating_sub(self.origin_ticks), self.ns_per_tick)
    }

    /// How far the rate may be from CLOCK_MONOTONIC's during the calibration, in parts per million.
    pub fn uncertainty_ppm(&self) -> f64 {
        self.uncertainty_ppm
    }

    /// How far the two clocks may have been apart at the end of the calibration, in nanoseconds.
    pub fn offset_uncertainty_ns(&self) -> u64 {
        self.offset_uncertainty_ns
    }
}

#[inline]
fn to_ns(ticks: u64, ns_per_tick: u64) -> u64 {
    ((u128::from(ticks) * u128::from(ns_per_tick)) >> 32) as u64
}

fn check_sources(sources: &str) -> Result<(), NoTsc> {
    if sources.split_whitespace().any(|source| source == "tsc") {
        return Ok(());
    }
    let known = sources.trim();
    let known = if known.is_empty() { "none known" } else { known };
    Err(NoTsc::NotTrusted(known.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(before: u64, after: u64, ns: u64) -> Reading {
        Reading { ticks: [before, after], ns }
    }

    #[test]
    fn the_counter_of_a_2_ghz_processor_counts_half_nanoseconds() {
        // 40 million ticks in 20 ms; brackets of 100 ticks = 50 ns.
        let (first, second) =
            (reading(950, 1_050, 7_000), reading(40_000_950, 40_001_050, 20_007_000));
        let tsc = Tsc::from_points(first, second).unwrap();
        assert_eq!(tsc.at(40_001_000), 20_007_000);
        assert_eq!(tsc.at(40_001_000 + 2_000_000_000), 1_020_007_000);
        // Half of 50 ns twice, and 1 ns, in 20 ms.
        assert!((tsc.uncertainty_ppm() - 2.55).abs() < 1e-9, "{}", tsc.uncertainty_ppm());
        assert_eq!(tsc.offset_uncertainty_ns(), 27);
    }

    #[test]
    fn a_counter_that_stands_still_is_no_clock() {
        let first = reading(10, 20, 1_000);
        assert!(Tsc::from_points(first, reading(10, 20, 20_000_000)).is_none());
        assert!(Tsc::from_points(first, reading(5, 6, 20_000_000)).is_none());
        assert!(Tsc::from_points(first, reading(100, 110, 1_000)).is_none());
    }

    #[test]
    fn a_reading_from_before_the_calibration_is_no_time_before_it() {
        let tsc = Tsc::from_points(reading(0, 0, 0), reading(2_000, 2_000, 1_000)).unwrap();
        assert_eq!(tsc.at(1_999), 1_000);
    }

    #[test]
    fn a_counter_is_taken_where_the_kernel_would_take_it() {
        assert_eq!(check_sources("tsc kvm-clock acpi_pm \n"), Ok(()));
        assert_eq!(check_sources("kvm-clock tsc\n"), Ok(()));
        let message = |sources| check_sources(sources).unwrap_err().to_string();
        assert_eq!(
            message("hpet acpi_pm \n"),
            "the kernel does not count the time-stamp counter among its clock sources (hpet acpi_pm)"
        );
        assert_eq!(
            message(""),
            "the kernel does not count the time-stamp counter among its clock sources (none known)"
        );
        assert!(check_sources("tsc-early").is_err());
    }
}
