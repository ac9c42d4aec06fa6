//! MPI by the C layer in `mpi.c`: the only calls of foreign functions. Lengths are checked here.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;

use fabricmark_plan::{Collective, Datatype};

/// Room for a text of MPI; longer ones are cut.
const TEXT_MAX: usize = 1024;

unsafe extern "C" {
    fn fm_init(rank: *mut c_int, ranks: *mut c_int) -> c_int;
    fn fm_finalize() -> c_int;
    fn fm_abort(code: c_int);
    fn fm_library(text: *mut c_char, room: c_int, major: *mut c_int, minor: *mut c_int) -> c_int;
    fn fm_error(error: c_int, text: *mut c_char, room: c_int);
    fn fm_group(ranks: c_int) -> c_int;
    fn fm_send(data: *const c_void, count: c_int, kind: c_int, to: c_int) -> c_int;
    fn fm_receive(data: *mut c_void, count: c_int, kind: c_int, from: c_int) -> c_int;
    fn fm_sendrecv(
        sent: *const c_void,
        received: *mut c_void,
        count: c_int,
        kind: c_int,
        to: c_int,
        from: c_int,
    ) -> c_int;
    fn fm_ping_ping(
        sent: *const c_void,
        received: *mut c_void,
        count: c_int,
        kind: c_int,
        peer: c_int,
    ) -> c_int;
    fn fm_exchange(
        sent: *const c_void,
        received_left: *mut c_void,
        received_right: *mut c_void,
        count: c_int,
        kind: c_int,
        left: c_int,
        right: c_int,
    ) -> c_int;
    fn fm_burst(
        sent: *const c_void,
        received: *mut c_void,
        count: c_int,
        kind: c_int,
        peer: c_int,
        messages: c_int,
        sends: c_int,
        receives: c_int,
    ) -> c_int;
    fn fm_collective(
        operation: c_int,
        sent: *const c_void,
        received: *mut c_void,
        count: c_int,
        kind: c_int,
        root: c_int,
        in_place: c_int,
        is_group: c_int,
    ) -> c_int;
    fn fm_start(
        operation: c_int,
        sent: *const c_void,
        received: *mut c_void,
        count: c_int,
        kind: c_int,
        root: c_int,
        in_place: c_int,
    ) -> c_int;
    fn fm_wait() -> c_int;
    fn fm_window_open(bytes: i64, memory: *mut *mut c_void) -> c_int;
    fn fm_window_close() -> c_int;
    fn fm_window_sync() -> c_int;
    fn fm_put(data: *const c_void, count: c_int, kind: c_int, to: c_int) -> c_int;
    fn fm_get(data: *mut c_void, count: c_int, kind: c_int, from: c_int) -> c_int;
    fn fm_accumulate(data: *const c_void, count: c_int, kind: c_int, to: c_int) -> c_int;
}

/// A call of MPI that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {problem}")]
pub struct MpiError {
    /// Function of MPI.
    pub call: &'static str,
    /// Why it failed.
    pub problem: Problem,
}

/// Why a call of MPI failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The library returned an error, with this text.
    #[error("{0}")]
    Library(String),
    /// A buffer is too short for the operation; both in bytes.
    #[error("a buffer of {has} bytes is shorter than the {needs} bytes of the operation")]
    Short {
        /// Bytes that the operation needs.
        needs: usize,
        /// Bytes of the buffer.
        has: usize,
    },
    /// A payload of so many bytes has more elements than MPI counts.
    #[error("{0} bytes have more elements than MPI counts; use a smaller payload")]
    Long(usize),
    /// A second window, or an operation while a non-blocking one is pending.
    #[error("another one is open")]
    Open,
    /// A rank outside of the group.
    #[error("no rank {rank} in a group of {ranks}")]
    NoRank {
        /// Number of the rank.
        rank: u32,
        /// Ranks of the group.
        ranks: u32,
    },
}

/// The type of the elements of a payload, and whether they are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Type of an element.
    pub datatype: Datatype,
    /// Whether elements are added: MPI_BYTE cannot be, MPI_UINT8_T can.
    pub are_added: bool,
}

