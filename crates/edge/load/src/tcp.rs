//! TCP counters of the flows of a run.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use fabricmark_plan::{Point, Transport};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_record::TcpCounters;
use socket2::{Protocol, SockRef};

use crate::failure::system;
use crate::sockets::waiting_bytes;
use crate::transport::Flow;
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::subflow::{ReceiveQueue, Subflows};
use fabricmark_telemetry::sys;
use fabricmark_telemetry::tcp_info::{self, Received, Sent};

/// Timeout for the acknowledgement of the last bytes; a 4 MiB send buffer at 10 Mbit/s needs 3.4 s.
const ACKNOWLEDGED_WITHIN_NS: u64 = 5_000_000_000;

/// The sockets of TCP flows. Empty for other transports: a `TcpStream` may also hold their sockets (SCTP), which
/// reject TCP options.
pub(crate) fn sockets<'a, F: Flow>(flows: &'a [F], point: &Point) -> Vec<&'a TcpStream> {
    let flows = if point.transport.has_tcp() { flows } else { &[] };
    flows.iter().filter_map(F::tcp).collect()
}

/// Lets the receiver of a stream acknowledge as if it had never sent anything. An end that has answered something
/// delays its acknowledgements (inet_csk_in_pingpong_mode, net/tcp.h), and this one has answered the opening: over
/// veth with bbr, streams of 1 KiB writes then have a third of the goodput (0.43 against 1.15 Gbit/s, ten rounds each
/// of `make bench`), while those of 64 B over loopback, whose writes the delay lets merge, have 1.7 instead of 1.5
/// Gbit/s. Not for MPTCP, whose sockets have several connections.
pub(crate) fn forget_opening(stream: &TcpStream, point: &Point) -> Result<(), Failure> {
    if point.quickack.is_some() || point.transport == Transport::Mptcp {
        return Ok(());
    }
    SockRef::from(stream).set_tcp_quickack(true).map_err(system("set TCP_QUICKACK"))
}

/// Bytes that have crossed the wire of a connection and were not read yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Bytes that can be read.
    pub(crate) in_order_bytes: u64,
    /// Bytes that cannot be read before a missing segment is retransmitted.
    pub(crate) behind_hole_bytes: u64,
    /// Possible error of these numbers.
    pub(crate) uncertain_bytes: u64,
}

/// MPTCP_INFO starts with the number of subflows beyond the first (linux/mptcp.h).
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;

/// Unread bytes of a socket; 0 if it is not TCP.
///
/// The kernel does not report how many bytes are out of order, but whether there are any: once all in-order data is
/// read, nothing else holds memory. Their number, to within a segment, is that of all arrived segments minus the
/// bytes in order. If super-packets count as one segment, it is taken from the memory, which is their length and up
/// to an eighth (`tun_alloc_skb`).
pub(crate) fn unread(fd: BorrowedFd<'_>, subflows: &mut Subflows) -> io::Result<Unread> {
    // RDMA flows are polled by descriptors that are not sockets.
    let (Ok(memory_bytes), Ok(protocol)) = (waiting_bytes(fd), SockRef::from(&fd).protocol())
    else {
        return Ok(Unread::default());
    };
    let is_mptcp = protocol == Some(Protocol::MPTCP);
    if memory_bytes == 0 && !is_mptcp {
        return Ok(Unread::default());
    }
    let Ok(Some(received)) = tcp_info::received(fd) else { return Ok(Unread::default()) };
    let in_order_bytes = rustix::io::ioctl_fionread(fd)?;
    if !is_mptcp {
        return Ok(behind_hole(&received, memory_bytes, in_order_bytes));
    }
    // The counters above are those of the first subflow.
    let more: io::Result<(u8, _)> = sys::get(fd, SOL_MPTCP, MPTCP_INFO, 0);
    let is_only = more.is_ok_and(|(subflows, _)| subflows == 0);
    if is_only && received.out_of_order_segments == 0 {
        return Ok(Unread { in_order_bytes, ..Unread::default() });
    }
    let queue = if is_only { subflows.first(fd) } else { None };
    Ok(of_mptcp(&received, queue, in_order_bytes))
}

