//! What a flow counted at its two ends.

use std::ops::AddAssign;

use fabricmark_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pacing::Pacing;
use crate::series::Series;
use crate::warning::Warning;

/// One flow of a run: what its two ends counted, kept apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// What it is for: `load`, or `probe-idle` and `probe` where it finds the round trip before the load
    /// and beside it.
    pub group: String,
    /// Node that starts the flow.
    pub from: String,
    /// Node that answers or receives.
    pub to: String,
    /// What the sender counted; of requests and their responses the client.
    pub sent: Counts,
    /// What the other end counted.
    pub received: Counts,
    /// What `sent` counts, in intervals, where the plan asks for them.
    #[serde(default)]
    pub sent_series: Option<Series>,
    /// What the other end did through time.
    #[serde(default)]
    pub received_series: Option<Series>,
    /// The sender's load thread, of requests and their responses the client's; absent where its time was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_thread: Option<ThreadTime>,
    /// That of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_thread: Option<ThreadTime>,
    /// Where datagrams were lost.
    pub drops: Drops,
    /// Datagrams that arrived after one with a higher sequence number; absent where payloads are
    /// too short to carry one.
    pub reordered: Option<u64>,
    /// Datagrams that arrived more than once; absent where payloads carry no sequence number.
    pub duplicates: Option<u64>,
    /// How evenly many flows shared.
    #[serde(default)]
    pub fairness: Option<Fairness>,
    /// From the first byte of the request to the response in nanoseconds; of an open loop from the
    /// intended departure.
    pub rtt_ns: Option<Histogram>,
    /// Round trips parted by the stamps of their packets, where the point asks for timestamps.
    #[serde(default)]
    pub kernel_times: Option<KernelTimes>,
    /// How its departures kept to the pace; absent in a closed loop.
    #[serde(default)]
    pub pacing: Option<Pacing>,
    /// What TCP counted at the end of `sent`.
    pub tcp: Option<TcpCounters>,
    /// What QUIC counted at the end that sends or asks; absent where each exchange has a connection of
    /// its own.
    #[serde(default)]
    pub quic: Option<QuicCounters>,
}

/// Payloads and bytes at one end of a flow, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Calls that moved data: writes, reads or datagrams; of exchanges and bursts the answered ones.
    pub calls: u64,
    /// Application bytes.
    pub bytes: u64,
    /// From the first call to the last, in nanoseconds; at a receiver from the first arrival after
    /// the ramp behind which nothing waits, at a client from the last answer of the ramp, in an open loop from the
    /// first answer to a request that was due after it. Where the answers of an open loop are spread over more than its
    /// schedule, and the least round trip of the path is known, it is from one such round trip after the end of the ramp;
    /// where answers to requests of the ramp came later than that, their share of the whole time is not in it. Where the
    /// round trip is not known, it is from a mean step before the first answer.
    pub elapsed_ns: u64,
    /// Bytes that arrived before `elapsed_ns` began or as it began: those of the ramp, and those of
    /// the arrival that started the interval. At a client those of requests that were answered
    /// before it began, in an open loop those of requests that were due in the ramp, 0 at a sender.
    pub ramp_bytes: u64,
    /// Calls that belong to `ramp_bytes`.
    #[serde(default)]
    pub ramp_calls: u64,
    /// Bytes that arrived when `elapsed_ns` was over: what a sender whose time was over had left in buffers, and what
    /// came after the last moment at which no segment was missing.
    #[serde(default)]
    pub tail_bytes: u64,
    /// Calls that belong to `tail_bytes`.
    #[serde(default)]
    pub tail_calls: u64,
    /// Bytes by which the count may be wrong, since a segment was missing whenever it could begin or end; 0 where it
    /// is exact.
    #[serde(default)]
    pub uncertain_bytes: u64,
    /// The most bytes that may have waited at the receiver when `elapsed_ns` began, and count all
    /// the same: above 0 only where the receiver never caught up with the sender.
    #[serde(default)]
    pub waiting_bytes: u64,
}

