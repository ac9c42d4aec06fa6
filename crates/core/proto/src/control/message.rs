//! The words of the control conversation.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use fabricmark_plan::{Direction, Pattern, Point, Role, Trace};
use fabricmark_record::{
    Counts, Fairness, Interval, KernelCounters, KernelTimes, Pacing, QuicCounters, Series, Side,
    TcpCounters, ThreadTime, Usage,
};
use fabricmark_stats::Histogram;
use fabricmark_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::opening::Token;

/// What the coordinator asks of a worker; `run` is the number of the run that it concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each order explains its fields")]
pub enum Order {
    /// Names the coordinator's [`crate::PROTOCOL_VERSION`]; the first order.
    Hello { version: u16 },
    /// Get ready for a run; answered by [`Report::Ready`].
    Prepare(Box<Prepare>),
    /// Open the flow to the other end, which waits at `peer`, and carry the pattern out; answered by
    /// [`Report::Finished`]. A scope of the address is that of the client.
    Begin { run: u64, peer: SocketAddr },
    /// The other end has sent this many bytes of the application and has finished: wait for what is still
    /// under way until nothing has arrived for `idle_ns`; answered by [`Report::Finished`].
    Drain { run: u64, bytes: u64, idle_ns: Nanos },
    /// Carry the pattern out for the length of a slice, which counts or only warms the flows up; for the active end of a
    /// run in slices, answered by [`Report::Slice`]. [`Order::Stop`] ends a run in slices.
    Slice { run: u64, counts: bool },
    /// The sender's slice is over, in which it sent this many bytes of the application: wait for the rest until nothing
    /// has arrived for `idle_ns`; for the receiver of a stream, answered by [`Report::Slice`].
    EndSlice { run: u64, bytes: u64, idle_ns: Nanos, counts: bool },
    /// Go on beyond the duration of the run, until [`Order::Stop`]: the receiver cannot begin to count yet.
    Hold { run: u64 },
    /// Send nothing more, and finish.
    Stop { run: u64 },
    /// Give the run up; answered by [`Report::Failed`].
    Abort { run: u64 },
}

/// Everything that one end needs to know of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The run.
    pub run: u64,
    /// Which end.
    pub role: Role,
    /// What to carry out.
    pub point: Point,
    /// How long the active end sends or asks.
    pub duration_ns: Nanos,
    /// The first part of that, which does not count.
    #[serde(default)]
    pub omit_ns: Nanos,
    /// Length of a slice, if the run consists of slices: its flows stay open between them, and `duration_ns` is the sum
    /// of those that count.
    #[serde(default)]
    pub slice_ns: Option<Nanos>,
    /// Application bytes, of requests where there are some, after which the active end stops earlier
    /// than that; absent where only the time ends the run.
    #[serde(default)]
    pub amount: Option<Bytes>,
    /// Token of the flow.
    pub token: Token,
    /// Address to bind to.
    pub address: IpAddr,
    /// Interface of that address, by its number at this end, where the address is one of a link (RFC 4007,
    /// section 6); 0 where it needs none.
    #[serde(default)]
    pub scope_id: u32,
    /// Port to bind to at the server; 0 lets the kernel choose, or takes one of [`Self::ports`].
    pub port: u16,
    /// First and last port of those from which the server takes the first free one.
    #[serde(default)]
    pub ports: Option<(u16, u16)>,
    /// Addresses from which flows may come to the server; anyone's where there are none. Unix
    /// sockets have no such address.
    #[serde(default)]
    pub from: Vec<IpAddr>,
    /// Time beyond the fixed limits that the path's round trips need; read by [`Self::patience`].
    #[serde(default)]
    pub patience_ns: Nanos,
    /// How long the receiver of a stream may put its count off while a segment is missing, in which time the sender
    /// goes on; 0 where the sender cannot be told to.
    #[serde(default)]
    pub hold_ns: Nanos,
    /// The least round trip of the path, where it is known.
    #[serde(default)]
    pub least_rtt_ns: Option<Nanos>,
    /// Network device of that address, whose drops are counted.
    pub device: String,
    /// Processor to bind the load thread to.
    pub cpu: Option<u32>,
    /// Length of the intervals to tell of while the run is under way; none are told of without.
    #[serde(default)]
    pub interval_ns: Option<Nanos>,
    /// Seed of what is random in the run: the departures of a Poisson pace.
    pub seed: u64,
    /// Departures of the point's trace; other paces have none.
    pub trace: Option<Trace>,
}

impl Prepare {
    /// Whether this end sends the stream or asks: its clock ends the run.
    pub fn is_active(&self) -> bool {
        let is_reverse = self.point.direction == Some(Direction::Reverse);
        (self.role == Role::Client) != is_reverse
    }

    /// Time beyond the fixed limits for whatever this end awaits from the other, at most
    /// [`Self::PATIENCE_MAX`], as the number may come from a network.
    pub fn patience(&self) -> Nanos {
        self.patience_ns.min(Self::PATIENCE_MAX)
    }

    /// How long the count may be put off, at most [`Self::HOLD_MAX`], as the number may come from a network.
    pub fn hold(&self) -> Nanos {
        self.hold_ns.min(Self::HOLD_MAX)
    }

    /// Most time for which a count is put off.
    pub const HOLD_MAX: Nanos = Nanos::from_secs(60);