/// The same for MPTCP, whose data waits in the receive queue of its subflow before that of MPTCP itself.
fn of_mptcp(received: &Received, queue: Option<ReceiveQueue>, in_order_bytes: u64) -> Unread {
    let none = Unread { in_order_bytes, ..Unread::default() };
    match queue {
        Some(queue) => {
            let unread = behind_hole(received, queue.memory_bytes, queue.in_order_bytes);
            Unread { in_order_bytes: in_order_bytes + queue.in_order_bytes, ..unread }
        }
        // Several subflows, or a kernel that does not report one: the out-of-order data is unknown.
        None => Unread { uncertain_bytes: received.in_order_bytes, ..none },
    }
}

fn behind_hole(received: &Received, memory_bytes: u64, in_order_bytes: u64) -> Unread {
    let none = Unread { in_order_bytes, ..Unread::default() };
    if received.out_of_order_segments == 0 || memory_bytes == 0 {
        return none;
    }
    let most_bytes = memory_bytes.saturating_sub(in_order_bytes);
    let arrived_bytes = received.segments * received.segment_bytes;
    match arrived_bytes.checked_sub(received.in_order_bytes) {
        // Less than one segment: a short segment explains it.
        Some(bytes) if bytes < received.segment_bytes => none,
        Some(bytes) => Unread {
            behind_hole_bytes: bytes.min(most_bytes),
            uncertain_bytes: received.segment_bytes,
            ..none
        },
        None => {
            let behind_hole_bytes = most_bytes.saturating_sub(in_order_bytes / 8);
            Unread { behind_hole_bytes, uncertain_bytes: behind_hole_bytes / 8, ..none }
        }
    }
}

/// TCP counters once everything is acknowledged, or at the timeout, after `writes` writes of the point's payload.
pub(crate) fn counters<'a>(
    streams: impl Iterator<Item = &'a TcpStream>,
    writes: u64,
    prepare: &Prepare,
) -> Result<Option<TcpCounters>, Failure> {
    let payload_bytes = prepare.point.payload.0;
    let until = now_ns() + ACKNOWLEDGED_WITHIN_NS + prepare.patience().0;
    let mut congestion = None;
    let mut flows: Vec<Sent> = Vec::new();
    for stream in streams {
        if congestion.is_none() {
            congestion = SockRef::from(stream).tcp_congestion().ok();
        }
        match acknowledged(stream, until)? {
            Some(sent) => flows.push(sent),
            None => return Ok(None),
        }
    }
    let sum = |of: fn(&Sent) -> u64| flows.iter().map(of).sum::<u64>();
    let time = |of: fn(&Sent) -> Option<u64>| flows.iter().map(of).sum::<Option<u64>>();
    let data_segments = sum(|sent| sent.segments);
    let retransmitted = sum(|sent| sent.retransmitted_segments);
    let count = flows.len().max(1) as u64;
    // Each opening was a data segment, too.
    let first_sent = data_segments.saturating_sub(retransmitted + count).max(1);
    // An idle flow keeps the small segment size that it started with.
    let mss_bytes = sum(|sent| sent.segment_bytes * sent.segments) / data_segments.max(1);
    let unsent_bytes = sum(|sent| sent.notsent_bytes);
    let writes = writes.saturating_sub(unsent_bytes / payload_bytes.max(1));
    let alone = writes * payload_bytes.div_ceil(mss_bytes.max(1));
    let congestion = congestion.unwrap_or_default();
    Ok(Some(TcpCounters {
        congestion: String::from_utf8_lossy(&congestion).trim_end_matches('\0').to_owned(),
        mss_bytes,
        data_segments,
        retransmitted,
        unsent_bytes,
        srtt_ns: sum(|sent| sent.srtt_us) * 1000 / count,
        busy_ns: time(|sent| sent.busy_ns),
        rwnd_limited_ns: time(|sent| sent.rwnd_limited_ns),
        sndbuf_limited_ns: time(|sent| sent.sndbuf_limited_ns),
        writes_per_segment: writes as f64 / first_sent as f64,
        merging: alone as f64 / first_sent as f64,
    }))
}

