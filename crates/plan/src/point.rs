//! A point: one level of each factor, with every default filled in.

use std::fmt;
use std::net::IpAddr;

use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::{Family, Link};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::factor::{Factor, NONE};
use crate::pace::Pace;
use crate::plan::Filter;
use crate::window::Window;

/// A choice of words: an enum whose variants are written the same in plans, flags, JSON and tables.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
            JsonSchema,
        )]
        pub enum $name {
            $($(#[$each])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every choice.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// The choice of that word.
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|choice| choice.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words! {
    /// How data moves between the two ends.
    Pattern {
        /// One end writes without pause, the other reads.
        Stream = "stream",
        /// A request there, a response back, and so on.
        Exchange = "exchange",
        /// A connection for each request and response.
        ConnectExchange = "connect-exchange",
        /// One payload there, the same payload back, and so on: half of it is half a round trip.
        PingPong = "ping-pong",
        /// Each end sends a payload and then receives the other's, and so on: IMB's PingPing.
        PingPing = "ping-ping",
        /// Several payloads there back to back, one response when all of them have arrived, and so on:
        /// a window of MPI's bandwidth test (osu_bw of the OSU Micro-Benchmarks).
        Burst = "burst",
    }
}

words! {
    /// What carries the payload.
    Transport {
        /// The kernel's TCP (RFC 9293).
        Tcp = "tcp",
        /// The kernel's UDP (RFC 768).
        Udp = "udp",
        /// TCP over several paths (RFC 8684).
        Mptcp = "mptcp",
        /// Stream sockets within one machine (unix(7)).
        Unix = "unix",
        /// SCTP, one stream (RFC 9260).
        Sctp = "sctp",
        /// TLS 1.3 over TCP (RFC 8446).
        Tls = "tls",
        /// QUIC, one stream in a connection (RFC 9000).
        Quic = "quic",
        /// SMC: sockets of TCP whose bytes travel by RDMA (RFC 7609).
        Smc = "smc",
        /// Sockets of librdmacm, whose bytes travel by RDMA (rsocket(7)).
        Rsocket = "rsocket",
        /// RDMA's reliable connection (IBTA volume 1, section 9.7).
        Rc = "rc",
        /// RDMA's unreliable connection: a message of which a packet is lost is lost (the same section).
        Uc = "uc",
        /// RDMA's unreliable datagram: messages of one packet (the same section).
        Ud = "ud",
        /// Nothing: shows what the instrument itself costs.
        Null = "null",
    }
}

words! {
    /// Which way a stream flows, seen from the end that opens it.
    Direction {
        /// From the end that opens the flow.
        Forward = "forward",
        /// To the end that opens the flow.
        Reverse = "reverse",
        /// Both ways at once, in flows of their own.
        Both = "both",
    }
}

words! {
    /// What carries the ping-pong that runs beside a load, to find the round trip under load.
    Probe {
        /// Datagrams: each shows one crossing of the queues.
        Udp = "udp",
        /// A connection: what an interactive application beside the load would see.
        Tcp = "tcp",
    }
}

words! {
    /// How bytes pass between the program and the kernel.
    Path {
        /// One plain read or write call a payload.
        Copy = "copy",
        /// As `copy`, but the receiver leaves the bytes in the kernel (MSG_TRUNC): less work than
        /// any application can do.
        Trunc = "trunc",
        /// Several datagrams a call (sendmmsg, recvmmsg).
        Mmsg = "mmsg",
        /// One buffer cut into datagrams by the kernel, and put together again at the receiver
        /// (UDP_SEGMENT, UDP_GRO).
        Gso = "gso",
        /// The kernel sends from the program's pages (MSG_ZEROCOPY).
        ZeroCopy = "zerocopy",
        /// From a file in memory by sendfile(2).
        SendFile = "sendfile",
        /// Through a pipe by splice(2), at both ends.
        Splice = "splice",
        /// Through io_uring(7): a chain of sends a call, and one receive request for all arrivals.
        Uring = "io-uring",
        /// As `io-uring`, but the kernel sends from the program's registered pages.
        UringZeroCopy = "io-uring-zc",
    }
}

words! {
    /// Whether super-packets of up to 64 KiB may cross an emulated link whole.
    Offload {
        /// They may: each costs what its segments cost, and no single frame is seen.
        On = "on",
        /// Senders hand over single packets.
        Off = "off",
    }
}

words! {
    /// What a load thread does while there is nothing to do.
    Wait {
        /// It sleeps in the call itself.
        Block = "block",
        /// It sleeps in epoll_wait(2), and serves many flows.
        Epoll = "epoll",
        /// It asks again and again.
        Spin = "spin",
        /// It sleeps in the call, and the kernel polls the device for 50 us first (SO_BUSY_POLL).
        BusyPoll = "busy-poll",
    }
}

words! {
    /// How a sender waits for the next departure of its pace. How late it then is was measured:
    /// see `Waiting` of the crate `load`.
    PaceWait {
        /// It sleeps all the time.
        Sleep = "sleep",
        /// It sleeps until shortly before the departure, then spins.
        SleepSpin = "sleep-spin",
        /// It spins all the time, on a processor of its own.
        Spin = "spin",
    }
}

words! {
    /// Who stamps packets, so that round trips are parted into what lies beyond the stamps and what
    /// before them.
    Timestamps {
        /// The kernel, where it hands a packet to the network device and takes one from it.
        Software = "software",
        /// The network device, by its own clock.
        Hardware = "hardware",
    }
}

words! {
    /// What a request of RDMA asks of the other end (IBTA volume 1, section 9.4).
    Operation {
        /// Its next receive request gets the payload.
        Send = "send",
        /// The payload appears in its memory, and nobody there is told.
        Write = "write",
        /// The payload appears in its memory, and its next receive request is completed.
        WriteImmediate = "write-imm",
        /// The payload is fetched from its memory.
        Read = "read",
        /// A number in its memory grows, and what it was comes back.
        FetchAdd = "fetch-add",
        /// A number in its memory is replaced if it is the one expected, and what it was comes back.
        CompareSwap = "compare-swap",
    }
}

words! {
    /// How queue pairs of a reliable connection find each other.
    Meet {
        /// Both ends say by a connection of TCP who they are.
        Tcp = "tcp",
        /// By RDMA's communication manager (IBTA volume 1, section 12; librdmacm).
        RdmaCm = "rdma-cm",
    }
}

impl Operation {
    /// Whether it brings something back, so that it is a round trip of its own.
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Read | Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether it works on a number of 64 bits.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }
}

impl Path {
    /// Whether it passes through io_uring.
    pub const fn is_uring(self) -> bool {
        matches!(self, Self::Uring | Self::UringZeroCopy)
    }
}

impl Transport {
    /// Whether TCP's options apply.
    pub const fn has_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Mptcp | Self::Tls)
    }

    /// Whether it travels in the kernel's UDP.
    pub const fn has_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Quic)
    }

    /// Whether it is RDMA by verbs.
    pub const fn is_verbs(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::Ud)
    }

    /// Whether messages are lost for good.
    pub const fn is_lossy(self) -> bool {
        matches!(self, Self::Udp | Self::Uc | Self::Ud)
    }
}

