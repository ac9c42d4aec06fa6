//! Calls of libibverbs, which is loaded on first use, and the rules that keep them sound.
//!
//! Objects hold those that they were created from, so that the library is never passed one that was destroyed. Memory
//! that an adapter may write is never lent as a slice: it is copied in and out, and single bytes are read as
//! volatile. Its registration ends before it is freed, and an adapter does not access memory that is not registered,
//! whatever requests are outstanding.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::abi::{
    self, AhAttr, PortAttr, QpAttr, QpInitAttr, ReceiveRequest, SendRequest, Sge, WorkCompletion,
};

/// Declares functions of a library with their C types, and loads them by name on first use.
macro_rules! functions {
    ($library:literal: $($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        struct Library {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
            // Never closed: its functions are called until the program ends.
            _handle: libloading::Library,
        }

        impl Library {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: initialisers of rdma-core's libraries register handlers and change nothing of this program;
                // the types are those of their headers.
                unsafe {
                    let handle = libloading::Library::new($library)?;
                    Ok(Self {
                        $($name: *handle.get::<unsafe extern "C" fn($($argument),*) -> $result>(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _handle: handle,
                    })
                }
            }
        }

        /// The library, or why it cannot be loaded.
        fn library() -> Result<&'static Library, &'static str> {
            static LIBRARY: std::sync::OnceLock<Result<Library, String>> = std::sync::OnceLock::new();
            let loaded = LIBRARY.get_or_init(|| Library::load().map_err(|error| error.to_string()));
            loaded.as_ref().map_err(String::as_str)
        }

        /// The library, which has already created an object.
        fn loaded() -> &'static Library {
            library().expect("an object of the library is there")
        }
    };
}

pub(crate) use functions;

functions! {
    "libibverbs.so.1":
    ibv_get_device_list(*mut c_int) -> *mut *mut c_void;
    ibv_free_device_list(*mut *mut c_void) -> ();
    ibv_get_device_name(*mut c_void) -> *const c_char;
    ibv_open_device(*mut c_void) -> *mut abi::Context;
    ibv_close_device(*mut abi::Context) -> c_int;
    ibv_query_port(*mut abi::Context, u8, *mut PortAttr) -> c_int;
    ibv_alloc_pd(*mut abi::Context) -> *mut abi::Pd;
    ibv_dealloc_pd(*mut abi::Pd) -> c_int;
    ibv_reg_mr(*mut abi::Pd, *mut c_void, usize, c_int) -> *mut abi::Mr;
    ibv_dereg_mr(*mut abi::Mr) -> c_int;
    ibv_create_comp_channel(*mut abi::Context) -> *mut abi::CompChannel;
    ibv_destroy_comp_channel(*mut abi::CompChannel) -> c_int;
    ibv_create_cq(*mut abi::Context, c_int, *mut c_void, *mut abi::CompChannel, c_int) -> *mut abi::Cq;
    ibv_destroy_cq(*mut abi::Cq) -> c_int;
    ibv_get_cq_event(*mut abi::CompChannel, *mut *mut abi::Cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events(*mut abi::Cq, c_uint) -> ();
    ibv_create_qp(*mut abi::Pd, *mut QpInitAttr) -> *mut abi::Qp;
    ibv_modify_qp(*mut abi::Qp, *mut QpAttr, c_int) -> c_int;
    ibv_destroy_qp(*mut abi::Qp) -> c_int;
    ibv_create_ah(*mut abi::Pd, *mut AhAttr) -> *mut abi::Ah;
    ibv_destroy_ah(*mut abi::Ah) -> c_int;
}

/// Loads the library, once; fails with the reason.
pub(crate) fn load() -> Result<(), String> {
    library().map(|_| ()).map_err(str::to_owned)
}

/// The object that a call has created, or the error.
fn made<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}

/// Other calls return 0, -1 with errno, or an error number.
pub(crate) fn done(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        number => Err(io::Error::from_raw_os_error(number.abs())),
    }
}

/// An open adapter.
#[derive(Debug)]
pub(crate) struct Context(NonNull<abi::Context>);

