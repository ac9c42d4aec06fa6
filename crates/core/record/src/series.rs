//! What one end of a flow did through time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One end of a flow through time, or of many flows on one thread: its intervals, without gaps. Their
/// bytes and calls add up to what the end counted in all; only an answer that comes after it was
/// given up as lost stands here and not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Length asked for of each interval; the last is shorter, and one whose end was seen late is
    /// longer.
    pub interval_ns: u64,
    /// The intervals, each beginning where the one before ended.
    pub intervals: Vec<Interval>,
}

/// What happened at one end between two readings of its counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// When it began, as it was read from the clock, since the series began.
    pub start_ns: u64,
    /// When it ended, as it was read from the clock, since the series began.
    pub end_ns: u64,
    /// Application bytes moved.
    pub bytes: u64,
    /// Calls that moved data: writes, reads or datagrams. A call may stand in the interval after
    /// the one that has its bytes.
    pub calls: u64,
    /// Processor time that the end's process used, in user and in kernel mode, of all its threads; on a
    /// lab's links each end is a process of its own. Absent in records of versions before there was it.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// What TCP said of the first flow at the end of the interval; absent where it is not TCP, and
    /// where each exchange has a connection of its own.
    pub tcp: Option<TcpSample>,
}

impl Interval {
    /// Its true length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its bytes over its true length, in bit/s; nothing where it has no length.
    pub fn rate_bps(&self) -> Option<f64> {
        let length_ns = self.length_ns();
        (length_ns > 0).then(|| 8e9 * self.bytes as f64 / length_ns as f64)
    }
}

impl Series {
    /// Length of an interval unless another is asked for: 100 ms, the shortest that iperf3 takes
    /// (MIN_INTERVAL, iperf.h).
    pub const INTERVAL_NS: u64 = 100_000_000;

    /// Application bytes of all intervals.
    pub fn bytes(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.bytes).sum()
    }

    /// When so many bytes had been moved, in nanoseconds since the series began, as if each interval
    /// moved its bytes evenly; nothing where they never were.
    pub fn moved_ns(&self, bytes: u64) -> Option<u64> {
        let mut before = 0;
        self.intervals.iter().find_map(|interval| {
            let here = bytes.checked_sub(before)?;
            before += interval.bytes;
            let share = here as f64 / interval.bytes as f64;
            (before >= bytes && interval.bytes > 0)
                .then(|| interval.start_ns + (interval.length_ns() as f64 * share) as u64)
        })
    }

    /// Calls of all intervals.
    pub fn calls(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.calls).sum()
    }
}

/// TCP_INFO of one end of a connection at one moment (`struct tcp_info`, linux/tcp.h), in base
/// units. A field is absent where the kernel is too old to have it, or has no value yet.
///
/// Counts are since the connection began. Segments are packets as TCP makes them, before the network
/// device cuts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpSample {
    /// Largest segment that this end sends.
    pub mss_bytes: Option<u64>,
    /// Congestion window.
    pub cwnd_segments: Option<u64>,
    /// Slow start threshold; absent until slow start has ended once.
    pub ssthresh_segments: Option<u64>,
    /// Smoothed round-trip time, in steps of 1 us.
    pub srtt_ns: Option<u64>,
    /// Mean deviation of the round-trip time, in steps of 1 us.
    pub rttvar_ns: Option<u64>,
    /// Shortest round-trip time of the last 5 minutes (`net.ipv4.tcp_min_rtt_wlen`), in steps of
    /// 1 us; absent until one was measured.
    pub min_rtt_ns: Option<u64>,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: Option<u64>,
    /// Segments that are held for lost now.
    pub lost_segments: Option<u64>,
    /// Segments sent again, in all.
    pub retransmitted_segments: Option<u64>,
    /// Bytes written and not yet sent.
    pub notsent_bytes: Option<u64>,
    /// Window that the other end offers.
    pub send_window_bytes: Option<u64>,
    /// Receive space that this end wants, by how much its reader took in a round trip.
    pub rcv_space_bytes: Option<u64>,
    /// Rate at which segments leave; absent where they are not paced.
    pub pacing_rate_bps: Option<u64>,
    /// Rate at which segments were delivered, at the last acknowledgement.
    pub delivery_rate_bps: Option<u64>,
    /// Whether `delivery_rate_bps` is low because this end had nothing to send.
    pub is_delivery_rate_app_limited: Option<bool>,
    /// Time with data to send or to be acknowledged, in steps of a kernel tick (1 to 10 ms), as are
    /// the next two.
    pub busy_ns: Option<u64>,
    /// The part of `busy_ns` in which the other end's window was the limit.
    pub rwnd_limited_ns: Option<u64>,
    /// The part of `busy_ns` in which this end's send buffer was the limit.
    pub sndbuf_limited_ns: Option<u64>,
    /// Segments delivered, repeated ones included.
    pub delivered_segments: Option<u64>,
    /// Segments delivered with the mark of congestion (ECN CE).
    pub delivered_ce_segments: Option<u64>,
    /// Bytes of data sent, repeated ones included.
    pub bytes_sent: Option<u64>,
    /// Bytes acknowledged; the connecting end's SYN counts as one.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order.
    pub bytes_received: Option<u64>,
    /// Bytes sent again.
    pub bytes_retransmitted: Option<u64>,
    /// Segments that the other end reported to have got twice (D-SACK, RFC 2883).
    pub dsack_duplicates: Option<u64>,
    /// Times that segments were found to be reordered on their way.
    pub reorderings_seen: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_an_interval_is_over_its_true_length() {
        // 125 bytes in 1.25 us, where 1 us was asked for.
        let interval =
            Interval { start_ns: 1_000, end_ns: 2_250, bytes: 125, ..Interval::default() };
        assert_eq!(interval.rate_bps(), Some(8e8));
        assert_eq!(Interval::default().rate_bps(), None);
    }

    #[test]
    fn the_moment_of_a_byte_lies_in_the_interval_that_moved_it() {
        let interval = |number: u64, bytes| Interval {
            start_ns: 100 * number,
            end_ns: 100 * (number + 1),
            bytes,
            ..Interval::default()
        };
        let intervals = vec![interval(0, 0), interval(1, 10), interval(2, 90)];
        let series = Series { interval_ns: 100, intervals };
        let moments = [0, 5, 10, 55, 100, 101].map(|bytes| series.moved_ns(bytes));
        assert_eq!(moments, [Some(100), Some(150), Some(200), Some(250), Some(300), None]);
    }
}