/// One level of each factor: everything that a run needs to know, defaults included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// How data moves.
    pub pattern: Pattern,
    /// What carries it.
    pub transport: Transport,
    /// IP version.
    pub family: Family,
    /// Application bytes per write, datagram or request.
    pub payload: Bytes,
    /// Application bytes per response; absent where the pattern has none of its own.
    pub response: Option<Bytes>,
    /// Requests under way at once in each flow, at most so many where their departures follow a pace;
    /// in a burst its payloads; absent where there are no requests.
    pub outstanding: Option<u32>,
    /// Which way a stream flows; absent where both ways are used in turn.
    pub direction: Option<Direction>,
    /// What probes the round trip, first alone, then beside the load; absent where nothing does.
    #[serde(default)]
    pub probe: Option<Probe>,
    /// Flows at once; of a stream both ways, in each.
    #[serde(default = "one_flow")]
    pub flows: u32,
    /// When payloads or requests depart; a rate is that of the whole run, whatever its flows.
    #[serde(default)]
    pub pace: Pace,
    /// How the sender waits for a departure; absent in a closed loop.
    #[serde(default)]
    pub pace_wait: Option<PaceWait>,
    /// The link between the two ends.
    pub link: Link,
    /// Round trip of the emulated link; absent where none is asked for.
    #[serde(default)]
    pub rtt: Option<Nanos>,
    /// What else the emulated link does, as the words of [`fabricmark_link::LinkWords`]; absent for
    /// nothing else.
    #[serde(default)]
    pub emulate: Option<String>,
    /// What all packets of the client cross beside the emulated link, as
    /// [`fabricmark_link::HostBus`] reads it; absent for nothing.
    #[serde(default)]
    pub bus: Option<String>,
    /// Whether super-packets cross the emulated link whole; absent where the link is not emulated.
    #[serde(default)]
    pub offload: Option<Offload>,
    /// Largest window of TCP; absent where the kernel tunes it.
    #[serde(default)]
    pub window: Option<Window>,
    /// What requests of RDMA ask for; absent where there are none.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// Requests of RDMA that may be under way in each direction; absent for what the program chooses.
    #[serde(default)]
    pub depth: Option<u32>,
    /// Bytes that travel in a request of RDMA itself, where the adapter has room for them; absent for what
    /// the program chooses.
    #[serde(default)]
    pub inline: Option<u32>,
    /// One in so many requests of RDMA tells that it has been done; absent for what the program chooses.
    #[serde(default)]
    pub signal_every: Option<u32>,
    /// How queue pairs of RDMA find each other; absent for a connection of TCP.
    #[serde(default)]
    pub meet: Option<Meet>,
    /// Whether payloads of RDMA are looked at when they arrive; absent for not.
    #[serde(default)]
    pub verify: Option<bool>,
    /// How bytes pass between program and kernel.
    pub path: Path,
    /// What a load thread does while there is nothing to do.
    #[serde(default = "block")]
    pub wait: Wait,
    /// Congestion control, of TCP or of QUIC; absent where there is none.
    pub congestion: Option<String>,
    /// TCP_NODELAY; absent where there is no TCP.
    pub nodelay: Option<bool>,
    /// Largest TCP segment asked for in bytes (TCP_MAXSEG); absent where the path decides.
    pub mss: Option<u32>,
    /// The kernel's own pacing: the most that each connection sends, in bit/s with the headers of TCP
    /// and IP (SO_MAX_PACING_RATE, socket(7)); absent where the congestion control decides.
    #[serde(default)]
    pub pacing_rate: Option<BitRate>,
    /// Differentiated services code point; absent for the default of 0.
    pub dscp: Option<u32>,
    /// Receive buffer asked for in bytes; absent where the kernel tunes it (TCP by default).
    pub receive_buffer: Option<Bytes>,
    /// Send buffer asked for in bytes; absent where the kernel tunes it.
    pub send_buffer: Option<Bytes>,
    /// TCP_CORK: less than a segment waits up to 200 ms for more (tcp(7)); absent for off.
    pub cork: Option<bool>,
    /// TCP_QUICKACK, set again after each receive, since the kernel falls back to its own choice
    /// (tcp(7)); absent for that choice.
    pub quickack: Option<bool>,
    /// True where no packet is fragmented, here or on its way; false where every packet may be; absent
    /// where the kernel decides (IP_MTU_DISCOVER, ip(7)).
    pub dont_fragment: Option<bool>,
    /// IPv6 flow label of the end that opens the flow; absent where the kernel chooses.
    pub flow_label: Option<u32>,
    /// Mark that routing and filters of this host see (SO_MARK, socket(7)); absent for none.
    pub mark: Option<u32>,
    /// Address that flows are opened from; absent for the node's own.
    pub source: Option<IpAddr>,
    /// Port that the flow is opened from; absent where the kernel chooses.
    pub source_port: Option<u16>,
    /// Network device that flows are opened through (SO_BINDTODEVICE); absent where routing decides.
    pub device: Option<String>,
    /// Longest time in nanoseconds for a connection to be made; absent for 5 s.
    pub connect_timeout: Option<Nanos>,
    /// Whose stamps part the round trips at the client; absent where nobody is asked for any.
    #[serde(default)]
    pub timestamps: Option<Timestamps>,
    /// A name without an effect: two labels compare a setting with itself (an A/A run).
    pub label: Option<String>,
}