// SAFETY: the library's objects may be used by any thread (ibv_fork_init(3) and rdma-core's
// Documentation/libibverbs.md: the API is thread-safe).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Opens an adapter by name.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let library = library().map_err(io::Error::other)?;
        // SAFETY: the list has `count` devices until it is freed; an opened device stays valid beyond that
        // (ibv_get_device_list(3)).
        unsafe {
            let mut count = 0;
            let list = made((library.ibv_get_device_list)(&mut count))?;
            let devices = std::slice::from_raw_parts(list.as_ptr(), count.max(0) as usize);
            let known = devices.iter().find(|&&device| {
                let text = (library.ibv_get_device_name)(device);
                !text.is_null() && CStr::from_ptr(text).to_bytes() == name.as_bytes()
            });
            let opened = match known {
                Some(&device) => made((library.ibv_open_device)(device)).map(Self),
                None => Err(io::ErrorKind::NotFound.into()),
            };
            (library.ibv_free_device_list)(list.as_ptr());
            opened
        }
    }

    /// Attributes of a port.
    pub(crate) fn port(&self, number: u8) -> io::Result<PortAttr> {
        let mut attributes = PortAttr::default();
        // SAFETY: the structure is longer than what any version writes through this symbol.
        done(unsafe { (loaded().ibv_query_port)(self.0.as_ptr(), number, &mut attributes) })?;
        Ok(attributes)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: whatever was created from it holds it, so nothing of it is left.
        unsafe { (loaded().ibv_close_device)(self.0.as_ptr()) };
    }
}

/// A protection domain: objects of the same domain may be used together.
#[derive(Debug)]
pub(crate) struct Domain {
    pd: NonNull<abi::Pd>,
    context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Domain {}
// SAFETY: as for `Context`.
unsafe impl Sync for Domain {}

impl Domain {
    pub(crate) fn new(context: Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let pd = made(unsafe { (loaded().ibv_alloc_pd)(context.0.as_ptr()) })?;
        Ok(Self { pd, context })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: whatever was created from it holds it.
        unsafe { (loaded().ibv_dealloc_pd)(self.pd.as_ptr()) };
    }
}

/// Registered memory, which an adapter reads and writes.
#[derive(Debug)]
pub struct Region {
    mr: NonNull<abi::Mr>,
    // The memory does not move when this value does.
    memory: Option<memmap2::MmapMut>,
    start: NonNull<u8>,
    length: usize,
    _domain: Arc<Domain>,
}

// SAFETY: as for `Context`; the memory is accessed only by copies and volatile reads.
unsafe impl Send for Region {}

impl Region {
    /// Registers `length` bytes of new memory, all 0, with this access.
    pub(crate) fn new(domain: Arc<Domain>, length: usize, access: c_int) -> io::Result<Self> {
        let mut memory = memmap2::MmapMut::map_anon(length.max(1))?;
        let start = NonNull::new(memory.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the memory has this length and exists until the registration has ended.
        let mr = made(unsafe {
            (loaded().ibv_reg_mr)(domain.pd.as_ptr(), start.as_ptr().cast(), length.max(1), access)
        })?;
        Ok(Self { mr, memory: Some(memory), start, length, _domain: domain })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Start address, as the adapter knows it.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Key by which another end accesses it (rkey).
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the registration is alive.
        unsafe { self.mr.as_ref() }.rkey
    }

    fn local_key(&self) -> u32 {
        // SAFETY: the registration is alive.
        unsafe { self.mr.as_ref() }.lkey
    }

    /// Copies bytes into the region.
    ///
    /// # Panics
    ///
    /// If they reach beyond its end.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= self.length),
            "beyond a region"
        );
        // SAFETY: the bytes are within the memory, to which there is no reference. The adapter may read or write them
        // meanwhile, which is outside of this program: any bytes are valid, and only payloads depend on them.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len());
        };
    }

    /// Copies bytes out of the region.
    ///
    /// # Panics
    ///
    /// If they reach beyond its end.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= self.length),
            "beyond a region"
        );
        // SAFETY: as for `write`.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len());
        };
    }

    /// Reads one byte as it is now: the other end may write it at any time.
    ///
    /// # Panics
    ///
    /// If it is beyond the end of the region.
    pub fn byte(&self, at: usize) -> u8 {
        assert!(at < self.length, "beyond a region");
        // SAFETY: the byte is within the memory.
        let byte = unsafe { self.start.as_ptr().add(at).read_volatile() };
        // What was written before this byte must be read after it.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        byte
    }

    /// A scatter/gather element for a part of the region.
    fn part(&self, at: usize, length: usize) -> Sge {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.length), "beyond a region");
        let length = u32::try_from(length).expect("a message has up to 2 GiB");
        Sge { addr: self.address() + at as u64, length, lkey: self.local_key() }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the registration is alive, and ends here.
        if unsafe { (loaded().ibv_dereg_mr)(self.mr.as_ptr()) } != 0 {
            // The adapter may still access it.
            std::mem::forget(self.memory.take());
        }
    }
}

