//! Factors and their levels: the columns of the matrix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use fabricmark_link::{HostBus, LinkWords};
use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::Link;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pace::Pace;
use crate::point::{
    Direction, Meet, Offload, Operation, PaceWait, Path, Pattern, Point, Probe, Timestamps,
    Transport, Wait,
};
use crate::verbs;
use crate::window::Window;

/// What may vary between points.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// Traffic pattern: [`Pattern`].
    Pattern,
    /// Transport protocol: [`Transport`].
    Transport,
    /// IP version: 4, 6.
    Family,
    /// Application bytes per write, datagram or request.
    Payload,
    /// Application bytes per response.
    Response,
    /// Requests in flight per flow, or payloads per burst.
    Outstanding,
    /// Which way a stream flows: [`Direction`].
    Direction,
    /// What probes the round trip beside the load: [`Probe`], or none.
    Probe,
    /// Flows at once.
    Flows,
    /// When payloads or requests depart: [`Pace`].
    Pace,
    /// How the sender waits for a departure: [`PaceWait`].
    PaceWait,
    /// A link of the link grammar.
    Link,
    /// Round trip of the link, emulated.
    Rtt,
    /// What else the emulated link does, in link words.
    Emulate,
    /// Emulated host bus of the client: [`fabricmark_link::HostBus`].
    Bus,
    /// Whether super-packets may cross the emulated link whole: on, off.
    Offload,
    /// Largest window of TCP: [`Window`].
    Window,
    /// RDMA operation: [`Operation`].
    Operation,
    /// RDMA work requests in flight per direction.
    Depth,
    /// Largest inline payload of an RDMA work request, in bytes.
    Inline,
    /// Every how many RDMA work requests one is signalled.
    SignalEvery,
    /// RDMA connection setup: [`Meet`].
    Meet,
    /// Whether the contents of RDMA payloads are verified: true, false.
    Verify,
    /// How bytes pass between program and kernel: [`Path`].
    Path,
    /// What a load thread does while there is nothing to do: [`Wait`].
    Wait,
    /// Congestion control, of TCP or of QUIC.
    Congestion,
    /// TCP_NODELAY: true, false.
    Nodelay,
    /// Largest TCP segment asked for.
    Mss,
    /// The kernel's own pacing of TCP, in bit/s.
    PacingRate,
    /// Differentiated services code point.
    Dscp,
    /// Receive buffer asked for.
    ReceiveBuffer,
    /// Send buffer asked for.
    SendBuffer,
    /// TCP_CORK: true, false.
    Cork,
    /// TCP_QUICKACK: true, false.
    QuickAck,
    /// Whether packets may be fragmented: true for never.
    DontFragment,
    /// IPv6 flow label of the end that opens the flow.
    FlowLabel,
    /// Mark that routing and filters of this host see (SO_MARK).
    Mark,
    /// Address that flows are opened from.
    Source,
    /// Port that the flow is opened from.
    SourcePort,
    /// Network device that flows are opened through.
    Device,
    /// Longest time for a connection to be made.
    ConnectTimeout,
    /// Who stamps packets: [`Timestamps`].
    Timestamps,
    /// A name without an effect.
    Label,
}

/// A level as canonical text: sizes in bytes, links in their shortest form.
pub type Level = String;

/// Why a text is no level of a factor; says what would be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LevelError(pub String);

/// The level of a factor that has no effect: as if nobody named it.
pub(crate) const NONE: &str = "none";

/// Largest socket buffer that may be asked for: 1 GiB, RFC 7323's largest window.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Longest time for a connection: Linux gives up after two minutes by itself (tcp_syn_retries).
const CONNECT_TIMEOUT_MAX_NS: u64 = 60_000_000_000;

/// Longest emulated round trip: Linux gives a connection up after some minutes without an answer, and
/// the Moon is 2.6 s away.
const RTT_MAX_NS: u64 = 10_000_000_000;

