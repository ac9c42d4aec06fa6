//! io_uring: requests and completions pass through memory shared with the kernel, several per system call
//! (io_uring(7)).
//!
//! The sends of a flow form a chain: each starts when the previous one has completed, and the next chain starts when
//! all of this one have. So bytes keep their order, and the rest of a short send is sent first. A chain of zero-copy
//! sends has one link, but the pages of many are in use at once. One receive request fills buffer after buffer as
//! bytes arrive (multishot, with a ring of provided buffers). Plain sends read ordinary memory: the kernel supports
//! registered buffers for zero-copy sends only (io_uring_enter(2), IORING_RECVSEND_FIXED_BUF).
//!
//! If many flows share a thread, each has a small ring whose descriptor is polled, and no call waits for completions.

pub mod bytes;
pub mod datagrams;
#[expect(unsafe_code, reason = "rings and buffers shared with the kernel")]
mod sys;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fabricmark_plan::{Path, Point, Wait};
use fabricmark_proto::Failure;
use socket2::SockRef;

use crate::control::Control;
use crate::transport::Moved;
use fabricmark_telemetry::clock::now_ns;
use sys::{Done, Ring, Size};

/// Sends per chain: as many as [`mmsg`](super::mmsg) has datagrams per call.
const SENDS: usize = 64;

/// Most bytes per chain, over all flows: more payloads would only need more cache.
const CHAIN_BYTES: usize = 1 << 20;

/// Size of all receive buffers together: what arrives in 3 ms at 10 Gbit/s. Data that finds none free stays in the
/// socket.
const RECEIVE_BYTES: usize = 4 << 20;

/// Fewest receive buffers.
const PLACES_MIN: usize = 8;

/// Most receive buffers.
const PLACES_MAX: usize = 256;

/// Zero-copy sends, of all flows, whose pages may still be in use before the next ones must wait.
const UNFREED_MAX: usize = 1024;

/// Most sends per chain, and receive buffers, of one flow among many, whose ring must be small.
const SHARED_SENDS: usize = 16;

/// Checks for the last pages of zero-copy sends, [`Control::LOOK_EVERY`] apart: 5 s in total.
const PAGE_LOOKS: u32 = 1000;

/// Fails if this host lacks what an io_uring path needs.
pub(crate) fn check(path: Path) -> Result<(), Failure> {
    let lacking = sys::lacking(path == Path::UringZeroCopy).map_err(|error| missing(&error))?;
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Failure::Missing(format!(
        "io_uring of this kernel has no {}: use Linux 6.1 or later, or path=copy",
        lacking.join(", no ")
    )))
}

/// Describes why a ring cannot be set up, with a remedy.
fn missing(error: &io::Error) -> Failure {
    Failure::Missing(match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            format!("this kernel has no io_uring ({error}): use Linux 6.1 or later, or path=copy")
        }
        Some(libc::EPERM | libc::EACCES) => format!(
            "io_uring is not permitted ({error}): run `sysctl kernel.io_uring_disabled=0`, allow \
             it in the container's seccomp profile, or use path=copy"
        ),
        Some(libc::EINVAL) => format!(
            "io_uring of this kernel is too old ({error}): use Linux 6.1 or later, or path=copy"
        ),
        Some(libc::ENOMEM) => format!(
            "io_uring cannot lock enough memory ({error}): raise `ulimit -l`, or use a smaller \
             payload"
        ),
        _ => format!("io_uring cannot be set up ({error}): use path=copy"),
    })
}

/// Payloads to send, in a circular buffer of slots.
#[derive(Debug, Default)]
struct Outgoing {
    slots: usize,
    slot_bytes: usize,
    /// The slot that is sent next, or in progress.
    first: usize,
    /// Slots that are filled and not completely sent.
    filled: usize,
    /// Bytes of the first slot that are sent.
    sent: usize,
    /// Sends of the chain that have not completed.
    under_way: usize,
    /// Zero-copy sends whose pages are in use.
    unfreed: usize,
    /// Payloads and bytes sent in total.
    total: Moved,
    /// The part of `total` that was reported.
    told: Moved,
}

impl Outgoing {
    /// The unsent part of the slot `place` slots behind the first.
    fn part(&self, place: usize) -> Range<usize> {
        let begins = (self.first + place) % self.slots * self.slot_bytes;
        let sent = if place == 0 { self.sent } else { 0 };
        begins + sent..begins + self.slot_bytes
    }

    /// Records the result of the oldest send in progress.
    fn note(&mut self, bytes: usize) {
        self.total.bytes += bytes as u64;
        self.sent += bytes;
        if self.sent >= self.slot_bytes {
            self.total.payloads += 1;
            self.sent = 0;
            self.first = (self.first + 1) % self.slots;
            self.filled -= 1;
        }
    }

