//! One io_uring for one socket: requests and completions in memory shared with the kernel, and the buffers of both.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering::Release};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

/// The only group of receive buffers.
const GROUP: u16 = 0;

const SEND: u64 = 1;
const RECEIVE: u64 = 2;

/// Checks for the last completions of cancelled requests, 1 ms apart.
const LAST_LOOKS: u32 = 1000;

/// A completion.
#[derive(Debug)]
pub(super) enum Done {
    /// The oldest send in progress has completed.
    Sent {
        /// Bytes accepted, or the error.
        result: io::Result<usize>,
        /// Whether [`Done::Freed`] follows.
        holds_pages: bool,
    },
    /// The pages of a zero-copy send are free again.
    Freed,
    /// A receive buffer contains data.
    Arrived {
        /// Index of the buffer.
        place: u16,
        /// Bytes in it.
        bytes: usize,
        /// Whether the receive request stays active.
        goes_on: bool,
    },
    /// The receive request has ended without data: at the end of the stream, or with an error.
    Over(io::Result<()>),
}

/// A ring, its socket, and the memory that requests point into.
pub(super) struct Ring {
    ring: IoUring,
    socket: RawFd,
    /// The kernel sends from this.
    outgoing: Box<[u8]>,
    is_zero_copy: bool,
    incoming: Buffers,
    /// Requests and notifications whose last completion is pending.
    open: u32,
}

/// Size of a ring, and how its completions are awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Requests submitted at once.
    pub requests: usize,
    /// Completions that may wait to be read.
    pub completions: usize,
    /// Whether its descriptor is polled.
    pub is_watched: bool,
    /// Whether another thread than its creator uses it.
    pub changes_threads: bool,
}

/// Sets up a ring for one thread, which processes completions when it asks for them, as the kernel recommends for new
/// programs (io_uring_setup(2), IORING_SETUP_DEFER_TASKRUN). The descriptor of such a ring does not wake poll(2)
/// (Linux 6.18), and only its creator may use it, so other rings process completions in any system call
/// (IORING_SETUP_COOP_TASKRUN). Needs Linux 6.1.
fn set_up(size: Size) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_taskrun_flag().setup_cqsize(size.completions as u32);
    if !size.changes_threads {
        builder.setup_single_issuer();
    }
    match size.is_watched || size.changes_threads {
        true => builder.setup_coop_taskrun(),
        false => builder.setup_defer_taskrun(),
    };
    builder.build(size.requests as u32)
}

/// Names of the required operations that this kernel lacks; fails if the kernel refuses a ring.
pub(super) fn lacking(is_zero_copy: bool) -> io::Result<Vec<&'static str>> {
    let ring =
        set_up(Size { requests: 2, completions: 4, is_watched: false, changes_threads: false })?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let mut used = vec![("send", opcode::Send::CODE), ("receive", opcode::Recv::CODE)];
    if is_zero_copy {
        used.push(("zero-copy send", opcode::SendZc::CODE));
    }
    Ok(used
        .into_iter()
        .filter(|&(_, code)| !probe.is_supported(code))
        .map(|(name, _)| name)
        .collect())
}

