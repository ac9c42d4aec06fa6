//! The clocks of both ends: one that tells the time, and one that is never set.

use std::time::SystemTime;

use fabricmark_proto::stamp::{ErrorEstimate, Timestamp};
use fabricmark_units::{Instant, Nanos};

use super::sys;

/// For how long a reading of the kernel's error is good.
const FRESH: Nanos = Nanos::from_secs(1);

/// By how much the error may have grown meanwhile: Linux adds so much a second (MAXFREQ in
/// kernel/time/ntp.c).
const GROWTH: Nanos = Nanos(500_000);

/// Reads the time.
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

    /// Time since the clock was made.
    pub(super) fn now(&self) -> Instant {
        Instant(0) + Nanos::from(self.begin.elapsed())
    }

    /// CLOCK_REALTIME.
    pub(super) fn time() -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp::from_unix(since.unwrap_or_default().into())
    }

    /// How far CLOCK_REALTIME may be from UTC, and whether it follows UTC at all.
    pub(super) fn error(&mut self) -> ErrorEstimate {
        let now = self.now();
        if now - self.error_read >= FRESH {
            (self.error, self.error_read) = (read_error(), now);
        }
        self.error
    }
}

fn read_error() -> ErrorEstimate {
    let state = sys::clock_state();
    ErrorEstimate::of(state.is_synchronised, state.error_max + GROWTH)
}
