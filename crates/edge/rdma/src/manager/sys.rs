//! Calls of librdmacm, which is loaded on first use. Layouts are those of rdma/rdma_cma.h.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use socket2::SockAddr;

use crate::abi::QpAttr;
use crate::endpoint::{READS_MAX, RETRIES};
use crate::rsocket::missing;
use crate::sys::{done, functions};

/// `struct rdma_event_channel`.
#[repr(C)]
struct RawChannel {
    fd: c_int,
}

/// `struct rdma_cm_id`, which is opaque here.
type RawId = c_void;

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    private_data: *const u8,
    private_data_len: u8,
    responder_resources: u8,
    initiator_depth: u8,
    flow_control: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    srq: u8,
    qp_num: u32,
}

/// Start of `struct rdma_cm_event`, with the parameters of a connection.
#[repr(C)]
struct RawEvent {
    id: *mut RawId,
    listen_id: *mut RawId,
    event: c_int,
    status: c_int,
    connection: Parameters,
}

functions! {
    "librdmacm.so.1":
    rdma_create_event_channel() -> *mut RawChannel;
    rdma_destroy_event_channel(*mut RawChannel) -> ();
    rdma_create_id(*mut RawChannel, *mut *mut RawId, *mut c_void, c_int) -> c_int;
    rdma_destroy_id(*mut RawId) -> c_int;
    rdma_bind_addr(*mut RawId, *const c_void) -> c_int;
    rdma_listen(*mut RawId, c_int) -> c_int;
    rdma_get_src_port(*mut RawId) -> u16;
    rdma_resolve_addr(*mut RawId, *const c_void, *const c_void, c_int) -> c_int;
    rdma_resolve_route(*mut RawId, c_int) -> c_int;
    rdma_connect(*mut RawId, *mut Parameters) -> c_int;
    rdma_establish(*mut RawId) -> c_int;
    rdma_accept(*mut RawId, *mut Parameters) -> c_int;
    rdma_reject(*mut RawId, *const c_void, u8) -> c_int;
    rdma_init_qp_attr(*mut RawId, *mut QpAttr, *mut c_int) -> c_int;
    rdma_get_cm_event(*mut RawChannel, *mut *mut RawEvent) -> c_int;
    rdma_ack_cm_event(*mut RawEvent) -> c_int;
    rdma_event_str(c_int) -> *const c_char;
}

/// `RDMA_PS_TCP`: connections are identified by ports.
const PORT_SPACE_TCP: c_int = 0x0106;

/// An event channel.
#[derive(Debug)]
pub(super) struct Channel(NonNull<RawChannel>);

// SAFETY: the library's objects may be used by any thread (rdma_cm(7): calls are thread-safe).
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    pub told: Told,
    pub status: c_int,
    /// The ID of a connection request, and its private data.
    pub request: Option<(Id, Vec<u8>)>,
}

/// `enum rdma_cm_event_type`.
#[derive(Debug)]
pub(super) enum Told {
    AddressResolved,
    RouteResolved,
    Request,
    Response,
    Established,
    Other(String),
}

/// An event channel, and an ID on it.
pub(super) fn new() -> io::Result<(Arc<Channel>, Id)> {
    let library = library().map_err(missing)?;
    // SAFETY: the call has no arguments.
    let raw = unsafe { (library.rdma_create_event_channel)() };
    let channel = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
    let channel = Arc::new(Channel(channel));
    rustix::io::ioctl_fionbio(channel.as_fd(), true)?;
    let mut raw = ptr::null_mut();
    // SAFETY: the channel is alive; the call writes one pointer.
    done(unsafe {
        (library.rdma_create_id)(channel.0.as_ptr(), &mut raw, ptr::null_mut(), PORT_SPACE_TCP)
    })?;
    let id = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
    Ok((Arc::clone(&channel), Id { id, _channel: channel }))
}

