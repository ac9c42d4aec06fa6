//! Questions to network drivers that no safe crate asks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Asks a driver by ioctl SIOCETHTOOL. The first word of `words` is the command; the kernel
/// replaces the words by its answer (linux/ethtool.h).
///
/// `words` must be as long as the command's structure, or longer; none of the commands that
/// `ethtool.rs` sends has a longer one than 23 words.
pub(super) fn ask(socket: &OwnedFd, device: &str, words: &mut [u32; 23]) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data, for which zero bytes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte is left for the zero at its end.
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` outlives the call, its name ends with a zero, and its data points at 23
    // words, which is what the longest command used here lets the kernel write.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
