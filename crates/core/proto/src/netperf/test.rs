//! A validated test request.

use std::net::{IpAddr, Ipv4Addr};

use fabricmark_units::Nanos;

use super::message::{Request, direction, flag};
use super::server::Caller;

/// Most bytes per call, whatever the client requests: bounds the memory of a test.
const CALL_BYTES_MAX: u32 = 1 << 20;

/// Default bytes per receive call over TCP: Linux's initial receive buffer (ip-sysctl.rst, tcp_rmem), as in
/// netserver.
const RECEIVE_BYTES: u32 = 131_072;

/// Default bytes per send call over TCP: the initial send buffer of Linux (tcp_wmem).
const SEND_BYTES: u32 = 16_384;

/// Payload of the largest datagram over IPv4 in bytes (RFC 768, RFC 791).
const DATAGRAM_BYTES_MAX: u32 = 65_507;

/// Extra time for the client to end a timed test, as in netserver.
const PAD: Nanos = Nanos::from_secs(4);

/// The same for TCP_CRR, whose end shows only as silence: time for the first retransmission of a SYN (RFC 6298).
const PAD_OF_CONNECTIONS: Nanos = Nanos::from_secs(1);

/// Ports below this are system ports (RFC 6335).
const FIRST_USER_PORT: u32 = 1024;

/// Why a request is refused. The client prints the text of the error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Message type that is not supported.
    Kind,
    /// Neither TCP nor UDP.
    Protocol,
    /// Address family that differs from the control connection's.
    Family,
    /// Data socket at another address than that of the control connection.
    Address,
    /// System port, below 1024.
    Port,
    /// Combination of directions that no test has.
    Direction,
    /// Size that is zero, negative, or too large for a datagram.
    Size,
    /// Longer than the server allows.
    Length,
    /// No connection or datagram arrived.
    Silence,
}

impl Refusal {
    /// Error number for the client (errno(3), Linux numbers).
    pub fn errno(self) -> i32 {
        match self {
            Self::Kind | Self::Direction => 95, // EOPNOTSUPP
            Self::Protocol => 93,               // EPROTONOSUPPORT
            Self::Family => 97,                 // EAFNOSUPPORT
            Self::Address => 99,                // EADDRNOTAVAIL
            Self::Port => 13,                   // EACCES
            Self::Size => 22,                   // EINVAL
            Self::Length => 34,                 // ERANGE
            Self::Silence => 110,               // ETIMEDOUT
        }
    }
}

/// Transport protocol of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Pattern and sizes; a size is at least 1, and over UDP at most a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sizes are bytes of a call, of a request and of a response")]
pub enum Traffic {
    /// The client sends: TCP_STREAM, UDP_STREAM.
    Receive { call_bytes: u32 },
    /// The server sends: TCP_MAERTS.
    Send { call_bytes: u32 },
    /// A response per request: TCP_RR, UDP_RR.
    Exchange { request_bytes: u32, response_bytes: u32 },
    /// A connection per transaction: TCP_CRR.
    Crr { request_bytes: u32, response_bytes: u32 },
}

/// What ends a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Time; if the server receives, the client signals the end.
    After(Nanos),
    /// Number of transactions, or of bytes in one direction.
    Count(u64),
    /// The client.
    Client,
}

/// A test that the server accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Transport protocol of the data.
    pub transport: Transport,
    /// Pattern and sizes.
    pub traffic: Traffic,
    /// What ends the test.
    pub ending: Ending,
    /// Time limit at the server, from the first connection or datagram.
    pub within: Nanos,
    /// SO_RCVBUF in bytes; `None`: kernel default.
    pub receive_buffer_bytes: Option<u32>,
    /// SO_SNDBUF in bytes; `None`: kernel default.
    pub send_buffer_bytes: Option<u32>,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// Traffic class octet of the IP header; `None`: unchanged.
    pub traffic_class: Option<u8>,
    /// Name for TCP_CONGESTION; `None`: kernel default.
    pub congestion: Option<String>,
    /// Whether the results include the congestion control in use.
    pub tells_congestion: bool,
    /// Port of the server's data socket; 0: the kernel chooses.
    pub server_port: u16,
    /// Port of the client's data socket, if the server sends first over UDP; else 0.
    pub client_port: u16,
}

impl Test {
    /// Transactions, or bytes in one direction, after which the server ends the test.
    pub fn count_max(&self) -> u64 {
        match self.ending {
            Ending::Count(count) => count,
            Ending::After(_) | Ending::Client => u64::MAX,
        }
    }

