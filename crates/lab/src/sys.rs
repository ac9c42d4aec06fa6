//! Namespaces are entered here and nowhere else.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Gives the calling thread a network namespace of its own.
pub(crate) fn unshare_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

/// Gives this process a user namespace of its own. It must have one thread only (user_namespaces(7)).
pub(crate) fn unshare_user() -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER)
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no pointers; it changes which namespaces the calling thread is in, on
    // which no memory of this program depends.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the command run in a network namespace, and end when this thread ends.
pub(crate) fn enter_on_exec(command: &mut Command, namespace: BorrowedFd<'_>) {
    let namespace = namespace.as_raw_fd();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: setns and prctl are
    // plain system calls, and the closure allocates nothing. The descriptor is open in the child
    // because descriptors survive fork; it closes on exec.
    unsafe {
        command.pre_exec(move || {
            if libc::setns(namespace, libc::CLONE_NEWNET) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}
