//! recvmsg(2) and sendmsg(2) with what the IP header says, and adjtimex(2).

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use fabricmark_units::Nanos;
use socket2::SockAddr;

/// Room for control messages: a time stamp, a packet's address, and two integers of either family are
/// 32 + 40 + 2 * 24 octets; aligned as `cmsghdr` is.
const CONTROL_WORDS: usize = 32;

/// A datagram and what the kernel knows of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Octets put into the buffer.
    pub bytes: usize,
    pub source: SocketAddr,
    /// The address of this host that it was sent to.
    pub destination: Option<IpAddr>,
    /// When the kernel got it, by CLOCK_REALTIME.
    pub at: Option<Nanos>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// DSCP and ECN as the octet of the IP header has them.
    pub traffic_class: Option<u8>,
}

/// Lets the kernel tell time, TTL, class and destination of what arrives from now on. The first
/// packets may come without a time: it is taken from a moment after it was asked for (net/core/dev.c,
/// net_enable_timestamp).
pub(super) fn tell_arrivals(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)?;
    // A socket of IPv6 has IPv4's options, too, for its mapped addresses.
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL)?;
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS)?;
    if is_ipv6(fd)? {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT)?;
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)?;
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO)
    }
}

fn is_ipv6(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let address = socket2::SockRef::from(&fd).local_addr()?;
    Ok(address.is_ipv6())
}

fn set(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and length describe `on`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives one datagram, waiting as the socket is set to.
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a plain structure of integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the closure lets the kernel write an address into the storage and sets its length, as
    // `try_init` wants; `message` describes the storage, `buffer` and `control`, which all outlive the
    // call and are borrowed by nobody else.
    let (bytes, source) = unsafe {
        SockAddr::try_init(|storage, length| {
            message.msg_name = storage.cast();
            message.msg_namelen = *length;
            let bytes = libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0);
            *length = message.msg_namelen;
            usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
        })
    }?;
    let source = source.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    let mut received =
        Received { bytes, source, destination: None, at: None, ttl: None, traffic_class: None };
    // SAFETY: the kernel has left in `message` the length of the control messages that it wrote into
    // `control`, which is alive and aligned for `cmsghdr`.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a whole control message in `control`.
        unsafe {
            note(&mut received, header);
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(received)
}

/// Notes what one control message tells.
///
/// # Safety
/// `header` points to a control message, all of whose bytes may be read.
unsafe fn note(received: &mut Received, header: *const libc::cmsghdr) {
    // SAFETY: as the caller promises.
    unsafe {
        match ((*header).cmsg_level, (*header).cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                received.at = content::<libc::timespec>(header).and_then(nanoseconds);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                received.ttl = content::<libc::c_int>(header).map(|ttl| ttl as u8);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => received.traffic_class = content::<u8>(header),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                received.traffic_class = content::<libc::c_int>(header).map(|class| class as u8);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info = content::<libc::in_pktinfo>(header);
                let octets = info.map(|info| info.ipi_spec_dst.s_addr.to_ne_bytes());
                received.destination = octets.map(|octets| Ipv4Addr::from(octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info = content::<libc::in6_pktinfo>(header);
                let octets = info.map(|info| info.ipi6_addr.s6_addr);
                received.destination = octets.map(|octets| Ipv6Addr::from(octets).into());
            }
            _ => {}
        }
    }
}

/// A structure of the kernel's that is valid for any bytes.
trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for libc::c_int {}
impl Plain for libc::timespec {}
impl Plain for libc::in_pktinfo {}
impl Plain for libc::in6_pktinfo {}

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

fn nanoseconds(time: libc::timespec) -> Option<Nanos> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(Nanos(seconds.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec as u64)?))
}

/// Control messages to be sent.
struct Control {
    words: [u64; CONTROL_WORDS],
    bytes: usize,
}

impl Control {
    /// Adds a message.
    fn push<T: Plain>(&mut self, level: libc::c_int, kind: libc::c_int, content: T) {
        let size = size_of::<T>() as libc::c_uint;
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute. The message begins at a multiple of the
        // alignment of `cmsghdr`, as CMSG_SPACE is one, and ends within `words`, as is checked.
        unsafe {
            let space = libc::CMSG_SPACE(size) as usize;
            if self.bytes + space > size_of_val(&self.words) {
                return;
            }
            let header: *mut libc::cmsghdr = self.words.as_mut_ptr().byte_add(self.bytes).cast();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast(), content);
            self.bytes += space;
        }
    }
}

/// Sends one datagram, from an address of this host where one is given, with an octet of DSCP and ECN.
pub(super) fn send(
    fd: BorrowedFd<'_>,
    octets: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
    traffic_class: u8,
) -> io::Result<()> {
    let mut control = Control { words: [0; CONTROL_WORDS], bytes: 0 };
    let class = libc::c_int::from(traffic_class);
    if to.ip().to_canonical().is_ipv4() {
        control.push(libc::IPPROTO_IP, libc::IP_TOS, class);
    } else {
        control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class);
    }
    match from {
        Some(IpAddr::V4(from)) => {
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
            let any = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(IpAddr::V6(from)) => {
            let source = libc::in6_addr { s6_addr: from.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        None => {}
    }
    let to = SockAddr::from(to);
    let mut part =
        libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
    // SAFETY: a plain structure of integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.words.as_mut_ptr().cast();
    message.msg_controllen = control.bytes as _;
    // SAFETY: `message` describes `to`, `octets` and `control`, which outlive the call; sendmsg(2) only
    // reads them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What the kernel says of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockState {
    /// Whether it follows another clock.
    pub is_synchronised: bool,
    /// How far it may be from UTC.
    pub error_max: Nanos,
}

/// Asks adjtimex(2). Who sets the clock tells the kernel how well; a service that sets it without
/// telling (phc2sys of linuxptp does so) leaves it unsynchronised. A kernel that does not answer is taken
/// for one whose clock is not, with the largest error that Linux knows: 16 s (NTP_PHASE_LIMIT).
pub(super) fn clock_state() -> ClockState {
    // SAFETY: a plain structure of integers, for which zero is valid; it asks for no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure that `state` is.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return ClockState { is_synchronised: false, error_max: Nanos::from_secs(16) };
    }
    let is_synchronised = result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    let error_max = Nanos(u64::try_from(state.maxerror).unwrap_or(u64::MAX).saturating_mul(1_000));
    ClockState { is_synchronised, error_max }
}
