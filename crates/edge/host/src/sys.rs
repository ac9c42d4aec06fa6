//! System calls that no safe crate offers.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

/// Resource usage of this process: getrusage(2), RUSAGE_SELF.
pub(crate) fn resources() -> libc::rusage {
    // SAFETY: all zeros are a valid value of a plain structure of integers.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the pointer is to a `rusage` that outlives the call. RUSAGE_SELF and a valid pointer leave the call no
    // reason to fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}

/// Converts a time of [`resources`] to nanoseconds.
pub(crate) fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

/// An `ifreq` with the name of a device, the argument of network device ioctls (netdevice(7)). Fails with
/// `InvalidInput` if the name has more than 15 bytes.
pub fn request(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros are a valid `ifreq`: an empty name, a union of integers and addresses.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays 0, because the name is a C string.
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Length of `struct ethtool_drvinfo` (linux/ethtool.h).
pub(crate) const DRIVER_INFO_BYTES: usize = 196;

/// `struct ethtool_drvinfo` as the kernel writes it for ETHTOOL_GDRVINFO.
#[repr(C, align(4))]
struct DriverInfo([u8; DRIVER_INFO_BYTES]);

/// The driver of a device and its firmware: ioctl SIOCETHTOOL with ETHTOOL_GDRVINFO, which ethtool netlink lacks.
pub(crate) fn driver_info(socket: &OwnedFd, device: &str) -> io::Result<[u8; DRIVER_INFO_BYTES]> {
    const ETHTOOL_GDRVINFO: u32 = 3;
    let mut request = request(device)?;
    let mut info = DriverInfo([0; DRIVER_INFO_BYTES]);
    info.0[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: `request` and `info` outlive the call, the name is zero-terminated, and its data points to a structure of
    // the length that the kernel writes for this command.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info.0) }
}
