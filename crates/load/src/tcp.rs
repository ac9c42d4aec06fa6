//! What TCP counted over the flows of a run.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fabricmark_plan::{Point, Transport};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_record::TcpCounters;
use socket2::SockRef;

use crate::clock::now_ns;
use crate::sockets::system;
use crate::sys::{self, TcpInfo};

/// Time for the last bytes to be acknowledged; a 4 MiB send buffer at 10 Mbit/s needs 3.4 s.
const ACKNOWLEDGED_WITHIN_NS: u64 = 5_000_000_000;

/// Lets the receiver of a stream acknowledge as one to which nothing but the stream was ever sent. An end
/// that has answered something delays its acknowledgements (inet_csk_in_pingpong_mode, net/tcp.h), and
/// the answer here was that to the opening: over veth with bbr, streams of 1 KiB writes have a third of
/// the goodput then (0.43 against 1.15 Gbit/s, ten rounds each of `make bench`), while those of 64 B over
/// loopback, whose writes the delay lets merge, have 1.7 instead of 1.5 Gbit/s. MPTCP's sockets have several connections, of which this would say nothing.
pub(crate) fn forget_opening(stream: &TcpStream, point: &Point) -> Result<(), Failure> {
    if point.quickack.is_some() || point.transport == Transport::Mptcp {
        return Ok(());
    }
    sys::set::<libc::c_int>(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1)
        .map_err(system("set TCP_QUICKACK"))
}

/// TCP's counters once everything is acknowledged: so many writes of the point's payload.
pub(crate) fn counters<'a>(
    streams: impl Iterator<Item = &'a TcpStream>,
    writes: u64,
    prepare: &Prepare,
) -> Result<Option<TcpCounters>, Failure> {
    let payload_bytes = prepare.point.payload.0;
    let until = now_ns() + ACKNOWLEDGED_WITHIN_NS + prepare.patience().0;
    let mut congestion = None;
    let mut flows: Vec<TcpInfo> = Vec::new();
    for stream in streams {
        if congestion.is_none() {
            congestion = SockRef::from(stream).tcp_congestion().ok();
        }
        match acknowledged(stream, until)? {
            Some(info) => flows.push(info),
            None => return Ok(None),
        }
    }
    let sum = |of: fn(&TcpInfo) -> u32| flows.iter().map(|info| u64::from(of(info))).sum::<u64>();
    let data_segments = sum(|info| info.data_segs_out);
    let retransmitted = sum(|info| info.total_retrans);
    let count = flows.len().max(1) as u64;
    // Each opening was a data segment, too.
    let first_sent = data_segments.saturating_sub(retransmitted + count).max(1);
    let mss = sum(|info| info.snd_mss) / count;
    let alone = writes * payload_bytes.div_ceil(mss.max(1));
    let congestion = congestion.unwrap_or_default();
    Ok(Some(TcpCounters {
        congestion: String::from_utf8_lossy(&congestion).trim_end_matches('\0').to_owned(),
        mss,
        data_segments,
        retransmitted,
        srtt_ns: sum(|info| info.rtt_us) * 1000 / count,
        writes_per_segment: writes as f64 / first_sent as f64,
        merging: alone as f64 / first_sent as f64,
    }))
}

/// TCP_INFO once nothing is under way any more, or as it stands when the time is over.
fn acknowledged(stream: &TcpStream, until: u64) -> Result<Option<TcpInfo>, Failure> {
    loop {
        let info = sys::tcp_info(stream.as_fd()).map_err(system("read TCP_INFO"))?;
        match info {
            Some(info) if (info.unacked > 0 || info.notsent_bytes > 0) && now_ns() < until => {
                thread::sleep(Duration::from_millis(1));
            }
            info => return Ok(info),
        }
    }
}