/// Records of versions before there was a choice.
fn one_flow() -> u32 {
    1
}

/// See [`one_flow`].
fn block() -> Wait {
    Wait::Block
}

impl Point {
    /// Largest payload: both ends allocate a buffer of its size.
    pub const PAYLOAD_MAX: Bytes = Bytes(64 << 20);

    /// The same of RDMA: what most adapters' messages may have (`max_msg_sz` of ibv_devinfo -v).
    pub const RDMA_PAYLOAD_MAX: Bytes = Bytes(1 << 30);

    /// Most bytes of a payload or a response that a transport carries.
    pub const fn payload_max(transport: Transport) -> Bytes {
        if transport.is_verbs() { Self::RDMA_PAYLOAD_MAX } else { Self::PAYLOAD_MAX }
    }

    /// Most flows at once.
    pub const FLOWS_MAX: u64 = 10_000;

    /// Most flows of a transport by a path: QUIC opens them one after the other, some milliseconds each,
    /// and each path of io_uring has a ring and receive buffers a flow.
    pub const fn flows_max(transport: Transport, path: Path) -> u64 {
        match transport {
            _ if path.is_uring() => 1_000,
            Transport::Quic => 500,
            _ => Self::FLOWS_MAX,
        }
    }

    /// Most requests under way in one flow, and most payloads of a burst: netperf's bursts end below
    /// it, and what is under way is remembered.
    pub const OUTSTANDING_MAX: u32 = 65_536;