impl AddAssign for Counts {
    /// What was counted in several times that follow one another.
    fn add_assign(&mut self, other: Self) {
        let Self {
            calls,
            bytes,
            elapsed_ns,
            ramp_bytes,
            ramp_calls,
            tail_bytes,
            tail_calls,
            uncertain_bytes,
            waiting_bytes,
        } = other;
        self.calls += calls;
        self.bytes += bytes;
        self.elapsed_ns += elapsed_ns;
        self.ramp_bytes += ramp_bytes;
        self.ramp_calls += ramp_calls;
        self.tail_bytes += tail_bytes;
        self.tail_calls += tail_calls;
        self.uncertain_bytes += uncertain_bytes;
        self.waiting_bytes += waiting_bytes;
    }
}

/// Time of a load thread while it carried its pattern out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// Processor time (CLOCK_THREAD_CPUTIME_ID).
    pub cpu_ns: u64,
    /// Time on the monotonic clock; of an end that only answers, the wait for the first request is in it.
    pub elapsed_ns: u64,
}

impl AddAssign for ThreadTime {
    fn add_assign(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.elapsed_ns += other.elapsed_ns;
    }
}

/// How evenly flows shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Payloads, exchanges or bursts of the flow that had fewest.
    pub fewest: u64,
    /// Payloads, exchanges or bursts of the flow that had most.
    pub most: u64,
    /// Jain's index: 1 where all have the same, 1/n where one has everything (DEC-TR-301, 1984).
    pub jain: f64,
}

impl Fairness {
    /// From each flow's count.
    pub fn of(counts: &[u64]) -> Self {
        let sum: f64 = counts.iter().map(|&count| count as f64).sum();
        let squares: f64 = counts.iter().map(|&count| (count as f64).powi(2)).sum();
        Self {
            fewest: counts.iter().copied().min().unwrap_or(0),
            most: counts.iter().copied().max().unwrap_or(0),
            jain: if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 1.0 },
        }
    }
}

/// Datagrams lost, by the place of their loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// Sent less received, duplicates not counted.
    pub lost: u64,
    /// Dropped at the receiving socket for lack of buffer (SO_RXQ_OVFL's counter).
    pub socket: u64,
    /// Dropped by a queue of the link: queueing disciplines and the receiving backlog, in packets;
    /// a fragmented datagram that loses several packets is counted several times.
    pub link: u64,
    /// Failures of reassembly (ReasmFails): a datagram some of whose fragments did not come, or a fragment that was refused
    /// for lack of memory; a datagram may be counted several times.
    pub reassembly: u64,
    /// Lost without a counter that says where; 0 in a healthy run.
    pub unexplained: u64,
}

/// What TCP_INFO says at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCounters {
    /// The congestion control in use.
    pub congestion: String,
    /// Largest segment that the connections send, in bytes: the mean over the segments sent.
    pub mss: u64,
    /// Data segments sent, retransmissions included.
    pub data_segments: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Bytes still unsent in the send buffers when these counters were read (tcpi_notsent_bytes). 0 unless the buffers
    /// of a slow link take longer to drain than the run waits for.
    #[serde(default)]
    pub unsent_bytes: u64,
    /// Smoothed round-trip time in nanoseconds.
    pub srtt_ns: u64,
    /// Time with data to send or to be acknowledged (tcpi_busy_time), the sum of all flows, in steps of a kernel tick, as are
    /// the next two; absent before Linux 4.10.
    #[serde(default)]
    pub busy_ns: Option<u64>,
    /// The part of `busy_ns` in which the receiver's window was the limit (tcpi_rwnd_limited).
    #[serde(default)]
    pub rwnd_limited_ns: Option<u64>,
    /// The part of `busy_ns` in which the send buffer was the limit (tcpi_sndbuf_limited).
    #[serde(default)]
    pub sndbuf_limited_ns: Option<u64>,
    /// Writes per data segment: above 1 where the kernel put several writes into one segment.
    pub writes_per_segment: f64,
    /// Segments that the writes would have filled one by one, over segments sent: above 1.05 the
    /// kernel merged writes, and the ceiling of a write by itself says nothing.
    pub merging: f64,
}

/// What QUIC connections counted up to the end of a run, its handshake included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuicCounters {
    /// Packets sent. What they carried is sent again in new packets (RFC 9000, section 13.3).
    pub sent_packets: u64,
    /// Packets that count as lost (RFC 9002, section 6); probes of the MTU are none of them.
    pub lost_packets: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// Times that the congestion control took a loss, or marks of ECN, for congestion.
    pub congestion_events: u64,
    /// Congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time in nanoseconds.
    pub srtt_ns: u64,
    /// Longest UDP payload that the path was found to carry, in bytes (RFC 8899).
    pub mtu_bytes: u64,
    /// Times that the path stopped carrying long packets (RFC 8899, section 4.3).
    pub black_holes: u64,
}

