//! System calls that no safe crate offers.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{FromRawFd, OwnedFd};

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