    /// Validates a request.
    pub fn of(request: &Request, caller: Caller) -> Result<Self, Refusal> {
        let transport = match (request.protocol, request.socket_type) {
            (6, 1) => Transport::Tcp,
            (17, 2) => Transport::Udp,
            _ => return Err(Refusal::Protocol),
        };
        let family = if caller.peer.is_ipv4() { 4 } else { 6 };
        if request.family != family {
            return Err(Refusal::Family);
        }
        if request.server_address != [0; 4] && !names(request.server_address, caller.local) {
            return Err(Refusal::Address);
        }
        if (1..FIRST_USER_PORT).contains(&request.server_port) {
            return Err(Refusal::Port);
        }
        let traffic = traffic(request, transport)?;
        let (ending, within) = ending(request.length, traffic, caller.duration_max)?;
        let has_client_port =
            transport == Transport::Udp && matches!(traffic, Traffic::Send { .. });
        let client_port = if has_client_port { port(request.client_port)? } else { 0 };
        if has_client_port && client_port == 0 {
            return Err(Refusal::Port);
        }
        let option = |bytes: i32| u32::try_from(bytes).ok().filter(|&bytes| bytes > 0);
        Ok(Self {
            transport,
            traffic,
            ending,
            within,
            receive_buffer_bytes: option(request.receive_buffer_bytes),
            send_buffer_bytes: option(request.send_buffer_bytes),
            no_delay: request.flags & flag::NO_DELAY != 0,
            traffic_class: u8::try_from(request.traffic_class).ok(),
            congestion: Some(request.congestion.clone()).filter(|name| !name.is_empty()),
            tells_congestion: request.flags & flag::WANT_CONGESTION != 0,
            server_port: port(request.server_port)?,
            client_port,
        })
    }
}

fn port(word: u32) -> Result<u16, Refusal> {
    u16::try_from(word).map_err(|_| Refusal::Port)
}

fn traffic(request: &Request, transport: Transport) -> Result<Traffic, Refusal> {
    let call = |exchanged: i32, wanted: i32, otherwise| {
        let bytes = if exchanged > 0 { exchanged } else { wanted };
        match u32::try_from(bytes) {
            Ok(0) => Err(Refusal::Size),
            Ok(bytes) => Ok(bytes.min(CALL_BYTES_MAX)),
            Err(_) => Ok(otherwise),
        }
    };
    let most = match transport {
        Transport::Tcp => i32::MAX as u32,
        Transport::Udp => DATAGRAM_BYTES_MAX,
    };
    let of_an_exchange = |bytes: i32| {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| (1..=most).contains(bytes));
        bytes.ok_or(Refusal::Size)
    };
    let has_connections = request.flags & flag::CONNECT_TEST != 0;
    match (request.direction, has_connections, transport) {
        // Room for any datagram.
        (direction::RECEIVE, false, Transport::Udp) => {
            Ok(Traffic::Receive { call_bytes: DATAGRAM_BYTES_MAX })
        }
        (direction::RECEIVE, false, Transport::Tcp) => {
            let call_bytes = call(request.request_bytes, request.receive_bytes, RECEIVE_BYTES)?;
            Ok(Traffic::Receive { call_bytes })
        }
        (direction::TRANSMIT, false, _) => {
            let is_tcp = transport == Transport::Tcp;
            let otherwise = if is_tcp { SEND_BYTES } else { DATAGRAM_BYTES_MAX };
            let call_bytes = call(request.response_bytes, request.send_bytes, otherwise)?;
            if !is_tcp && call_bytes > DATAGRAM_BYTES_MAX {
                return Err(Refusal::Size);
            }
            Ok(Traffic::Send { call_bytes })
        }
        (EXCHANGE, _, _) => {
            let request_bytes = of_an_exchange(request.request_bytes)?;
            let response_bytes = of_an_exchange(request.response_bytes)?;
            match (has_connections, transport) {
                (true, Transport::Tcp) => Ok(Traffic::Crr { request_bytes, response_bytes }),
                (true, Transport::Udp) => Err(Refusal::Direction),
                (false, _) => Ok(Traffic::Exchange { request_bytes, response_bytes }),
            }
        }
        _ => Err(Refusal::Direction),
    }
}

const EXCHANGE: u32 = direction::RECEIVE | direction::TRANSMIT;

/// What ends a test, and the time limit at the server.
fn ending(length: i32, traffic: Traffic, duration_max: Nanos) -> Result<(Ending, Nanos), Refusal> {
    let Ok(seconds) = u32::try_from(length) else {
        return Ok((Ending::Count(length.unsigned_abs().into()), duration_max));
    };
    if seconds == 0 {
        return Ok((Ending::Client, duration_max));
    }
    let length = Nanos::from_secs(seconds.into());
    if length > duration_max {
        return Err(Refusal::Length);
    }
    let pad = match traffic {
        Traffic::Send { .. } => Nanos(0),
        Traffic::Crr { .. } => PAD_OF_CONNECTIONS,
        Traffic::Receive { .. } | Traffic::Exchange { .. } => PAD,
    };
    Ok((Ending::After(length), Nanos(length.0 + pad.0)))
}

/// Whether the words of a request are this address.
fn names(words: [u32; 4], address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(words[0]) == address && words[1..] == [0; 3],
        IpAddr::V6(address) => {
            let is = |octets: [[u8; 4]; 4]| octets.as_flattened() == address.octets();
            is(words.map(u32::to_be_bytes)) || is(words.map(u32::to_le_bytes))
        }
    }
}
