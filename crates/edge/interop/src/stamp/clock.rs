//! Clocks of a session: CLOCK_REALTIME for timestamps, and a monotonic clock for time-outs.

use std::time::SystemTime;

use fabricmark_proto::stamp::{ErrorEstimate, Timestamp};
use fabricmark_units::{Instant, Nanos};

use super::sys;

/// Validity of a reading of the kernel's clock error.
const FRESH: Nanos = Nanos::from_secs(1);

/// Maximum growth of the error in that time: Linux adds this much per second (MAXFREQ in kernel/time/ntp.c).
const GROWTH: Nanos = Nanos(500_000);

/// Reads both clocks, and caches the kernel's clock error.
#[derive(Debug)]
pub(super) struct Clock {
    begin: std::time::Instant,
    error: ErrorEstimate,
    error_read: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        let begin = std::time::Instant::now();
        Self { begin, error: read_error(), error_read: Instant(0) }
    }

    /// Monotonic time since `new`.
    pub(super) fn now(&self) -> Instant {
        Instant(0) + Nanos::from(self.begin.elapsed())
    }

    /// Estimated error of CLOCK_REALTIME against UTC, and whether it is synchronised.
    pub(super) fn error(&mut self) -> ErrorEstimate {
        let now = self.now();
        if now - self.error_read >= FRESH {
            (self.error, self.error_read) = (read_error(), now);
        }
        self.error
    }
}

/// CLOCK_REALTIME.
pub(crate) fn time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::from_unix(since.unwrap_or_default().into())
}

fn read_error() -> ErrorEstimate {
    let state = sys::clock_state();
    ErrorEstimate::of(state.is_synchronised, state.error_max + GROWTH)
}
