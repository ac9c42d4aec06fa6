//! Queries devices about their timestamps.

use std::io;
use std::os::fd::AsRawFd;

use libc::{c_int, c_ulong};
use rustix::net::{AddressFamily, SocketType, socket};

/// What a device supports, and how it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceStamps {
    /// Flags of SO_TIMESTAMPING that it supports.
    pub flags: u32,
    /// `hwtstamp_tx_types` (linux/net_tstamp.h) that it is set to; `None` if it does not report that.
    pub tx_type: Option<u32>,
    /// `hwtstamp_rx_filters` that it is set to; `None` if it does not report that.
    pub rx_filter: Option<u32>,
}

/// `struct ethtool_ts_info` (linux/ethtool.h).
#[repr(C)]
#[derive(Default)]
struct TsInfo {
    command: u32,
    flags: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

/// `struct hwtstamp_config` (linux/net_tstamp.h).
#[repr(C)]
#[derive(Default)]
struct HwConfig {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

/// Queries a device about its timestamps. Fails if there is no such device, or if its driver does not report what it
/// supports.
pub(super) fn device_stamps(device: &str) -> io::Result<DeviceStamps> {
    /// linux/ethtool.h
    const ETHTOOL_GET_TS_INFO: u32 = 0x41;
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut info = TsInfo { command: ETHTOOL_GET_TS_INFO, ..TsInfo::default() };
    // SAFETY: the command lets the kernel write the structure that `info` is.
    unsafe { ask(socket.as_raw_fd(), device, libc::SIOCETHTOOL, &raw mut info) }?;
    let mut config = HwConfig::default();
    // SAFETY: SIOCGHWTSTAMP lets the kernel write the structure that `config` is.
    let told = unsafe { ask(socket.as_raw_fd(), device, libc::SIOCGHWTSTAMP, &raw mut config) };
    let told = |value: i32| told.is_ok().then_some(value as u32);
    Ok(DeviceStamps {
        flags: info.flags,
        tx_type: told(config.tx_type),
        rx_filter: told(config.rx_filter),
    })
}

/// An ioctl on a device, by name.
///
/// # Safety
/// `data` points to what the request lets the kernel read and write.
unsafe fn ask<T>(fd: c_int, device: &str, what: c_ulong, data: *mut T) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data, for which zero bytes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte is left for the terminating zero.
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data.cast();
    // SAFETY: `request` outlives the call, its name is zero-terminated, and the caller guarantees its data.
    let result = unsafe { libc::ioctl(fd, what as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
