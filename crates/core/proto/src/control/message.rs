//! Messages of the control protocol.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::AddAssign;

use fabricmark_plan::{Direction, Pattern, Point, Role, Trace};
use fabricmark_record::{
    ActiveTime, Counts, Fairness, InterfaceFacts, Interval, KernelCounters, KernelTimes, Pacing,
    QuicCounters, RelayTimes, Series, Side, TcpCounters, ThreadShare, ThreadTime, TierLine,
    TierOrder, Usage, one_line,
};
use fabricmark_stats::Histogram;
use fabricmark_units::{BitRate, Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::opening::Token;

/// Order of a coordinator to a worker; `run` is the number of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each order explains its fields")]
pub enum Order {
    /// First order, with the coordinator's [`crate::PROTOCOL_VERSION`].
    Hello { version: u16 },
    /// Prepare a run; answered by [`Report::Ready`].
    Prepare(Box<Prepare>),
    /// Open the flows to the server at `peer` and run the pattern; answered by [`Report::Finished`]. A scope ID in
    /// the address is one of the client's.
    Begin { run: u64, peer: SocketAddr },
    /// To a sender that has reported [`Report::Opened`]: run the pattern from `at_ns` on, a time of its machine's
    /// CLOCK_MONOTONIC; `None`: at once.
    Start { run: u64, at_ns: Option<u64> },
    /// The sender has finished after this many application bytes: receive data in flight until nothing has arrived
    /// for `idle_ns`; answered by [`Report::Finished`].
    Drain { run: u64, bytes: u64, idle_ns: Nanos },
    /// To the sender of a run in slices: run the pattern for one slice, which counts or only warms up the flows;
    /// answered by [`Report::Slice`]. [`Order::Stop`] ends a run in slices.
    Slice { run: u64, counts: bool },
    /// To the receiver of a stream: the sender's slice has ended after this many application bytes; receive data in
    /// flight until nothing has arrived for `idle_ns`; answered by [`Report::Slice`].
    EndSlice { run: u64, bytes: u64, idle_ns: Nanos, counts: bool },
    /// Continue beyond the run's duration, until [`Order::Stop`]: the receiver cannot start to count yet.
    Hold { run: u64 },
    /// Stop sending, and finish.
    Stop { run: u64 },
    /// Abort the run; answered by [`Report::Failed`].
    Abort { run: u64 },
    /// To a tier of the bookstore; answered by [`Report::Tier`].
    Tier {
        task: Box<TierOrder>,
        /// First and last port for its server; `None`: it chooses.
        #[serde(default)]
        ports: Option<(u16, u16)>,
    },
}

impl Order {
    /// The run to which it belongs; `None` for a hello, and for a tier.
    pub fn run(&self) -> Option<u64> {
        match *self {
            Self::Prepare(ref prepare) => Some(prepare.run),
            Self::Begin { run, .. }
            | Self::Start { run, .. }
            | Self::Drain { run, .. }
            | Self::Slice { run, .. }
            | Self::EndSlice { run, .. }
            | Self::Hold { run }
            | Self::Stop { run }
            | Self::Abort { run } => Some(run),
            Self::Hello { .. } | Self::Tier { .. } => None,
        }
    }
}

/// Parameters of a run for one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// Run number.
    pub run: u64,
    /// Role of this end.
    pub role: Role,
    /// The point to measure.
    pub point: Point,
    /// How long the sender sends its stream or requests.
    pub duration_ns: Nanos,
    /// First part of `duration_ns`, which is not counted.
    #[serde(default)]
    pub omit_ns: Nanos,
    /// Length of a slice; `None`: the run is not in slices. Flows stay open between slices, and `duration_ns` is
    /// the sum of the counted slices.
    #[serde(default)]
    pub slice_ns: Option<Nanos>,
    /// Whether the sender, once its flows are open, waits for [`Order::Start`]: other flows start at the same time.
    #[serde(default)]
    pub waits_for_start: bool,
    /// Delay of the first payload after the common start of the flows that run at once.
    #[serde(default)]
    pub start_ns: Nanos,
    /// Application bytes (of the requests, if there are any) that end the run early; `None`: only time ends it.
    #[serde(default)]
    pub amount: Option<Bytes>,
    /// Token of the flows' handshakes.
    pub token: Token,
    /// Local address to bind to.
    pub address: IpAddr,
    /// Interface index, at this end, of a link-local address (RFC 4007, section 6); else 0.
    #[serde(default)]
    pub scope_id: u32,
    /// Port that the server binds to; 0: one that the kernel chooses, or the first free one of [`Self::ports`].
    pub port: u16,
    /// First and last port of the range from which the server takes the first free one.
    #[serde(default)]
    pub ports: Option<(u16, u16)>,
    /// Source addresses from which the server accepts flows; empty: any. Ignored for Unix sockets.
    #[serde(default)]
    pub from: Vec<IpAddr>,
    /// Extra time, beyond the fixed limits, for the RTTs of the path; read by [`Self::patience`].
    #[serde(default)]
    pub patience_ns: Nanos,
    /// How long the receiver of a stream may defer its count while a segment is missing and the sender continues;
    /// 0: the sender cannot be told to.
    #[serde(default)]
    pub hold_ns: Nanos,
    /// Lower bound of the path's RTT, if known.
    #[serde(default)]
    pub least_rtt_ns: Option<Nanos>,
    /// Network device of `address`, whose drops are counted.
    pub device: String,
    /// CPU to pin the load thread to; `None`: not pinned.
    pub cpu: Option<u32>,
    /// CPUs to pin further load threads to, if the point has several; threads beyond these are not pinned.
    #[serde(default)]
    pub more_cpus: Vec<u32>,
    /// Settings of this end's host during the run, as `mtu=9000`; put back when the run is over.
    #[serde(default)]
    pub host_settings: Vec<String>,
    /// Length of the intervals to report during the run; `None`: no reports.
    #[serde(default)]
    pub interval_ns: Option<Nanos>,
    /// Highest rate of this server's responses, beyond which the run fails; `None`: no limit.
    #[serde(default)]
    pub response_rate_max: Option<BitRate>,
    /// Seed of the run's random numbers: the departures of a Poisson pace.
    pub seed: u64,
    /// Departures of a trace pace; `None` for other paces.
    pub trace: Option<Trace>,
    /// This server is a relay: it passes flows on to this address, until [`Order::Stop`]. `None`: it is an end of them.
    #[serde(default)]
    pub forward: Option<SocketAddr>,
}