impl Elements {
    /// Bytes, which are not added.
    pub const BYTES: Self = Self { datatype: Datatype::Byte, are_added: false };

    /// Number of elements in so many bytes: by a shift, since a division takes longer than the rest of a call.
    #[inline]
    const fn in_bytes(self, bytes: usize) -> usize {
        bytes >> self.datatype.bytes().trailing_zeros()
    }

    /// The number of the type in `mpi.c`.
    const fn number(self) -> c_int {
        match (self.datatype, self.are_added) {
            (Datatype::Byte, false) => 0,
            (Datatype::Byte, true) => 1,
            (Datatype::Int, _) => 2,
            (Datatype::Float, _) => 3,
            (Datatype::Double, _) => 4,
        }
    }
}

/// The number of a collective operation in `mpi.c`.
const fn number(collective: Collective) -> c_int {
    match collective {
        Collective::Barrier => 0,
        Collective::Bcast => 1,
        Collective::Reduce => 2,
        Collective::Allreduce => 3,
        Collective::ReduceScatter => 4,
        Collective::ReduceScatterBlock => 5,
        Collective::Gather => 6,
        Collective::Gatherv => 7,
        Collective::Scatter => 8,
        Collective::Scatterv => 9,
        Collective::Allgather => 10,
        Collective::Allgatherv => 11,
        Collective::Alltoall => 12,
        Collective::Alltoallv => 13,
    }
}

/// Whether C passes counts and displacements of all ranks.
const fn is_vector(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Gatherv | Collective::Scatterv | Collective::Allgatherv | Collective::Alltoallv
    )
}

/// A collective operation and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which operation.
    pub collective: Collective,
    /// Bytes of a payload.
    pub payload: usize,
    /// Type of its elements.
    pub elements: Elements,
    /// The root, if the operation has one.
    pub root: u32,
    /// Whether MPI_IN_PLACE replaces the send buffer (at the root of a scatter: the receive buffer).
    pub in_place: bool,
}

impl Call {
    /// Bytes of send and receive buffer at each of `ranks` ranks, whatever its role: operations that send to or receive
    /// from all ranks have a payload for each.
    pub const fn room(collective: Collective, payload: usize, ranks: usize) -> [usize; 2] {
        match collective {
            Collective::Barrier => [0, 0],
            Collective::Bcast | Collective::Reduce | Collective::Allreduce => [payload, payload],
            Collective::Gather
            | Collective::Gatherv
            | Collective::Allgather
            | Collective::Allgatherv => [payload, payload * ranks],
            Collective::Scatter | Collective::Scatterv => [payload * ranks, payload],
            Collective::ReduceScatter
            | Collective::ReduceScatterBlock
            | Collective::Alltoall
            | Collective::Alltoallv => [payload * ranks, payload * ranks],
        }
    }
}

/// A collective operation whose parameters were checked.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    operation: c_int,
    count: c_int,
    kind: c_int,
    root: c_int,
    in_place: c_int,
    /// Bytes of send and receive buffer.
    room: [usize; 2],
    /// Ranks for which it was checked.
    ranks: u32,
    /// Whether it is of the group, or of all ranks of the job.
    is_group: bool,
}

impl Ready {
    /// The same operation with another root, by its number modulo the number of ranks.
    #[inline]
    #[must_use]
    pub fn with_root(self, root: u32) -> Self {
        Self { root: (root % self.ranks) as c_int, ..self }
    }

    #[inline]
    fn check(&self, sent: &[u8], received: &[u8], ranks: u32) -> Result<()> {
        if self.ranks != ranks {
            return Err(MpiError {
                call: COLLECTIVE,
                problem: Problem::NoRank { rank: self.ranks, ranks },
            });
        }
        let [send_room, receive_room] = self.room;
        room(COLLECTIVE, sent.len(), send_room)?;
        room(COLLECTIVE, received.len(), receive_room)
    }
}

/// Name of collective operations in errors.
const COLLECTIVE: &str = "collective operation";

/// Result of a call.
type Result<T> = std::result::Result<T, MpiError>;