impl Channel {
    /// The next event, if there is one.
    pub(super) fn next(self: &Arc<Self>) -> io::Result<Option<Event>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is alive; the call writes one pointer.
        match done(unsafe { (loaded().rdma_get_cm_event)(self.0.as_ptr(), &mut raw) }) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // SAFETY: the event is valid until it is acknowledged below. The private data of a request is copied before,
        // and its ID belongs to the caller (rdma_get_cm_event(3)).
        unsafe {
            let event = &*raw;
            let told = match event.event {
                0 => Told::AddressResolved,
                2 => Told::RouteResolved,
                4 => Told::Request,
                5 => Told::Response,
                9 => Told::Established,
                other => {
                    let text = CStr::from_ptr((loaded().rdma_event_str)(other));
                    Told::Other(text.to_string_lossy().into_owned())
                }
            };
            let status = event.status;
            let request = match (&told, NonNull::new(event.id)) {
                (Told::Request, Some(id)) => {
                    let Parameters { private_data, private_data_len, .. } = event.connection;
                    let said = match NonNull::new(private_data.cast_mut()) {
                        Some(said) => {
                            let length = usize::from(private_data_len);
                            std::slice::from_raw_parts(said.as_ptr(), length).to_vec()
                        }
                        None => Vec::new(),
                    };
                    Some((Id { id, _channel: Arc::clone(self) }, said))
                }
                _ => None,
            };
            (loaded().rdma_ack_cm_event)(raw);
            Ok(Some(Event { told, status, request }))
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive, and so is its descriptor.
        unsafe { BorrowedFd::borrow_raw(self.0.as_ref().fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: IDs on the channel hold it, and every event was acknowledged.
        unsafe { (loaded().rdma_destroy_event_channel)(self.0.as_ptr()) };
    }
}

/// ID of a connection, or of a listener.
#[derive(Debug)]
pub(crate) struct Id {
    id: NonNull<RawId>,
    _channel: Arc<Channel>,
}

// SAFETY: as for `Channel`.
unsafe impl Send for Id {}

impl Id {
    pub(super) fn bind(&self, at: &SockAddr) -> io::Result<()> {
        // SAFETY: the ID is alive, and the address outlives the call, which copies it.
        done(unsafe { (loaded().rdma_bind_addr)(self.id.as_ptr(), at.as_ptr().cast()) })
    }

    pub(super) fn listen(&self) -> io::Result<()> {
        // SAFETY: the ID is alive.
        done(unsafe { (loaded().rdma_listen)(self.id.as_ptr(), 1) })
    }

    /// Port that the ID is bound to.
    pub(super) fn port(&self) -> u16 {
        // SAFETY: the ID is alive.
        u16::from_be(unsafe { (loaded().rdma_get_src_port)(self.id.as_ptr()) })
    }

    pub(super) fn resolve_address(
        &self,
        from: &SockAddr,
        to: &SockAddr,
        within_ms: c_int,
    ) -> io::Result<()> {
        // SAFETY: the ID is alive, and the addresses outlive the call, which copies them.
        done(unsafe {
            (loaded().rdma_resolve_addr)(
                self.id.as_ptr(),
                from.as_ptr().cast(),
                to.as_ptr().cast(),
                within_ms,
            )
        })
    }

    pub(super) fn resolve_route(&self, within_ms: c_int) -> io::Result<()> {
        // SAFETY: the ID is alive.
        done(unsafe { (loaded().rdma_resolve_route)(self.id.as_ptr(), within_ms) })
    }

    /// Requests a connection with a queue pair, and sends private data with the request.
    pub(super) fn connect(&self, pair: u32, said: &[u8]) -> io::Result<()> {
        let mut parameters = parameters(pair, said);
        // SAFETY: the ID is alive; the private data outlives the call, which copies it.
        done(unsafe { (loaded().rdma_connect)(self.id.as_ptr(), &mut parameters) })
    }

    /// Completes a connection after the response to its request.
    pub(super) fn establish(&self) -> io::Result<()> {
        // SAFETY: the ID is alive.
        done(unsafe { (loaded().rdma_establish)(self.id.as_ptr()) })
    }

    pub(super) fn accept(&self, pair: u32) -> io::Result<()> {
        let mut parameters = parameters(pair, &[]);
        // SAFETY: the ID is alive.
        done(unsafe { (loaded().rdma_accept)(self.id.as_ptr(), &mut parameters) })
    }

    /// Rejects a connection request.
    pub(super) fn reject(&self) {
        // SAFETY: the ID is alive. If this fails, the other end times out.
        unsafe { (loaded().rdma_reject)(self.id.as_ptr(), ptr::null(), 0) };
    }

    /// Attributes that a queue pair needs to enter a state.
    pub(crate) fn attributes(&self, state: u32) -> io::Result<QpAttr> {
        let mut attributes = QpAttr { qp_state: state, ..QpAttr::default() };
        let mut mask = 0;
        // SAFETY: the ID is alive; the call writes both.
        done(unsafe {
            (loaded().rdma_init_qp_attr)(self.id.as_ptr(), &mut attributes, &mut mask)
        })?;
        Ok(attributes)
    }
}

fn parameters(pair: u32, said: &[u8]) -> Parameters {
    Parameters {
        private_data: if said.is_empty() { ptr::null() } else { said.as_ptr() },
        private_data_len: u8::try_from(said.len()).expect("some bytes are said"),
        responder_resources: READS_MAX,
        initiator_depth: READS_MAX,
        flow_control: 0,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: pair,
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the ID was created here, or belongs to this program since its request; its events were
        // acknowledged.
        unsafe { (loaded().rdma_destroy_id)(self.id.as_ptr()) };
    }
}
