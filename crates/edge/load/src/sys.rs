//! Socket options that no safe crate offers.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The fields of `struct tcp_info` (linux/tcp.h) up to the last one used here. A kernel that knows
/// fewer fields fills fewer bytes; a field beyond them is reported as absent.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawTcpInfo {
    state_to_flags: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
}

/// What TCP_INFO says about a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpInfo {
    /// Largest segment sent, in bytes.
    pub snd_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Smoothed round trip in microseconds.
    pub rtt_us: u32,
    /// Segments sent again, in all.
    pub total_retrans: u32,
    /// Bytes written and not yet sent.
    pub notsent_bytes: u32,
    /// Segments with data sent, in all.
    pub data_segs_out: u32,
}

/// Reads an option into a plain value; gives the number of bytes that the kernel filled.
pub(crate) fn get<T: Copy>(
    fd: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: T,
) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::new(value);
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which outlives the call; the kernel writes at
    // most `length` bytes, and T is a plain integer structure, valid for any bytes.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was initialised above and any bytes are a valid T.
    Ok((unsafe { value.assume_init() }, length as usize))
}

/// TCP_INFO of a connection; nothing where the kernel is too old to count data segments (before
/// Linux 4.6).
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<Option<TcpInfo>> {
    let (raw, filled) = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, RawTcpInfo::default())?;
    Ok((filled >= size_of::<RawTcpInfo>()).then_some(TcpInfo {
        snd_mss: raw.snd_mss,
        unacked: raw.unacked,
        rtt_us: raw.rtt,
        total_retrans: raw.total_retrans,
        notsent_bytes: raw.notsent_bytes,
        data_segs_out: raw.data_segs_out,
    }))
}

/// Counters of a socket's memory, SO_MEMINFO (linux/sock_diag.h).
fn memory(fd: BorrowedFd<'_>) -> io::Result<[u32; 9]> {
    Ok(get(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, [0; 9])?.0)
}

/// The memory in bytes that packets hold which nobody has received yet: SK_MEMINFO_RMEM_ALLOC,
/// which is more than their payloads; of TCP those behind a hole, too. 0 if there are none.
pub(crate) fn waiting_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const SK_MEMINFO_RMEM_ALLOC: usize = 0;
    Ok(u64::from(memory(fd)?[SK_MEMINFO_RMEM_ALLOC]))
}

/// Subflows of an MPTCP connection beside its first: `mptcpi_subflows` of MPTCP_INFO (linux/mptcp.h).
pub(crate) fn more_subflows(fd: BorrowedFd<'_>) -> io::Result<u8> {
    const SOL_MPTCP: libc::c_int = 284;
    const MPTCP_INFO: libc::c_int = 1;
    Ok(get(fd, SOL_MPTCP, MPTCP_INFO, 0)?.0)
}

/// The protocol of a socket, IPPROTO_TCP or another (SO_PROTOCOL, socket(7)).
pub(crate) fn protocol(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    Ok(get(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0)?.0)
}

/// Datagrams that this socket dropped for lack of buffer: SK_MEMINFO_DROPS, the counter that
/// SO_RXQ_OVFL reports with a later datagram. 0 where the kernel is older than the counter.
pub(crate) fn socket_drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const SK_MEMINFO_DROPS: usize = 8;
    Ok(u64::from(memory(fd)?[SK_MEMINFO_DROPS]))
}

/// The MTU of a connected socket's path in bytes, as far as it is known (IP_MTU, ip(7)).
pub(crate) fn path_mtu(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<usize> {
    let (level, option) = match is_v6 {
        false => (libc::IPPROTO_IP, libc::IP_MTU),
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    Ok(usize::try_from(get::<libc::c_int>(fd, level, option, 0)?.0).unwrap_or(0))
}

/// A socket's buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    /// What has arrived.
    Receive,
    /// What is to be sent.
    Send,
}

/// Sets a buffer beyond net.core.rmem_max or wmem_max; needs CAP_NET_ADMIN.
pub(crate) fn force_buffer(
    fd: BorrowedFd<'_>,
    direction: Direction,
    bytes: usize,
) -> io::Result<()> {
    let option = match direction {
        Direction::Receive => libc::SO_RCVBUFFORCE,
        Direction::Send => libc::SO_SNDBUFFORCE,
    };
    set(fd, libc::SOL_SOCKET, option, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX))
}

/// Lets calls poll the device for so long before they sleep; needs CAP_NET_ADMIN to raise it.
pub(crate) fn set_busy_poll(fd: BorrowedFd<'_>, us: i32) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us)
}

/// Lets TCP send at most so many bytes a second (SO_MAX_PACING_RATE, socket(7)). Kernels before 4.20
/// take 32 bits of it.
pub(crate) fn set_pacing_rate(fd: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_s)
}

/// That limit in bytes a second; nothing where there is none, which the kernel says by setting every
/// bit.
pub(crate) fn pacing_rate(fd: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let (rate, _) = get(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX)?;
    Ok((rate != u64::MAX).then_some(rate))
}

/// Sets an option that is a plain number.
pub(crate) fn set<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