/// The world of ranks, and the group of those that run a benchmark. Only one exists, in the thread that initialised
/// MPI.
#[derive(Debug)]
pub struct World {
    rank: u32,
    ranks: u32,
    group: Cell<u32>,
    window: Cell<usize>,
    is_pending: Cell<bool>,
    /// Not `Send`: MPI is initialised for processes with one thread.
    thread: PhantomData<*const ()>,
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(call, code)) }
}

#[cold]
fn error(call: &'static str, code: c_int) -> MpiError {
    let mut text = [0_u8; TEXT_MAX];
    // SAFETY: the C layer writes at most as many bytes as it is told, the last of which is 0.
    unsafe { fm_error(code, text.as_mut_ptr().cast(), TEXT_MAX as c_int) };
    MpiError { call, problem: Problem::Library(until_zero(&text)) }
}

fn until_zero(text: &[u8]) -> String {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}

#[inline]
fn room(call: &'static str, has: usize, needs: usize) -> Result<()> {
    if has >= needs {
        Ok(())
    } else {
        Err(MpiError { call, problem: Problem::Short { needs, has } })
    }
}

/// Number of elements in a payload.
#[inline]
fn count(call: &'static str, bytes: usize, elements: Elements) -> Result<c_int> {
    c_int::try_from(elements.in_bytes(bytes))
        .map_err(|_| MpiError { call, problem: Problem::Long(bytes) })
}

impl World {
    /// Initialises MPI (MPI_Init). To be called once per process, which has no other threads.
    pub fn init() -> Result<Self> {
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: both addresses are of local variables.
        check("MPI_Init", unsafe { fm_init(&raw mut rank, &raw mut ranks) })?;
        let [rank, ranks] = [rank, ranks].map(c_int::unsigned_abs);
        let (group, window, is_pending) = (Cell::new(0), Cell::new(0), Cell::new(false));
        Ok(Self { rank, ranks, group, window, is_pending, thread: PhantomData })
    }

    /// Ends MPI; all ranks call it.
    pub fn finalize(self) -> Result<()> {
        // SAFETY: the world was initialised, and is consumed.
        check("MPI_Finalize", unsafe { fm_finalize() })
    }

