//! Socket options and control messages that no safe crate offers.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{ptr, slice};

use libc::c_int;
use rustix::net::RecvFlags;

use crate::tcp_info::RawTcpInfo;

/// A plain data type of the kernel's interface.
///
/// # Safety
/// Any bytes are a valid value.
pub unsafe trait Plain: Copy {}

macro_rules! plain_types {
    ($($type:ty),+) => {$(
        // SAFETY: numbers, and structures of numbers, whose padding does not matter.
        unsafe impl Plain for $type {}
    )+};
}
plain_types!(u8, u16, c_int, u32, u64, libc::timespec, libc::sock_extended_err, RawTcpInfo);

// SAFETY: as its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a socket option into a value; also returns the number of bytes that the kernel filled.
pub fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    mut value: T,
) -> io::Result<(T, usize)> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which outlives the call; the kernel writes at
    // most `length` bytes, and any bytes are a valid T.
    let result = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(fd.as_raw_fd(), level, option, value, &raw mut length)
    };
    if result == 0 { Ok((value, length as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket option.
pub fn set<T: Plain>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Room for control messages, aligned as `cmsghdr`: SCM_TIMESTAMPING takes 64 bytes, IPV6_RECVERR 64.
const CONTROL_WORDS: usize = 32;

/// Calls recvmsg(2), then `each` with (level, type) and data of each control message. Returns the number of bytes
/// received.
pub fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
    mut each: impl FnMut((c_int, c_int), &[u8]),
) -> io::Result<usize> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a plain structure of integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` describes `buffer` and `control` with their lengths, and both outlive the call and are
    // borrowed exclusively.
    let bytes = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags.bits() as _) };
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has left in `message` the length of the control messages that it wrote into `control`, which
    // is alive and aligned for `cmsghdr`. CMSG_FIRSTHDR and CMSG_NXTHDR return null or a complete message, of
    // `cmsg_len` bytes with its header.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let length = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = slice::from_raw_parts(libc::CMSG_DATA(header), length);
            each(((*header).cmsg_level, (*header).cmsg_type), data);
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(bytes)
}

/// The value at the start of `data`; `None` if the data is too short.
pub fn plain<T: Plain>(data: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, the read is unaligned, and any bytes are a valid T.
    (data.len() >= size_of::<T>()).then(|| unsafe { ptr::read_unaligned(data.as_ptr().cast()) })
}