impl QuicCounters {
    /// Those of several connections: sums of what is counted, the mean of their round trips and the
    /// shortest of their payloads. `None` of none.
    pub fn of(connections: impl Iterator<Item = Self>) -> Option<Self> {
        let mut count = 0;
        let sum = |all: Self, each: Self| Self {
            sent_packets: all.sent_packets + each.sent_packets,
            lost_packets: all.lost_packets + each.lost_packets,
            lost_bytes: all.lost_bytes + each.lost_bytes,
            congestion_events: all.congestion_events + each.congestion_events,
            cwnd_bytes: all.cwnd_bytes + each.cwnd_bytes,
            srtt_ns: all.srtt_ns + each.srtt_ns,
            mtu_bytes: all.mtu_bytes.min(each.mtu_bytes),
            black_holes: all.black_holes + each.black_holes,
        };
        let all = connections.inspect(|_| count += 1).reduce(sum)?;
        Some(Self { srtt_ns: all.srtt_ns / count, ..all })
    }
}

impl TcpCounters {
    /// Above this `merging` a cell is marked as merged.
    pub const MERGED_ABOVE: f64 = 1.05;

    /// Whether the kernel merged writes into common segments.
    pub fn is_merged(&self) -> bool {
        self.merging > Self::MERGED_ABOVE
    }
}

impl Counts {
    /// Sender's view: all bytes over the whole time, in bit/s.
    pub fn sent_bps(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| 8e9 * self.bytes as f64 / self.elapsed_ns as f64)
    }

    /// Receiver's view: the bytes that arrived in `elapsed_ns`, in bit/s.
    pub fn received_bps(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| 8e9 * self.counted_bytes() as f64 / self.elapsed_ns as f64)
    }

    /// Receiver's view: the payloads that arrived in `elapsed_ns`, each second.
    pub fn received_per_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| 1e9 * self.counted_calls() as f64 / self.elapsed_ns as f64)
    }

    /// What counts of a stream whose sender kept to a schedule of so many nanoseconds, of which the first `omit_ns` do
    /// not count. Arrivals that are spread over a longer time than the schedule are counted over that.
    #[must_use]
    pub fn over_schedule(&self, window_ns: u64, omit_ns: u64) -> Self {
        let window_ns = window_ns.saturating_sub(omit_ns);
        if self.elapsed_ns > window_ns {
            return *self;
        }
        // The first arrival has its part of the schedule.
        let (ramp_bytes, ramp_calls) =
            if omit_ns == 0 { (0, 0) } else { (self.ramp_bytes, self.ramp_calls) };
        Self { elapsed_ns: window_ns, ramp_bytes, ramp_calls, ..*self }
    }

    /// The same of answers, all of which count that are no part of the ramp.
    #[must_use]
    pub fn answers_over_schedule(&self, window_ns: u64, omit_ns: u64) -> Self {
        Self { elapsed_ns: self.elapsed_ns.max(window_ns.saturating_sub(omit_ns)), ..*self }
    }

    /// Bytes that arrived in `elapsed_ns`.
    pub fn counted_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.ramp_bytes).saturating_sub(self.tail_bytes)
    }

    /// Calls that belong to [`Self::counted_bytes`].
    pub fn counted_calls(&self) -> u64 {
        self.calls.saturating_sub(self.ramp_calls).saturating_sub(self.tail_calls)
    }
}

/// Round trips at the client, parted into what lies beyond the stamps and what lies before them.
///
/// The stamps are those of SO_TIMESTAMPING (Documentation/networking/timestamping.rst of the kernel): a
/// request's when it is handed to the network device, a response's when the device hands it over. Of
/// a datagram in several packets it is the first that is stamped, of a response over TCP the last
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTimes {
    /// From the stamp of the request to that of its response, in nanoseconds: the wire both ways, and
    /// everything at the server, its kernel and its program among it.
    pub rtt_ns: Histogram,
    /// What is left of the time from before the call that sends to after the call that receives, in
    /// nanoseconds: system calls, the kernel's protocols and the wake-up of the client. The
    /// reading of the stamps is not in it.
    pub application_ns: Histogram,
    /// Round trips that lack a stamp, or whose stamps contradict the clock, as when somebody sets
    /// the machine's time: they are in neither histogram.
    pub unstamped: u64,
}

