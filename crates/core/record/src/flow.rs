//! Counts of a flow at both ends.

use std::ops::AddAssign;

use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pacing::Pacing;
use crate::series::Series;
use crate::warning::Warning;

/// One flow of a run, with the counts of each end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// Purpose: `load`, or `probe-idle` and `probe` for RTT probes before and during the load.
    pub group: String,
    /// Sending node; of requests the client.
    pub from: String,
    /// Receiving node; of requests the server.
    pub to: String,
    /// Counts of the sender; of requests those of the client.
    pub sent: Counts,
    /// Counts of the other end.
    pub received: Counts,
    /// Interval series of the end that `sent` counts, if the plan asks for intervals.
    #[serde(default)]
    pub sent_series: Option<Series>,
    /// Interval series of the other end.
    #[serde(default)]
    pub received_series: Option<Series>,
    /// Load thread of the end that `sent` counts, the busiest of several; absent if its CPU time was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_thread: Option<ThreadTime>,
    /// Load thread of the other end, the busiest of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_thread: Option<ThreadTime>,
    /// Load threads of the end that `sent` counts, if it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent_threads: Vec<ThreadShare>,
    /// Load threads of the other end, if it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received_threads: Vec<ThreadShare>,
    /// Lost datagrams by place of loss.
    pub drops: Drops,
    /// Datagrams that arrived after one with a higher sequence number; absent if payloads are too short for one.
    pub reordered: Option<u64>,
    /// Datagrams that arrived more than once; absent if payloads carry no sequence number.
    pub duplicates: Option<u64>,
    /// How evenly the flows shared the path.
    #[serde(default)]
    pub fairness: Option<Fairness>,
    /// RTTs in nanoseconds, from the first byte of a request to its response; in an open loop from the scheduled
    /// departure.
    pub rtt_ns: Option<Histogram>,
    /// RTTs split at the packets' kernel timestamps, if the point asks for timestamps.
    #[serde(default)]
    pub kernel_times: Option<KernelTimes>,
    /// How well departures kept the schedule; absent in a closed loop.
    #[serde(default)]
    pub pacing: Option<Pacing>,
    /// TCP counters of the end that `sent` counts.
    pub tcp: Option<TcpCounters>,
    /// QUIC counters of the sender or client; absent if each transaction has its own connection.
    #[serde(default)]
    pub quic: Option<QuicCounters>,
}

/// Payloads and bytes at one end of a flow, and the counted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Calls that moved data: writes, reads or datagrams; of transactions and bursts those with a response.
    pub calls: u64,
    /// Application bytes.
    pub bytes: u64,
    /// Counted time in nanoseconds, up to the last call. It starts at a sender with the first call, at a receiver
    /// with the first arrival after the ramp behind which no data waits, at a client with the last response of the
    /// ramp, in an open loop with the first response to a request that was due after the ramp. If the responses of an
    /// open loop take longer than its schedule, it starts one minimum RTT of the path after the end of the ramp, less
    /// the share of responses to requests of the ramp that came later; if that RTT is unknown, one mean gap between
    /// responses before the first.
    pub elapsed_ns: u64,
    /// Bytes that arrived before or at the start of `elapsed_ns`: those of the ramp, and of the arrival that started
    /// the interval. At a client those of requests answered before it, in an open loop those of requests due in the
    /// ramp; 0 at a sender.
    pub ramp_bytes: u64,
    /// Calls of `ramp_bytes`.
    #[serde(default)]
    pub ramp_calls: u64,
    /// Bytes of the arrival that started `elapsed_ns`, at a receiver; `ramp_bytes` contains them. Absent in records of
    /// versions without it.
    #[serde(default)]
    pub first_bytes: u64,
    /// Calls of `first_bytes`.
    #[serde(default)]
    pub first_calls: u64,
    /// Bytes that arrived after `elapsed_ns`: from buffers of a sender that had finished, and after the last moment
    /// at which no segment was missing.
    #[serde(default)]
    pub tail_bytes: u64,
    /// Calls of `tail_bytes`.
    #[serde(default)]
    pub tail_calls: u64,
    /// Possible error of the count in bytes, if a segment was missing at every possible start or end; 0 if exact.
    #[serde(default)]
    pub uncertain_bytes: u64,
    /// Upper limit of the bytes that waited at the receiver at the start of `elapsed_ns` but are counted; above 0
    /// only if the receiver never caught up with the sender.
    #[serde(default)]
    pub waiting_bytes: u64,
}

