//! TCP_INFO as the kernel gives it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct tcp_info` of linux/tcp.h up to `tcpi_snd_wnd` (Linux 5.4). The kernel fills as much of it
/// as it knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawTcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    /// tcpi_snd_wscale and tcpi_rcv_wscale, 4 bits each.
    pub window_scales: u8,
    /// tcpi_delivery_rate_app_limited is the lowest bit, tcpi_fastopen_client_fail the next two.
    pub app_limited_fastopen: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
}

/// The structure, and how many of its bytes the kernel filled.
pub(super) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<(RawTcpInfo, usize)> {
    let mut raw = RawTcpInfo::default();
    let mut length = size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `raw`, which outlives the call; the kernel writes at
    // most `length` bytes, and any bytes are valid integers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok((raw, length as usize)) } else { Err(io::Error::last_os_error()) }
}
