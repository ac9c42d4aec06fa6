//! System calls that no safe crate offers.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::events::Event;

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

/// `struct perf_event_attr` (linux/perf_event.h) in its first version, PERF_ATTR_SIZE_VER0. Every kernel accepts
/// it, and counting needs no later field.
#[derive(Default)]
#[repr(C)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Starts to count an event of one thread and of the threads that it creates from now on. A read of the descriptor
/// returns three u64: the count, the time enabled, and the time in which the event was counted.
pub(crate) fn count_event(event: Event, thread: u32, with_kernel: bool) -> io::Result<OwnedFd> {
    let Event { kind, config, .. } = event;
    const READ_TIME_ENABLED: u64 = 1 << 0;
    const READ_TIME_RUNNING: u64 = 1 << 1;
    const INHERIT: u64 = 1 << 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const FD_CLOEXEC: libc::c_ulong = 1 << 3;
    let kernel = if with_kernel { 0 } else { EXCLUDE_KERNEL };
    let attributes = PerfEventAttr {
        kind,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        read_format: READ_TIME_ENABLED | READ_TIME_RUNNING,
        flags: INHERIT | EXCLUDE_HYPERVISOR | kernel,
        ..PerfEventAttr::default()
    };
    let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: `attributes` outlives the call and states its own size; the other arguments are integers.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread as libc::pid_t,
            any_cpu,
            no_group,
            FD_CLOEXEC,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_length_of_its_first_version() {
        const PERF_ATTR_SIZE_VER0: usize = 64;
        assert_eq!(size_of::<PerfEventAttr>(), PERF_ATTR_SIZE_VER0);
    }
}
