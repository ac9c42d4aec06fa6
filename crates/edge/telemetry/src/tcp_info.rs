//! TCP_INFO: what the kernel knows of a TCP connection.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use fabricmark_record::TcpSample;

use crate::sys;

/// `struct tcp_info` of linux/tcp.h up to `tcpi_snd_wnd` (Linux 5.4). An older kernel fills only the fields that it
/// knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawTcpInfo {
    pub state: u8,
    _ca_state_to_window_scales: [u8; 6],
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

/// The structure, and how many of its bytes the kernel has filled.
fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<(RawTcpInfo, usize)> {
    sys::get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, RawTcpInfo::default())
}

/// TCP_INFO of a connection now; fails if the socket is not TCP. Costs one system call.
pub fn sample(fd: BorrowedFd<'_>) -> io::Result<TcpSample> {
    let (raw, filled) = tcp_info(fd)?;
    Ok(read(&raw, filled))
}

/// What a connection has received so far.
pub struct Received {
    /// Segments with data, including those out of order and duplicates. A super-packet of a TUN device counts as one
    /// (`tcp_segs_in` and `virtio_net_hdr_to_skb`, which leaves `gso_segs` at 0).
    pub segments: u64,
    /// Length of a full segment, as far as one was seen.
    pub segment_bytes: u64,
    /// Bytes up to the first that is missing.
    pub in_order_bytes: u64,
    /// Segments that arrived while an earlier one was missing.
    pub out_of_order_segments: u64,
}

/// What a connection has received; `None` before Linux 5.4, which does not report all of it. Fails if the socket is
/// not TCP.
pub fn received(fd: BorrowedFd<'_>) -> io::Result<Option<Received>> {
    let (raw, filled) = tcp_info(fd)?;
    let last = offset_of!(RawTcpInfo, rcv_ooopack) + size_of_val(&raw.rcv_ooopack);
    Ok((filled >= last).then_some(Received {
        segments: raw.data_segs_in.into(),
        segment_bytes: raw.rcv_mss.into(),
        in_order_bytes: raw.bytes_received,
        out_of_order_segments: raw.rcv_ooopack.into(),
    }))
}

/// What a connection has sent so far.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Length of a full segment.
    pub segment_bytes: u64,
    /// Segments with data, including retransmissions.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
    /// Whether the connection has ended (TCP_CLOSE), so that nothing more is sent or acknowledged.
    pub is_closed: bool,
    /// Segments that are not acknowledged yet.
    pub unacked_segments: u64,
    /// Bytes that were written and not sent yet.
    pub notsent_bytes: u64,
    /// Smoothed RTT in microseconds.
    pub srtt_us: u64,
    /// Time with unsent or unacknowledged data; `None` before Linux 4.10, as the next two.
    pub busy_ns: Option<u64>,
    /// The part of `busy_ns` in which the other end's window was the limit.
    pub rwnd_limited_ns: Option<u64>,
    /// The part of `busy_ns` in which the send buffer was the limit.
    pub sndbuf_limited_ns: Option<u64>,
}

/// What a connection has sent; `None` before Linux 4.6, which does not count data segments. Fails if the socket is
/// not TCP.
pub fn sent(fd: BorrowedFd<'_>) -> io::Result<Option<Sent>> {
    /// net/tcp_states.h
    const TCP_CLOSE: u8 = 7;
    let (raw, filled) = tcp_info(fd)?;
    let last = offset_of!(RawTcpInfo, data_segs_out) + size_of_val(&raw.data_segs_out);
    let TcpSample { busy_ns, rwnd_limited_ns, sndbuf_limited_ns, .. } = read(&raw, filled);
    Ok((filled >= last).then_some(Sent {
        segment_bytes: raw.snd_mss.into(),
        segments: raw.data_segs_out.into(),
        retransmitted_segments: raw.total_retrans.into(),
        is_closed: raw.state == TCP_CLOSE,
        unacked_segments: raw.unacked.into(),
        notsent_bytes: raw.notsent_bytes.into(),
        srtt_us: raw.rtt.into(),
        busy_ns,
        rwnd_limited_ns,
        sndbuf_limited_ns,
    }))
}

