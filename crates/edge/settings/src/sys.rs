//! A socket option that no safe crate offers.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The cookie of the network namespace of a socket: SO_NETNS_COOKIE (Linux 5.14), unique until the machine reboots.
pub(crate) fn namespace_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the value pointer is to a `u64` and the length pointer to its size; both outlive the call, which writes
    // at most that many bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}
