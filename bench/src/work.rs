//! Workloads and their figures.

use std::collections::BTreeMap;

use crate::emulation::{Emulation, Load};

/// Transport protocol, over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Transport {
    Tcp,
    Udp,
}

/// How both ends wait for data, or a sender for its next departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Blocking calls, or sleep.
    Block,
    /// Busy polling.
    Spin,
}

/// System calls that move datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// One call per datagram.
    Copy,
    /// Several datagrams per call: `sendmmsg` and `recvmmsg`.
    Mmsg,
    /// Super-packets that the kernel segments and merges: UDP_SEGMENT and UDP_GRO.
    Gso,
}

/// RDMA operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Verb {
    /// Send: into the peer's next posted receive buffer.
    Send,
    /// RDMA write: into the peer's memory.
    Write,
    /// RDMA read: from the peer's memory.
    Read,
}

impl Verb {
    /// Factor from reported latency to RTT: perftest and qperf report RTT/2, for reads the RTT.
    pub fn ways(self) -> f64 {
        if self == Self::Read { 1.0 } else { 2.0 }
    }
}

/// A process of fabricmark that waits for orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Process {
    /// `fabricmark agent` without coordinators.
    Agent,
    /// The process that performs the runs of one end.
    Worker,
}

/// The workload of a run. Sizes are payloads in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One TCP flow, written to without pause.
    Stream { bytes: u32 },
    /// As `Stream`, with SO_RCVLOWAT at the receiver: 128 KiB, the size of its reads.
    StreamWithLowat { bytes: u32 },
    /// A request and a response of the same size, in a closed loop on each flow.
    Rr { transport: Transport, bytes: u32, wait: Wait, flows: u32 },
    /// As many TCP flows as threads at each end, a flow each, on all CPUs: streams of 128 KiB writes, or rr of 64 B.
    Threads { threads: u32, is_stream: bool },
    /// Messages of an RDMA reliable connection, with polling: a stream, or one message in each direction.
    Verbs {
        verb: Verb,
        bytes: u32,
        /// Whether it is a stream.
        is_stream: bool,
    },
    /// A TCP connection per transaction, with request and response of one byte; `flows` connections at once.
    Crr { flows: u32, threads: u32 },
    /// Datagrams sent without pause.
    Datagrams { bytes: u32, path: Path },
    /// Datagrams of 64 bytes at a fixed rate.
    Departures {
        /// Sleep until each departure, or sleep and then spin for the last part.
        wait: Wait,
    },
    /// An idle process.
    Idle(Process),
    /// Traffic over an emulated link.
    Emulated(Emulation),
}

/// A measured figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Received payload bits per second.
    GoodputBps,
    /// Completed transactions per second.
    TransactionsPerS,
    /// Received datagrams per second.
    DatagramsPerS,
    /// Departure lag p99: 99 % of departures were at most this late, in nanoseconds.
    SlipP99Ns,
    /// The same without departures that were due while the CPU of the spinning sender ran something else.
    SlipWithoutPausesP99Ns,
    /// Memory of both ends per flow, in bytes.
    MemoryPerFlowBytes,
    /// CPU time of all processes of the run as a share of one CPU. The kernel counts in ticks, usually of 10 ms
    /// (proc_pid_stat(5), cutime and cstime).
    CpuShare,
    /// Memory of an idle process, in bytes (proc_pid_status(5), VmRSS).
    ResidentBytes,
    /// Anonymous part of that memory, in bytes (RssAnon): not pages of files, which the kernel can drop.
    AnonymousBytes,
    /// CPU time of the whole machine per gigabit of payload, in seconds (proc_stat(5)).
    CpuPerGbitS,
    /// Relative deviation of a stream's goodput from that of a link with exactly the set rate.
    RateError,
    /// Deviation of the mean RTT from the RTT without the delay plus the set delay, in nanoseconds.
    DelayErrorNs,
    /// Deviation of the RTT's 99th percentile from the same value, in nanoseconds.
    DelayErrorP99Ns,
    /// Mean RTT without a delay, in nanoseconds.
    OwnRoundTripNs,
    /// Median RTT, in nanoseconds.
    RttP50Ns,
    /// Mean RTT, in nanoseconds.
    RttMeanNs,
}