/// The fields that the kernel has filled, in base units.
fn read(raw: &RawTcpInfo, filled: usize) -> TcpSample {
    /// TCP_INFINITE_SSTHRESH, net/tcp.h.
    const NO_THRESHOLD: u64 = 0x7fff_ffff;
    /// Minimum RTT before the first RTT sample (tcp_init_sock).
    const NO_ROUND_TRIP: u64 = u32::MAX as u64;
    macro_rules! field {
        ($name:ident) => {
            (filled >= offset_of!(RawTcpInfo, $name) + size_of_val(&raw.$name))
                .then_some(u64::from(raw.$name))
        };
    }
    let ns = |us: u64| us.saturating_mul(1_000);
    let bps = |bytes_per_second: u64| bytes_per_second.saturating_mul(8);
    TcpSample {
        mss_bytes: field!(snd_mss),
        cwnd_segments: field!(snd_cwnd),
        ssthresh_segments: field!(snd_ssthresh).filter(|&segments| segments < NO_THRESHOLD),
        srtt_ns: field!(rtt).map(ns),
        rttvar_ns: field!(rttvar).map(ns),
        min_rtt_ns: field!(min_rtt).filter(|&us| us != NO_ROUND_TRIP).map(ns),
        unacked_segments: field!(unacked),
        lost_segments: field!(lost),
        retransmitted_segments: field!(total_retrans),
        notsent_bytes: field!(notsent_bytes),
        send_window_bytes: field!(snd_wnd),
        rcv_space_bytes: field!(rcv_space),
        pacing_rate_bps: field!(pacing_rate).filter(|&rate| rate != u64::MAX).map(bps),
        delivery_rate_bps: field!(delivery_rate).map(bps),
        is_delivery_rate_app_limited: field!(delivery_rate)
            .map(|_| raw.app_limited_fastopen & 1 == 1),
        busy_ns: field!(busy_time).map(ns),
        rwnd_limited_ns: field!(rwnd_limited).map(ns),
        sndbuf_limited_ns: field!(sndbuf_limited).map(ns),
        delivered_segments: field!(delivered),
        delivered_ce_segments: field!(delivered_ce),
        bytes_sent: field!(bytes_sent),
        bytes_acked: field!(bytes_acked),
        bytes_received: field!(bytes_received),
        bytes_retransmitted: field!(bytes_retrans),
        dsack_duplicates: field!(dsack_dups),
        reorderings_seen: field!(reord_seen),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::process::Command;

    use super::*;

    /// Both ends of a loopback connection, after `bytes` bytes in one direction and one back, so that everything is
    /// acknowledged.
    fn exchanged(bytes: usize) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut start = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut answer, _) = listener.accept().unwrap();
        start.write_all(&vec![0x5a; bytes]).unwrap();
        answer.read_exact(&mut vec![0; bytes]).unwrap();
        answer.write_all(&[1]).unwrap();
        start.read_exact(&mut [0]).unwrap();
        (start, answer)
    }

    #[test]
    fn a_connection_that_moved_bytes_says_how_many() {
        const BYTES: u64 = 5_000;
        let (start, answer) = exchanged(BYTES as usize);
        let (start, answer) = (sample(start.as_fd()).unwrap(), sample(answer.as_fd()).unwrap());
        assert_eq!(start.bytes_acked, Some(BYTES + 1), "the SYN counts as one");
        assert_eq!(start.bytes_sent, Some(BYTES));
        assert_eq!(start.bytes_received, Some(1));
        assert_eq!(answer.bytes_received, Some(BYTES));
        assert_eq!((start.unacked_segments, start.notsent_bytes), (Some(0), Some(0)));
        assert_eq!((start.retransmitted_segments, start.bytes_retransmitted), (Some(0), Some(0)));
        assert_eq!((start.lost_segments, start.reorderings_seen), (Some(0), Some(0)));
        assert_eq!((start.dsack_duplicates, start.delivered_ce_segments), (Some(0), Some(0)));
        assert!(start.delivered_segments >= Some(2), "the SYN and the data: {start:?}");
        assert!(start.busy_ns >= start.rwnd_limited_ns, "{start:?}");
    }

    /// The pairs `name:value` and `name value` of `ss -tin`.
    fn socket_statistics(stream: &TcpStream) -> BTreeMap<String, String> {
        let local = format!("sport = :{}", stream.local_addr().unwrap().port());
        let remote = format!("dport = :{}", stream.peer_addr().unwrap().port());
        let output =
            Command::new("ss").args(["-tinH", &local, "and", &remote]).output().expect("iproute2");
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let joined = words.iter().filter_map(|word| word.split_once(':'));
        let spaced = words.windows(2).map(|pair| (pair[0], pair[1]));
        // `name:value` last, because any two adjacent words count as `name value`.
        spaced.chain(joined).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn every_field_has_the_value_that_ss_prints() {
        let (start, _answer) = exchanged(200_000);
        let sample = sample(start.as_fd()).unwrap();
        let printed = socket_statistics(&start);
        let number = |name: &str| -> f64 {
            let word = printed.get(name).unwrap_or_else(|| panic!("{name} in {printed:?}"));
            let end = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
            word[..end.unwrap_or(word.len())].parse().unwrap_or_else(|_| panic!("{name} {word}"))
        };
        let same = |name: &str, scale: f64, ours: Option<u64>| {
            let ours = ours.unwrap_or_else(|| panic!("this kernel is too old to know {name}"));
            let theirs = number(name) * scale;
            assert!((ours as f64 - theirs).abs() < 0.5, "{name}: {ours} is not {theirs}");
        };
        same("mss", 1.0, sample.mss_bytes);
        same("cwnd", 1.0, sample.cwnd_segments);
        same("minrtt", 1e6, sample.min_rtt_ns);
        same("rtt", 1e6, sample.srtt_ns);
        same("bytes_sent", 1.0, sample.bytes_sent);
        same("bytes_acked", 1.0, sample.bytes_acked);
        same("bytes_received", 1.0, sample.bytes_received);
        same("delivered", 1.0, sample.delivered_segments);
        same("rcv_space", 1.0, sample.rcv_space_bytes);
        same("snd_wnd", 1.0, sample.send_window_bytes);
        same("delivery_rate", 1.0, sample.delivery_rate_bps);
        same("pacing_rate", 1.0, sample.pacing_rate_bps);
        let (_, rttvar) = printed["rtt"].split_once('/').unwrap();
        assert_eq!(rttvar.parse::<f64>().unwrap() * 1e6, sample.rttvar_ns.unwrap() as f64);
        // Values that ss omits if they are 0, or a threshold of at least 65535 segments.
        let left_out = |name: &str| if printed.contains_key(name) { number(name) } else { 0.0 };
        assert_eq!((sample.busy_ns.unwrap() / 1_000_000) as f64, left_out("busy"));
        let threshold = sample.ssthresh_segments.filter(|&segments| segments < 0xffff);
        assert_eq!(threshold.unwrap_or(0) as f64, left_out("ssthresh"));
        assert_eq!(sample.is_delivery_rate_app_limited, Some(printed.contains_key("app_limited")));
    }

    #[test]
    fn fields_beyond_what_the_kernel_filled_are_absent() {
        // Up to tcpi_total_retrans, as before Linux 3.15.
        const OLD: usize = 104;
        let raw = RawTcpInfo {
            snd_cwnd: 10,
            total_retrans: 3,
            pacing_rate: 125,
            app_limited_fastopen: 1,
            delivery_rate: 1_000,
            snd_wnd: 7,
            ..RawTcpInfo::default()
        };
        let old = read(&raw, OLD);
        assert_eq!((old.cwnd_segments, old.retransmitted_segments), (Some(10), Some(3)));
        assert_eq!((old.pacing_rate_bps, old.delivery_rate_bps), (None, None));
        assert_eq!(old.is_delivery_rate_app_limited, None);
        assert_eq!(read(&raw, OLD - 1).retransmitted_segments, None);
        let whole = read(&raw, size_of::<RawTcpInfo>());
        assert_eq!((whole.pacing_rate_bps, whole.delivery_rate_bps), (Some(1_000), Some(8_000)));
        assert_eq!(whole.is_delivery_rate_app_limited, Some(true));
        assert_eq!(whole.send_window_bytes, Some(7));
        assert_eq!(read(&raw, size_of::<RawTcpInfo>() - 1).send_window_bytes, None);
    }

    #[test]
    fn what_has_no_value_yet_is_absent() {
        let raw = RawTcpInfo {
            snd_ssthresh: 0x7fff_ffff,
            min_rtt: u32::MAX,
            pacing_rate: u64::MAX,
            ..RawTcpInfo::default()
        };
        let sample = read(&raw, size_of::<RawTcpInfo>());
        assert_eq!((sample.ssthresh_segments, sample.min_rtt_ns), (None, None));
        assert_eq!(sample.pacing_rate_bps, None);
    }

    #[test]
    fn a_socket_that_is_not_tcp_has_no_sample() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(sample(socket.as_fd()).is_err());
    }
}