impl Counts {
    /// Counts of threads that ran side by side: the sums, and the time in which the sums have the sum of all rates.
    /// Threads count over slightly different times.
    pub fn side_by_side(all: &[Self]) -> Self {
        let mut sum = Self::default();
        let mut rate = 0.0;
        // Bytes, or calls if the counted time has no bytes.
        let moved = |one: &Self| match one.counted_bytes() {
            0 => one.counted_calls(),
            bytes => bytes,
        };
        for &one in all {
            sum += one;
            rate += moved(&one) as f64 / one.elapsed_ns.max(1) as f64;
        }
        let total = all.iter().map(moved).sum::<u64>() as f64;
        let longest = all.iter().map(|one| one.elapsed_ns).max().unwrap_or(0);
        sum.elapsed_ns = if rate > 0.0 { (total / rate).round() as u64 } else { longest };
        sum
    }
}

impl AddAssign for Counts {
    /// Adds the counts of consecutive intervals. They may be those of another host, so that no sum overflows.
    fn add_assign(&mut self, other: Self) {
        let Self {
            calls,
            bytes,
            elapsed_ns,
            ramp_bytes,
            ramp_calls,
            first_bytes,
            first_calls,
            tail_bytes,
            tail_calls,
            uncertain_bytes,
            waiting_bytes,
        } = other;
        self.calls = self.calls.saturating_add(calls);
        self.bytes = self.bytes.saturating_add(bytes);
        self.elapsed_ns = self.elapsed_ns.saturating_add(elapsed_ns);
        self.ramp_bytes = self.ramp_bytes.saturating_add(ramp_bytes);
        self.ramp_calls = self.ramp_calls.saturating_add(ramp_calls);
        self.first_bytes = self.first_bytes.saturating_add(first_bytes);
        self.first_calls = self.first_calls.saturating_add(first_calls);
        self.tail_bytes = self.tail_bytes.saturating_add(tail_bytes);
        self.tail_calls = self.tail_calls.saturating_add(tail_calls);
        self.uncertain_bytes = self.uncertain_bytes.saturating_add(uncertain_bytes);
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiting_bytes);
    }
}

/// When a sender ran its pattern, on its machine's CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveTime {
    /// Start of the first send, in nanoseconds.
    pub began_ns: u64,
    /// End of the last send or response, in nanoseconds.
    pub ended_ns: u64,
}

/// How well groups of flows that run at once kept to the same time. Times of other hosts are converted by the offsets of
/// their clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alignment {
    /// Time from the first sender's start to the last one's, without what the plan's `start` asks for.
    pub starts_apart_ns: u64,
    /// Time from the first sender's end to the last one's.
    pub ends_apart_ns: u64,
    /// Time in which all senders were active.
    pub overlap_ns: u64,
    /// Largest error of the first two because of the clocks of other hosts; 0 if all senders are on one host.
    pub uncertainty_ns: u64,
}

impl Alignment {
    /// Compares the times of senders, on one clock, each with the possible error of that clock and with the time at
    /// which it was to start, after the first. `None` for fewer than two.
    pub fn of(times: &[(ActiveTime, u64, Nanos)]) -> Option<Self> {
        if times.len() < 2 {
            return None;
        }
        let early = |(time, _, start): &(ActiveTime, u64, Nanos)| {
            time.began_ns - start.0.min(time.began_ns)
        };
        let ended = || times.iter().map(|(time, ..)| time.ended_ns);
        let last_began = times.iter().map(|(time, ..)| time.began_ns).max()?;
        let (first_early, last_early) =
            (times.iter().map(early).min()?, times.iter().map(early).max()?);
        let (first_ended, last_ended) = (ended().min()?, ended().max()?);
        let mut errors: Vec<u64> = times.iter().map(|&(_, error_ns, _)| error_ns).collect();
        errors.sort_unstable();
        Some(Self {
            starts_apart_ns: last_early - first_early,
            ends_apart_ns: last_ended - first_ended,
            overlap_ns: first_ended.saturating_sub(last_began),
            uncertainty_ns: errors.iter().rev().take(2).sum(),
        })
    }
}

/// What one of several load threads of an end did. Each has its share of the flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadShare {
    /// Number of its flows.
    pub flows: u64,
    /// CPU that it was pinned to; absent if it was not.
    pub cpu: Option<u32>,
    /// Counts of its flows.
    pub counts: Counts,
    /// Its times; absent if they were not read.
    pub time: Option<ThreadTime>,
}

