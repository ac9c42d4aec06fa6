//! System calls for namespaces and TUN devices.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Moves the calling thread into new namespaces. For a user namespace the process must have one thread only
/// (user_namespaces(7)).
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no pointers; it changes which namespaces the calling thread is in, on
    // which no memory of this program depends.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the command run in a network namespace.
pub(crate) fn enter_on_exec(command: &mut Command, namespace: Arc<OwnedFd>) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: setns is a
    // plain system call, and the closure allocates nothing. The closure owns the descriptor, which is open in the child
    // because descriptors survive fork; it closes on exec.
    unsafe {
        command.pre_exec(move || {
            let done = libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET);
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
}

/// Creates a TUN device with this name in the namespace of the calling thread. It carries IP packets without any
/// header but `struct virtio_net_hdr`, and exists as long as the file.
pub(crate) fn make_tun(file: &File, name: &str) -> io::Result<()> {
    let mut request = fabricmark_host::request(name)?;
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an `ifreq`, which is alive and of the kernel's layout.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets which offloads the reader of a TUN device supports: TUN_F_* of `linux/if_tun.h`.
pub(crate) fn set_tun_offloads(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number, no pointer.
    let done = unsafe {
        libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads))
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
