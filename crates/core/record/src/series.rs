//! Interval series of one end of a flow.

use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Consecutive intervals of one end of a flow, or of many flows on one thread. Their bytes and calls add up to the
/// counts of that end, except for responses that came after they were declared lost, which are counted only here. The
/// series of groups that run at once start together, also that of a group that starts later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Requested interval. The last one is shorter; one whose end was read late is longer.
    pub interval_ns: u64,
    /// Intervals without gaps.
    pub intervals: Vec<Interval>,
}

/// Counts of one end between two readings of its counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Start by the clock, relative to the start of the series.
    pub start_ns: u64,
    /// End by the clock, relative to the start of the series.
    pub end_ns: u64,
    /// Application bytes moved.
    pub bytes: u64,
    /// Calls that moved data: writes, reads or datagrams. A call may be in the interval after that of its bytes.
    pub calls: u64,
    /// CPU time of the end's process, user and kernel mode, all threads; on links of a lab each end is a separate
    /// process. Absent in records of versions without it.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// Datagrams of a stream lost in this interval by their sequence numbers, less those of earlier intervals that
    /// arrived late. Absent at other ends than the receiver of numbered datagrams, and before the first of them.
    #[serde(default)]
    pub lost: Option<i64>,
    /// Interarrival jitter at the end of the interval (RFC 3550, section 6.4.1), mean of the flows. Absent if datagrams do
    /// not contain their time of sending: in a closed loop of this program, and in short payloads.
    #[serde(default)]
    pub jitter_ns: Option<f64>,
    /// TCP_INFO of the first flow at the end of the interval; absent without TCP, and if each transaction has its own
    /// connection.
    pub tcp: Option<TcpSample>,
}

impl Interval {
    /// Actual length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Bytes over the actual length, in bit/s; `None` for length 0.
    pub fn rate_bps(&self) -> Option<f64> {
        let length_ns = self.length_ns();
        (length_ns > 0).then(|| 8e9 * self.bytes as f64 / length_ns as f64)
    }
}

impl Interval {
    /// Whether it is shorter than a tenth of the requested interval, and not worth a line of its own.
    pub fn is_rest(&self, interval_ns: u64) -> bool {
        self.length_ns() < interval_ns / 10
    }

    /// Adds the next interval. Its numbers may be those of another host, so that no sum overflows.
    fn extend(&mut self, next: &Self) {
        let sum = |one: Option<u64>, other: Option<u64>| {
            one.zip(other).map(|(one, other)| one.saturating_add(other))
        };
        self.end_ns = next.end_ns;
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.calls = self.calls.saturating_add(next.calls);
        self.cpu_ns = sum(self.cpu_ns, next.cpu_ns);
        self.lost = match (self.lost, next.lost) {
            (Some(lost), Some(more)) => Some(lost.saturating_add(more)),
            (lost, more) => lost.or(more),
        };
        self.jitter_ns = next.jitter_ns.or(self.jitter_ns);
        self.tcp = next.tcp.or(self.tcp);
    }
}

impl Series {
    /// Default interval: 100 ms, the shortest that iperf3 accepts (MIN_INTERVAL, iperf.h).
    pub const INTERVAL_NS: u64 = 100_000_000;

    /// The series of these intervals. A last one that is a rest, of a run that ended by itself or later than planned, is
    /// added to the one before it.
    pub fn of(interval_ns: u64, mut intervals: Vec<Interval>) -> Self {
        if intervals.len() > 1
            && let Some(rest) = intervals.pop_if(|last| last.is_rest(interval_ns))
            && let Some(last) = intervals.last_mut()
        {
            last.extend(&rest);
        }
        Self { interval_ns, intervals }
    }

    /// Application bytes of all intervals.
    pub fn bytes(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.bytes).fold(0, u64::saturating_add)
    }

    /// When `bytes` had been moved, in nanoseconds since the start of the series, at a constant rate within each
    /// interval; `None` if never.
    pub fn moved_ns(&self, bytes: u64) -> Option<u64> {
        let mut before = 0_u64;
        self.intervals.iter().find_map(|interval| {
            let here = bytes.checked_sub(before)?;
            before = before.saturating_add(interval.bytes);
            let into_ns = interval.length_ns() as f64 * here as f64 / interval.bytes as f64;
            (before >= bytes && interval.bytes > 0)
                .then(|| interval.start_ns.saturating_add(into_ns as u64))
        })
    }

    /// Calls of all intervals.
    pub fn calls(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.calls).fold(0, u64::saturating_add)
    }
}

/// Change of a run's rate over the time that counts, by the best linear fit to its intervals, as fio's `bw_slope` does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// Largest rise or fall that the plan allows, as a share of the mean.
    pub most: f64,
    /// Rise of the line, as a share of the mean; negative if the rate fell. Of several flows that of the one that
    /// changed most. Absent if fewer than five intervals count.
    pub drift: Option<f64>,
    /// Time since the start of the series from which on the rate was steady; absent if it never was.
    pub since_ns: Option<Nanos>,
}