impl Figure {
    /// Key in JSON, with the unit.
    pub fn key(self) -> &'static str {
        match self {
            Self::GoodputBps => "goodput_bps",
            Self::TransactionsPerS => "transactions_per_s",
            Self::DatagramsPerS => "payloads_per_s",
            Self::SlipP99Ns => "departure_lag_p99_ns",
            Self::SlipWithoutPausesP99Ns => "departure_lag_without_pauses_p99_ns",
            Self::MemoryPerFlowBytes => "memory_per_flow_bytes",
            Self::CpuShare => "cpu_share",
            Self::ResidentBytes => "resident_bytes",
            Self::AnonymousBytes => "anonymous_bytes",
            Self::CpuPerGbitS => "cpu_s_per_gbit",
            Self::RateError => "rate_error",
            Self::DelayErrorNs => "delay_error_ns",
            Self::DelayErrorP99Ns => "delay_error_p99_ns",
            Self::OwnRoundTripNs => "own_round_trip_ns",
            Self::RttP50Ns => "rtt_p50_ns",
            Self::RttMeanNs => "rtt_mean_ns",
        }
    }

    /// Whether a higher value is better.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::GoodputBps | Self::TransactionsPerS | Self::DatagramsPerS)
    }

    /// Formats a value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::GoodputBps => format!("{:.3} Gbit/s", value / 1e9),
            Self::TransactionsPerS | Self::DatagramsPerS if value >= 1e6 => {
                format!("{:.3} M/s", value / 1e6)
            }
            Self::TransactionsPerS | Self::DatagramsPerS => format!("{:.2} k/s", value / 1e3),
            Self::SlipP99Ns
            | Self::SlipWithoutPausesP99Ns
            | Self::DelayErrorNs
            | Self::DelayErrorP99Ns
            | Self::OwnRoundTripNs
            | Self::RttP50Ns
            | Self::RttMeanNs => format!("{:.2} us", value / 1e3),
            Self::MemoryPerFlowBytes => format!("{:.1} KiB", value / 1024.0),
            Self::CpuShare => format!("{:.0} %", 100.0 * value),
            Self::CpuPerGbitS => format!("{value:.3} s"),
            Self::RateError => format!("{:.2} %", 100.0 * value),
            Self::ResidentBytes | Self::AnonymousBytes => {
                format!("{:.1} MiB", value / 1024.0 / 1024.0)
            }
        }
    }
}

impl Work {
    /// Whether its runs must be long: thousands of flows need several turns each, and an RTT of 100 ms, or 8 MiB of RDMA
    /// reads that Soft RoCE completes at once, must be a small part of a run.
    fn is_long(self) -> bool {
        match self {
            Self::Emulated(_) | Self::Verbs { .. } | Self::Idle(_) => true,
            Self::Rr { flows, .. } => flows >= 1000,
            _ => false,
        }
    }

    /// Whether a run reaches its rate within milliseconds, because no buffer of TCP has to grow.
    fn is_steady_at_once(self) -> bool {
        matches!(self, Self::Rr { flows: 1, .. } | Self::Crr { .. } | Self::Datagrams { .. })
    }

    /// Usual duration of a run in seconds. Shorter ones lie closer together, so that the machine's noise cancels in their
    /// ratios. In 0.5 s TCP's buffers grow in a small part of a run.
    pub fn seconds(self) -> f64 {
        match self {
            _ if self.is_long() => 1.0,
            _ if self.is_steady_at_once() => 0.1,
            _ => 0.5,
        }
    }

    /// Usual number of rounds with peers at most.
    pub fn rounds(self) -> u32 {
        if self.is_long() { 10 } else { 50 }
    }

    /// Rounds for each one in which the peers take part. Most peers run for at least a second, longer than fabricmark and
    /// the bare loop, whose ratio is known sooner by rounds of their own.
    pub fn rounds_per_peers(self) -> usize {
        match self {
            _ if self.is_long() => 1,
            _ if self.is_steady_at_once() => 5,
            _ => 3,
        }
    }

    /// The main figure of the workload in the table.
    pub fn figure(self) -> Figure {
        match self {
            Self::Stream { .. }
            | Self::StreamWithLowat { .. }
            | Self::Threads { is_stream: true, .. }
            | Self::Verbs { is_stream: true, .. } => Figure::GoodputBps,
            Self::Verbs { .. } => Figure::RttP50Ns,
            Self::Rr { .. } | Self::Threads { .. } | Self::Crr { .. } => Figure::TransactionsPerS,
            Self::Datagrams { .. } => Figure::DatagramsPerS,
            Self::Departures { .. } => Figure::SlipP99Ns,
            Self::Idle(_) => Figure::ResidentBytes,
            Self::Emulated(emulation) => match (emulation.load, emulation.rate_mbps) {
                (Load::Stream, None) => Figure::GoodputBps,
                (Load::Stream, Some(_)) => Figure::RateError,
                (Load::PingPong, _) => Figure::DelayErrorNs,
            },
        }
    }
}

pub type Values = BTreeMap<Figure, f64>;

pub fn value(figure: Figure, value: f64) -> Values {
    Values::from([(figure, value)])
}