impl KernelTimes {
    /// Those of two flows together.
    #[must_use]
    pub fn merged(mut self, other: &Self) -> Self {
        self.rtt_ns.merge(&other.rtt_ns);
        self.application_ns.merge(&other.application_ns);
        self.unstamped += other.unstamped;
        self
    }

    /// A warning where more than a hundredth lacks a stamp: the 99th percentile may be among them.
    pub fn warning(&self) -> Option<Warning> {
        let (count, of) = (self.unstamped, self.unstamped + self.rtt_ns.len());
        (count * 100 > of).then_some(Warning::Unstamped { count, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_does_not_count_bytes_that_came_before_its_interval() {
        // Three arrivals of 125 bytes at 0, 1 and 2 us: 250 bytes in 2 us are 1 Gbit/s, where
        // 375 bytes would claim 1.5 Gbit/s.
        let counts = Counts {
            calls: 3,
            bytes: 375,
            elapsed_ns: 2_000,
            ramp_bytes: 125,
            ..Counts::default()
        };
        assert_eq!(counts.received_bps(), Some(1e9));
        assert_eq!(counts.sent_bps(), Some(1.5e9));
    }

    #[test]
    fn an_open_loop_counts_the_silence_of_its_schedule() {
        // Bursts of 64 KB at 0, 200 and 400 ms, that arrive in 5 ms each; the schedule covers 600 ms.
        let counts = Counts {
            calls: 192,
            bytes: 192_000,
            elapsed_ns: 405_000_000,
            ramp_bytes: 1_000,
            ramp_calls: 1,
            ..Counts::default()
        };
        assert_eq!(counts.over_schedule(600_000_000, 0).received_bps(), Some(2.56e6));
        // A path that takes 1 s for them is what limits the rate.
        let slow = Counts { elapsed_ns: 1_000_000_000, ..counts };
        assert_eq!(slow.over_schedule(600_000_000, 0), slow);
        // One departure a second, in a run of half a second.
        let one =
            Counts { calls: 1, bytes: 64, ramp_bytes: 64, ramp_calls: 1, ..Counts::default() };
        assert_eq!(one.over_schedule(1_000_000_000, 0).received_per_s(), Some(1.0));
    }

    #[test]
    fn answers_are_counted_over_their_schedule_or_over_their_own_time_where_that_is_longer() {
        // Four requests due within 40 ms.
        let counts = Counts { calls: 4, bytes: 256, elapsed_ns: 30_000_000, ..Counts::default() };
        assert_eq!(counts.answers_over_schedule(40_000_000, 0).received_per_s(), Some(100.0));
        let late = Counts { elapsed_ns: 200_000_000, ..counts };
        assert_eq!(late.answers_over_schedule(40_000_000, 0), late);
    }

    #[test]
    fn jains_index_is_one_for_equal_shares_and_one_nth_for_one_taker() {
        assert_eq!(Fairness::of(&[5, 5, 5]), Fairness { fewest: 5, most: 5, jain: 1.0 });
        assert_eq!(Fairness::of(&[0, 8, 0, 0]), Fairness { fewest: 0, most: 8, jain: 0.25 });
        assert_eq!(Fairness::of(&[0, 0]).jain, 1.0);
    }

    #[test]
    fn a_single_arrival_has_no_rate() {
        let counts = Counts { calls: 1, bytes: 125, ramp_bytes: 125, ..Counts::default() };
        assert_eq!(counts.received_bps(), None);
    }

    fn times(stamped: u64, unstamped: u64) -> KernelTimes {
        let mut times = KernelTimes { unstamped, ..KernelTimes::default() };
        (0..stamped).for_each(|_| times.rtt_ns.record(1_000));
        times
    }

    #[test]
    fn round_trips_without_a_stamp_are_told_where_they_may_hide_the_99th_percentile() {
        assert_eq!(times(99, 1).warning(), None);
        assert_eq!(times(98, 2).warning(), Some(Warning::Unstamped { count: 2, of: 100 }));
        assert_eq!(times(0, 0).warning(), None);
        let both = times(49, 1).merged(&times(49, 1));
        assert_eq!(both, times(98, 2));
    }
}