/// Times of a load thread while it ran its pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// CPU time (CLOCK_THREAD_CPUTIME_ID).
    pub cpu_ns: u64,
    /// Time on the monotonic clock; at an end that only answers it includes the wait for the first request.
    pub elapsed_ns: u64,
    /// Run delay: time on a run queue, waiting for a CPU (`/proc/thread-self/schedstat`). Absent if the kernel does not
    /// count it, and in records of versions that did not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
}

impl AddAssign for ThreadTime {
    fn add_assign(&mut self, other: Self) {
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.elapsed_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
        let delays = self.run_delay_ns.zip(other.run_delay_ns);
        self.run_delay_ns = delays.map(|(one, other)| one.saturating_add(other));
    }
}

/// Maximum number of flows whose counts are kept one by one, an arbitrary choice: 1 KiB per record.
const LISTED: usize = 128;

/// How evenly flows shared the path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Payloads, transactions or bursts of the flow with the fewest.
    pub fewest: u64,
    /// Payloads, transactions or bursts of the flow with the most.
    pub most: u64,
    /// Jain's index: 1 if all flows have the same, 1/n if one has everything (DEC-TR-301, 1984).
    pub jain: f64,
    /// Payloads, transactions or bursts of each flow, in the order of their opening; empty for more than 128 flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<u64>,
}

impl Fairness {
    /// The fairness of flows in parts: of each part its number of flows, the sum of their counts, and their fairness;
    /// `None` for one flow. `None` if there is no flow, or only one.
    pub fn of_parts(parts: impl Iterator<Item = (u64, u64, Option<Self>)>) -> Option<Self> {
        let (mut flows, mut sum, mut squares) = (0, 0.0, 0.0);
        let (mut fewest, mut most, mut each) = (u64::MAX, 0, Vec::new());
        let mut is_listed = true;
        for (count, total, fairness) in parts {
            let part = fairness.unwrap_or_else(|| Self::of(&[total]));
            is_listed &= !part.each.is_empty() && each.len() + part.each.len() <= LISTED;
            if is_listed {
                each.extend(part.each);
            }
            flows += count;
            sum += total as f64;
            squares += (total as f64).powi(2) / (count.max(1) as f64 * part.jain);
            (fewest, most) = (fewest.min(part.fewest), most.max(part.most));
        }
        let jain = if squares > 0.0 { sum * sum / (flows as f64 * squares) } else { 1.0 };
        let each = if is_listed { each } else { Vec::new() };
        (flows > 1).then_some(Self { fewest, most, jain, each })
    }

    /// The fairness of the same flows in two parts of a run, which have the counts of each.
    pub fn with(&self, other: &Self) -> Self {
        let both = self.each.iter().zip(&other.each);
        Self::of(&both.map(|(one, other)| one + other).collect::<Vec<_>>())
    }

    /// Computes the fairness of the flows' counts.
    pub fn of(counts: &[u64]) -> Self {
        let sum: f64 = counts.iter().map(|&count| count as f64).sum();
        let squares: f64 = counts.iter().map(|&count| (count as f64).powi(2)).sum();
        Self {
            fewest: counts.iter().copied().min().unwrap_or(0),
            most: counts.iter().copied().max().unwrap_or(0),
            jain: if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 1.0 },
            each: if counts.len() <= LISTED { counts.to_vec() } else { Vec::new() },
        }
    }
}

/// Lost datagrams by place of loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// Datagrams sent minus received, duplicates not counted.
    pub lost: u64,
    /// Dropped at the receiving socket because its buffer was full (SO_RXQ_OVFL).
    pub socket: u64,
    /// Dropped in queues of the link: queueing disciplines and the receive backlog, in packets. A fragmented datagram
    /// may be counted several times.
    pub link: u64,
    /// Failed reassemblies (ReasmFails): datagrams with missing fragments, or fragments refused for lack of memory. A
    /// datagram may be counted several times.
    pub reassembly: u64,
    /// Lost without a counter that explains it; 0 in a healthy run.
    pub unexplained: u64,
}