impl Prepare {
    /// Whether this end sends the stream or the requests; its clock ends the run.
    pub fn is_active(&self) -> bool {
        let is_reverse = self.point.direction == Some(Direction::Reverse);
        (self.role == Role::Client) != is_reverse
    }

    /// Extra time, beyond the fixed limits, to wait for the other end. At most [`Self::PATIENCE_MAX`], since the
    /// number may come from a network.
    pub fn patience(&self) -> Nanos {
        self.patience_ns.min(Self::PATIENCE_MAX)
    }

    /// How long the count may be deferred. At most [`Self::HOLD_MAX`], since the number may come from a network.
    pub fn hold(&self) -> Nanos {
        self.hold_ns.min(Self::HOLD_MAX)
    }

    /// Longest deferral of a count.
    pub const HOLD_MAX: Nanos = Nanos::from_secs(60);

    /// Most extra time: several times what the worst path needs.
    pub const PATIENCE_MAX: Nanos = Nanos::from_secs(120);

    /// Length of this end's slices: at the sender and at the receiver of a stream. A server that answers requests
    /// serves all slices as one run, `None`.
    pub fn own_slice(&self) -> Option<Nanos> {
        let is_sliced = self.is_active() || self.point.pattern == Pattern::Stream;
        self.slice_ns.filter(|_| is_sliced)
    }

    /// Whether flows from this address are accepted. An IPv4-mapped IPv6 address counts as its IPv4 address (RFC
    /// 4291, section 2.5.5.2).
    pub fn admits(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        self.from.is_empty() || self.from.iter().any(|admitted| admitted.to_canonical() == from)
    }

    /// Socket address of a port at `address`, as seen from this end: a link-local address of either end gets the
    /// scope [`Self::scope_id`].
    pub fn reaches(&self, address: IpAddr, port: u16) -> SocketAddr {
        match address {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, self.scope_id).into()
            }
            _ => SocketAddr::new(address, port),
        }
    }
}

/// Report of a worker to the coordinator; `run` is the number of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each report explains its fields")]
pub enum Report {
    /// The worker's [`crate::PROTOCOL_VERSION`]; answers [`Order::Hello`].
    Hello { version: u16 },
    /// The run waits; `place` is its coordinator's position in the queue, from 1. Repeated when it changes.
    Queued { run: u64, place: u32 },
    /// Ready for the run; `port` is the one that the server is bound to, 0 from the client.
    Ready { run: u64, port: u16 },
    /// The flows are open, and the sender waits for [`Order::Start`].
    Opened { run: u64 },
    /// The flows are open and the run's clock has started; from the end that sends the stream or the requests.
    Begun { run: u64 },
    /// The count is deferred because a segment is missing; from the receiver of a stream, once.
    Holds { run: u64 },
    /// The deferred count has started.
    Counts { run: u64 },
    /// What this end transferred in an interval of the run. In order, before [`Report::Finished`].
    Interval { run: u64, interval: Box<Interval> },
    /// Counts of this end in a slice that has ended.
    Slice { run: u64, counts: Counts },
    /// The run has ended; with all counts of this end.
    Finished { run: u64, end: Box<EndReport> },
    /// The run failed at this end.
    Failed { run: u64, failure: Failure },
    /// A line of a tier of the bookstore.
    Tier { line: Box<TierLine> },
}

