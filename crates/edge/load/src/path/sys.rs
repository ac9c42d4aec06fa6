//! sendmmsg(2) and recvmmsg(2), which no safe crate offers.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Buffers for several datagrams and their `mmsghdr`, allocated once.
pub(crate) struct Batch {
    bytes: usize,
    buffers: Box<[u8]>,
    /// Points into `buffers`, one entry per datagram.
    _vectors: Box<[libc::iovec]>,
    /// Points to `_vectors`, one entry per datagram.
    headers: Box<[libc::mmsghdr]>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers point into boxes that the value owns and that never move or shrink, so whichever thread
// owns the value may use it.
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

    /// Number of datagrams in a batch.
    pub(crate) fn count(&self) -> usize {
        self.headers.len()
    }

    pub(crate) fn buffer(&mut self, place: usize) -> &mut [u8] {
        &mut self.buffers[place * self.bytes..][..self.bytes]
    }

    /// The stored part of a received datagram, and its true length.
    pub(crate) fn arrived(&self, place: usize) -> (&[u8], usize) {
        let bytes = self.headers[place].msg_len as usize;
        (&self.buffers[place * self.bytes..][..bytes.min(self.bytes)], bytes)
    }

    /// Sends the first `count` datagrams, or as many as there is room for; returns their number.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let headers = &mut self.headers[..count];
        // SAFETY: headers, vectors and buffers are owned by `self`, which is borrowed for the call; the
        // kernel reads them and writes each `msg_len`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                0,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Waits for one datagram and takes those behind it; returns their number.
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