/// TCP_INFO at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCounters {
    /// Congestion control algorithm.
    pub congestion: String,
    /// Maximum segment size in bytes, the mean over the segments sent.
    #[serde(alias = "mss")]
    pub mss_bytes: u64,
    /// Data segments sent, retransmissions included.
    pub data_segments: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Bytes unsent in the send buffers when these counters were read (tcpi_notsent_bytes). 0 unless the buffers of a
    /// slow link take longer to drain than the run waits.
    #[serde(default)]
    pub unsent_bytes: u64,
    /// Smoothed RTT in nanoseconds.
    pub srtt_ns: u64,
    /// Time with data to send or to be acknowledged (tcpi_busy_time), the sum of all flows, in steps of a kernel
    /// tick, like the next two; absent before Linux 4.10.
    #[serde(default)]
    pub busy_ns: Option<u64>,
    /// Part of `busy_ns` limited by the receive window (tcpi_rwnd_limited).
    #[serde(default)]
    pub rwnd_limited_ns: Option<u64>,
    /// Part of `busy_ns` limited by the send buffer (tcpi_sndbuf_limited).
    #[serde(default)]
    pub sndbuf_limited_ns: Option<u64>,
    /// Writes per data segment: above 1 if the kernel merged several writes into one segment.
    pub writes_per_segment: f64,
    /// Segments that the writes would fill separately, over segments sent. Above 1.05 the kernel merged writes, and
    /// the ceiling of separate writes does not apply.
    pub merging: f64,
}

/// Counters of QUIC connections up to the end of a run, handshake included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuicCounters {
    /// Packets sent. Lost data is retransmitted in new packets (RFC 9000, section 13.3).
    pub sent_packets: u64,
    /// Packets declared lost (RFC 9002, section 6), without MTU probes.
    pub lost_packets: u64,
    /// Bytes of the lost packets.
    pub lost_bytes: u64,
    /// Congestion events: losses, or ECN marks, to which the congestion control reacted.
    pub congestion_events: u64,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Smoothed RTT in nanoseconds.
    pub srtt_ns: u64,
    /// Largest UDP payload that the path was found to carry, in bytes (RFC 8899).
    pub mtu_bytes: u64,
    /// Black holes: the path stopped carrying long packets (RFC 8899, section 4.3).
    pub black_holes: u64,
}

impl QuicCounters {
    /// Combines connections: sums of the counters, the mean RTT and the smallest payload. `None` without connections.
    pub fn of(connections: impl Iterator<Item = Self>) -> Option<Self> {
        let mut count = 0;
        let sum = |all: Self, each: Self| Self {
            sent_packets: all.sent_packets.saturating_add(each.sent_packets),
            lost_packets: all.lost_packets.saturating_add(each.lost_packets),
            lost_bytes: all.lost_bytes.saturating_add(each.lost_bytes),
            congestion_events: all.congestion_events.saturating_add(each.congestion_events),
            cwnd_bytes: all.cwnd_bytes.saturating_add(each.cwnd_bytes),
            srtt_ns: all.srtt_ns.saturating_add(each.srtt_ns),
            mtu_bytes: all.mtu_bytes.min(each.mtu_bytes),
            black_holes: all.black_holes.saturating_add(each.black_holes),
        };
        let all = connections.inspect(|_| count += 1).reduce(sum)?;
        Some(Self { srtt_ns: all.srtt_ns / count, ..all })
    }
}

impl TcpCounters {
    /// `merging` above which a cell is marked as merged.
    pub const MERGED_ABOVE: f64 = 1.05;

    /// Whether the kernel merged writes into common segments.
    pub fn is_merged(&self) -> bool {
        self.merging > Self::MERGED_ABOVE
    }
}

impl Counts {
    /// Rate of the sender in bit/s: all bytes over the whole time; `None` without time.
    pub fn sent_bps(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| 8e9 * self.bytes as f64 / self.elapsed_ns as f64)
    }

    /// Rate at the receiver in bit/s: the bytes that arrived in `elapsed_ns`; `None` without time.
    pub fn received_bps(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| 8e9 * self.counted_bytes() as f64 / self.elapsed_ns as f64)
    }

    /// Payloads per second at the receiver, of those that arrived in `elapsed_ns`; `None` without time.
    pub fn received_per_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| 1e9 * self.counted_calls() as f64 / self.elapsed_ns as f64)
    }

    /// Counts of a stream whose sender kept a schedule of `window_ns`, without the first `omit_ns`. Arrivals that
    /// take longer than the schedule are counted over their own time.
    #[must_use]
    pub fn over_schedule(&self, window_ns: u64, omit_ns: u64) -> Self {
        let window_ns = window_ns.saturating_sub(omit_ns);
        if self.elapsed_ns > window_ns {
            return *self;
        }
        // The arrival that started the count is part of the schedule.
        let (ramp_bytes, ramp_calls) = match omit_ns {
            0 => (0, 0),
            _ => (
                self.ramp_bytes.saturating_sub(self.first_bytes),
                self.ramp_calls.saturating_sub(self.first_calls),
            ),
        };
        Self { elapsed_ns: window_ns, ramp_bytes, ramp_calls, ..*self }
    }

    /// The same for responses, which all count unless they are part of the ramp.
    #[must_use]
    pub fn answers_over_schedule(&self, window_ns: u64, omit_ns: u64) -> Self {
        Self { elapsed_ns: self.elapsed_ns.max(window_ns.saturating_sub(omit_ns)), ..*self }
    }

    /// Bytes that arrived in `elapsed_ns`.
    pub fn counted_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.ramp_bytes).saturating_sub(self.tail_bytes)
    }

    /// Calls of [`Self::counted_bytes`].
    pub fn counted_calls(&self) -> u64 {
        self.calls.saturating_sub(self.ramp_calls).saturating_sub(self.tail_calls)
    }
}

