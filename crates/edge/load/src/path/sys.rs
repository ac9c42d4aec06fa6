//! Calls that move several datagrams or pages at once and that no safe crate offers.

use std::io;
use std::mem::{self, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Buffers for several datagrams and the kernel's descriptions of them, made once.
pub(crate) struct Batch {
    bytes: usize,
    buffers: Box<[u8]>,
    /// Points into `buffers`, one entry a datagram.
    _vectors: Box<[libc::iovec]>,
    /// Points to `_vectors`, one entry a datagram.
    headers: Box<[libc::mmsghdr]>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers inside point into boxes that the value owns and that never move or shrink,
// so that it may be used by whichever thread owns it.
unsafe impl Send for Batch {}

impl Batch {
    /// Room for `count` datagrams of `bytes` bytes each.
    pub(crate) fn new(count: usize, bytes: usize) -> Self {
        let mut buffers = vec![0x5a_u8; count * bytes].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = buffers
            .chunks_exact_mut(bytes)
            .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: bytes })
            .collect();
        let headers = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: all fields are integers and pointers, for which zero is a valid value.
                let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { bytes, buffers, _vectors: vectors, headers }
    }

    /// Number of datagrams that there is room for.
    pub(crate) fn count(&self) -> usize {
        self.headers.len()
    }

    /// The buffer of one datagram.
    pub(crate) fn buffer(&mut self, place: usize) -> &mut [u8] {
        &mut self.buffers[place * self.bytes..][..self.bytes]
    }

    /// What arrived at one place as far as it was kept, and the true length of the datagram.
    pub(crate) fn arrived(&self, place: usize) -> (&[u8], usize) {
        let bytes = self.headers[place].msg_len as usize;
        (&self.buffers[place * self.bytes..][..bytes.min(self.bytes)], bytes)
    }

    /// Sends all datagrams, or as many as there is room for; gives their number.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: headers, vectors and buffers are owned by `self`, which is borrowed for the call; the
        // kernel reads them and writes each `msg_len`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                0,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Waits for one datagram and takes those behind it; gives their number.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: as in `send`; the kernel writes at most `bytes` bytes into each buffer.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_WAITFORONE | libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }
}

/// Receives into a buffer; gives the bytes, and the length of the datagrams that the kernel put
/// together in it (UDP_GRO), which is all bytes for a single one.
pub(crate) fn receive_gro(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, usize)> {
    #[repr(align(8))]
    struct Space([u8; 64]);
    let mut space = Space([0; 64]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all fields are integers and pointers, for which zero is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = space.0.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Space>() as _;
    // SAFETY: vector, buffer and control space outlive the call; their lengths are their own.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: `header` was filled by the kernel; the macros stay within `msg_controllen`, and the data
    // of a UDP_GRO message is an int (linux/udp.h).
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_UDP && (*message).cmsg_type == libc::UDP_GRO {
                let segment: libc::c_int = ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                if let Ok(segment) = usize::try_from(segment)
                    && segment > 0
                {
                    return Ok((received, segment));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok((received, received))
}

/// Sends from the program's pages (MSG_ZEROCOPY); gives the bytes taken.
pub(crate) fn send_zerocopy(socket: BorrowedFd<'_>, payload: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `payload`. The kernel may read its pages after the call
    // and holds references to them for it, so that freed memory is not read.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            payload.as_ptr().cast(),
            payload.len(),
            libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Notifications of finished zero-copy sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Calls whose pages are free again.
    pub calls: u64,
    /// Of these, calls whose bytes the kernel copied after all.
    pub copied: u64,
}

/// Reads one notification from a socket's error queue; nothing if there is none.
pub(crate) fn zerocopy_completed(socket: BorrowedFd<'_>) -> io::Result<Option<Completed>> {
    #[repr(align(8))]
    struct Space([u8; 128]);
    let mut space = Space([0; 128]);
    // SAFETY: all fields are integers and pointers, for which zero is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_control = space.0.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Space>() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: header and control space outlive the call; their lengths are their own.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) } < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    let mut completed = Completed::default();
    // SAFETY: `header` was filled by the kernel; the macros stay within `msg_controllen`, and messages
    // of these types hold a sock_extended_err (linux/errqueue.h).
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            let kind = ((*message).cmsg_level, (*message).cmsg_type);
            if kind == (libc::SOL_IP, libc::IP_RECVERR)
                || kind == (libc::SOL_IPV6, libc::IPV6_RECVERR)
            {
                let error: libc::sock_extended_err =
                    ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                if error.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
                    // The numbers of the first and the last call, inclusive, modulo 2^32.
                    let calls = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
                    completed.calls += calls;
                    if error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED {
                        completed.copied += calls;
                    }
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok(Some(completed))
}

/// linux/errqueue.h
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
/// linux/errqueue.h
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
