//! Transports: one row for each declares what it is and what it supports. Validation, help, documentation and
//! ceilings read the rows; the files in `load/src/transport/` move the bytes.

use std::fmt;

use fabricmark_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Choice, Operation, Path, Pattern, Wait, choices};
use crate::mpi::MESSAGE_MAX as MESSAGE_MAX_OF_MPI;

/// Properties of a transport.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// What its calls move.
    pub delivery: Delivery,
    /// Headers around its payload; ceilings and floors are computed from them.
    pub headers: Headers,
    /// The network that it crosses.
    pub network: Network,
    /// Whether IP socket options other than DSCP and mark apply.
    pub has_ip_options: bool,
    /// Whether the kernel connects its sockets, with a timeout.
    pub has_connect: bool,
    /// Whether TCP socket options apply.
    pub has_tcp_options: bool,
    /// Whether its sockets are plain TCP sockets, whose window, pacing and quick ACKs can be set.
    pub is_plain_tcp: bool,
    /// Which congestion controls can be chosen.
    pub congestion: Congestion,
    /// Default receive buffer of its sockets; `None`: kernel default.
    pub receive_buffer: Option<Bytes>,
    /// Whether its calls block in the kernel. Otherwise they return at once, and the load thread waits between them.
    pub blocks: bool,
    /// Whether the kernel can timestamp its packets.
    pub has_timestamps: bool,
    /// Whether DSCP can be set.
    pub has_dscp: bool,
    /// Supported paths.
    pub paths: &'static [Path],
    /// Supported ways to wait.
    pub waits: &'static [Wait],
    /// Supported patterns.
    pub patterns: &'static [Pattern],
    /// Supported RDMA operations; empty if it is not verbs.
    pub operations: &'static [Operation],
    /// Largest number of flows.
    pub flows_max: u32,
    /// Largest payload or response.
    pub payload_max: Bytes,
    /// Socket that it opens, if only to connect queue pairs.
    pub socket: Socket,
    /// Remedy if the kernel lacks it.
    pub remedy: &'static str,
}

/// Kernel sockets that transports open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// No socket.
    None,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Multipath TCP.
    Mptcp,
    /// SCTP.
    Sctp,
    /// SMC.
    Smc,
    /// Unix stream sockets.
    Unix,
    /// Unix sequenced-packet sockets.
    Seqpacket,
}

/// What the calls of a transport move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A byte stream: a receive call may return a part of a payload, or several.
    Bytes,
    /// Whole payloads, none of which is lost.
    Messages,
    /// Whole payloads, which may be lost.
    Datagrams,
}

/// The network that a transport crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// None: it measures the program itself.
    Nothing,
    /// None: both ends are on one machine.
    Machine,
    /// IP.
    Ip,
    /// The network of an RDMA adapter.
    Rdma,
    /// Any that other programs choose: an MPI library, or the servers of the bookstore.
    External,
}

/// Congestion control of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// None, or none that can be chosen.
    None,
    /// One of the kernel's, which a plan must name, since kernels differ in their default.
    Kernel,
    /// One of these; the first is the default.
    Own(&'static [&'static str]),
}

/// The headers around the payload of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Not known to the crate `wire`.
    Unknown,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// At least those of TCP, so that TCP's bound holds but is not tight.
    AtLeastTcp,
    /// TLS records over TCP.
    Tls,
    /// QUIC.
    Quic,
    /// Verbs, reliable or unreliable connection: their packets have the same headers.
    Connection,
    /// Verbs, unreliable datagrams.
    Datagram,
}

/// Receive buffer for datagrams: a receiver that is not scheduled for a few milliseconds loses nothing at 1 Gbit/s.
const DATAGRAM_BUFFER: Bytes = Bytes(4 << 20);

/// Largest payload of sockets: both ends allocate a buffer of its size.
const PAYLOAD_MAX: Bytes = Bytes(64 << 20);

/// Largest message of verbs, which most adapters support (`max_msg_sz` of ibv_devinfo -v).
const MESSAGE_MAX: Bytes = Bytes(1 << 30);

/// Largest datagram of verbs, a single packet: the largest path MTU (IBTA volume 1, section 9.7).
const PACKET_MAX: Bytes = Bytes(4096);

const WITHOUT_CONNECTIONS: &[Pattern] =
    &[Pattern::Stream, Pattern::Rr, Pattern::PingPong, Pattern::PingPing, Pattern::Burst];