/// TCP_INFO of one end of a connection at one moment (`struct tcp_info`, linux/tcp.h), in base units. A field is
/// absent if the kernel does not have it, or has no value yet.
///
/// Counts are since the start of the connection. Segments are packets as TCP makes them, before segmentation offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpSample {
    /// Maximum segment size of this end.
    pub mss_bytes: Option<u64>,
    /// Congestion window in segments.
    pub cwnd_segments: Option<u64>,
    /// Slow start threshold; absent until slow start has ended.
    pub ssthresh_segments: Option<u64>,
    /// Smoothed RTT, in steps of 1 us.
    pub srtt_ns: Option<u64>,
    /// Mean deviation of the RTT, in steps of 1 us.
    pub rttvar_ns: Option<u64>,
    /// Minimum RTT of the last 5 minutes (`net.ipv4.tcp_min_rtt_wlen`), in steps of 1 us; absent until measured.
    pub min_rtt_ns: Option<u64>,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: Option<u64>,
    /// Segments currently assumed lost.
    pub lost_segments: Option<u64>,
    /// Retransmitted segments in total.
    pub retransmitted_segments: Option<u64>,
    /// Bytes written and not yet sent.
    pub notsent_bytes: Option<u64>,
    /// Window that the other end advertises.
    pub send_window_bytes: Option<u64>,
    /// Receive space that this end wants, by how much its application reads per RTT.
    pub rcv_space_bytes: Option<u64>,
    /// Pacing rate; absent if segments are not paced.
    pub pacing_rate_bps: Option<u64>,
    /// Delivery rate at the last acknowledgement.
    pub delivery_rate_bps: Option<u64>,
    /// Whether `delivery_rate_bps` is low because this end had nothing to send.
    pub is_delivery_rate_app_limited: Option<bool>,
    /// Time with data to send or to be acknowledged, in steps of a kernel tick (1 to 10 ms), like the next two.
    pub busy_ns: Option<u64>,
    /// Part of `busy_ns` limited by the receive window.
    pub rwnd_limited_ns: Option<u64>,
    /// Part of `busy_ns` limited by the send buffer.
    pub sndbuf_limited_ns: Option<u64>,
    /// Segments delivered, retransmissions included.
    pub delivered_segments: Option<u64>,
    /// Segments delivered with ECN CE.
    pub delivered_ce_segments: Option<u64>,
    /// Bytes of data sent, retransmissions included.
    pub bytes_sent: Option<u64>,
    /// Bytes acknowledged; the connecting end's SYN counts as one.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order.
    pub bytes_received: Option<u64>,
    /// Bytes retransmitted.
    pub bytes_retransmitted: Option<u64>,
    /// Segments that the other end reported as received twice (D-SACK, RFC 2883).
    pub dsack_duplicates: Option<u64>,
    /// Reordering events.
    pub reorderings_seen: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ends_just_after_an_interval_has_no_tiny_one_and_loses_nothing() {
        let of_length = |end_ns: u64| {
            let at = |start_ns, end_ns, bytes| {
                let lost = Some(1);
                Interval { start_ns, end_ns, bytes, calls: 1, lost, ..Interval::default() }
            };
            Series::of(100, vec![at(0, 100, 1), at(100, 200, 2), at(200, end_ns, 4)])
        };
        let ends = |series: &Series| {
            series.intervals.iter().map(|all| (all.end_ns, all.bytes)).collect::<Vec<_>>()
        };
        let joined = of_length(209);
        assert_eq!(ends(&joined), [(100, 1), (209, 6)]);
        assert_eq!((joined.calls(), joined.intervals[1].lost), (3, Some(2)));
        assert_eq!(ends(&of_length(210)), [(100, 1), (200, 2), (210, 4)]);
        let alone = Series::of(100, vec![Interval { end_ns: 5, ..Interval::default() }]);
        assert_eq!(alone.intervals.len(), 1);
    }

    #[test]
    fn the_rate_of_an_interval_is_over_its_true_length() {
        // 125 bytes in 1.25 us; 1 us was requested.
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

    #[test]
    fn numbers_of_another_host_overflow_no_sum() {
        let most = Interval {
            start_ns: u64::MAX,
            bytes: u64::MAX,
            calls: u64::MAX,
            ..Interval::default()
        };
        let series = Series { interval_ns: 1, intervals: vec![most.clone(), most] };
        assert_eq!((series.bytes(), series.calls()), (u64::MAX, u64::MAX));
        assert_eq!(series.moved_ns(u64::MAX), Some(u64::MAX));
    }
}
