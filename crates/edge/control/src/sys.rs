//! A socket option that no safe crate offers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Keeps new connections in the kernel until their first byte arrives, or for this time (tcp(7),
/// TCP_DEFER_ACCEPT).
pub(crate) fn defer_accept(listener: BorrowedFd<'_>, within: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(within.as_secs()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open as long as the borrow lives, and the kernel reads as many bytes as
    // a c_int has from a value that lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