/// A completion queue and its event channel.
#[derive(Debug)]
pub struct Completions {
    cq: NonNull<abi::Cq>,
    channel: NonNull<abi::CompChannel>,
    _context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Completions {}
// SAFETY: as for `Context`.
unsafe impl Sync for Completions {}

impl Completions {
    /// Creates a queue with room for `room` completions.
    pub(crate) fn new(context: Arc<Context>, room: u32) -> io::Result<Self> {
        let library = loaded();
        let room = c_int::try_from(room).unwrap_or(c_int::MAX);
        // SAFETY: the context is open; the channel is alive when the queue is created with it.
        unsafe {
            let channel = made((library.ibv_create_comp_channel)(context.0.as_ptr()))?;
            let cq = (library.ibv_create_cq)(
                context.0.as_ptr(),
                room,
                ptr::null_mut(),
                channel.as_ptr(),
                0,
            );
            match made(cq) {
                Ok(cq) => Ok(Self { cq, channel, _context: context }),
                Err(error) => {
                    (library.ibv_destroy_comp_channel)(channel.as_ptr());
                    Err(error)
                }
            }
        }
    }

    /// Takes completions; returns how many there are.
    pub fn poll(&self, into: &mut [WorkCompletion]) -> io::Result<usize> {
        let room = c_int::try_from(into.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue and its context are alive; it writes up to `room` entries.
        let count = unsafe {
            let poll = (*self.cq.as_ref().context).ops.poll_cq;
            poll.expect("every adapter polls")(self.cq.as_ptr(), room, into.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| io::Error::other("polling the completion queue failed"))
    }

    /// Requests an event for the next completion. Completions before that cause none: poll once more before waiting.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue and its context are alive.
        done(unsafe {
            let arm = (*self.cq.as_ref().context).ops.req_notify_cq;
            arm.expect("every adapter notifies")(self.cq.as_ptr(), 0)
        })
    }

    /// Takes one event; blocks if the descriptor blocks.
    pub fn take_notice(&self) -> io::Result<()> {
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive, and the queue that it names is its only one.
        unsafe {
            if (loaded().ibv_get_cq_event)(self.channel.as_ptr(), &mut cq, &mut context) != 0 {
                return Err(io::Error::last_os_error());
            }
            (loaded().ibv_ack_cq_events)(cq, 1);
        }
        Ok(())
    }

    /// Readable when a requested event has arrived.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive, and so is its descriptor.
        unsafe {
            let fd: RawFd = self.channel.as_ref().fd;
            BorrowedFd::borrow_raw(fd)
        }
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: queue pairs that use it hold it; every event that was taken was acknowledged.
        unsafe {
            (loaded().ibv_destroy_cq)(self.cq.as_ptr());
            (loaded().ibv_destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}

/// Destination of a datagram.
#[derive(Debug)]
pub struct Destination {
    pub(crate) route: Route,
    /// Queue pair number of the destination.
    pub(crate) pair: u32,
    /// Q_Key of that queue pair.
    pub(crate) key: u32,
}

/// Address handle: the route to another end.
#[derive(Debug)]
pub(crate) struct Route {
    ah: NonNull<abi::Ah>,
    _domain: Arc<Domain>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Route {}

impl Route {
    pub(crate) fn new(domain: Arc<Domain>, mut attributes: AhAttr) -> io::Result<Self> {
        // SAFETY: the domain is alive.
        let ah = made(unsafe { (loaded().ibv_create_ah)(domain.pd.as_ptr(), &mut attributes) })?;
        Ok(Self { ah, _domain: domain })
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: it was created here, and the library has copied the requests that name it.
        unsafe { (loaded().ibv_destroy_ah)(self.ah.as_ptr()) };
    }
}

/// A request, by its opcode.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Sends a message, which completes the other end's next receive request.
    Send,
    /// As [`Self::Send`], with immediate data.
    SendImmediate(u32),
    /// As [`Self::SendImmediate`], to the destination of a datagram.
    SendTo(&'a Destination, u32),
    /// Writes into the other end's memory.
    Write(Place),
    /// As [`Self::Write`], and completes the other end's next receive request with immediate data.
    WriteImmediate(Place, u32),
    /// Reads from the other end's memory.
    Read(Place),
    /// Adds to a word of 64 bits in the other end's memory; returns its previous value.
    FetchAdd(Place, u64),
    /// Sets a word of 64 bits to the second value if it equals the first; returns its previous value.
    CompareSwap(Place, [u64; 2]),
}

/// An address in another end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Virtual address.
    pub address: u64,
    /// Key of its region (rkey).
    pub key: u32,
}

/// A queue pair.
#[derive(Debug)]
pub struct Pair {
    qp: NonNull<abi::Qp>,
    inline_max: usize,
    _completions: Arc<Completions>,
    _domain: Arc<Domain>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Pair {}

impl Pair {
    /// Creates a queue pair of a kind (`enum ibv_qp_type`), with this capacity.
    pub(crate) fn new(
        domain: Arc<Domain>,
        completions: Arc<Completions>,
        kind: c_uint,
        capacity: abi::Capacity,
    ) -> io::Result<Self> {
        let cq = completions.cq.as_ptr();
        let mut attributes = QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: cq,
            recv_cq: cq,
            srq: ptr::null_mut(),
            cap: capacity,
            qp_type: kind,
            sq_sig_all: 0,
        };
        // SAFETY: domain and queue are alive.
        let qp = made(unsafe { (loaded().ibv_create_qp)(domain.pd.as_ptr(), &mut attributes) })?;
        // Drivers may provide more than was asked for.
        let inline_max = attributes.cap.max_inline_data.min(capacity.max_inline_data) as usize;
        Ok(Self { qp, inline_max, _completions: completions, _domain: domain })
    }

    /// Queue pair number, of 24 bits.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair is alive.
        unsafe { self.qp.as_ref() }.qp_num
    }

    /// Most bytes that a request may carry inline.
    pub fn inline_max(&self) -> usize {
        self.inline_max
    }

    pub(crate) fn modify(&self, mut attributes: QpAttr, mask: c_int) -> io::Result<()> {
        // SAFETY: the pair is alive.
        done(unsafe { (loaded().ibv_modify_qp)(self.qp.as_ptr(), &mut attributes, mask) })
    }

    /// Posts a request with a part of a region, which is sent, or filled by a read. Fails with
    /// [`io::ErrorKind::OutOfMemory`] if there is no room.
    pub fn post(
        &self,
        id: u64,
        asked: Request<'_>,
        region: &Region,
        part: std::ops::Range<usize>,
        flags: Flags,
    ) -> io::Result<()> {
        let mut list = region.part(part.start, part.len());
        let memory = |Place { address, key }: Place| abi::Remote {
            rdma: abi::RemoteMemory { remote_addr: address, rkey: key },
        };
        let word = |Place { address, key }: Place, compare_add, swap| abi::Remote {
            atomic: abi::RemoteWord { remote_addr: address, compare_add, swap, rkey: key },
        };
        let mut immediate = 0;
        let (opcode, wr) = match asked {
            Request::Send => (abi::opcode::SEND, abi::Remote { none: [0; 4] }),
            Request::SendImmediate(number) => {
                immediate = number.to_be();
                (abi::opcode::SEND_IMMEDIATE, abi::Remote { none: [0; 4] })
            }
            Request::SendTo(Destination { route, pair, key }, number) => {
                immediate = number.to_be();
                let ah = route.ah.as_ptr();
                let ud = abi::RemotePair { ah, remote_qpn: *pair, remote_qkey: *key };
                (abi::opcode::SEND_IMMEDIATE, abi::Remote { ud })
            }
            Request::Write(place) => (abi::opcode::WRITE, memory(place)),
            Request::WriteImmediate(place, number) => {
                immediate = number.to_be();
                (abi::opcode::WRITE_IMMEDIATE, memory(place))
            }
            Request::Read(place) => (abi::opcode::READ, memory(place)),
            Request::FetchAdd(place, add) => (abi::opcode::FETCH_ADD, word(place, add, 0)),
            Request::CompareSwap(place, [compare, swap]) => {
                (abi::opcode::COMPARE_SWAP, word(place, compare, swap))
            }
        };
        let signaled = if flags.signaled { abi::flag::SIGNALED } else { 0 };
        let inline = if flags.inline { abi::flag::INLINE } else { 0 };
        let mut request = SendRequest::new(id, opcode, signaled | inline, &mut list, wr);
        request.immediate = immediate;
        let mut bad = ptr::null_mut();
        // SAFETY: the pair and its context are alive; the request and its list are read before the call
        // returns, and the memory they name is registered.
        done(unsafe {
            let post = (*self.qp.as_ref().context).ops.post_send;
            post.expect("every adapter sends")(self.qp.as_ptr(), &mut request, &mut bad)
        })
    }

    /// Posts a part of a region as a receive buffer for the next message.
    pub fn post_receive(
        &self,
        id: u64,
        region: &Region,
        part: std::ops::Range<usize>,
    ) -> io::Result<()> {
        let mut list = region.part(part.start, part.len());
        let mut request =
            ReceiveRequest { wr_id: id, next: ptr::null_mut(), sg_list: &mut list, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: as for `post`.
        done(unsafe {
            let post = (*self.qp.as_ref().context).ops.post_recv;
            post.expect("every adapter receives")(self.qp.as_ptr(), &mut request, &mut bad)
        })
    }
}

/// Options of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// Whether its completion is signalled.
    pub signaled: bool,
    /// Whether its bytes are copied into the request (inline), so that their memory is free at once.
    pub inline: bool,
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: it was created here.
        unsafe { (loaded().ibv_destroy_qp)(self.qp.as_ptr()) };
    }
}