    /// Payloads that are answered together: those of a burst, and else a request alone.
    pub fn payloads_per_request(&self) -> u32 {
        match self.pattern {
            Pattern::Burst => self.outstanding.unwrap_or(1),
            _ => 1,
        }
    }

    /// The level of one factor as text; empty where the factor does not apply to this point.
    pub fn level(&self, factor: Factor) -> String {
        let bytes = |bytes: Option<Bytes>| bytes.map(|Bytes(bytes)| bytes.to_string());
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        match factor {
            Factor::Pattern => Some(self.pattern.to_string()),
            Factor::Transport => Some(self.transport.to_string()),
            Factor::Family => Some(u8::from(self.family).to_string()),
            Factor::Payload => bytes(Some(self.payload)),
            Factor::Response => bytes(self.response),
            Factor::Outstanding => number(self.outstanding),
            Factor::Direction => self.direction.map(|direction| direction.to_string()),
            Factor::Probe => self.probe.map(|probe| probe.to_string()),
            Factor::Flows => number(Some(self.flows)),
            Factor::Pace => Some(self.pace.to_string()),
            Factor::PaceWait => self.pace_wait.map(|wait| wait.to_string()),
            Factor::Link => Some(self.link.to_string()),
            Factor::Rtt => self.rtt.map(|rtt| rtt.to_string()),
            Factor::Emulate => self.emulate.clone(),
            Factor::Bus => self.bus.clone(),
            Factor::Offload => self.offload.map(|offload| offload.to_string()),
            Factor::Window => self.window.map(|window| window.to_string()),
            Factor::Operation => self.operation.map(|operation| operation.to_string()),
            Factor::Depth => number(self.depth),
            Factor::Inline => number(self.inline),
            Factor::SignalEvery => number(self.signal_every),
            Factor::Meet => self.meet.map(|meet| meet.to_string()),
            Factor::Verify => self.verify.map(|does| does.to_string()),
            Factor::Path => Some(self.path.to_string()),
            Factor::Wait => Some(self.wait.to_string()),
            Factor::Congestion => self.congestion.clone(),
            Factor::Nodelay => self.nodelay.map(|is_set| is_set.to_string()),
            Factor::Mss => number(self.mss),
            Factor::PacingRate => self.pacing_rate.map(|rate| rate.to_string()),
            Factor::Dscp => number(self.dscp),
            Factor::ReceiveBuffer => bytes(self.receive_buffer),
            Factor::SendBuffer => bytes(self.send_buffer),
            Factor::Cork => self.cork.map(|is_set| is_set.to_string()),
            Factor::QuickAck => self.quickack.map(|is_set| is_set.to_string()),
            Factor::DontFragment => self.dont_fragment.map(|is_set| is_set.to_string()),
            Factor::FlowLabel => number(self.flow_label),
            Factor::Mark => number(self.mark),
            Factor::Source => self.source.map(|address| address.to_string()),
            Factor::SourcePort => self.source_port.map(|port| port.to_string()),
            Factor::Device => self.device.clone(),
            Factor::ConnectTimeout => self.connect_timeout.map(|within| within.to_string()),
            Factor::Timestamps => self.timestamps.map(|source| source.to_string()),
            Factor::Label => self.label.clone(),
        }
        .unwrap_or_default()
    }

    /// Whether it has a level of a factor; `none` is that of a point to which the factor does not apply.
    pub fn has(&self, factor: Factor, level: &str) -> bool {
        let own = self.level(factor);
        own == level || own.is_empty() && factor.has_none() && level == NONE
    }

    /// Whether it has of each factor one of these levels.
    pub fn is_among(&self, filter: &Filter) -> bool {
        filter.iter().all(|(&factor, levels)| levels.iter().any(|level| self.has(factor, level)))
    }

    /// Datagrams that one buffer of the path holds when all are full: what a single drop may cost.
    /// Kernels since 4.18 cut a buffer into at most 64 (linux/udp.h, UDP_MAX_SEGMENTS of that time),
    /// and its payload is at most the 65,507 bytes of an IPv4 datagram (RFC 791, RFC 768).
    pub fn datagrams_per_buffer(&self) -> u64 {
        match self.path {
            Path::Gso => (65_507 / self.payload.0.max(1)).clamp(1, 64),
            _ => 1,
        }
    }

    /// All levels in one line, `factor=level` each: the name of this point in stores and messages.
    pub fn key(&self) -> String {
        Factor::ALL
            .into_iter()
            .map(|factor| (factor, self.level(factor)))
            .filter(|(_, level)| !level.is_empty())
            .map(|(factor, level)| format!("{factor}={level}"))
            .collect::<Vec<_>>()
            .join(" ")
    }
}
