//! Factors. Each is declared once. Plan keys, options of `measure`, help, the table of `docs/plan-file.md`, and the
//! JSON Schema, parser and serializer of a point follow from the declaration.

mod spec;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::{Family, Link};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{
    Choice, Cm, Direction, Interference, Offload, Operation, PaceWait, Path, Pattern, Probe,
    RelayPath, Timestamps, Wait,
};
use crate::emulation;
use crate::host_settings;
use crate::invalid::Invalid;
use crate::level::{self, Field, Kind, Level, NONE};
use crate::mpi::{Benchmark, Buffers, Collective, Datatype, MpiLibrary, MpiTransport, Root, Sync};
use crate::pace::Pace;
use crate::shop::{Engine, Interaction, Mix};
use crate::transport::{Congestion, Network, Transport};
use crate::window::Window;

pub use spec::{Section, Spec};

/// Declares every factor: description, variant, field of a point, its key in JSON if that names a unit (`json`; earlier
/// versions wrote the field's name), key of earlier versions (`was`), default for records of earlier versions (`of
/// old`), and [`Spec`]. The order is that of matrix columns, hence of a plan's points, and must not change. A default
/// may depend on `pace` and on the factors above it.
macro_rules! factors {
    ($(#[doc = $about:literal] $variant:ident, $key:ident: $type:ty $(, json $json:literal)? $(, was $was:literal)? $(, of old $old:literal)? = $spec:expr;)*) => {
        /// What may vary between points.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Factor {
            $(#[doc = $about] $(#[serde(alias = $was)])? $variant,)*
        }

        /// One level of each factor: everything that a run needs to know, defaults included. A factor that does not apply,
        /// or is left to the kernel, is absent.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub struct Point {
            $(
                #[doc = $about]
                #[serde(skip_serializing_if = "Field::is_absent" $(, alias = $was)? $(, default = $old)?)]
                $(#[serde(rename(serialize = $json), alias = $json)] #[schemars(rename = $json)])?
                pub $key: $type,
            )*
        }

        impl Factor {
            /// All factors, in the order in which a point's key lists them.
            pub const ALL: [Self; [$($about),*].len()] = [$(Self::$variant),*];

            /// Declarations, in the order of [`Self::ALL`].
            const SPECS: &[Spec] = &[$(
                Spec { key: stringify!($key), earlier_key: crate::choice::earlier!($($was)?), about: $about, ..$spec },
            )*];
        }

        impl Point {
            /// A point with placeholder values, to be filled in.
            pub(crate) fn blank() -> Self {
                Self { $($key: Field::blank()),* }
            }

            /// Sets a factor from the canonical text of a level.
            pub(crate) fn put(&mut self, factor: Factor, level: &str) {
                match factor {
                    $(Factor::$variant => {
                        if let Some(value) = Field::read(level) {
                            self.$key = value;
                        }
                    })*
                }
            }

            /// The canonical text of one level; empty if the factor does not apply to this point.
            pub fn level(&self, factor: Factor) -> Level {
                match factor {
                    $(Factor::$variant => Field::write(&self.$key),)*
                }
            }
        }
    };
}

/// Default of `flows` for records of versions that had one flow only.
fn one_flow() -> u32 {
    1
}

/// Default of `wait` for records of versions that always blocked.
fn block() -> Wait {
    Wait::Block
}

use Section::{
    Calls, Group as Groups, Link as EmulatedLink, Mpi, Rdma, Required, Shop, Socket, Traffic,
};

/// Levels of `family`.
const FAMILIES: &[Choice] =
    &[Choice { word: "4", was: None, about: "" }, Choice { word: "6", was: None, about: "" }];

/// Largest socket buffer: 1 GiB, the largest window of RFC 7323.
const BUFFER_MAX: Bytes = Bytes(1 << 30);

/// Largest buffer of a relay, as `fabricmark relay` accepts it.
const RELAY_BUFFER_MAX: Bytes = Bytes(16 << 20);

/// Largest payload of any transport.
const PAYLOAD_MAX: Bytes = Transport::Rc.traits().payload_max;

/// Longest connection timeout. Linux gives up by itself after two minutes (tcp_syn_retries).
const CONNECT_TIMEOUT_MAX: Nanos = Nanos::from_secs(60);

/// Longest emulated RTT. Linux aborts a connection after some minutes without an ACK; the RTT to the Moon is 2.6 s.
const RTT_MAX: Nanos = Nanos::from_secs(10);

/// Most emulated browsers, against typing errors.
const BROWSERS_MAX: u64 = 10_000;

/// Most books, as in the crate `bookstore`, whose largest shop has 10 million.
const ITEMS_MAX: u64 = 10_000_000;

/// Longest mean think time: an arbitrary bound.
const THINK_TIME_MAX: Nanos = Nanos::from_secs(60);

factors! {
    /// traffic pattern
    Pattern, pattern: Pattern = Required.of(Kind::Choice(Pattern::CHOICES)).shown("{}");
    /// transport protocol
    Transport, transport: Transport = Required.of(Kind::Choice(Transport::CHOICES)).shown("{}");
    /// IP version
    Family, family: Family = Required.of(Kind::Choice(FAMILIES)).shown("{}").name("IP version").shared();
    /// application bytes per write, datagram, request or MPI message; at most 64 MiB, over verbs and MPI 1 GiB; 0 only over MPI and http
    Payload, payload: Bytes, json "payload_bytes" = Required.of(Kind::Size(Bytes(0), PAYLOAD_MAX)).shown("{} B").letter('l');
    /// application bytes per response of rr, crr and burst
    Response, response: Option<Bytes>, json "response_bytes" = Traffic.of(Kind::Size(Bytes(1), PAYLOAD_MAX))
        .shown("response {} B")
        .when(|point| matches!(point.pattern, Pattern::Rr | Pattern::Crr | Pattern::Burst))
        .default("as `payload`; 4 in burst", |point| Some(match point.pattern {
            Pattern::Burst => Point::BURST_RESPONSE.0.to_string(),
            _ => point.payload.0.to_string(),
        }));
    /// requests in flight per flow of rr; payloads per burst
    Outstanding, outstanding: Option<u32> = Traffic.of(Kind::Number(1, Point::OUTSTANDING_MAX as u64))
        .shown("{} outstanding")
        .when(|point| matches!(point.pattern, Pattern::Rr | Pattern::Burst))
        // A slow response does not hold up an open loop.
        .default("1; 65536 in an open loop; 64 in burst", |point| Some(match point.pattern {
            Pattern::Burst => Point::BURST_PAYLOADS.to_string(),
            _ if point.pace != Pace::Closed => Point::OUTSTANDING_MAX.to_string(),
            _ => "1".to_owned(),
        }));
    /// direction of a stream
    Direction, direction: Option<Direction> = Traffic.of(Kind::Choice(Direction::CHOICES))
        .when(|point| point.pattern == Pattern::Stream)
        .default("`forward`", |_| Some("forward".to_owned()));
    /// measure the RTT by a 64-byte ping-pong: idle for the duration of a run, then during the load
    Probe, probe: Option<Probe> = Traffic.of(Kind::Choice(Probe::CHOICES)).or_none();
    /// number of parallel flows; per direction if `direction` is `both`
    Flows, flows: u32, of old "one_flow" = Traffic.of(Kind::Number(1, Point::FLOWS_MAX))
        .shown("{} flows")
        .letter('P')
        .default("1", |_| Some("1".to_owned()));
    /// schedule of payloads or requests: `closed` (as fast as possible), `fixed:RATE`, `poisson:RATE`, `burst:BYTES/PERIOD`, `model-1`, `model-2` and `model-100` (bursts of paper P5), `on-off:RATE/ON/OFF`, `follow-rtt`, `follow-delivery`, `trace:FILE`; a rate is the sum over all flows
    Pace, pace: Pace, of old "Pace::default" = Traffic.of(Kind::of::<Pace>()).default("`closed`", |_| Some("closed".to_owned()));
    /// how the sender waits for the next departure of an open loop
    PaceWait, pace_wait: Option<PaceWait> = Traffic.of(Kind::Choice(PaceWait::CHOICES))
        .shown("pace wait {}")
        .when(|point| point.pace != Pace::Closed)
        .default("`sleep-spin`", |_| Some("sleep-spin".to_owned()));
    /// let the flows pass through a relay (`fabricmark relay`) at the node `relay`, or beside the server if the plan has no such node
    Relay, relay: Option<RelayPath> = Traffic.of(Kind::Choice(RelayPath::CHOICES))
        .or_none()
        .shown("relay {}")
        .when(|point| point.transport.traits().is_plain_tcp);
    /// maximum bytes per receive call of the relay
    RelayBuffer, relay_buffer: Option<Bytes>, json "relay_buffer_bytes" = Traffic.of(Kind::Size(Bytes(1), RELAY_BUFFER_MAX))
        .shown("relay buffer {} B")
        .when(|point| point.relay.is_some())
        .default("256KiB", |_| Some("256KiB".to_owned()));
    /// departure schedule of each direction of the relay: `model-1`, `model-2`, `model-100` or `burst:BYTES/PERIOD`
    RelayPace, relay_pace: Option<Pace> = Traffic.of(Kind::of::<Pace>())
        .or_none()
        .shown("relay pace {}")
        .when(|point| point.relay.is_some());
    /// link between client and server: `loopback`, `veth` (no line rate, so no ceiling), `ethernet:RATE[,mtu=N][,vlan=N]`, `ipoib:4X-FDR[,mode=connected][,ib-mtu=N][,mtu=N][,grh]`; over verbs also `ib:4X-FDR[,mtu=N]`, `rocev1:RATE`, `rocev2:RATE`
    Link, link: Link = Required.of(Kind::of::<Link>()).shown("{}").shared();
    /// RTT of the link, at most `10s`, half of it in each direction; with any value, even `0ms`, the emulator carries the link
    Rtt, rtt: Option<Nanos>, json "rtt_ns" = EmulatedLink.of(Kind::Duration(Nanos(0), RTT_MAX))
        .or_none()
        .name("RTT")
        .shared();
    /// impairments and queue of the emulated link in both directions, separated by spaces, such as `loss=1e-6 queue=50ms` ([lab.md](lab.md#link-options)); `rate`, `schedule`, `trace=FILE` (mahimahi) and `framing` only over `veth`
    Emulate, emulate: Option<String> = EmulatedLink.of(Kind::Grammar(level::emulated)).or_none().shown("{}").shared();
    /// emulated host bus of the client, which all its packets cross: `pci-x:133` (shared by both directions), `pcie:1x8` (per direction), or a rate such as `8.53G`, IP headers included
    Bus, bus: Option<String> = EmulatedLink.of(Kind::Grammar(level::bus)).or_none().shared();
    /// segmentation offload over the emulated link
    Offload, offload: Option<Offload> = EmulatedLink.of(Kind::Choice(Offload::CHOICES))
        .when(|point| point.link_options().is_some())
        .default("`on`; `hosts` with per-packet impairments; `off` if a queue with `pause` has no room for a super-packet", |point| {
            Some(emulation::default_offload(point.link_options()).to_string())
        })
        .shared();
    /// largest TCP window in bytes, or in bandwidth-delay products of the emulated link: `1bdp` to `100bdp`, raised to 4 MiB if smaller
    Window, window: Option<Window> = Socket.of(Kind::of::<Window>())
        .or_none()
        .unset("kernel autotuning")
        .flag("tcp-window")
        .when(|point| point.transport.traits().is_plain_tcp);
    /// RDMA operation
    Operation, operation: Option<Operation> = Rdma.of(Kind::Choice(Operation::CHOICES))
        .shown("{}")
        .when(|point| point.transport.is_verbs())
        .default("`send`", |_| Some("send".to_owned()));
    /// RDMA work requests in flight per direction
    TxDepth, tx_depth: Option<u32>, was "depth" = Rdma.of(Kind::Number(Point::TX_DEPTH_MIN as u64, Point::TX_DEPTH_MAX as u64))
        .unset("128, or as many messages as fit in 64 MiB")
        .when(|point| point.transport.is_verbs());
    /// largest payload in bytes that is sent inline in an RDMA work request, if the adapter supports it
    Inline, inline: Option<u32>, json "inline_bytes" = Rdma.of(Kind::Number(0, Point::INLINE_MAX as u64))
        .unset("220")
        .shown("inline {} B")
        .when(Point::sends_payloads);
    /// signal every Nth RDMA work request; N is at most `tx_depth`
    CqMod, cq_mod: Option<u32>, was "signal_every" = Rdma.of(Kind::Number(1, Point::TX_DEPTH_MAX as u64))
        .unset("4, or half of `tx_depth` if that is less")
        .when(Point::sends_payloads);
    /// connection setup of RDMA queue pairs
    Cm, cm: Option<Cm>, was "meet" = Rdma.of(Kind::Choice(Cm::CHOICES))
        .unset("`tcp`")
        .when(|point| point.transport.is_verbs());
    /// verify the contents of each RDMA payload; costs CPU time, and a wrong payload makes the run invalid
    Verify, verify: Option<bool> = Rdma.of(Kind::Truth)
        .unset("`false`")
        .when(|point| point.transport.is_verbs());
    /// system calls that move the data
    Path, path: Path = Calls.of(Kind::Choice(Path::CHOICES))
        .shown("{}")
        .default("`copy`", |_| Some("copy".to_owned()));
    /// how a load thread waits for I/O
    Wait, wait: Wait, of old "block" = Calls.of(Kind::Choice(Wait::CHOICES))
        .shown("{}")
        .default("`block`; `epoll` with more flows than threads", |point| {
            Some(if point.flows > point.load_threads() { Wait::Epoll } else { Wait::Block }.to_string())
        });
    /// congestion control: for TCP a kernel algorithm such as `cubic`, for QUIC `cubic`, `reno` or `bbr`; with http that of all connections between the tiers
    Congestion, congestion: Option<String> = Socket.of(Kind::Name)
        .unset("required with tcp, mptcp and tls; `cubic` with quic and http")
        .shown("{}")
        .letter('C')
        .when(|point| point.transport.traits().congestion != Congestion::None)
        .default("required with tcp, mptcp and tls; `cubic` with quic and http", |point| {
            match point.transport.traits().congestion {
                Congestion::Kernel if point.transport == Transport::Http => {
                    Some("cubic".to_owned())
                }
                Congestion::Own(known) => known.first().map(|&name| name.to_owned()),
                Congestion::None | Congestion::Kernel => None,
            }
        });
    /// disable Nagle's algorithm (TCP_NODELAY)
    Nodelay, nodelay: Option<bool> = Socket.of(Kind::Truth)
        .when(|point| point.transport.has_tcp())
        .default("`false` in stream, `true` in other patterns", |point| {
            Some((point.pattern != Pattern::Stream).to_string())
        });
    /// TCP maximum segment size in bytes (TCP_MAXSEG)
    // Every host accepts the default of RFC 879; the smallest value is TCP_MIN_MSS, 88 (linux/tcp.h).
    Mss, mss: Option<u32>, json "mss_bytes" = Socket.of(Kind::Number(88, 65_495))
        .or_none()
        .unset("kernel")
        .shown("MSS {} B")
        .letter('M')
        .when(|point| point.transport.has_tcp());
    /// kernel pacing of each TCP connection in bit/s, TCP and IP headers included (SO_MAX_PACING_RATE)
    PacingRate, pacing_rate: Option<BitRate>, json "pacing_rate_bps" = Socket.of(Kind::Rate)
        .or_none()
        .when(|point| point.transport.traits().is_plain_tcp);
    /// DSCP of the packets, 0 to 63 or a name such as `EF`, `CS1` or `AF41` (IP_TOS, IPV6_TCLASS)
    // RFC 2474: six bits.
    Dscp, dscp: Option<u32> = Socket.of(Kind::Grammar(level::dscp)).unset("kernel (0)").shown("DSCP {}").shared();
    /// receive buffer in bytes (SO_RCVBUF)
    ReceiveBuffer, receive_buffer: Option<Bytes>, json "receive_buffer_bytes" = Socket.of(Kind::Size(Bytes(1), BUFFER_MAX))
        .shown("receive buffer {} B")
        .default("kernel autotuning; 4 MiB with udp and quic", |point| {
            point.transport.traits().receive_buffer.map(|Bytes(bytes)| bytes.to_string())
        });
    /// send buffer in bytes (SO_SNDBUF)
    SendBuffer, send_buffer: Option<Bytes>, json "send_buffer_bytes" = Socket.of(Kind::Size(Bytes(1), BUFFER_MAX))
        .unset("kernel autotuning")
        .shown("send buffer {} B");
    /// limit of unsent bytes in TCP's send buffer (TCP_NOTSENT_LOWAT)
    NotsentLowat, notsent_lowat: Option<Bytes>, json "notsent_lowat_bytes" = Socket.of(Kind::Size(Bytes(1), BUFFER_MAX))
        .or_none()
        .unset("kernel")
        .when(|point| point.transport.has_tcp());
    /// bytes that wake up the receiver of a TCP stream in a closed loop (SO_RCVLOWAT); the kernel limits it to `receive_buffer`, or to half of the maximum of `net.ipv4.tcp_rmem`, and enlarges the receive buffer
    ReceiveLowat, receive_lowat: Option<Bytes>, json "receive_lowat_bytes" = Socket.of(Kind::Size(Bytes(1), BUFFER_MAX))
        .or_none()
        .unset("kernel (1)")
        .when(|point| {
            let is_plain_tcp = point.transport.traits().is_plain_tcp;
            // A spinning thread is not woken up, and the last bytes of a schedule would come late.
            let is_woken = point.wait != Wait::Spin && point.pace == Pace::Closed;
            point.pattern == Pattern::Stream && is_plain_tcp && is_woken
        });
    /// send full segments only; a partial segment waits up to 200 ms for more data (TCP_CORK)
    Cork, cork: Option<bool> = Socket.of(Kind::Truth)
        .unset("`false`")
        .when(|point| point.transport.has_tcp());
    /// send ACKs without delay (TCP_QUICKACK), tcp only; set again after each receive call, because the kernel clears it
    QuickAck, quickack: Option<bool> = Socket.of(Kind::Truth)
        .unset("kernel")
        .when(|point| point.transport.traits().is_plain_tcp);
    /// forbid IP fragmentation: with `true` a datagram larger than the path MTU fails the run, which reports that MTU; `false` allows fragments
    DontFragment, dont_fragment: Option<bool> = Socket.of(Kind::Truth)
        .unset("kernel")
        .when(|point| point.transport.traits().has_ip_options)
        .shared();
    /// IPv6 flow label of the client
    // RFC 8200: 20 bits; 0 is no label.
    FlowLabel, flow_label: Option<u32> = Socket.of(Kind::Number(1, (1 << 20) - 1))
        .unset("kernel")
        .when(|point| point.transport.traits().has_ip_options && point.family == Family::V6)
        .shared();
    /// firewall mark of the packets of client and server (SO_MARK); needs CAP_NET_ADMIN
    Mark, mark: Option<u32> = Socket.of(Kind::Number(1, u32::MAX as u64))
        .when(|point| point.transport.has_ip())
        .shared();
    /// local address of the client
    Source, source: Option<IpAddr> = Socket.of(Kind::Address)
        .unset("the node's address")
        .letter('B')
        .when(|point| point.transport.has_ip())
        .shared();
    /// local port of the client; only with one flow
    SourcePort, source_port: Option<u16> = Socket.of(Kind::Number(1, u16::MAX as u64))
        .unset("any")
        .when(|point| point.transport.has_ip());
    /// network device to which the client binds its sockets (SO_BINDTODEVICE)
    Device, device: Option<String> = Socket.of(Kind::Name)
        .unset("by routing")
        .when(|point| point.transport.has_ip())
        .shared();
    /// connection timeout
    ConnectTimeout, connect_timeout: Option<Nanos>, json "connect_timeout_ns" = Socket.of(Kind::Duration(Nanos(1), CONNECT_TIMEOUT_MAX))
        .unset("`5s`")
        .when(|point| point.transport.traits().has_connect)
        .shared();
    /// packet timestamps of udp and tcp (SO_TIMESTAMPING), which separate the client application's time from the rest of the RTT
    Timestamps, timestamps: Option<Timestamps> = Calls.of(Kind::Choice(Timestamps::CHOICES))
        .shown("{} timestamps")
        .when(|point| {
            let has_turns = !matches!(point.pattern, Pattern::Stream | Pattern::PingPing);
            has_turns && point.transport.traits().has_timestamps
        });
    /// name without effect; two labels compare a setting with itself (an A/A test)
    Label, label: Option<String> = Traffic.of(Kind::Name).shared();
    /// load threads at each end, each with a share of the flows and a CPU of its own
    Threads, threads: Option<u32> = Calls.of(Kind::Number(1, Point::THREADS_MAX))
        .shown("{} threads")
        .unset("1")
        .when(|point| point.flows > 1);
    /// settings of the hosts at both ends during a run, such as `"mtu=9000,tso=off"` ([settings.md](settings.md)); each is put back after the run
    HostSettings, host_settings: Option<String> = Calls.of(Kind::Grammar(host_settings::list))
        .or_none()
        .shown("{}")
        .when(|point| !matches!(point.transport.traits().network, Network::Machine | Network::Nothing | Network::External))
        .shared();
    /// group of flows, by the name of its `[[group]]`
    Group, group: Option<String> = Groups.of(Kind::Name).shown("{}");
    /// levels that vary in the plan and do not apply to this group
    Beside, beside: Option<String> = Groups.of(Kind::Grammar(level::beside)).shown("beside {}");
    /// whether the group runs alone or with all others, in a plan with `[interference]`
    Interference, interference: Option<Interference> = Groups.of(Kind::Choice(Interference::CHOICES)).shown("groups {}");
    /// MPI operation, by its name in the Intel MPI Benchmarks
    Benchmark, benchmark: Option<Benchmark> = Mpi.of(Kind::Choice(Benchmark::CHOICES))
        .unset("required with `testbed = \"mpi\"`")
        .shown("{}")
        .when(|point| point.pattern == Pattern::Mpi);
    /// number of ranks; benchmarks between two ranks have two
    Ranks, ranks: Option<u32> = Mpi.of(Kind::Number(2, Point::RANKS_MAX))
        .shown("{} ranks")
        .when(|point| point.pattern == Pattern::Mpi)
        .default("2", |_| Some("2".to_owned()));
    /// MPI library
    MpiLibrary, mpi_library: Option<MpiLibrary> = Mpi.of(Kind::Choice(MpiLibrary::CHOICES))
        .shown("{}")
        .name("MPI")
        .when(|point| point.pattern == Pattern::Mpi)
        .default("`openmpi`", |_| Some("openmpi".to_owned()));
    /// how the MPI library moves messages between ranks; a run in which it used something else is invalid
    MpiTransport, mpi_transport: Option<MpiTransport> = Mpi.of(Kind::Choice(MpiTransport::CHOICES))
        .shown("MPI over {}")
        .name("MPI over")
        .when(|point| point.pattern == Pattern::Mpi)
        .default("`auto`", |_| Some("auto".to_owned()));
    /// whether the buffers of an operation are in the cache
    Buffers, buffers: Option<Buffers> = Mpi.of(Kind::Choice(Buffers::CHOICES))
        .shown("{} buffers")
        .when(|point| point.pattern == Pattern::Mpi)
        .default("`warm`", |_| Some("warm".to_owned()));
    /// root of collective operations that have one
    Root, root: Option<Root> = Mpi.of(Kind::Choice(Root::CHOICES))
        .shown("root {}")
        .when(|point| point.collective().is_some_and(Collective::has_root))
        .default("`first`", |_| Some("first".to_owned()));
    /// type of the elements of a payload
    Datatype, datatype: Option<Datatype> = Mpi.of(Kind::Choice(Datatype::CHOICES))
        .when(|point| point.pattern == Pattern::Mpi)
        .default("`float` where payloads are added and their size is a multiple of 4, else `byte`", |point| {
            Some(point.default_datatype().to_string())
        });
    /// whether send and receive buffer are the same (MPI_IN_PLACE)
    InPlace, in_place: Option<bool> = Mpi.of(Kind::Truth)
        .when(|point| point.collective().is_some_and(Collective::has_in_place))
        .default("`false`", |_| Some("false".to_owned()));
    /// when the ranks start a collective operation
    Sync, sync: Option<Sync> = Mpi.of(Kind::Choice(Sync::CHOICES))
        .shown("start {}")
        .when(|point| point.collective().is_some())
        .default("`barrier`", |_| Some("barrier".to_owned()));
    /// web interaction whose response time is reported; one run measures all of them
    Interaction, interaction: Option<Interaction> = Shop.of(Kind::Choice(Interaction::CHOICES))
        .shown("{}")
        .when(|point| point.pattern == Pattern::Shop)
        .default("`all`", |_| Some("all".to_owned()));
    /// how often browsers visit each page
    Mix, mix: Option<Mix> = Shop.of(Kind::Choice(Mix::CHOICES))
        .shown("{} mix")
        .when(|point| point.pattern == Pattern::Shop)
        .default("`shopping`", |_| Some("shopping".to_owned()));
    /// number of emulated browsers
    Browsers, browsers: Option<u32> = Shop.of(Kind::Number(1, BROWSERS_MAX))
        .shown("{} browsers")
        .when(|point| point.pattern == Pattern::Shop)
        .default("100", |_| Some("100".to_owned()));
    /// mean think time of a browser between a page and its next request
    ThinkTime, think_time: Option<Nanos>, json "think_time_ns" = Shop.of(Kind::Duration(Nanos(1), THINK_TIME_MAX))
        .shown("think time {}")
        .when(|point| point.pattern == Pattern::Shop && point.pace == Pace::Closed)
        .default("`7s`", |_| Some("7s".to_owned()));
    /// number of books
    Items, items: Option<u32> = Shop.of(Kind::Number(100, ITEMS_MAX))
        .shown("{} items")
        .when(|point| point.pattern == Pattern::Shop)
        .default("10000", |_| Some("10000".to_owned()));
    /// number of browsers for which the shop has customers, 2,880 each
    CustomersFor, customers_for: Option<u32> = Shop.of(Kind::Number(1, BROWSERS_MAX))
        .shown("customers for {} browsers")
        .when(|point| point.pattern == Pattern::Shop)
        .default("100", |_| Some("100".to_owned()));
    /// database of the shop
    Database, database: Option<Engine> = Shop.of(Kind::Choice(Engine::CHOICES))
        .shown("{}")
        .when(|point| point.pattern == Pattern::Shop)
        .default("`mariadb`", |_| Some("mariadb".to_owned()));
    /// maximum number of connections of the application server to the database
    Pool, pool: Option<u32> = Shop.of(Kind::Number(1, 1000))
        .shown("pool of {}")
        .when(|point| point.pattern == Pattern::Shop)
        .default("16", |_| Some("16".to_owned()));
    /// link between browsers and web server: `veth`, `ethernet:RATE` or `ipoib:4X-FDR`, with their options
    ClientWeb, client_web: Option<Link> = Shop.of(Kind::of::<Link>())
        .shown("client-web {}")
        .when(|point| point.pattern == Pattern::Shop)
        .default("`ethernet:10G`", |_| Some("ethernet:10G".to_owned()));
    /// link between web server and application server
    WebApp, web_app: Option<Link> = Shop.of(Kind::of::<Link>())
        .unset("as `app_db`")
        .shown("web-app {}")
        .when(|point| point.pattern == Pattern::Shop);
    /// link between application server and database
    AppDb, app_db: Option<Link> = Shop.of(Kind::of::<Link>())
        .shown("app-db {}")
        .when(|point| point.pattern == Pattern::Shop)
        .default("`ethernet:10G`", |_| Some("ethernet:10G".to_owned()));
}

/// Levels by factor: all or some of those that define a point.
pub type Where = BTreeMap<Factor, Level>;

/// The levels that a plan file names for each factor, each with its byte range in the file.
pub(crate) type Levels = BTreeMap<Factor, Vec<Named>>;

/// A level that a plan file names, with its byte range in the file.
pub(crate) type Named = (Level, Range<usize>);

/// Selects points: a point must have one of the listed levels of each listed factor.
pub type Filter = BTreeMap<Factor, Vec<Level>>;

impl Factor {
    /// Its declaration.
    pub const fn spec(self) -> &'static Spec {
        &Self::SPECS[self as usize]
    }

    /// Key in plan files.
    pub const fn key(self) -> &'static str {
        self.spec().key
    }

    /// Key of earlier versions, still accepted.
    pub const fn earlier_key(self) -> Option<&'static str> {
        self.spec().earlier_key
    }

    /// One-line description.
    pub const fn about(self) -> &'static str {
        self.spec().about.trim_ascii()
    }

    /// The factor with this key, current or earlier.
    pub fn named(name: &str) -> Option<Self> {
        let is_it = |factor: &Self| factor.key() == name || factor.earlier_key() == Some(name);
        Self::ALL.into_iter().find(is_it)
    }

    /// The factors that every plan must set; the others have defaults.
    pub fn required() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|factor| factor.spec().is_required)
    }

    /// The keywords of a factor with a fixed set of levels; empty if its levels are numbers, names or texts.
    pub const fn choices(self) -> &'static [Choice] {
        match self.spec().kind {
            Kind::Choice(choices) => choices,
            _ => &[],
        }
    }

    /// Whether `none` is a level.
    pub const fn has_none(self) -> bool {
        self.spec().has_none
    }

    /// The canonical form of a level. The error describes the levels of this factor.
    pub fn level(self, text: &str) -> Result<Level, Invalid> {
        if text == NONE && self.has_none() {
            return Ok(text.to_owned());
        }
        self.spec().kind.canonical(text)
    }

    /// Whether it applies to a point in which the factors above it are set.
    pub(crate) fn applies(self, point: &Point) -> bool {
        (self.spec().applies)(point)
    }

    /// Its default in this point; `None` without one.
    pub(crate) fn default(self, point: &Point) -> Option<Level> {
        (self.spec().default)(point)
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}
