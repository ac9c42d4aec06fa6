//! What may end a test beside its traffic: time, a client that is gone, an order to stop. And how fast it
//! may send.

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

/// Time for the first connection or datagram of a test. netperf's `-s` waits before them.
const OPENS_WITHIN: Duration = Duration::from_secs(30);

/// Why a test has no result.
pub(super) enum Failure {
    /// There is nobody to tell, or the server stops.
    Over,
    /// The client gets this error's number.
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// The bounds of a test under way.
pub(super) struct Watch<'a> {
    control: &'a TcpStream,
    stop: &'a AtomicBool,
    pace: &'a mut Pace,
    ends: Instant,
    next_look: Instant,
    /// The first event, and the last one.
    events: Option<(Instant, Instant)>,
}

impl<'a> Watch<'a> {
    pub fn new(control: &'a TcpStream, stop: &'a AtomicBool, pace: &'a mut Pace) -> Self {
        let now = Instant::now();
        Self { control, stop, pace, ends: now + OPENS_WITHIN, next_look: now, events: None }
    }

    /// Takes note that the test's first connection or datagram is there.
    pub fn begin(&mut self, within: Nanos) {
        let now = Instant::now();
        self.ends = now + Duration::from(within);
        self.events = Some((now, now));
    }

    /// Time from the first event to the last; nothing where the test has not begun.
    pub fn elapsed(&self) -> Option<Duration> {
        self.events.map(|(first, last)| last - first)
    }

    /// Whether the time is up; `is_event` says that bytes have moved. Fails when nobody waits for the
    /// result.
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

    /// Waits until so many bytes may be sent; whether the time is up instead.
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

/// Whether the other end has said that it sends no more, or is gone; bytes that wait do not matter.
pub(super) fn has_ended(socket: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    // HUP and ERR are always told (poll(2)).
    wait(&mut polled, Duration::ZERO).is_ok() && !polled[0].revents().is_empty()
}

/// How fast a client may have bytes sent to it.
pub(super) struct Pace {
    rate: BitRate,
    due: Instant,
}

impl Pace {
    /// Time that may be caught up: of a wait that took too long.
    const CATCH_UP: Duration = Duration::from_millis(10);

    pub fn of(rate: BitRate) -> Self {
        Self { rate, due: Instant::now() }
    }

    fn spend(&mut self, bytes: usize) {
        let cost_ns = bytes as u128 * 8_000_000_000 / u128::from(self.rate.0.max(1));
        // A month is for ever, and cannot overflow.
        let cost = Duration::from_nanos(u64::try_from(cost_ns).unwrap_or(u64::MAX))
            .min(Duration::from_secs(30 * 86_400));
        let earliest = Instant::now().checked_sub(Self::CATCH_UP).unwrap_or(self.due);
        self.due = self.due.max(earliest) + cost;
    }
}