    /// Most time beyond the fixed limits: several times what the worst path needs, yet bounded.
    pub const PATIENCE_MAX: Nanos = Nanos::from_secs(120);

    /// Length of the slices of this end, if it works in slices: the active end, and the receiver of a stream. A server
    /// that answers requests serves all slices as one run.
    pub fn own_slice(&self) -> Option<Nanos> {
        let is_sliced = self.is_active() || self.point.pattern == Pattern::Stream;
        self.slice_ns.filter(|_| is_sliced)
    }

    /// Whether flows may come from this address. An address of IPv4 is the same when it is written as one
    /// of IPv6 (RFC 4291, section 2.5.5.2).
    pub fn admits(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        self.from.is_empty() || self.from.iter().any(|admitted| admitted.to_canonical() == from)
    }

    /// Where a port of an address is, as seen from this end: an address of a link is on the link of
    /// [`Self::scope_id`], be it this end's or the other's.
    pub fn reaches(&self, address: IpAddr, port: u16) -> SocketAddr {
        match address {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, self.scope_id).into()
            }
            _ => SocketAddr::new(address, port),
        }
    }
}

/// What a worker tells the coordinator; `run` is the number of the run that it concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each report explains its fields")]
pub enum Report {
    /// Names the worker's [`crate::PROTOCOL_VERSION`]; the answer to [`Order::Hello`].
    Hello { version: u16 },
    /// The run waits, since others measure: `place` counts the coordinators that come before it, itself
    /// included. Told again whenever that changes.
    Queued { run: u64, place: u32 },
    /// Ready for the run; the server is bound to this port, and the client says 0.
    Ready { run: u64, port: u16 },
    /// The flows are open and the run's clock has begun; told by the end that is active.
    Begun { run: u64 },
    /// The count is put off, since a segment is missing; told by the receiver of a stream, once.
    Holds { run: u64 },
    /// The count has begun after it was put off.
    Counts { run: u64 },
    /// What this end moved in an interval of the run; those of one end come in order, and all before
    /// [`Report::Finished`].
    Interval { run: u64, interval: Box<Interval> },
    /// What this end counted in a slice, which is over.
    Slice { run: u64, counts: Counts },
    /// The run's end, with everything this end counted.
    Finished { run: u64, end: Box<EndReport> },
    /// The run failed at this end.
    Failed { run: u64, failure: Failure },
}

/// Why a run failed at one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The kernel refused something that the run needs.
    #[error("{0}")]
    System(String),
    /// The other end did not open the flow, or stopped answering.
    #[error("{0}")]
    Peer(String),
    /// An order came that the conversation does not allow here.
    #[error("{0}")]
    Protocol(String),
    /// This host lacks what the run needs: a protocol of the kernel, a privilege, a limit.
    #[error("{0}")]
    Missing(String),
    /// The coordinator gave the run up.
    #[error("the run was given up")]
    Aborted,
}

/// What one end of a flow counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// Payloads, bytes and time.
    pub counts: Counts,
    /// Circumstances.
    pub side: Side,
    /// Time that the flow's opening took from request to acceptance, at the client.
    pub opening_rtt_ns: u64,
    /// How evenly many flows shared, at the end that is active.
    pub fairness: Option<Fairness>,
    /// From request to response, at the client.
    pub rtt_ns: Option<Histogram>,
    /// Round trips parted by the stamps of their packets, at the client.
    #[serde(default)]
    pub kernel_times: Option<KernelTimes>,
    /// Round trips that got no answer in time.
    pub lost_round_trips: u64,
    /// How the active end kept to its pace, in an open loop.
    pub pacing: Option<Pacing>,
    /// TCP's counters, at the end that is active.
    pub tcp: Option<TcpCounters>,
    /// QUIC's counters, at the end that is active.
    #[serde(default)]
    pub quic: Option<QuicCounters>,
    /// What sequence numbers say, at the receiving end of datagrams.
    pub sequence: Option<SequenceCounts>,
    /// Interarrival jitter at the receiver of a stream of datagrams in an open loop, the mean of its flows.
    #[serde(default)]
    pub jitter_ns: Option<f64>,
    /// Datagrams that the socket dropped for lack of buffer.
    pub socket_drops: u64,
    /// Packets that the device's receiving side dropped.
    pub device_drops: u64,
    /// Failures of reassembly, each of which may be a datagram or one fragment of it.
    pub reassembly_failures: u64,
    /// The load thread while the pattern was carried out, where its time was read.
    #[serde(default)]
    pub thread: Option<ThreadTime>,
    /// Why the load thread could not be bound to its processor, where it could not.
    pub not_pinned: Option<String>,
    /// What the kernel counted beside the sockets.
    #[serde(default)]
    pub kernel: Option<KernelCounters>,
    /// What the run used of this machine; absent where nobody read it.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// All intervals, where they were asked for. It is not sent: whoever reads reports has had each
    /// as a [`Report::Interval`].
    #[serde(skip)]
    pub series: Option<Series>,
}

/// Arrivals by sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceCounts {
    /// Different numbers that arrived.
    pub unique: u64,
    /// Arrivals after a higher number.
    pub reordered: u64,
    /// Arrivals of a number that was there before.
    pub duplicates: u64,
}