const EVERY: &[Pattern] = &[
    Pattern::Stream,
    Pattern::Rr,
    Pattern::Crr,
    Pattern::PingPong,
    Pattern::PingPing,
    Pattern::Burst,
];

/// Without ping-ping: after a loss both ends would wait.
const LOSSY: &[Pattern] = &[Pattern::Stream, Pattern::Rr, Pattern::PingPong, Pattern::Burst];

/// Without busy polling: the kernel polls only the device of a socket.
const WITHOUT_POLLING: &[Wait] = &[Wait::Block, Wait::Epoll, Wait::Spin];

const TCP: Traits = Traits {
    delivery: Delivery::Bytes,
    headers: Headers::Tcp,
    network: Network::Ip,
    has_ip_options: true,
    has_connect: true,
    has_tcp_options: true,
    is_plain_tcp: false,
    congestion: Congestion::Kernel,
    receive_buffer: None,
    blocks: true,
    has_timestamps: false,
    has_dscp: true,
    paths: &[Path::Copy],
    waits: Wait::ALL,
    patterns: EVERY,
    operations: &[],
    flows_max: 10_000,
    payload_max: PAYLOAD_MAX,
    socket: Socket::Tcp,
    remedy: "leave it out",
};

/// Sockets like those of TCP, without TCP options.
const STREAM: Traits = Traits {
    headers: Headers::Unknown,
    has_tcp_options: false,
    congestion: Congestion::None,
    patterns: WITHOUT_CONNECTIONS,
    ..TCP
};

const VERBS: Traits = Traits {
    delivery: Delivery::Messages,
    headers: Headers::Connection,
    network: Network::Rdma,
    has_ip_options: false,
    has_connect: false,
    waits: WITHOUT_POLLING,
    operations: Operation::ALL,
    payload_max: MESSAGE_MAX,
    ..STREAM
};

