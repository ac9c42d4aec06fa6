//! io_uring: requests and completions pass through memory shared with the kernel, several a call
//! (io_uring(7)).
//!
//! Sends of one flow form a chain, so that each begins when the one before is over, and a second chain
//! begins when the first is over: bytes keep their order, and what a short send leaves is sent first.
//! A chain of zero-copy sends has one link, and pages of many are in use at once.
//! One receive request fills buffer after buffer as bytes arrive (multishot, with a ring of provided
//! buffers). Plain sends take their payload from ordinary memory: the kernel has registered buffers for
//! zero-copy sends only (io_uring_enter(2), IORING_RECVSEND_FIXED_BUF).
//!
//! Where many flows share a thread, each has a small ring, whose descriptor says that completions wait,
//! and no call waits for them.

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

/// Sends of a chain: as many as [`mmsg`](super::mmsg) has datagrams a call.
const SENDS: usize = 64;

/// Bytes of a chain beyond which more payloads would only need more cache.
const CHAIN_BYTES: usize = 1 << 20;

/// Bytes of all receive buffers together: what arrives in 3 ms at 10 Gbit/s. What finds none free
/// stays in the socket.
const RECEIVE_BYTES: usize = 4 << 20;

/// Least receive buffers.
const PLACES_MIN: usize = 8;

/// Most receive buffers.
const PLACES_MAX: usize = 256;

/// Zero-copy sends whose pages may still be in use before the next ones have to wait, of all flows.
const UNFREED_MAX: usize = 1024;

/// Sends of a chain, and receive buffers, of one flow among many, whose ring is to be small.
const SHARED_SENDS: usize = 16;

/// Looks for the last pages of zero-copy sends, [`Control::LOOK_EVERY`] apart: 5 s in all.
const PAGE_LOOKS: u32 = 1000;

/// Whether this host has what a path of io_uring needs.
pub(crate) fn check(path: Path) -> Result<(), Failure> {
    let lacking = sys::lacking(path == Path::UringZeroCopy).map_err(|error| missing(&error))?;
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Failure::Missing(format!(
        "io_uring of this kernel has no {}: use Linux 6.1 or later, or path copy",
        lacking.join(", no ")
    )))
}

/// What an error of setting a ring up means.
fn missing(error: &io::Error) -> Failure {
    Failure::Missing(match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            format!("this kernel has no io_uring ({error}): use Linux 6.1 or later, or path copy")
        }
        Some(libc::EPERM | libc::EACCES) => format!(
            "io_uring is forbidden here ({error}): run `sysctl kernel.io_uring_disabled=0`, allow it in \
             the container's seccomp profile, or use path copy"
        ),
        Some(libc::EINVAL) => format!(
            "io_uring of this kernel is too old ({error}): use Linux 6.1 or later, or path copy"
        ),
        Some(libc::ENOMEM) => format!(
            "io_uring may lock too little memory ({error}): raise `ulimit -l`, or use a smaller payload"
        ),
        _ => format!("io_uring cannot be set up here ({error}): use path copy"),
    })
}

/// Payloads on their way out, in the slots of a circle.
#[derive(Debug, Default)]
struct Outgoing {
    slots: usize,
    slot_bytes: usize,
    /// The slot that is sent next, or under way.
    first: usize,
    /// Slots that are filled and not sent in full.
    filled: usize,
    /// Bytes of the first slot that are sent.
    sent: usize,
    /// Sends of the chain whose result is not known.
    under_way: usize,
    /// Zero-copy sends whose pages are in use.
    unfreed: usize,
    /// Payloads and bytes sent in all.
    total: Moved,
    /// Those of them that were told of.
    told: Moved,
}

impl Outgoing {
    /// The unsent part of the slot so many places behind the first.
    fn part(&self, place: usize) -> Range<usize> {
        let begins = (self.first + place) % self.slots * self.slot_bytes;
        let sent = if place == 0 { self.sent } else { 0 };
        begins + sent..begins + self.slot_bytes
    }

    /// Notes the result of the oldest send under way.
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

    /// What was sent since this was last asked.
    fn news(&mut self) -> Moved {
        let told = mem::replace(&mut self.told, self.total);
        Moved {
            payloads: self.total.payloads - told.payloads,
            bytes: self.total.bytes - told.bytes,
        }
    }
}

/// A receive buffer with what arrived in it.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    place: u16,
    bytes: usize,
}