/// RTTs at the client, split at kernel timestamps into network and host time.
///
/// The timestamps are those of SO_TIMESTAMPING (Documentation/networking/timestamping.rst of the kernel): of a
/// request when it is handed to the network device, of a response when the device hands it over. A datagram in
/// several packets has the timestamp of the first, a TCP response that of its last bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTimes {
    /// Time from the timestamp of the request to that of the response, in nanoseconds: the wire in both directions,
    /// and all of the server, kernel and program.
    pub rtt_ns: Histogram,
    /// The rest of the time from before the send call to after the receive call, in nanoseconds: system calls, the
    /// kernel's protocols and the wake-up of the client. Reading the timestamps is not included.
    pub application_ns: Histogram,
    /// First part of `application_ns`, in nanoseconds: from before the send call until the packet with the last byte enters
    /// the queueing discipline, so the socket, TCP or UDP, and IP. With timestamps of the kernel.
    #[serde(default)]
    pub access_ns: Histogram,
    /// Second part, in nanoseconds: from there until the packet is passed to the device, so queueing discipline and driver.
    #[serde(default)]
    pub packetisation_ns: Histogram,
    /// Last part, in nanoseconds: from the arrival of the last packet until the receive call has returned. At the server of
    /// crr the only one: that of the request.
    #[serde(default)]
    pub reassembly_ns: Histogram,
    /// RTTs without a timestamp, or with timestamps that contradict the clock, for example after the machine's time
    /// was set. They are in neither histogram.
    pub unstamped: u64,
}

impl KernelTimes {
    /// Combines two flows.
    #[must_use]
    pub fn merged(mut self, other: &Self) -> Self {
        self.rtt_ns.merge(&other.rtt_ns);
        self.application_ns.merge(&other.application_ns);
        self.access_ns.merge(&other.access_ns);
        self.packetisation_ns.merge(&other.packetisation_ns);
        self.reassembly_ns.merge(&other.reassembly_ns);
        self.unstamped = self.unstamped.saturating_add(other.unstamped);
        self
    }