    /// Ends all ranks of the job with this exit code (MPI_Abort).
    pub fn abort(&self, code: u8) {
        // SAFETY: MPI is initialised.
        unsafe { fm_abort(c_int::from(code)) };
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Number of ranks of the group, which are the first of the job; 0 before [`Self::set_group`].
    pub fn group(&self) -> u32 {
        self.group.get()
    }

    /// Whether this rank is one of the group.
    pub fn is_in_group(&self) -> bool {
        self.rank < self.group.get()
    }

    /// First line of the library's version, and the version of the MPI standard.
    pub fn library(&self) -> Result<(String, String)> {
        let (mut major, mut minor) = (0, 0);
        let mut text = [0_u8; TEXT_MAX];
        // SAFETY: the C layer writes at most as many bytes as it is told; the other addresses are of local variables.
        let code = unsafe {
            let room = TEXT_MAX as c_int;
            fm_library(text.as_mut_ptr().cast(), room, &raw mut major, &raw mut minor)
        };
        check("MPI_Get_library_version", code)?;
        let text = until_zero(&text);
        let line = text.lines().next().unwrap_or_default().trim();
        // MPICH: `MPICH Version:	4.0.2`; Open MPI: `Open MPI v4.1.4, package: ...`.
        let name = line.split(", package").next().unwrap_or(line);
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok((name.replace(" Version:", ""), format!("{major}.{minor}")))
    }

    /// Makes the first `ranks` ranks of the job the group. All ranks of the job call it.
    pub fn set_group(&self, ranks: u32) -> Result<()> {
        let call = "MPI_Comm_split";
        if ranks == 0 || ranks > self.ranks {
            return Err(MpiError {
                call,
                problem: Problem::NoRank { rank: ranks, ranks: self.ranks },
            });
        }
        if self.is_pending.get() {
            return Err(MpiError { call, problem: Problem::Open });
        }
        // SAFETY: MPI is initialised; no operation is pending.
        check(call, unsafe { fm_group(ranks as c_int) })?;
        self.group.set(ranks);
        Ok(())
    }

    /// A rank of the group, for C, if this rank is in the group.
    #[inline]
    fn peer(&self, call: &'static str, rank: u32) -> Result<c_int> {
        let ranks = self.group.get();
        if rank < ranks && self.rank < ranks {
            Ok(rank as c_int)
        } else {
            Err(MpiError { call, problem: Problem::NoRank { rank, ranks } })
        }
    }

    /// Sends a payload to a rank of the group (MPI_Send).
    #[inline]
    pub fn send(&self, data: &[u8], elements: Elements, to: u32) -> Result<()> {
        let call = "MPI_Send";
        let (count, to) = (count(call, data.len(), elements)?, self.peer(call, to)?);
        // SAFETY: `count` elements fit into the slice, which is borrowed until the call returns.
        check(call, unsafe { fm_send(data.as_ptr().cast(), count, elements.number(), to) })
    }

    /// Receives a payload of the length of `data` from a rank of the group (MPI_Recv).
    #[inline]
    pub fn receive(&self, data: &mut [u8], elements: Elements, from: u32) -> Result<()> {
        let call = "MPI_Recv";
        let (count, from) = (count(call, data.len(), elements)?, self.peer(call, from)?);
        // SAFETY: `count` elements fit into the slice; MPI reports longer messages as an error.
        check(call, unsafe { fm_receive(data.as_mut_ptr().cast(), count, elements.number(), from) })
    }

    /// Sends to one rank and receives from another at once (MPI_Sendrecv).
    #[inline]
    pub fn sendrecv(
        &self,
        (sent, to): (&[u8], u32),
        (received, from): (&mut [u8], u32),
        elements: Elements,
    ) -> Result<()> {
        let call = "MPI_Sendrecv";
        room(call, received.len(), sent.len())?;
        let count = count(call, sent.len(), elements)?;
        let (to, from) = (self.peer(call, to)?, self.peer(call, from)?);
        let (s, r) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
        // SAFETY: `count` elements fit into both slices, which do not overlap.
        check(call, unsafe { fm_sendrecv(s, r, count, elements.number(), to, from) })
    }

    /// Sends to a rank and receives from it (MPI_Isend, MPI_Recv, MPI_Wait).
    #[inline]
    pub fn ping_ping(
        &self,
        sent: &[u8],
        received: &mut [u8],
        elements: Elements,
        peer: u32,
    ) -> Result<()> {
        let call = "MPI_Isend";
        room(call, received.len(), sent.len())?;
        let (count, peer) = (count(call, sent.len(), elements)?, self.peer(call, peer)?);
        let (s, r) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
        // SAFETY: `count` elements fit into both slices; the C layer waits for the request before it returns, or ends the job.
        check(call, unsafe { fm_ping_ping(s, r, count, elements.number(), peer) })
    }

    /// Sends to both neighbours, and receives from the left into the first part of `received` and from the right into
    /// its second part (MPI_Isend, MPI_Recv, MPI_Waitall).
    #[inline]
    pub fn exchange(
        &self,
        sent: &[u8],
        received: &mut [u8],
        elements: Elements,
        [left, right]: [u32; 2],
    ) -> Result<()> {
        let call = "MPI_Isend";
        room(call, received.len(), 2 * sent.len())?;
        let count = count(call, sent.len(), elements)?;
        let (left, right) = (self.peer(call, left)?, self.peer(call, right)?);
        let (from_left, from_right) = received.split_at_mut(sent.len());
        // SAFETY: `count` elements fit into each slice; none overlap; the C layer waits for both requests, or ends the
        // job.
        check(call, unsafe {
            let (l, r) = (from_left.as_mut_ptr().cast(), from_right.as_mut_ptr().cast());
            fm_exchange(sent.as_ptr().cast(), l, r, count, elements.number(), left, right)
        })
    }

    /// Sends `messages` payloads to a rank, or receives them, or both at once (MPI_Isend, MPI_Irecv, MPI_Waitall).
    #[inline]
    pub fn burst(
        &self,
        sent: Option<&[u8]>,
        received: Option<&mut [u8]>,
        elements: Elements,
        peer: u32,
        messages: u16,
    ) -> Result<()> {
        let call = "MPI_Waitall";
        let (sends, receives) = (c_int::from(sent.is_some()), c_int::from(received.is_some()));
        let lengths = [sent.map(<[u8]>::len), received.as_ref().map(|received| received.len())];
        // Both directions have the same length.
        let bytes = lengths.into_iter().flatten().min().unwrap_or(0);
        let (count, peer) = (count(call, bytes, elements)?, self.peer(call, peer)?);
        let sent = sent.map_or(std::ptr::null(), |sent| sent.as_ptr().cast());
        let received =
            received.map_or(std::ptr::null_mut(), |received| received.as_mut_ptr().cast());
        let messages = c_int::from(messages);
        // SAFETY: `count` elements fit into each slice that is used; messages are received into the same bytes, which
        // nothing reads meanwhile; the C layer waits for all requests, or ends the job.
        check(call, unsafe {
            fm_burst(sent, received, count, elements.number(), peer, messages, sends, receives)
        })
    }

    /// Checks the parameters of a collective operation of the group.
    pub fn ready(&self, call: &Call) -> Result<Ready> {
        self.checked(call, self.group.get(), true)
    }

    fn checked(&self, call: &Call, ranks: u32, is_group: bool) -> Result<Ready> {
        if call.root >= ranks || self.rank >= ranks {
            return Err(MpiError {
                call: COLLECTIVE,
                problem: Problem::NoRank { rank: call.root, ranks },
            });
        }
        // Displacements of the vector variants are numbers of elements, too.
        let all = call.payload.saturating_mul(ranks as usize);
        if is_vector(call.collective) {
            count(COLLECTIVE, all, call.elements)?;
        }
        Ok(Ready {
            operation: number(call.collective),
            count: count(COLLECTIVE, call.payload, call.elements)?,
            kind: call.elements.number(),
            root: call.root as c_int,
            in_place: c_int::from(call.in_place),
            room: Call::room(call.collective, call.payload, ranks as usize),
            ranks,
            is_group,
        })
    }

    /// A collective operation.
    #[inline]
    pub fn collective(&self, ready: &Ready, sent: &[u8], received: &mut [u8]) -> Result<()> {
        let ranks = if ready.is_group { self.group.get() } else { self.ranks };
        ready.check(sent, received, ranks)?;
        let (s, r) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
        let &Ready { operation, count, kind, root, in_place, is_group, .. } = ready;
        // SAFETY: both slices have the room that `Call::room` gives for the ranks of the communicator, and do not
        // overlap; the call returns when MPI no longer uses them.
        check(COLLECTIVE, unsafe {
            fm_collective(operation, s, r, count, kind, root, in_place, c_int::from(is_group))
        })
    }

    /// A collective operation of all ranks of the job.
    pub fn of_all(&self, call: &Call, sent: &[u8], received: &mut [u8]) -> Result<()> {
        self.collective(&self.checked(call, self.ranks, false)?, sent, received)
    }

    /// Starts a collective operation of the group, does `work`, and waits for the operation.
    #[inline]
    pub fn during(
        &self,
        ready: &Ready,
        sent: &[u8],
        received: &mut [u8],
        work: impl FnOnce(),
    ) -> Result<()> {
        const NAME: &str = "non-blocking operation";
        ready.check(sent, received, self.group.get())?;
        if self.is_pending.get() {
            return Err(MpiError { call: NAME, problem: Problem::Open });
        }
        let (s, r) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
        let &Ready { operation, count, kind, root, in_place, .. } = ready;
        // SAFETY: as in `collective`; the slices are borrowed until `Pending` has waited, even if `work` panics. There is no
        // other pending operation.
        let code = unsafe { fm_start(operation, s, r, count, kind, root, in_place) };
        check(NAME, code)?;
        self.is_pending.set(true);
        let pending = Pending;
        work();
        std::mem::forget(pending);
        self.is_pending.set(false);
        // SAFETY: an operation was started.
        check("MPI_Wait", unsafe { fm_wait() })
    }

    /// Opens memory of `bytes` bytes at each rank of the group for one-sided operations (MPI_Win_create,
    /// MPI_Win_lock_all).
    pub fn window(&self, bytes: usize) -> Result<Window<'_>> {
        let call = "MPI_Win_create";
        self.peer(call, 0)?;
        if self.window.get() > 0 {
            return Err(MpiError { call, problem: Problem::Open });
        }
        let mut memory = std::ptr::null_mut();
        let length = bytes.max(1);
        // SAFETY: the C layer allocates as many bytes as asked for; there is no other window.
        check(call, unsafe { fm_window_open(length as i64, &raw mut memory) })?;
        self.window.set(length);
        Ok(Window { world: self, memory: memory.cast(), length })
    }
}