/// One socket's traffic through a ring.
struct Channel {
    ring: Ring,
    out: Outgoing,
    arrived: VecDeque<Arrival>,
    /// Whether the receive request is under way.
    receives: bool,
    /// Whether the stream's end has been seen.
    is_over: bool,
    /// An error to be told once everything before it is.
    failed: Option<io::Error>,
    /// Whether the stream's end has been told.
    is_end_told: bool,
    /// Whether calls never wait for a completion.
    spins: bool,
    /// Whether the ring's descriptor is waited for instead.
    is_watched: bool,
    /// A time that is past.
    began: Instant,
    /// Most sends of a chain.
    chain_max: usize,
    /// Most zero-copy sends whose pages are in use.
    unfreed_max: usize,
}

impl Channel {
    /// Sends payloads of `send_bytes` bytes each, and receives at most `receive_bytes` at once.
    fn new(
        socket: BorrowedFd<'_>,
        point: &Point,
        send_bytes: usize,
        receive_bytes: usize,
    ) -> Result<Self, Failure> {
        // A request to a socket that does not block fails where it would otherwise wait.
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
                // More than all requests and buffers can cause together, with the notifications.
                completions: 2 * (slots + 1 + places + unfreed_max),
                is_watched: point.wait == Wait::Epoll,
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
            // A cancelled link of a chain gives its pages back without saying that it will (Linux
            // 6.18: a notification without IORING_CQE_F_MORE before it), so that none is built.
            chain_max: if is_zero_copy { 1 } else { slots },
            unfreed_max,
        })
    }

    /// The next free slot; nothing when all are filled. [`Channel::fill`] makes it part of what is sent.
    fn slot(&mut self) -> Option<&mut [u8]> {
        let Outgoing { slots, slot_bytes, first, filled, .. } = self.out;
        let begins = (first + filled) % slots * slot_bytes;
        (filled < slots).then(|| &mut self.ring.outgoing()[begins..][..slot_bytes])
    }

    fn fill(&mut self) {
        self.out.filled += 1;
    }

    /// Begins a chain of whatever is filled, unless one is under way.
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

    /// Enters the kernel once, and notes what it has finished.
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
                // Begun anew: what was cancelled, and a receive that found every buffer in use.
                Err(error) if !is_passing(&error) => drop(self.failed.get_or_insert(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes what has been sent meanwhile, where no call waits for it.
    fn catch_up(&mut self) -> io::Result<()> {
        if self.is_watched { self.turn(0) } else { Ok(()) }
    }

    /// Sends what is filled: all of it where calls wait, else the next chain, whose end the descriptor
    /// tells. Says what has been sent.
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

    /// Sends everything that is filled, or as much as the socket takes within
    /// [`Control::LOOK_EVERY`]. Nothing is under way afterwards but pages of zero-copy sends.
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

    /// Ends what is under way early, and says what of it was sent.
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

    /// Puts a message behind those that wait to be sent, with the next turn; makes a turn for it where
    /// there is no room.
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

    /// Waits for something to arrive, while what is filled is sent: one call for a request and its
    /// response. After success, nothing in `arrived` means the end of the stream.
    fn await_arrival(&mut self) -> io::Result<()> {
        while self.arrived.is_empty() && !self.is_over {
            self.begin_chain();
            self.receives = self.receives || self.ring.receive();
            // A single send is over at once as a rule, and is not what is waited for.
            self.turn(if self.out.under_way == 1 { 2 } else { 1 })?;
            // The descriptor tells of what is under way alone.
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

    /// Bytes that have left the socket and nobody has taken.
    fn waiting_bytes(&mut self) -> io::Result<u64> {
        self.turn(0)?;
        Ok(self.arrived.iter().map(|arrival| arrival.bytes as u64).sum())
    }

    /// Receives on, so that the descriptor tells of what arrives next.
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

    /// The past where something is to be taken of which the descriptor does not tell.
    fn due(&self) -> Option<Instant> {
        let has_end = self.is_over && !self.is_end_told;
        (has_end || !self.arrived.is_empty() || self.failed.is_some()).then_some(self.began)
    }

    /// Waits until no page of a zero-copy send is in use; a peer that is gone may keep some.
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

/// Whether a request that failed so is simply made again.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECANCELED | libc::ENOBUFS | libc::EINTR | libc::EAGAIN)
    )
}