impl Factor {
    /// Every factor, in the order in which a point's name lists them.
    pub const ALL: [Self; 43] = [
        Self::Pattern,
        Self::Transport,
        Self::Family,
        Self::Payload,
        Self::Response,
        Self::Outstanding,
        Self::Direction,
        Self::Probe,
        Self::Flows,
        Self::Pace,
        Self::PaceWait,
        Self::Link,
        Self::Rtt,
        Self::Emulate,
        Self::Bus,
        Self::Offload,
        Self::Window,
        Self::Operation,
        Self::Depth,
        Self::Inline,
        Self::SignalEvery,
        Self::Meet,
        Self::Verify,
        Self::Path,
        Self::Wait,
        Self::Congestion,
        Self::Nodelay,
        Self::Mss,
        Self::PacingRate,
        Self::Dscp,
        Self::ReceiveBuffer,
        Self::SendBuffer,
        Self::Cork,
        Self::QuickAck,
        Self::DontFragment,
        Self::FlowLabel,
        Self::Mark,
        Self::Source,
        Self::SourcePort,
        Self::Device,
        Self::ConnectTimeout,
        Self::Timestamps,
        Self::Label,
    ];

    /// The factors that every plan must name; the others have defaults.
    pub const REQUIRED: [Self; 5] =
        [Self::Pattern, Self::Transport, Self::Family, Self::Payload, Self::Link];

