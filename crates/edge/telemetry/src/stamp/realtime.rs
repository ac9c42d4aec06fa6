//! The clock of the kernel's packet timestamps against that of a run.

use rustix::time::{ClockId, clock_gettime};

use crate::clock::now_ns;

/// Readings of both clocks, of which the closest counts.
const READINGS: usize = 8;

/// How far CLOCK_REALTIME, the clock of kernel timestamps, is ahead of our clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealtimeOffset {
    offset_ns: i64,
    /// Largest error: half the time between the two readings of our clock around the one of CLOCK_REALTIME.
    pub(crate) uncertainty_ns: u64,
}

impl RealtimeOffset {
    /// The closest of several readings: one in which the thread was preempted is far off.
    pub(crate) fn read() -> Self {
        let readings = std::iter::repeat_with(Self::read_once).take(READINGS);
        let closest = |one: Self, other: Self| {
            if one.uncertainty_ns <= other.uncertainty_ns { one } else { other }
        };
        readings.fold(Self::read_once(), closest)
    }

    fn read_once() -> Self {
        let before_ns = now_ns();
        let realtime = clock_gettime(ClockId::Realtime);
        let bracket_ns = now_ns() - before_ns;
        let middle_ns = before_ns + bracket_ns / 2;
        let realtime_ns = realtime.tv_sec * 1_000_000_000 + realtime.tv_nsec;
        let offset_ns = realtime_ns - middle_ns as i64;
        Self { offset_ns, uncertainty_ns: bracket_ns.div_ceil(2) }
    }

    /// Time from a timestamp of CLOCK_REALTIME to a reading of our clock; `None` if it is negative.
    pub(crate) fn since(self, realtime_ns: u64, now_ns: u64) -> Option<u64> {
        now_ns.checked_sub(self.to_monotonic_ns(realtime_ns))
    }

    /// A reading of our clock on CLOCK_REALTIME.
    #[cfg(test)]
    pub(crate) fn to_realtime_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_add_signed(self.offset_ns)
    }

    /// A timestamp of CLOCK_REALTIME on our clock.
    pub(crate) fn to_monotonic_ns(self, realtime_ns: u64) -> u64 {
        (realtime_ns as i64).saturating_sub(self.offset_ns).max(0) as u64
    }
}
