//! io_uring: requests and completions pass through memory shared with the kernel, several a call
//! (io_uring(7)).
//!
//! Sends of one flow form a chain, so that each begins when the one before is over, and a second chain
//! begins when the first is over: bytes keep their order, and what a short send leaves is sent first.
//! A chain of zero-copy sends has one link, and pages of many are in use at once.
//! One receive request fills buffer after buffer as bytes arrive (multishot, with a ring of provided
//! buffers). Plain sends take their payload from ordinary memory: the kernel has registered buffers for
//! zero-copy sends only (io_uring_enter(2), IORING_RECVSEND_FIXED_BUF).

pub mod bytes;
pub mod datagrams;
#[expect(unsafe_code, reason = "rings and buffers shared with the kernel")]
mod sys;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use fabricmark_plan::{Path, Point, Wait};
use fabricmark_proto::Failure;
use socket2::SockRef;

use crate::clock::now_ns;
use crate::control::Control;
use crate::transport::Moved;
use sys::{Done, Ring, UNFREED_MAX};

/// Sends of a chain: as many as [`mmsg`](super::mmsg) has datagrams a call.
const SENDS: usize = 64;

/// Bytes of a chain beyond which more payloads would only need more cache.
const CHAIN_BYTES: usize = 1 << 20;

/// Bytes of all receive buffers together: what arrives in 3 ms at 10 Gbit/s. What finds none free
/// stays in the socket.
const RECEIVE_BYTES: usize = 4 << 20;

/// Most receive buffers.
const PLACES_MAX: usize = 256;

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
    spins: bool,
    /// Most sends of a chain.
    chain_max: usize,
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
        let slots = (CHAIN_BYTES / send_bytes).clamp(1, SENDS);
        let places = (RECEIVE_BYTES / receive_bytes).clamp(8, PLACES_MAX).next_power_of_two();
        let ring = Ring::new(
            socket,
            (slots + 1) as u32,
            vec![0x5a; slots * send_bytes].into_boxed_slice(),
            point.path == Path::UringZeroCopy,
            (places as u16, receive_bytes),
        );
        Ok(Self {
            ring: ring.map_err(|error| missing(&error))?,
            out: Outgoing { slots, slot_bytes: send_bytes, ..Outgoing::default() },
            arrived: VecDeque::with_capacity(places),
            receives: false,
            is_over: false,
            failed: None,
            spins: point.wait == Wait::Spin,
            // A cancelled link of a chain gives its pages back without saying that it will (Linux
            // 6.18: a notification without IORING_CQE_F_MORE before it), so that none is built.
            chain_max: if point.path == Path::UringZeroCopy { 1 } else { slots },
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

    /// Sends everything that is filled, or as much as the socket takes within
    /// [`Control::LOOK_EVERY`]. Nothing is under way afterwards but pages of zero-copy sends.
    fn send_all(&mut self) -> io::Result<Moved> {
        let until_ns = now_ns() + Control::LOOK_EVERY.as_nanos() as u64;
        let before = self.out.total;
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
        if self.out.unfreed > UNFREED_MAX {
            self.turn(1)?;
        }
        let Moved { payloads, bytes } = self.out.total;
        match (bytes - before.bytes, self.failed.take()) {
            (0, Some(error)) => Err(error),
            (0, None) => Err(io::ErrorKind::WouldBlock.into()),
            (bytes, failed) => {
                self.failed = failed;
                Ok(Moved { payloads: payloads - before.payloads, bytes })
            }
        }
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
        if self.arrived.is_empty() && !self.is_over {
            self.begin_chain();
            self.receives = self.receives || self.ring.receive();
            // A single send is over at once as a rule, and is not what is waited for.
            self.turn(if self.out.under_way == 1 { 2 } else { 1 })?;
        }
        if !self.arrived.is_empty() || self.is_over {
            return Ok(());
        }
        Err(self.failed.take().unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
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