    /// A warning if more than 1 % of RTTs lack a timestamp: the 99th percentile may be among them.
    pub fn warning(&self) -> Option<Warning> {
        let (count, of) = (self.unstamped, self.unstamped.saturating_add(self.rtt_ns.len()));
        (count > of / 100).then_some(Warning::Unstamped { count, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_another_host_overflow_no_sum() {
        let most = Counts { calls: u64::MAX, bytes: u64::MAX, elapsed_ns: 1, ..Counts::default() };
        let mut sum = most;
        sum += most;
        assert_eq!((sum.calls, sum.bytes, sum.elapsed_ns), (u64::MAX, u64::MAX, 2));
        let most = KernelTimes { unstamped: u64::MAX, ..KernelTimes::default() };
        let all = Warning::Unstamped { count: u64::MAX, of: u64::MAX };
        assert_eq!(most.clone().merged(&most).warning(), Some(all));
    }

    #[test]
    fn a_receiver_does_not_count_bytes_that_came_before_its_interval() {
        // Three arrivals of 125 bytes at 0, 1 and 2 us: 250 bytes in 2 us are 1 Gbit/s; 375 bytes would be 1.5
        // Gbit/s.
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
        // Bursts of 64 KB at 0, 200 and 400 ms that take 5 ms each to arrive; the schedule covers 600 ms.
        let counts = Counts {
            calls: 192,
            bytes: 192_000,
            elapsed_ns: 405_000_000,
            ramp_bytes: 1_000,
            ramp_calls: 1,
            ..Counts::default()
        };
        assert_eq!(counts.over_schedule(600_000_000, 0).received_bps(), Some(2.56e6));
        // A path that takes 1 s for them limits the rate.
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
        let found = |counts: &[u64]| {
            let Fairness { fewest, most, jain, .. } = Fairness::of(counts);
            (fewest, most, jain)
        };
        assert_eq!(found(&[5, 5, 5]), (5, 5, 1.0));
        assert_eq!(found(&[0, 8, 0, 0]), (0, 8, 0.25));
        assert_eq!(Fairness::of(&[0, 0]).jain, 1.0);
    }

    #[test]
    fn the_fairness_of_two_parts_of_a_run_is_that_of_their_sums() {
        let both = Fairness::of(&[30, 10]).with(&Fairness::of(&[10, 30]));
        assert_eq!(
            (both.jain, both.fewest, both.most, &both.each[..]),
            (1.0, 40, 40, &[40, 40][..])
        );
    }

    #[test]
    fn the_fairness_of_parts_is_that_of_all_flows() {
        let counts = [[3, 4, 5].as_slice(), &[6, 9], &[7]];
        let part = |counts: &&[u64]| {
            let fairness = (counts.len() > 1).then(|| Fairness::of(counts));
            (counts.len() as u64, counts.iter().sum(), fairness)
        };
        let found = Fairness::of_parts(counts.iter().map(part)).unwrap();
        let all = Fairness::of(&counts.concat());
        assert_eq!((found.fewest, found.most), (all.fewest, all.most));
        assert_eq!((&found.each, &all.each), (&counts.concat(), &counts.concat()));
        assert!((found.jain - all.jain).abs() < 1e-12, "{found:?} {all:?}");
        assert_eq!(Fairness::of_parts([(1, 9, None)].into_iter()), None);
    }

    #[test]
    fn shares_of_many_flows_are_not_listed() {
        let many = |flows: usize| Fairness::of(&vec![1; flows]);
        assert_eq!((many(128).each.len(), many(129).each.len()), (128, 0));
        let parts = [(100, 100, Some(many(100))), (29, 29, Some(many(29)))];
        let both = Fairness::of_parts(parts.into_iter()).unwrap();
        assert_eq!((both.fewest, both.each.len()), (1, 0));
    }

    #[test]
    fn counts_side_by_side_have_the_sum_of_the_rates() {
        let counts = |bytes, elapsed_ns, ramp_bytes| Counts {
            calls: 10,
            bytes,
            elapsed_ns,
            ramp_bytes,
            ..Counts::default()
        };
        // 1,000 bytes in 100 ns and 900 in 300 ns.
        let sum = Counts::side_by_side(&[counts(1_100, 100, 100), counts(900, 300, 0)]);
        assert_eq!((sum.bytes, sum.counted_bytes(), sum.calls), (2_000, 1_900, 20));
        assert_eq!(sum.elapsed_ns, 146, "1,900 / (10 + 3)");
        let none = Counts::side_by_side(&[counts(0, 5, 0), counts(0, 7, 0)]);
        assert_eq!(none.elapsed_ns, 6, "20 calls / (10 / 5 + 10 / 7)");
        assert_eq!(Counts::side_by_side(&[]), Counts::default());
    }

    #[test]
    fn groups_are_aligned_as_far_as_their_first_and_last_senders() {
        let time = |began_ns, ended_ns| ActiveTime { began_ns, ended_ns };
        let times = [(100, 1_000, 0), (140, 1_010, 7), (110, 990, 5)]
            .map(|(began, ended, error_ns)| (time(began, ended), error_ns, Nanos(0)));
        let alignment = Alignment::of(&times).unwrap();
        assert_eq!((alignment.starts_apart_ns, alignment.ends_apart_ns), (40, 20));
        assert_eq!((alignment.overlap_ns, alignment.uncertainty_ns), (850, 12));
        let apart = [(time(0, 10), 0, Nanos(0)), (time(20, 30), 0, Nanos(0))];
        assert_eq!(Alignment::of(&apart).unwrap().overlap_ns, 0);
        let later = [(time(100, 1_000), 0, Nanos(0)), (time(503, 1_000), 0, Nanos(400))];
        let alignment = Alignment::of(&later).unwrap();
        assert_eq!((alignment.starts_apart_ns, alignment.overlap_ns), (3, 497));
        assert_eq!(Alignment::of(&times[..1]), None);
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