    /// What was sent since the last call.
    fn news(&mut self) -> Moved {
        let told = mem::replace(&mut self.told, self.total);
        Moved {
            payloads: self.total.payloads - told.payloads,
            bytes: self.total.bytes - told.bytes,
        }
    }
}

/// A receive buffer with data.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    place: u16,
    bytes: usize,
}

/// Traffic of one socket through a ring.
struct Channel {
    ring: Ring,
    out: Outgoing,
    arrived: VecDeque<Arrival>,
    /// Whether a receive request is active.
    receives: bool,
    /// Whether the end of the stream was seen.
    is_over: bool,
    /// An error to report after everything before it.
    failed: Option<io::Error>,
    /// Whether the end of the stream was reported.
    is_end_told: bool,
    /// Whether calls never wait for a completion.
    spins: bool,
    /// Whether the descriptor of the ring is polled instead.
    is_watched: bool,
    /// A time in the past.
    began: Instant,
    /// Most sends per chain.
    chain_max: usize,
    /// Most zero-copy sends whose pages may be in use.
    unfreed_max: usize,
}

impl Channel {
    /// Sends payloads of `send_bytes` bytes, and receives at most `receive_bytes` at once.
    fn new(
        socket: BorrowedFd<'_>,
        point: &Point,
        send_bytes: usize,
        receive_bytes: usize,
    ) -> Result<Self, Failure> {
        // On a non-blocking socket, a request fails instead of waiting.
        let blocks = SockRef::from(&socket).set_nonblocking(false);
        blocks.map_err(|error| missing(&error))?;
        let is_zero_copy = point.path == Path::UringZeroCopy;
        let flows = point.flows as usize;
        let (slots_max, places_max) =
            if flows > 1 { (SHARED_SENDS, SHARED_SENDS) } else { (SENDS, PLACES_MAX) };
        let slots = (CHAIN_BYTES / flows / send_bytes).clamp(1, slots_max);
        let places = (RECEIVE_BYTES / flows / receive_bytes).clamp(PLACES_MIN, places_max);
        let places = places.next_power_of_two();
        let unfreed_max = if is_zero_copy { UNFREED_MAX.div_ceil(flows) } else { 0 };
        let ring = Ring::new(
            socket,
            Size {
                requests: slots + 1,
                // More than all requests, buffers and notifications can produce together.
                completions: 2 * (slots + 1 + places + unfreed_max),
                is_watched: point.wait == Wait::Epoll,
                changes_threads: point.load_threads() > 1,
            },
            vec![0x5a; slots * send_bytes].into_boxed_slice(),
            is_zero_copy,
            (places as u16, receive_bytes),
        );
        Ok(Self {
            ring: ring.map_err(|error| missing(&error))?,
            out: Outgoing { slots, slot_bytes: send_bytes, ..Outgoing::default() },
            arrived: VecDeque::with_capacity(places),
            receives: false,
            is_over: false,
            is_end_told: false,
            failed: None,
            spins: matches!(point.wait, Wait::Spin | Wait::Epoll),
            is_watched: point.wait == Wait::Epoll,
            began: Instant::now(),
            // No chain of zero-copy sends: a cancelled link releases its pages by a notification without
            // IORING_CQE_F_MORE before it (Linux 6.18).
            chain_max: if is_zero_copy { 1 } else { slots },
            unfreed_max,
        })
    }

    /// The next free slot; `None` if all are filled. [`Channel::fill`] adds it to what is sent.
    fn slot(&mut self) -> Option<&mut [u8]> {
        let Outgoing { slots, slot_bytes, first, filled, .. } = self.out;
        let begins = (first + filled) % slots * slot_bytes;
        (filled < slots).then(|| &mut self.ring.outgoing()[begins..][..slot_bytes])
    }

    fn fill(&mut self) {
        self.out.filled += 1;
    }

    /// Starts a chain of all filled slots, unless one is in progress.
    fn begin_chain(&mut self) {
        if self.out.under_way > 0 {
            return;
        }
        let count = self.out.filled.min(self.chain_max);
        for place in 0..count {
            if !self.ring.send(self.out.part(place), place + 1 < count) {
                break;
            }
            self.out.under_way += 1;
        }
    }

