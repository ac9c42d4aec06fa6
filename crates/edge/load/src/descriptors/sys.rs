//! unshare(2) and close_range(2).

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// First descriptor after standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Gives the calling thread a private copy of the table that it shares with others.
pub(super) fn unshare() -> io::Result<()> {
    // SAFETY: every descriptor keeps its number and what it refers to, here and in the other threads. What owns a
    // descriptor closes it in the table of the thread that drops it; it is open there, since nothing that owns one is
    // moved between threads with different tables.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FILES) }?)
}

/// Gives the calling thread a table with only standard input, output and error.
pub(super) fn close_all() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_UNSHARE;
    // SAFETY: with this flag the thread gets a table of its own first (close_range(2)), so no descriptor of another
    // thread closes. The calling thread uses none.
    match unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
