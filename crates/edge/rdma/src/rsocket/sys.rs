//! Calls of librdmacm, which is loaded on first use.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use socket2::SockAddr;

use super::{Waiting, missing, timer};
use crate::sys::functions;

functions! {
    "librdmacm.so.1":
    rsocket(c_int, c_int, c_int) -> c_int;
    rbind(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int;
    rlisten(c_int, c_int) -> c_int;
    raccept(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;
    rconnect(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int;
    rfcntl(c_int, c_int, c_int) -> c_int;
    rgetsockopt(c_int, c_int, c_int, *mut c_void, *mut libc::socklen_t) -> c_int;
    rgetsockname(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;
    rsend(c_int, *const c_void, usize, c_int) -> isize;
    rrecv(c_int, *mut c_void, usize, c_int) -> isize;
    rpoll(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int;
    rclose(c_int) -> c_int;
}

/// Functions return -1 if they fail.
fn done<T: PartialOrd + Default>(result: T) -> io::Result<T> {
    if result < T::default() { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A byte stream over RDMA, or a listener.
#[derive(Debug)]
pub struct Rsocket {
    socket: c_int,
    /// Becomes readable at intervals, so that a wait ends.
    pub(super) timer: OwnedFd,
}

impl Rsocket {
    pub(super) fn new(is_v6: bool) -> io::Result<Self> {
        let (library, timer) = (library().map_err(missing)?, timer()?);
        let domain = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        // SAFETY: the arguments are numbers.
        let socket = done(unsafe { (library.rsocket)(domain, libc::SOCK_STREAM, 0) })?;
        Ok(Self { socket, timer })
    }

    pub(super) fn bind(&self, at: &SockAddr) -> io::Result<()> {
        // SAFETY: the address has this length and outlives the call.
        done(unsafe { (loaded().rbind)(self.socket, at.as_ptr().cast(), at.len()) }).map(|_| ())
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        // SAFETY: the arguments are numbers.
        done(unsafe { (loaded().rfcntl)(self.socket, libc::F_SETFL, libc::O_NONBLOCK) }).map(|_| ())
    }

    pub(super) fn begin_listen(&self) -> io::Result<()> {
        self.set_nonblocking()?;
        // SAFETY: the arguments are numbers.
        done(unsafe { (loaded().rlisten)(self.socket, 1) }).map(|_| ())
    }

    /// Starts to connect; [`Self::wait`] for room reports when that is complete.
    pub(super) fn begin_connect(&self, to: &SockAddr) -> io::Result<()> {
        self.set_nonblocking()?;
        // SAFETY: the address has this length and outlives the call.
        match done(unsafe { (loaded().rconnect)(self.socket, to.as_ptr().cast(), to.len()) }) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    /// Fails with the pending error (SO_ERROR), if there is one.
    pub fn error(&self) -> io::Result<()> {
        let (mut error, mut length): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
        // SAFETY: there is room for a number of that length.
        done(unsafe {
            (loaded().rgetsockopt)(
                self.socket,
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &mut length,
            )
        })?;
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Accepts a connection. Does not block.
    pub fn accept(&self) -> io::Result<Self> {
        let timer = timer()?;
        let (nobody, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: without room for an address none is written.
        let socket = done(unsafe { (loaded().raccept)(self.socket, nobody, no_length) })?;
        Ok(Self { socket, timer })
    }

    /// Address that it is bound to.
    pub(super) fn name(&self) -> io::Result<SockAddr> {
        // SAFETY: the call writes an address of at most the given length, and its length.
        let ((), name) = unsafe {
            SockAddr::try_init(|storage, length| {
                done((loaded().rgetsockname)(self.socket, storage.cast(), length)).map(|_| ())
            })?
        };
        Ok(name)
    }

    /// Sends as much as there is room for. Does not block.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes have this length; they are copied before the call returns.
        let sent = unsafe {
            (loaded().rsend)(self.socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
        };
        done(sent).map(|sent| sent as usize)
    }

    /// Receives what has arrived; 0 if the other end is gone. Does not block.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: there is room for this many bytes.
        let received = unsafe {
            (loaded().rrecv)(
                self.socket,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
        done(received).map(|received| received as usize)
    }

    /// Waits until the rsocket is ready, or its timer or `beside` is readable; returns whether it is ready.
    pub(super) fn can_go_on(&self, waiting: Waiting, beside: BorrowedFd<'_>) -> io::Result<bool> {
        let events = match waiting {
            Waiting::Arrival => libc::POLLIN,
            Waiting::Room => libc::POLLOUT,
        };
        let of = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut asked = [
            of(self.socket, events),
            of(beside.as_raw_fd(), libc::POLLIN),
            of(self.timer.as_raw_fd(), libc::POLLIN),
        ];
        // Without a timeout: an rpoll that times out leaves its caller counted, and a later call then never returns
        // (librdmacm 44, rs_poll_enter).
        // SAFETY: there are this many entries; a descriptor that is not an rsocket is polled as one of the kernel.
        let told = unsafe { (loaded().rpoll)(asked.as_mut_ptr(), asked.len() as libc::nfds_t, -1) };
        done(told).map(|_| asked[0].revents != 0)
    }
}

impl Drop for Rsocket {
    fn drop(&mut self) {
        // SAFETY: it is open, and not used afterwards.
        unsafe { (loaded().rclose)(self.socket) };
    }
}