    /// Enters the kernel once, and handles its completions.
    fn turn(&mut self, wanted: usize) -> io::Result<()> {
        self.ring.enter(if self.spins { 0 } else { wanted }, Control::LOOK_EVERY)?;
        while let Some(done) = self.ring.next() {
            let result = match done {
                Done::Sent { result, holds_pages } => {
                    self.out.under_way -= 1;
                    self.out.unfreed += usize::from(holds_pages);
                    result.map(|bytes| self.out.note(bytes))
                }
                Done::Freed => {
                    self.out.unfreed -= 1;
                    Ok(())
                }
                Done::Arrived { place, bytes, goes_on } => {
                    self.arrived.push_back(Arrival { place, bytes });
                    self.receives = goes_on;
                    Ok(())
                }
                Done::Over(result) => {
                    self.receives = false;
                    self.is_over |= result.is_ok();
                    result
                }
            };
            match result {
                // Cancelled requests are repeated, and so is a receive that found all buffers in use.
                Err(error) if !is_passing(&error) => drop(self.failed.get_or_insert(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles completions that no call waits for.
    fn catch_up(&mut self) -> io::Result<()> {
        if self.is_watched { self.turn(0) } else { Ok(()) }
    }

    /// Sends the filled slots: all of them if calls wait, otherwise the next chain, whose end the descriptor signals.
    /// Returns what was sent.
    fn send(&mut self) -> io::Result<Moved> {
        if !self.is_watched {
            self.send_all()?;
        } else if self.failed.is_none() && self.out.unfreed <= self.unfreed_max {
            self.begin_chain();
            self.ring.enter(0, Duration::ZERO)?;
        }
        match self.out.news() {
            moved if moved.bytes > 0 => Ok(moved),
            _ => Err(self.failed.take().unwrap_or_else(|| io::ErrorKind::WouldBlock.into())),
        }
    }

    /// Sends all filled slots, or as much as the socket accepts within [`Control::LOOK_EVERY`]. Afterwards nothing is
    /// in progress except pages of zero-copy sends.
    fn send_all(&mut self) -> io::Result<()> {
        let until_ns = now_ns() + Control::LOOK_EVERY.as_nanos() as u64;
        let mut is_cancelled = false;
        loop {
            if !is_cancelled && self.failed.is_none() {
                self.begin_chain();
            }
            if self.out.under_way == 0 {
                break;
            }
            self.turn(self.out.under_way)?;
            if !is_cancelled && now_ns() >= until_ns {
                self.ring.cancel()?;
                is_cancelled = true;
            }
        }
        if self.out.unfreed > self.unfreed_max {
            self.turn(1)?;
        }
        Ok(())
    }

    /// Cancels the sends in progress; returns what was sent of them.
    fn settle(&mut self) -> io::Result<Moved> {
        self.spins = false;
        if self.out.under_way > 0 {
            self.ring.cancel()?;
        }
        while self.out.under_way > 0 {
            self.turn(1)?;
        }
        Ok(self.out.news())
    }

    /// Queues a message, which the next turn sends; makes a turn first if no slot is free.
    fn queue(&mut self, message: &[u8]) -> io::Result<()> {
        if self.out.filled == self.out.slots {
            self.begin_chain();
            self.turn(1)?;
        }
        match self.slot() {
            Some(slot) => slot.copy_from_slice(message),
            None => return Err(io::ErrorKind::WouldBlock.into()),
        }
        self.fill();
        Ok(())
    }

    /// Waits for data while the filled slots are sent: one call for a request and its response. After success, an
    /// empty `arrived` means the end of the stream.
    fn await_arrival(&mut self) -> io::Result<()> {
        while self.arrived.is_empty() && !self.is_over {
            self.begin_chain();
            self.receives = self.receives || self.ring.receive();
            // A single send usually completes at once, and is not what this waits for.
            self.turn(if self.out.under_way == 1 { 2 } else { 1 })?;
            // The descriptor signals only requests in progress.
            let is_told = self.receives && (self.out.under_way > 0 || self.out.filled == 0);
            if !self.is_watched || is_told || self.failed.is_some() {
                break;
            }
        }
        if !self.arrived.is_empty() || self.is_over {
            return Ok(());
        }
        Err(self.failed.take().unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
    }

    /// Bytes that have left the socket and were not taken yet.
    fn waiting_bytes(&mut self) -> io::Result<u64> {
        self.turn(0)?;
        Ok(self.arrived.iter().map(|arrival| arrival.bytes as u64).sum())
    }

    /// Keeps a receive request active, so that the descriptor signals what arrives next.
    fn receive_on(&mut self) -> io::Result<()> {
        if self.is_watched && !self.receives && !self.is_over {
            self.receives = self.ring.receive();
            self.ring.enter(0, Duration::ZERO)?;
        }
        Ok(())
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_watched.then(|| self.ring.fd())
    }

    /// A time in the past if there is something to take that the descriptor does not signal.
    fn due(&self) -> Option<Instant> {
        let has_end = self.is_over && !self.is_end_told;
        (has_end || !self.arrived.is_empty() || self.failed.is_some()).then_some(self.began)
    }

    /// Waits until no pages of zero-copy sends are in use; if the peer is gone, some may stay in use.
    fn end(&mut self) -> io::Result<()> {
        self.spins = false;
        for _ in 0..PAGE_LOOKS {
            if self.out.unfreed == 0 {
                break;
            }
            self.turn(1)?;
        }
        Ok(())
    }
}

/// Whether a request that failed with this error is repeated.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECANCELED | libc::ENOBUFS | libc::EINTR | libc::EAGAIN)
    )
}