/// Declares every transport: one-line description, keyword and traits.
macro_rules! transports {
    ($(#[doc = $about:literal] $variant:ident = $word:literal, $traits:expr;)*) => {
        choices! {
            /// What carries the payload.
            Transport {
                $(#[doc = $about] $variant = $word,)*
            }
        }

        impl Transport {
            /// Its properties.
            pub const fn traits(self) -> &'static Traits {
                const TRAITS: &[Traits] = &[$($traits),*];
                &TRAITS[self as usize]
            }
        }
    };
}

transports! {
    /// the kernel's TCP (RFC 9293)
    Tcp = "tcp", Traits {
        is_plain_tcp: true,
        has_timestamps: true,
        paths: &[
            Path::Copy, Path::Trunc, Path::ZeroCopy, Path::SendFile, Path::Splice, Path::Uring, Path::UringZeroCopy,
        ],
        ..TCP
    };
    /// the kernel's UDP (RFC 768)
    Udp = "udp", Traits {
        delivery: Delivery::Datagrams,
        headers: Headers::Udp,
        socket: Socket::Udp,
        has_connect: false,
        receive_buffer: Some(DATAGRAM_BUFFER),
        has_timestamps: true,
        // The kernel sends without a copy only if the protocol supports it (SOCK_SUPPORT_ZC).
        paths: &[Path::Copy, Path::Trunc, Path::Mmsg, Path::Gso, Path::Uring, Path::UringZeroCopy],
        patterns: LOSSY,
        ..STREAM
    };
    /// Multipath TCP (RFC 8684)
    Mptcp = "mptcp", Traits {
        socket: Socket::Mptcp,
        remedy: "use a kernel with CONFIG_MPTCP, or leave mptcp out",
        // MPTCP accepts few IP options (net/mptcp/sockopt.c).
        has_ip_options: false,
        paths: &[Path::Copy, Path::Uring],
        ..TCP
    };
    /// Unix-domain stream sockets (unix(7)), only over loopback
    Unix = "unix", Traits {
        network: Network::Machine,
        socket: Socket::Unix,
        has_ip_options: false,
        has_connect: false,
        paths: &[Path::Copy, Path::Uring],
        patterns: EVERY,
        ..STREAM
    };
    /// Unix-domain sequenced-packet sockets (unix(7)), only over loopback
    Seqpacket = "seqpacket", Traits {
        delivery: Delivery::Messages,
        network: Network::Machine,
        socket: Socket::Seqpacket,
        has_ip_options: false,
        has_connect: false,
        // Fits into Linux's default send buffer (net.core.wmem_default).
        payload_max: Bytes(128 << 10),
        ..STREAM
    };
    /// SCTP, one stream per association (RFC 9260)
    Sctp = "sctp", Traits { headers: Headers::AtLeastTcp, socket: Socket::Sctp, remedy: "run `modprobe sctp`, or leave sctp out", ..STREAM };
    /// TLS 1.3 over TCP (RFC 8446)
    Tls = "tls", Traits { headers: Headers::Tls, ..TCP };
    /// QUIC, one stream per connection (RFC 9000)
    Quic = "quic", Traits {
        headers: Headers::Quic,
        socket: Socket::Udp,
        // QUIC sets the options that it needs itself, and the octet of the DSCP for ECN.
        has_ip_options: false,
        has_dscp: false,
        has_connect: false,
        receive_buffer: Some(DATAGRAM_BUFFER),
        // Named as in the kernel; `reno` is New Reno (RFC 9002).
        congestion: Congestion::Own(&["cubic", "reno", "bbr"]),
        waits: WITHOUT_POLLING,
        patterns: EVERY,
        blocks: false,
        // Connections are opened one after the other, some milliseconds each.
        flows_max: 500,
        ..STREAM
    };
    /// SMC-R: TCP sockets whose data moves by RDMA (RFC 7609)
    Smc = "smc", Traits { socket: Socket::Smc, remedy: "run `modprobe smc smc_diag`, or leave smc out", ..STREAM };
    /// librdmacm sockets, whose data moves by RDMA (rsocket(7))
    Rsocket = "rsocket", Traits {
        network: Network::Rdma,
        has_ip_options: false,
        has_connect: false,
        waits: &[Wait::Block, Wait::Spin],
        flows_max: 1,
        ..STREAM
    };
    /// verbs, reliable connection (IBTA volume 1, section 9.7)
    Rc = "rc", VERBS;
    /// verbs, unreliable connection: a lost packet loses its whole message
    Uc = "uc", Traits {
        delivery: Delivery::Datagrams,
        patterns: LOSSY,
        operations: &[Operation::Send, Operation::WriteImmediate],
        ..VERBS
    };
    /// verbs, unreliable datagram: each message is one packet
    Ud = "ud", Traits {
        delivery: Delivery::Datagrams,
        headers: Headers::Datagram,
        patterns: LOSSY,
        operations: &[Operation::Send],
        payload_max: PACKET_MAX,
        ..VERBS
    };
    /// the transport that the MPI library uses (`mpi_transport`), only with `testbed = "mpi"`
    Mpi = "mpi", Traits {
        delivery: Delivery::Messages,
        network: Network::External,
        socket: Socket::None,
        has_ip_options: false,
        has_dscp: false,
        has_connect: false,
        waits: &[Wait::Block],
        patterns: &[Pattern::Mpi],
        flows_max: 1,
        payload_max: MESSAGE_MAX_OF_MPI,
        ..STREAM
    };
    /// HTTP and SQL over TCP between the tiers of the bookstore, only with `testbed = "tiers"`
    Http = "http", Traits {
        network: Network::External,
        socket: Socket::None,
        has_tcp_options: false,
        is_plain_tcp: false,
        has_ip_options: false,
        has_dscp: false,
        has_connect: false,
        has_timestamps: false,
        congestion: Congestion::Kernel,
        receive_buffer: None,
        waits: &[Wait::Block],
        patterns: &[Pattern::Shop],
        flows_max: 1,
        ..STREAM
    };
    /// no network: measures the overhead of the program itself
    Null = "null", Traits {
        delivery: Delivery::Messages,
        network: Network::Nothing,
        socket: Socket::None,
        has_ip_options: false,
        has_connect: false,
        waits: &[Wait::Block],
        // Nothing arrives, and each end of ping-ping would wait for the other.
        patterns: LOSSY,
        flows_max: 1,
        ..STREAM
    };
}

impl Transport {
    /// Whether TCP socket options apply.
    pub const fn has_tcp(self) -> bool {
        self.traits().has_tcp_options
    }

    /// Whether it is RDMA by verbs.
    pub const fn is_verbs(self) -> bool {
        !self.traits().operations.is_empty()
    }

    /// Whether lost messages are not retransmitted.
    pub const fn is_lossy(self) -> bool {
        matches!(self.traits().delivery, Delivery::Datagrams)
    }

    /// Whether it crosses an IP network.
    pub const fn has_ip(self) -> bool {
        matches!(self.traits().network, Network::Ip)
    }
}
