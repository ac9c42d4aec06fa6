//! The clocks of the data plane.
//!
//! [`now_ns`] reads CLOCK_MONOTONIC through the vDSO, 21 ns a reading on the machine of
//! `docs/notebook/measured.md`, and is the clock of every hot loop. A [`Clock`] is a choice for whoever has to
//! tell fractions of a microsecond apart: the processor's time-stamp counter takes 15 ns there, in
//! order with other instructions, and has to be calibrated. [`Clock::describe`] measures both.

#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the instruction that reads the processor's counter")
)]
mod sys;
mod tsc;

use std::hint::black_box;
use std::sync::LazyLock;

use fabricmark_record::ClockFacts;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

pub use tsc::{NoTsc, Tsc};

/// The first reading in this process.
static START_NS: LazyLock<u64> = LazyLock::new(monotonic_ns);

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of this process so far, of all its threads, in user and in kernel mode.
pub fn process_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Nanoseconds since the first reading in this process.
pub fn now_ns() -> u64 {
    // The start is read first, so that the present is never before it.
    let start_ns = *START_NS;
    monotonic_ns() - start_ns
}

/// Sleeps until `now_ns` reaches a time, or a signal arrives. How much later the thread wakes up is
/// up to its timer slack and to the scheduler (clock_nanosleep(2)).
pub fn sleep_until(at_ns: u64) {
    let at_ns = at_ns.saturating_add(*START_NS);
    let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let at = Timespec { tv_sec: seconds as i64, tv_nsec: ns as i64 };
    // EINTR is the only error of a valid time on this clock.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

/// A clock to choose. Both count nanoseconds since the first reading in this process.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC, everywhere.
    Monotonic,
    /// The time-stamp counter of an x86-64 processor.
    Tsc(Tsc),
}

impl Clock {
    /// The time now; never before an earlier reading of the same thread.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic => now_ns(),
            Self::Tsc(tsc) => tsc.now_ns(),
        }
    }

    /// Name, uncertainty, and what a reading costs, which is measured here in less than a
    /// millisecond.
    pub fn describe(&self) -> ClockFacts {
        let (name, uncertainty_ppm) = match self {
            Self::Monotonic => ("CLOCK_MONOTONIC", None),
            Self::Tsc(tsc) => ("TSC", Some(tsc.uncertainty_ppm())),
        };
        ClockFacts { name: name.to_owned(), read_cost_ns: self.read_cost_ns(), uncertainty_ppm }
    }

    /// The median of batches: a batch in which the thread lost its processor does not count.
    fn read_cost_ns(&self) -> f64 {
        const BATCHES: usize = 31;
        const READINGS: u64 = 500;
        let mut batches = [0; BATCHES];
        for batch in &mut batches {
            let began = now_ns();
            for _ in 0..READINGS {
                black_box(self.now_ns());
            }
            *batch = now_ns() - began;
        }
        batches.sort_unstable();
        batches[BATCHES / 2] as f64 / READINGS as f64
    }
}

/// The clock of the hot loops and of the pacer, measured once in a process.
pub fn facts() -> ClockFacts {
    static FACTS: LazyLock<ClockFacts> = LazyLock::new(|| Clock::Monotonic.describe());
    FACTS.clone()
}

/// How far CLOCK_REALTIME, by which the kernel stamps packets, is ahead of this clock. Good until
/// somebody sets the machine's time; a time service that only slews it moves both clocks alike.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeOffset {
    offset_ns: i64,
    /// How wrong it may be: half the time between the two readings of this clock around the one of
    /// CLOCK_REALTIME.
    pub uncertainty_ns: u64,
}

impl RealtimeOffset {
    /// Reads it, as the closest of some readings: one in which the thread lost its processor is far
    /// off.
    pub fn read() -> Self {
        const READINGS: usize = 8;
        let mut best = Self::read_once();
        for _ in 1..READINGS {
            let another = Self::read_once();
            if another.uncertainty_ns < best.uncertainty_ns {
                best = another;
            }
        }
        best
    }

    fn read_once() -> Self {
        let before_ns = now_ns();
        let realtime = clock_gettime(ClockId::Realtime);
        let bracket_ns = now_ns() - before_ns;
        let middle_ns = before_ns + bracket_ns / 2;
        let realtime_ns = realtime.tv_sec * 1_000_000_000 + realtime.tv_nsec;
        Self { offset_ns: realtime_ns - middle_ns as i64, uncertainty_ns: bracket_ns.div_ceil(2) }
    }

    /// A stamp of CLOCK_REALTIME on this clock; 0 for one from before its first reading.
    pub fn to_monotonic_ns(&self, realtime_ns: u64) -> u64 {
        (realtime_ns as i64).saturating_sub(self.offset_ns).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_does_not_end_early_and_a_past_one_ends_at_once() {
        let until = now_ns() + 1_000_000;
        sleep_until(0);
        while now_ns() < until {
            sleep_until(until);
        }
        assert!(now_ns() >= until);
    }

    #[test]
    fn a_reading_of_the_machines_time_falls_between_those_of_this_clock_around_it() {
        let offset = RealtimeOffset::read();
        let before_ns = now_ns();
        let realtime = clock_gettime(ClockId::Realtime);
        let after_ns = now_ns();
        let ns = offset
            .to_monotonic_ns(realtime.tv_sec as u64 * 1_000_000_000 + realtime.tv_nsec as u64);
        assert!(before_ns <= ns + offset.uncertainty_ns, "{before_ns} {ns} {offset:?}");
        assert!(ns <= after_ns + offset.uncertainty_ns, "{ns} {after_ns} {offset:?}");
    }

    #[test]
    fn a_stamp_from_before_the_clock_began_is_0() {
        assert_eq!(RealtimeOffset::read().to_monotonic_ns(1), 0);
    }
}