/// TCP_INFO once nothing is in flight any more, or at the timeout.
fn acknowledged(stream: &TcpStream, until: u64) -> Result<Option<Sent>, Failure> {
    let is_under_way =
        |sent: &Sent| !sent.is_closed && (sent.unacked_segments > 0 || sent.notsent_bytes > 0);
    loop {
        let sent = tcp_info::sent(stream.as_fd()).map_err(system("read TCP_INFO"))?;
        if !sent.as_ref().is_some_and(is_under_way) || now_ns() >= until {
            return Ok(sent);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::transport::bytes::ByteFlow;

    fn received(segments: u64, in_order_bytes: u64) -> Received {
        Received { segments, segment_bytes: 1448, in_order_bytes, out_of_order_segments: 9 }
    }

    #[test]
    fn what_is_no_socket_of_tcp_holds_nothing_back() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(unread(file.as_fd(), &mut Subflows::default()).unwrap(), Unread::default());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 9], socket.local_addr().unwrap()).unwrap();
        assert_eq!(unread(socket.as_fd(), &mut Subflows::default()).unwrap(), Unread::default());
    }

    #[test]
    fn bytes_behind_a_hole_are_the_segments_that_arrived_less_the_bytes_in_order() {
        // 200 of 1,000 segments are out of order; each holds 2,304 bytes of memory.
        let found = behind_hole(&received(1_000, 800 * 1448), 200 * 2304, 0);
        assert_eq!((found.behind_hole_bytes, found.uncertain_bytes), (200 * 1448, 1448));
        // At most the memory: the rest arrived twice.
        let found = behind_hole(&received(1_000, 800 * 1448), 100 * 1500, 0);
        assert_eq!(found.behind_hole_bytes, 150_000);
    }

    #[test]
    fn what_a_short_segment_lacks_is_no_hole() {
        let found = behind_hole(&received(1_000, 1_000 * 1448 - 584), 2304, 1448);
        assert_eq!(found, Unread { in_order_bytes: 1448, ..Unread::default() });
    }

    #[test]
    fn where_super_packets_count_as_one_segment_the_memory_tells() {
        // 100 super-packets of 44 segments.
        let found = behind_hole(&received(100, 100 * 44 * 1448), 66_000, 0);
        assert_eq!((found.behind_hole_bytes, found.uncertain_bytes), (66_000, 8_250));
        // Most of it is in order and waits to be read.
        let found = behind_hole(&received(100, 100 * 44 * 1448), 66_000, 60_000);
        assert_eq!(found, Unread { in_order_bytes: 60_000, ..Unread::default() });
    }

    #[test]
    fn out_of_order_data_of_mptcp_is_that_of_its_subflow_and_uncertain_if_nobody_reports_it() {
        let none = Unread { in_order_bytes: 99, ..Unread::default() };
        let holed = received(1_000, 800 * 1448);
        let queue = ReceiveQueue { memory_bytes: 200 * 2304, in_order_bytes: 1 };
        let found = of_mptcp(&holed, Some(queue), 99);
        assert_eq!((found.in_order_bytes, found.behind_hole_bytes), (100, 200 * 1448));
        let unknown = Unread { uncertain_bytes: 800 * 1448, ..none };
        assert_eq!(of_mptcp(&holed, None, 99), unknown);
    }

    #[test]
    fn no_acknowledgement_is_awaited_of_a_connection_that_was_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        // More than the window of the peer, so that some of it is not sent.
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65_536]).is_ok() {}
        // Unread data: the peer resets the connection.
        drop(peer);
        let until = now_ns() + 60_000_000_000;
        let sent = acknowledged(&stream, until).unwrap().unwrap();
        assert!(sent.is_closed && sent.notsent_bytes > 0 && now_ns() < until, "{sent:?}");
    }

    #[test]
    fn only_sockets_of_a_transport_with_tcp_get_its_options() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let flows = [ByteFlow::new(stream)];
        for (transport, is_tcp) in [
            ("tcp", true),
            ("mptcp", true),
            ("tls", true),
            ("sctp", false),
            ("smc", false),
            ("unix", false),
            ("rsocket", false),
        ] {
            let levels = format!(
                "pattern=stream,family=4,link=loopback,payload=1,congestion=cubic,transport={transport}"
            );
            let point = fabricmark_testkit::point(&levels);
            assert_eq!(sockets(&flows, &point).len(), usize::from(is_tcp), "{transport}");
        }
    }
}
