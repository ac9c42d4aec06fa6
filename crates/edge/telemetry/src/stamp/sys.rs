//! recvmsg(2) with the control messages that carry time stamps, and what devices say of theirs.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::net::{AddressFamily, RecvFlags, SocketType, socket};

/// What a device can do and what it is set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceStamps {
    /// Flags of SO_TIMESTAMPING that it serves.
    pub flags: u32,
    /// `hwtstamp_tx_types` (linux/net_tstamp.h) that it is set to; nothing where it does not tell.
    pub tx_type: Option<u32>,
    /// `hwtstamp_rx_filters` that it is set to.
    pub rx_filter: Option<u32>,
}

/// Room for control messages: SCM_TIMESTAMPING takes 64 bytes, IPV6_RECVERR 64; aligned as
/// `cmsghdr` is.
const CONTROL_WORDS: usize = 32;

/// `struct scm_timestamping` (linux/errqueue.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct ScmTimestamping {
    software: libc::timespec,
    deprecated: libc::timespec,
    hardware: libc::timespec,
}

/// What one recvmsg(2) gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// What recvmsg(2) returned: bytes put into the buffer, or with MSG_TRUNC those of the datagram.
    pub bytes: usize,
    /// SCM_TIMESTAMPING's first stamp, of CLOCK_REALTIME; 0 where it is not set.
    pub software_ns: u64,
    /// SCM_TIMESTAMPING's third stamp, of the network device's clock; 0 where it is not set.
    pub hardware_ns: u64,
    /// The number of the packet that this time of sending belongs to, on the error queue.
    pub sent_id: Option<u32>,
}

/// Sets SO_TIMESTAMPING.
pub(super) fn set_timestamping(fd: BorrowedFd<'_>, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the pointer and length describe `flags`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives with whatever stamps came along.
pub(super) fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<Received> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a plain structure of integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` describes `buffer` and `control` with their lengths, and both outlive the
    // call and are borrowed by nobody else.
    let bytes = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags.bits() as _) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut received = Received { bytes: bytes as usize, ..Received::default() };
    // SAFETY: the kernel has left in `message` the length of the control messages that it wrote into
    // `control`, which is alive and aligned for `cmsghdr`.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a whole control message in `control`.
        unsafe {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    if let Some(stamps) = content::<ScmTimestamping>(header) {
                        received.software_ns = nanoseconds(stamps.software);
                        received.hardware_ns = nanoseconds(stamps.hardware);
                    }
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    let error = content::<libc::sock_extended_err>(header);
                    received.sent_id = error.and_then(|error| sent_id(&error));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(received)
}

/// A structure of the kernel's that is valid for any bytes.
trait Plain: Copy {}
impl Plain for ScmTimestamping {}
impl Plain for libc::sock_extended_err {}

/// What a control message carries; nothing where it is too short for it.
///
/// # Safety
/// `header` points to a control message, all of whose bytes may be read.
unsafe fn content<T: Plain>(header: *const libc::cmsghdr) -> Option<T> {
    // SAFETY: the message has `cmsg_len` bytes, header included, which is enough for a T; it may
    // stand at any alignment, and any bytes are a valid T. CMSG_LEN only computes.
    unsafe {
        let needed = libc::CMSG_LEN(size_of::<T>() as libc::c_uint);
        ((*header).cmsg_len >= needed as _)
            .then(|| ptr::read_unaligned(libc::CMSG_DATA(header).cast()))
    }
}

/// The packet's number, if an error is the time at which a packet was handed to the device
/// (SCM_TSTAMP_SND, linux/errqueue.h).
fn sent_id(error: &libc::sock_extended_err) -> Option<u32> {
    const SCM_TSTAMP_SND: u32 = 0;
    let is_sent = error.ee_errno == libc::ENOMSG as u32
        && error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
        && error.ee_info == SCM_TSTAMP_SND;
    is_sent.then_some(error.ee_data)
}

fn nanoseconds(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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

/// Asks a device about its stamps. An error says that there is no such device or that its driver does
/// not tell what it can do.
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

/// An ioctl of a device by its name.
///
/// # Safety
/// `data` points to what the request lets the kernel read and write.
unsafe fn ask<T>(
    fd: libc::c_int,
    device: &str,
    what: libc::c_ulong,
    data: *mut T,
) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data, for which zero bytes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte is left for the zero at its end.
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data.cast();
    // SAFETY: `request` outlives the call, its name ends with a zero, and its data is what the caller
    // answers for.
    let result = unsafe { libc::ioctl(fd, what as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What may be asked of [`set_timestamping`] (linux/net_tstamp.h).
pub(super) mod flag {
    pub use libc::{
        SOF_TIMESTAMPING_OPT_ID as OPT_ID, SOF_TIMESTAMPING_OPT_ID_TCP as OPT_ID_TCP,
        SOF_TIMESTAMPING_OPT_TSONLY as OPT_TSONLY, SOF_TIMESTAMPING_OPT_TX_SWHW as OPT_TX_SWHW,
        SOF_TIMESTAMPING_RAW_HARDWARE as RAW_HARDWARE, SOF_TIMESTAMPING_RX_HARDWARE as RX_HARDWARE,
        SOF_TIMESTAMPING_RX_SOFTWARE as RX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE as SOFTWARE,
        SOF_TIMESTAMPING_TX_HARDWARE as TX_HARDWARE, SOF_TIMESTAMPING_TX_SOFTWARE as TX_SOFTWARE,
    };
}