/// A started operation; its drop waits for it.
struct Pending;

impl Drop for Pending {
    fn drop(&mut self) {
        // SAFETY: it is only created after an operation was started, and forgotten before another wait.
        let _ = unsafe { fm_wait() };
    }
}

/// Memory at each rank of the group that the other ranks read and write.
#[derive(Debug)]
pub struct Window<'a> {
    world: &'a World,
    memory: *mut u8,
    length: usize,
}

impl Window<'_> {
    /// Writes to the window of a rank (MPI_Put, MPI_Win_flush).
    #[inline]
    pub fn put(&self, data: &[u8], elements: Elements, to: u32) -> Result<()> {
        let call = "MPI_Put";
        room(call, self.length, data.len())?;
        let (count, to) = (count(call, data.len(), elements)?, self.world.peer(call, to)?);
        // SAFETY: `count` elements fit into the slice and the window; the flush ends the operation.
        check(call, unsafe { fm_put(data.as_ptr().cast(), count, elements.number(), to) })
    }

    /// Reads from the window of a rank (MPI_Get, MPI_Win_flush).
    #[inline]
    pub fn get(&self, data: &mut [u8], elements: Elements, from: u32) -> Result<()> {
        let call = "MPI_Get";
        room(call, self.length, data.len())?;
        let (count, from) = (count(call, data.len(), elements)?, self.world.peer(call, from)?);
        // SAFETY: `count` elements fit into the slice and the window; the flush ends the operation.
        check(call, unsafe { fm_get(data.as_mut_ptr().cast(), count, elements.number(), from) })
    }

    /// Adds to the window of a rank (MPI_Accumulate with MPI_SUM, MPI_Win_flush).
    #[inline]
    pub fn accumulate(&self, data: &[u8], elements: Elements, to: u32) -> Result<()> {
        let call = "MPI_Accumulate";
        room(call, self.length, data.len())?;
        let (count, to) = (count(call, data.len(), elements)?, self.world.peer(call, to)?);
        // SAFETY: `count` elements fit into the slice and the window; the flush ends the operation.
        check(call, unsafe { fm_accumulate(data.as_ptr().cast(), count, elements.number(), to) })
    }

    /// Copies this rank's memory into `data`. No rank may write to it meanwhile: callers are behind a barrier.
    pub fn read(&self, data: &mut [u8]) -> Result<()> {
        room("MPI_Win_sync", self.length, data.len())?;
        // SAFETY: MPI is initialised and the window is open.
        check("MPI_Win_sync", unsafe { fm_window_sync() })?;
        // SAFETY: the memory has `length` bytes, and the window that owns it is open.
        unsafe { self.memory.copy_to_nonoverlapping(data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// Copies `data` into this rank's memory. No rank may use it meanwhile: callers are behind a barrier.
    pub fn write(&self, data: &[u8]) -> Result<()> {
        room("MPI_Win_sync", self.length, data.len())?;
        // SAFETY: as in `read`.
        unsafe { self.memory.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        // SAFETY: MPI is initialised and the window is open.
        check("MPI_Win_sync", unsafe { fm_window_sync() })
    }

    /// Frees the memory; all ranks of the group call it.
    pub fn close(self) -> Result<()> {
        self.world.window.set(0);
        // SAFETY: the window is open, and is consumed.
        check("MPI_Win_free", unsafe { fm_window_close() })
    }
}
