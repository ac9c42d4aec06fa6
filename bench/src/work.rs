//! What a contender is to do, and the figures that come of it.

use std::collections::BTreeMap;
use std::fmt;

use crate::emulation::{Emulation, Load};

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP over IPv4.
    Tcp,
    /// UDP over IPv4.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// How both ends wait for bytes, or a sender for its next departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In a call that blocks, or asleep.
    Block,
    /// By asking again and again.
    Spin,
}

/// How datagrams go through the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A call for each datagram.
    Copy,
    /// Many datagrams a call: `sendmmsg` and `recvmmsg`.
    Mmsg,
    /// Super-packets that the kernel cuts and joins: UDP_SEGMENT and UDP_GRO.
    Gso,
}

/// What a request of RDMA asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Its next receive request gets the payload.
    Send,
    /// The payload appears in the other end's memory.
    Write,
    /// The payload is fetched from there.
    Read,
}

impl Verb {
    /// Ways of a latency: both programs tell half a round trip, of a read the whole.
    pub fn ways(self) -> f64 {
        if self == Self::Read { 1.0 } else { 2.0 }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// The work of a run. Sizes are payloads in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One TCP flow written to without pause.
    Stream { bytes: u32 },
    /// One payload there, one of the same size back, in a closed loop on each flow.
    Exchange { transport: Transport, bytes: u32, wait: Wait, flows: u32 },
    /// Messages of RDMA's reliable connection, by polling: without pause, or one there and one back.
    Verbs {
        verb: Verb,
        bytes: u32,
        /// Whether there is no pause.
        is_stream: bool,
    },
    /// A TCP connection for each exchange of one byte.
    Crr,
    /// Datagrams sent without pause.
    Datagrams { bytes: u32, path: Path },
    /// Datagrams of 64 bytes at a fixed rate.
    Departures {
        /// Asleep until each departure, or asleep first and spinning in the end.
        wait: Wait,
    },
    /// A worker to which nobody talks.
    Idle,
    /// What a link is asked to do, and what crosses it.
    Emulated(Emulation),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Payload bits received, per second.
    GoodputBps,
    /// Completed exchanges per second.
    ExchangesPerS,
    /// Datagrams received per second.
    DatagramsPerS,
    /// The time by which 99 % of departures were at most too late, in nanoseconds.
    SlipP99Ns,
    /// Memory of both ends for a flow, in bytes.
    MemoryPerFlowBytes,
    /// Processor time of all processes of the run as a share of one processor's time. The kernel
    /// counts in ticks, mostly of 10 ms (proc_pid_stat(5), cutime and cstime).
    CpuShare,
    /// Memory of an idle process, in bytes (proc_pid_status(5), VmRSS).
    ResidentBytes,
    /// Processor time of the whole machine for a gigabit of payload, in seconds (proc_stat(5)).
    CpuPerGbitS,
    /// How far a stream's goodput is from that of a link with exactly this rate, as a share of it.
    RateError,
    /// How far the mean round trip is from that without the delay and the delay, in nanoseconds.
    DelayErrorNs,
    /// How far the 99th percentile of the round trips is from the same, in nanoseconds.
    DelayErrorP99Ns,
    /// The mean round trip without a delay, in nanoseconds.
    OwnRoundTripNs,
    /// The median round trip, in nanoseconds.
    RttP50Ns,
    /// The mean round trip, in nanoseconds.
    RttMeanNs,
}

impl Figure {
    /// Its key in JSON, unit included.
    pub fn key(self) -> &'static str {
        match self {
            Self::GoodputBps => "goodput_bps",
            Self::ExchangesPerS => "transactions_per_s",
            Self::DatagramsPerS => "payloads_per_s",
            Self::SlipP99Ns => "departure_lag_p99_ns",
            Self::MemoryPerFlowBytes => "memory_per_flow_bytes",
            Self::CpuShare => "cpu_share",
            Self::ResidentBytes => "resident_bytes",
            Self::CpuPerGbitS => "cpu_s_per_gbit",
            Self::RateError => "rate_error",
            Self::DelayErrorNs => "delay_error_ns",
            Self::DelayErrorP99Ns => "delay_error_p99_ns",
            Self::OwnRoundTripNs => "own_round_trip_ns",
            Self::RttP50Ns => "rtt_p50_ns",
            Self::RttMeanNs => "rtt_mean_ns",
        }
    }

    /// Whether more is better.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::GoodputBps | Self::ExchangesPerS | Self::DatagramsPerS)
    }

    /// A value for people.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::GoodputBps => format!("{:.3} Gbit/s", value / 1e9),
            Self::ExchangesPerS | Self::DatagramsPerS if value >= 1e6 => {
                format!("{:.3} M/s", value / 1e6)
            }
            Self::ExchangesPerS | Self::DatagramsPerS => format!("{:.2} k/s", value / 1e3),
            Self::SlipP99Ns
            | Self::DelayErrorNs
            | Self::DelayErrorP99Ns
            | Self::OwnRoundTripNs
            | Self::RttP50Ns
            | Self::RttMeanNs => format!("{:.2} us", value / 1e3),
            Self::MemoryPerFlowBytes => format!("{:.1} KiB", value / 1024.0),
            Self::CpuShare => format!("{:.0} %", 100.0 * value),
            Self::CpuPerGbitS => format!("{value:.3} s"),
            Self::RateError => format!("{:.2} %", 100.0 * value),
            Self::ResidentBytes => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        }
    }
}

impl Work {
    /// The figure that stands for the work in the table.
    pub fn figure(self) -> Figure {
        match self {
            Self::Stream { .. } | Self::Verbs { is_stream: true, .. } => Figure::GoodputBps,
            Self::Verbs { .. } => Figure::RttP50Ns,
            Self::Exchange { .. } | Self::Crr => Figure::ExchangesPerS,
            Self::Datagrams { .. } => Figure::DatagramsPerS,
            Self::Departures { .. } => Figure::SlipP99Ns,
            Self::Idle => Figure::ResidentBytes,
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
