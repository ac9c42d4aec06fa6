//! What ends a test apart from its traffic: time, a client that has gone, a stop of the server. Also the rate limit
//! of a client.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_units::{BitRate, Nanos};
use rustix::event::{PollFd, PollFlags};

use super::LOOK_EVERY;
use crate::socket::wait;

/// Time-out for the first connection or datagram of a test: netperf's `-s` waits before it.
const OPENS_WITHIN: Duration = Duration::from_secs(30);

/// Why a test has no result.
pub(super) enum Failure {
    /// The client has gone, or the server is stopping.
    Over,
    /// An error whose number is sent to the client.
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Limits of a test in progress.
pub(super) struct Watch<'a> {
    control: &'a TcpStream,
    stop: &'a AtomicBool,
    pace: &'a mut Pace,
    ends: Instant,
    next_look: Instant,
    /// First and last event; `None` before the test begins.
    events: Option<(Instant, Instant)>,
}

impl<'a> Watch<'a> {
    pub fn new(control: &'a TcpStream, stop: &'a AtomicBool, pace: &'a mut Pace) -> Self {
        let now = Instant::now();
        Self { control, stop, pace, ends: now + OPENS_WITHIN, next_look: now, events: None }
    }

    /// Called at the first connection or datagram of the test.
    pub fn begin(&mut self, within: Nanos) {
        let now = Instant::now();
        self.ends = now + Duration::from(within);
        self.events = Some((now, now));
    }

    /// Time from the first event to the last; `None` before the test begins.
    pub fn elapsed(&self) -> Option<Duration> {
        self.events.map(|(first, last)| last - first)
    }

    /// Whether the time is up. `is_event` means that bytes have just moved. Fails if no one waits for the result.
    pub fn is_over(&mut self, is_event: bool) -> Result<bool, Failure> {
        let now = Instant::now();
        if let Some((_, last)) = self.events.as_mut().filter(|_| is_event) {
            *last = now;
        }
        if now >= self.next_look {
            if self.stop.load(Relaxed) || has_ended(self.control) {
                return Err(Failure::Over);
            }
            self.next_look = now + LOOK_EVERY;
        }
        Ok(now >= self.ends)
    }

    /// Waits until `bytes` may be sent; returns true if the time is up instead.
    pub fn wait_to_send(&mut self, bytes: usize) -> Result<bool, Failure> {
        loop {
            let ahead = self.pace.due.saturating_duration_since(Instant::now());
            if ahead.is_zero() {
                self.pace.spend(bytes);
                return Ok(false);
            }
            thread::sleep(ahead.min(LOOK_EVERY));
            if self.is_over(false)? {
                return Ok(true);
            }
        }
    }
}

/// Whether the peer has closed its sending direction or has gone, even if data is still unread.
pub(super) fn has_ended(socket: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    // HUP and ERR are always reported (poll(2)).
    wait(&mut polled, Duration::ZERO).is_ok() && !polled[0].revents().is_empty()
}

/// Rate limit of a client's received data.
pub(super) struct Pace {
    rate: BitRate,
    due: Instant,
}

impl Pace {
    /// Lateness that may be caught up, for sleeps that took too long.
    const CATCH_UP: Duration = Duration::from_millis(10);

    pub fn of(rate: BitRate) -> Self {
        Self { rate, due: Instant::now() }
    }

    fn spend(&mut self, bytes: usize) {
        let cost_ns = bytes as u128 * 8_000_000_000 / u128::from(self.rate.0.max(1));
        // At most 30 days, which cannot overflow.
        let cost = Duration::from_nanos(u64::try_from(cost_ns).unwrap_or(u64::MAX))
            .min(Duration::from_secs(30 * 86_400));
        let earliest = Instant::now().checked_sub(Self::CATCH_UP).unwrap_or(self.due);
        self.due = self.due.max(earliest) + cost;
    }
}