impl Ring {
    /// A ring that sends from `outgoing` and receives into `places` buffers, a power of two, of `place_bytes` bytes
    /// each. The socket must stay open as long as the ring.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        size: Size,
        outgoing: Box<[u8]>,
        is_zero_copy: bool,
        (places, place_bytes): (u16, usize),
    ) -> io::Result<Self> {
        let ring = set_up(size)?;
        let mut incoming = Buffers::new(places, place_bytes)?;
        // SAFETY: the entries are page-aligned memory for `places` entries, which lives as long as
        // the ring does.
        unsafe {
            let at = incoming.entries.as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(at, places, GROUP, 0)?;
        }
        for place in 0..places {
            incoming.give(place);
        }
        if is_zero_copy {
            let all = libc::iovec {
                iov_base: outgoing.as_ptr().cast_mut().cast(),
                iov_len: outgoing.len(),
            };
            // SAFETY: the vector describes `outgoing`, which lives as long as the ring does.
            unsafe { ring.submitter().register_buffers(&[all])? };
        }
        let socket = socket.as_raw_fd();
        Ok(Self { ring, socket, outgoing, is_zero_copy, incoming, open: 0 })
    }

    /// The memory that is sent. The kernel may be reading it: a byte that changes during a send is sent in one of its
    /// two forms.
    pub(super) fn outgoing(&mut self) -> &mut [u8] {
        &mut self.outgoing
    }

    /// Prepares a send of this part of `outgoing`. A linked one delays the next send until it has completed, and
    /// cancels it if it is short. Returns false if the ring is full.
    pub(super) fn send(&mut self, part: Range<usize>, is_linked: bool) -> bool {
        let bytes = &self.outgoing[part];
        let (at, length) = (bytes.as_ptr(), bytes.len() as u32);
        // Without MSG_WAITALL a short send would not break the chain, and the next payload would
        // follow half of this one.
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = if self.is_zero_copy {
            let send = opcode::SendZc::new(Fd(self.socket), at, length).flags(flags);
            send.buf_index(Some(0)).build()
        } else {
            opcode::Send::new(Fd(self.socket), at, length).flags(flags).build()
        };
        let link = if is_linked { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
        self.push(&entry.flags(link).user_data(SEND))
    }

    /// Prepares a receive that fills one buffer after the other. Returns false if the ring is full.
    pub(super) fn receive(&mut self) -> bool {
        let entry = opcode::RecvMulti::new(Fd(self.socket), GROUP).build();
        self.push(&entry.user_data(RECEIVE))
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the entry points into `outgoing` or names the group of `incoming`; neither moves, and
        // both outlive the request, since `drop` waits for its end. The socket outlives the ring.
        let is_pushed = unsafe { self.ring.submission().push(entry).is_ok() };
        self.open += u32::from(is_pushed);
        is_pushed
    }

    /// Submits requests and waits for `wanted` completions, for at most `within`. If `wanted` is 0, enters the kernel
    /// only if something is due.
    pub(super) fn enter(&mut self, wanted: usize, within: Duration) -> io::Result<()> {
        let result = if wanted == 0 {
            let submission = self.ring.submission();
            if submission.is_empty() && !submission.taskrun() && !submission.cq_overflow() {
                return Ok(());
            }
            drop(submission); // publishes the pushed entries
            self.ring.submit()
        } else {
            let within = Timespec::from(within);
            self.ring.submitter().submit_with_args(wanted, &SubmitArgs::new().timespec(&within))
        };
        match result {
            Err(error)
                if !matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Readable while completions wait, if the ring is polled.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    pub(super) fn next(&mut self) -> Option<Done> {
        let entry = self.ring.completion().next()?;
        let (flags, goes_on) = (entry.flags(), cqueue::more(entry.flags()));
        if !goes_on {
            self.open -= 1;
        }
        if cqueue::notif(flags) {
            return Some(Done::Freed);
        }
        let result = usize::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        if entry.user_data() == SEND {
            return Some(Done::Sent { result, holds_pages: goes_on });
        }
        match (result, cqueue::buffer_select(flags)) {
            (Ok(bytes), Some(place)) if bytes > 0 => Some(Done::Arrived { place, bytes, goes_on }),
            (result, place) => {
                if let Some(place) = place {
                    self.incoming.give(place);
                }
                Some(Done::Over(result.map(|_| ())))
            }
        }
    }

    /// The first bytes of a receive buffer that was not given back yet.
    pub(super) fn arrived(&self, place: u16, bytes: usize) -> &[u8] {
        self.incoming.read(place, bytes)
    }

    /// Lets the kernel fill a receive buffer again.
    pub(super) fn give_back(&mut self, place: u16) {
        self.incoming.give(place);
    }

    /// Cancels all requests; their completions report how far they came.
    pub(super) fn cancel(&self) -> io::Result<()> {
        match self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Requests that were not submitted never start.
        self.open = self.open.saturating_sub(self.ring.submission().len() as u32);
        let _ = self.cancel();
        for _ in 0..LAST_LOOKS {
            while self.next().is_some() {}
            if self.open == 0 {
                return;
            }
            let _ = self.enter(1, Duration::from_millis(1));
        }
        // The kernel may still use this memory.
        mem::forget(mem::take(&mut self.outgoing));
        self.incoming.is_lost = true;
    }
}

/// Receive buffers, and the ring that provides them to the kernel (io_uring_register(2), IORING_REGISTER_PBUF_RING).
struct Buffers {
    /// Page-aligned, one per buffer.
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    /// Layouts of both.
    layouts: (Layout, Layout),
    places: u16,
    place_bytes: usize,
    /// Number of buffers provided so far, modulo 2^16.
    given: u16,
    /// Whether the kernel may still write after the ring is dropped.
    is_lost: bool,
}

// SAFETY: the memory belongs to this value alone, and neither it nor the kernel depends on the thread.
unsafe impl Send for Buffers {}

/// io_uring_register(2) requires page alignment.
const PAGE: usize = 4096;

impl Buffers {
    fn new(places: u16, place_bytes: usize) -> io::Result<Self> {
        assert!(places.is_power_of_two() && place_bytes > 0, "the kernel wants a power of two");
        let layout = |each: usize| {
            let bytes = usize::from(places).checked_mul(each);
            let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, PAGE).ok());
            layout.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
        };
        let layouts = (layout(size_of::<BufRingEntry>())?, layout(place_bytes)?);
        // SAFETY: neither layout is empty.
        let (entries, memory) = unsafe { (allocate(layouts.0).cast(), allocate(layouts.1)) };
        Ok(Self { entries, memory, layouts, places, place_bytes, given: 0, is_lost: false })
    }

    fn at(&self, place: u16) -> *mut u8 {
        assert!(place < self.places, "no such buffer");
        // SAFETY: the place is within the memory.
        unsafe { self.memory.as_ptr().add(usize::from(place) * self.place_bytes) }
    }

    fn read(&self, place: u16, bytes: usize) -> &[u8] {
        let at = self.at(place);
        // SAFETY: the buffer has `place_bytes` initialised bytes, and the kernel does not write into it until it is
        // given back, which borrows `self` again.
        unsafe { slice::from_raw_parts(at, bytes.min(self.place_bytes)) }
    }

    fn give(&mut self, place: u16) {
        let at = self.at(place);
        let index = usize::from(self.given & (self.places - 1));
        self.given = self.given.wrapping_add(1);
        // SAFETY: the index is within the entries; the kernel reads an entry after it has seen the
        // tail behind it, which lies in the part of the first entry that no setter touches.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(index);
            entry.set_addr(at as u64);
            entry.set_len(self.place_bytes as u32);
            entry.set_bid(place);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.given, Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.is_lost {
            return;
        }
        // SAFETY: both were allocated with these layouts, and no request is left that uses them.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), self.layouts.0);
            dealloc(self.memory.as_ptr(), self.layouts.1);
        }
    }
}

/// Allocates zeroed memory.
///
/// # Safety
/// The layout must not be empty.
unsafe fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: as the caller promises.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}