    /// The name that plan files use.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Transport => "transport",
            Self::Family => "family",
            Self::Payload => "payload",
            Self::Response => "response",
            Self::Outstanding => "outstanding",
            Self::Direction => "direction",
            Self::Probe => "probe",
            Self::Flows => "flows",
            Self::Pace => "pace",
            Self::PaceWait => "pace_wait",
            Self::Link => "link",
            Self::Rtt => "rtt",
            Self::Emulate => "emulate",
            Self::Bus => "bus",
            Self::Offload => "offload",
            Self::Window => "window",
            Self::Operation => "operation",
            Self::Depth => "depth",
            Self::Inline => "inline",
            Self::SignalEvery => "signal_every",
            Self::Meet => "meet",
            Self::Verify => "verify",
            Self::Path => "path",
            Self::Wait => "wait",
            Self::Congestion => "congestion",
            Self::Nodelay => "nodelay",
            Self::Mss => "mss",
            Self::PacingRate => "pacing_rate",
            Self::Dscp => "dscp",
            Self::ReceiveBuffer => "receive_buffer",
            Self::SendBuffer => "send_buffer",
            Self::Cork => "cork",
            Self::QuickAck => "quickack",
            Self::DontFragment => "dont_fragment",
            Self::FlowLabel => "flow_label",
            Self::Mark => "mark",
            Self::Source => "source",
            Self::SourcePort => "source_port",
            Self::Device => "device",
            Self::ConnectTimeout => "connect_timeout",
            Self::Timestamps => "timestamps",
            Self::Label => "label",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Pattern => "traffic pattern",
            Self::Transport => "transport protocol",
            Self::Family => "IP version: 4 or 6",
            Self::Payload => "application bytes per write, datagram or request",
            Self::Response => "application bytes per response",
            Self::Outstanding => "requests in flight per flow; payloads per burst",
            Self::Direction => "direction of a stream; reverse: the server sends",
            Self::Probe => "measure the RTT beside the load by a ping-pong: idle and loaded",
            Self::Flows => "number of parallel flows",
            Self::Pace => {
                "when payloads or requests depart: closed, fixed:RATE, poisson:RATE, burst:BYTES/PERIOD, \
                 trace:FILE"
            }
            Self::PaceWait => "how the sender waits for the next departure of an open loop",
            Self::Link => "link between client and server",
            Self::Rtt => "RTT of the emulated link, 0ms to 10s",
            Self::Emulate => {
                "impairments and queue of the emulated link, such as loss=1e-6 or queue=50ms"
            }
            Self::Bus => "emulated host bus of the client: pci-x:133, pcie:1x8, or a rate",
            Self::Offload => "segmentation offload over the emulated link: on or off",
            Self::Window => "largest TCP window, in bytes or BDPs: 64KiB, 2bdp",
            Self::Operation => "RDMA operation",
            Self::Depth => "RDMA work requests in flight per direction",
            Self::Inline => "largest inline payload of an RDMA work request, in bytes",
            Self::SignalEvery => "signal every Nth RDMA work request",
            Self::Meet => "RDMA connection setup: a TCP exchange, or RDMA CM",
            Self::Verify => "verify the contents of RDMA payloads: true or false",
            Self::Path => "system calls that move the data",
            Self::Wait => "how a load thread waits for I/O",
            Self::Congestion => "congestion control algorithm",
            Self::Nodelay => "TCP_NODELAY: true or false",
            Self::Mss => "TCP maximum segment size, in bytes (TCP_MAXSEG)",
            Self::PacingRate => "kernel pacing rate of TCP, in bit/s (SO_MAX_PACING_RATE)",
            Self::Dscp => "DSCP, 0 to 63",
            Self::ReceiveBuffer => "receive buffer, in bytes (SO_RCVBUF)",
            Self::SendBuffer => "send buffer, in bytes (SO_SNDBUF)",
            Self::Cork => "TCP_CORK: true or false",
            Self::QuickAck => "TCP_QUICKACK: true or false",
            Self::DontFragment => "forbid IP fragmentation: true or false",
            Self::FlowLabel => "IPv6 flow label",
            Self::Mark => "mark of the packets of client and server (SO_MARK)",
            Self::Source => "local address of the client",
            Self::SourcePort => "local port of the client",
            Self::Device => "network device of the client (SO_BINDTODEVICE)",
            Self::ConnectTimeout => "connection timeout",
            Self::Timestamps => {
                "kernel timestamps of udp and tcp packets, to tell the application's share of an RTT"
            }
            Self::Label => "a name without effect, to compare a setting with itself",
        }
    }

    /// The levels of a factor that has few; empty where they are numbers or names.
    pub fn words(self) -> Vec<&'static str> {
        match self {
            Self::Pattern => Pattern::ALL.iter().map(|word| word.word()).collect(),
            Self::Transport => Transport::ALL.iter().map(|word| word.word()).collect(),
            Self::Direction => Direction::ALL.iter().map(|word| word.word()).collect(),
            Self::Probe => probes(),
            Self::Operation => Operation::ALL.iter().map(|word| word.word()).collect(),
            Self::Meet => Meet::ALL.iter().map(|word| word.word()).collect(),
            Self::Path => Path::ALL.iter().map(|word| word.word()).collect(),
            Self::Wait => Wait::ALL.iter().map(|word| word.word()).collect(),
            Self::PaceWait => PaceWait::ALL.iter().map(|word| word.word()).collect(),
            Self::Timestamps => Timestamps::ALL.iter().map(|word| word.word()).collect(),
            Self::Offload => Offload::ALL.iter().map(|word| word.word()).collect(),
            _ => Vec::new(),
        }
    }

    /// The factor of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|factor| factor.key() == name)
    }

    /// Whether `none` is a level: a point without it stands beside points with it.
    pub const fn has_none(self) -> bool {
        matches!(
            self,
            Self::Probe
                | Self::Rtt
                | Self::Emulate
                | Self::Bus
                | Self::Window
                | Self::Mss
                | Self::PacingRate
        )
    }

    /// Brings a level into its canonical form, or says what a level of this factor looks like.
    pub fn level(self, text: &str) -> Result<Level, LevelError> {
        match self {
            _ if text == NONE && self.has_none() => Ok(text.to_owned()),
            Self::Pattern => word(text, Pattern::ALL),
            Self::Transport => word(text, Transport::ALL),
            Self::Direction => word(text, Direction::ALL),
            Self::Probe => word(text, &probes()),
            Self::Operation => word(text, Operation::ALL),
            Self::Depth => number(text, verbs::DEPTH_MIN.into(), verbs::DEPTH_MAX.into()),
            Self::Inline => number(text, 0, verbs::INLINE_MAX.into()),
            Self::SignalEvery => number(text, 1, verbs::DEPTH_MAX.into()),
            Self::Meet => word(text, Meet::ALL),
            Self::Path => word(text, Path::ALL),
            Self::Wait => word(text, Wait::ALL),
            Self::Pace => text
                .parse()
                .map(|pace: Pace| pace.to_string())
                .map_err(|error| LevelError(error.to_string())),
            Self::PaceWait => word(text, PaceWait::ALL),
            Self::Timestamps => word(text, Timestamps::ALL),
            Self::PacingRate => bit_rate(text),
            Self::Family => word(text, &["4", "6"]),
            Self::Verify | Self::Nodelay | Self::Cork | Self::QuickAck | Self::DontFragment => {
                word(text, &["true", "false"])
            }
            Self::Payload | Self::Response => size(text, Point::RDMA_PAYLOAD_MAX.0),
            Self::ReceiveBuffer | Self::SendBuffer => size(text, BUFFER_BYTES_MAX),
            Self::Outstanding => number(text, 1, Point::OUTSTANDING_MAX.into()),
            Self::Flows => number(text, 1, Point::FLOWS_MAX),
            // RFC 879's default is what every host takes; linux/tcp.h TCP_MIN_MSS is 88.
            Self::Mss => number(text, 88, 65_495),
            // RFC 2474: six bits.
            Self::Dscp => number(text, 0, 63),
            Self::Link => Link::from_str(text)
                .map(|link| link.to_string())
                .map_err(|error| LevelError(error.to_string())),
            Self::Rtt => match text.parse::<Nanos>() {
                Ok(rtt @ Nanos(0..=RTT_MAX_NS)) => Ok(rtt.to_string()),
                _ => Err(LevelError(format!(
                    "`{text}` is not a round trip such as 400ms, at most 10s"
                ))),
            },
            Self::Emulate => emulated(text),
            Self::Bus => text.parse().map(|bus: HostBus| bus.to_string()).map_err(LevelError),
            Self::Offload => word(text, Offload::ALL),
            Self::Window => text
                .parse()
                .map(|window: Window| window.to_string())
                .map_err(|error| LevelError(error.to_string())),
            // RFC 8200: 20 bits; 0 is no label.
            Self::FlowLabel => number(text, 1, (1 << 20) - 1),
            Self::Mark => number(text, 1, u32::MAX.into()),
            Self::SourcePort => number(text, 1, u16::MAX.into()),
            Self::Source => {
                text.parse::<IpAddr>().map(|address| address.to_string()).map_err(|_| {
                    LevelError(format!("`{text}` is not an address such as 10.0.0.1 or fd00::1"))
                })
            }
            Self::ConnectTimeout => match text.parse::<Nanos>() {
                Ok(within @ Nanos(1..=CONNECT_TIMEOUT_MAX_NS)) => Ok(within.to_string()),
                _ => Err(LevelError(format!(
                    "`{text}` is not a duration such as 400ms, at most 60s"
                ))),
            },
            // The kernel takes at most 15 characters for a device, too (IFNAMSIZ, linux/if.h).
            Self::Congestion | Self::Device | Self::Label => name(text),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

/// Link words but those that are factors of their own.
fn emulated(text: &str) -> Result<Level, LevelError> {
    let words: LinkWords = text.parse().map_err(|error| LevelError(format!("{error}")))?;
    let level = words.to_string();
    let keys = level.split(' ').map(|word| word.split('=').next().unwrap_or_default());
    for key in keys {
        let help = match key {
            "link" | "mtu" => "it is said by the factor `link`",
            "rtt" | "delay" => "it is the factor `rtt`",
            "trace" => "a plan reads no traces of links yet",
            _ => continue,
        };
        return Err(LevelError(format!("`{key}` is no level of emulate: {help}")));
    }
    if level.is_empty() {
        return Err(LevelError("emulate names no word, such as loss=1e-6".to_owned()));
    }
    Ok(level)
}

/// The choices of a probe, and that of none.
fn probes() -> Vec<&'static str> {
    [NONE].into_iter().chain(Probe::ALL.iter().map(|word| word.word())).collect()
}

fn word(text: &str, known: &[impl ToString]) -> Result<Level, LevelError> {
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    if known.iter().any(|word| word == text) {
        return Ok(text.to_owned());
    }
    Err(LevelError(format!("`{text}` is not one of {}", known.join(", "))))
}

fn number(text: &str, smallest: u64, largest: u64) -> Result<Level, LevelError> {
    match text.parse::<u64>() {
        Ok(number) if (smallest..=largest).contains(&number) => Ok(number.to_string()),
        _ => Err(LevelError(format!("`{text}` is not a number from {smallest} to {largest}"))),
    }
}

fn size(text: &str, largest: u64) -> Result<Level, LevelError> {
    let Bytes(bytes) = text.parse().map_err(|error| LevelError(format!("{error}")))?;
    if bytes == 0 || bytes > largest {
        return Err(LevelError(format!(
            "{bytes} bytes is out of range; use 1 to {}",
            Bytes(largest)
        )));
    }
    Ok(bytes.to_string())
}

/// The kernel counts in bytes per second, and takes 0 for no limit.
fn bit_rate(text: &str) -> Result<Level, LevelError> {
    let rate: BitRate = text.parse().map_err(|error| LevelError(format!("{error}")))?;
    if rate.0 < 8 {
        return Err(LevelError(format!("a rate of {rate} is out of range; use 8 bit/s or more")));
    }
    Ok(rate.to_string())
}

/// The kernel takes at most 15 characters for a congestion control (TCP_CA_NAME_MAX, linux/tcp.h).
fn name(text: &str) -> Result<Level, LevelError> {
    let is_name = !text.is_empty()
        && text.len() <= 15
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(LevelError(format!("`{text}` is not a name of 1 to 15 letters, digits, `-`, `_`, `.`")))
    }
}