/// Why a run failed at one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The kernel refused something that the run needs.
    #[error("{0}")]
    System(#[serde(deserialize_with = "one_line")] String),
    /// No packet came back from the other end: the flows were never open.
    #[error("{0}")]
    Unreachable(#[serde(deserialize_with = "one_line")] String),
    /// The other end did not open the flow, or stopped answering.
    #[error("{0}")]
    Peer(#[serde(deserialize_with = "one_line")] String),
    /// An order came that is not allowed in the current state.
    #[error("{0}")]
    Protocol(#[serde(deserialize_with = "one_line")] String),
    /// This host lacks what the run needs: a protocol of the kernel, a privilege, a limit.
    #[error("{0}")]
    Missing(#[serde(deserialize_with = "one_line")] String),
    /// Settings of the host were changed for the run, and could not be put back.
    #[error("{0}")]
    NotPutBack(#[serde(deserialize_with = "one_line")] String),
    /// The coordinator aborted the run.
    #[error("the run was aborted")]
    Aborted,
}

/// Results of one end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// Payloads, bytes and time.
    pub counts: Counts,
    /// Conditions at this end: CPU, socket buffers, clock.
    pub side: Side,
    /// Network device of this end's address; empty if there is none.
    #[serde(default)]
    pub device: String,
    /// Settings of that device.
    #[serde(default)]
    pub interface: Option<InterfaceFacts>,
    /// Time from the request to open a flow to its acceptance, at the client.
    pub opening_rtt_ns: u64,
    /// Fairness between flows, at the end that sends the stream or the requests.
    pub fairness: Option<Fairness>,
    /// Times from request to response, at the client.
    pub rtt_ns: Option<Histogram>,
    /// RTTs split by kernel packet timestamps, at the client.
    #[serde(default)]
    pub kernel_times: Option<KernelTimes>,
    /// Requests without a response in time.
    pub lost_round_trips: u64,
    /// Departures against their schedule in an open loop, at the end that sends the stream or the requests.
    pub pacing: Option<Pacing>,
    /// TCP counters of the end that sends the stream or the requests.
    pub tcp: Option<TcpCounters>,
    /// QUIC counters of the end that sends the stream or the requests.
    #[serde(default)]
    pub quic: Option<QuicCounters>,
    /// Arrivals by sequence number, at the receiver of datagrams.
    pub sequence: Option<SequenceCounts>,
    /// Zero-copy sends of this end; `None` if its path does not use them.
    #[serde(default)]
    pub zero_copy: Option<ZeroCopySends>,
    /// Interarrival jitter at the receiver of a datagram stream in an open loop, in ns: the mean of its flows.
    #[serde(default)]
    pub jitter_ns: Option<f64>,
    /// Datagrams that the socket dropped because its receive buffer was full.
    pub socket_drops: u64,
    /// Packets that the device dropped on receive.
    pub device_drops: u64,
    /// IP reassembly failures, each of a datagram or of one of its fragments.
    pub reassembly_failures: u64,
    /// When the sender ran the pattern; `None` from the other end, and in slices.
    #[serde(default)]
    pub active: Option<ActiveTime>,
    /// CPU time of the load thread, the busiest of several, while it ran the pattern; `None` if it was not read.
    #[serde(default)]
    pub thread: Option<ThreadTime>,
    /// All load threads, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadShare>,
    /// Why the load thread could not be pinned to its CPU; `None` if it was, or was not to be.
    pub not_pinned: Option<String>,
    /// Kernel counters other than those of sockets.
    #[serde(default)]
    pub kernel: Option<KernelCounters>,
    /// Resources of this machine that the run used; `None` if they were not read.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Times of a relay; `None` from the ends of the flows, and if no bytes passed.
    #[serde(default)]
    pub relay: Option<RelayTimes>,
    /// All intervals, if requested. Not sent: the reader of reports has got each as a [`Report::Interval`].
    #[serde(skip)]
    pub series: Option<Series>,
}

/// Zero-copy sends (MSG_ZEROCOPY) that have completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroCopySends {
    /// All of them.
    pub sends: u64,
    /// Those whose bytes the kernel copied after all (SO_EE_CODE_ZEROCOPY_COPIED, linux/errqueue.h).
    pub copied: u64,
}

impl AddAssign for ZeroCopySends {
    fn add_assign(&mut self, more: Self) {
        self.sends += more.sends;
        self.copied += more.copied;
    }
}

/// Arrivals by sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceCounts {
    /// Distinct numbers that arrived.
    pub unique: u64,
    /// Arrivals after one with a higher number.
    pub reordered: u64,
    /// Arrivals of a number that had arrived before.
    pub duplicates: u64,
}
