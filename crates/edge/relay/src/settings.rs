//! What to relay, how, and the limits.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use fabricmark_plan::RelayPath as Path;
use fabricmark_telemetry::datagrams::tell_destinations;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol as IpProtocol, SockRef, Socket, TcpKeepalive, Type};

/// Descriptors that are in use besides those of connections and threads: standard streams, and those of the program.
const DESCRIPTORS_BESIDE: usize = 64;

/// Descriptors of a thread: listening socket, epoll instance, eventfd. With [`Path::Uring`] there is one more.
const DESCRIPTORS_PER_THREAD: usize = 3;

/// Largest buffer: the limit of a pipe that an unprivileged process may ask for is 1 MiB (pipe(7)), and no plain read
/// gains above it.
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// Buffer by default: a stream through a relay had 0.82 to 0.90 of its rate with 64, 128 and 512 KiB and 1 MiB (eight runs
/// of 1 s, two virtual CPUs, `measure stream loopback --relay copy --vs relay_buffer=256KiB --vs relay_buffer=64KiB ...`).
const BUFFER_BYTES: usize = 256 << 10;

/// Most connections by default: an arbitrary choice. If all of them are stalled, they hold 350 MB.
const CONNECTIONS: usize = 10_000;

/// Pending connections of each listening socket; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// What is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams; those of one client address and port to one address of the relay are a flow.
    Udp,
}

/// A departure schedule: what each direction of a connection may pass on in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Bytes in a period.
    pub bytes: usize,
    /// Length of a period, from the start of a burst to the start of the next.
    pub period: Duration,
}

/// Settings of a relay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is relayed.
    pub protocol: Protocol,
    /// Address to listen at.
    pub listen: SocketAddr,
    /// Addresses of clients; empty: any. Others are reset, or their datagrams dropped.
    pub clients: Vec<IpAddr>,
    /// The target.
    pub forward: SocketAddr,
    /// How bytes pass through.
    pub path: Path,
    /// Most bytes per receive, and size of a pipe.
    pub buffer_bytes: usize,
    /// Departure schedule of each direction of a connection; `None`: bytes pass as soon as they can.
    pub burst: Option<Burst>,
    /// Threads, each with its own listening socket and connections.
    pub threads: usize,
    /// Most connections that are open at a time; others wait in the listening sockets. `None`: 10,000, or as many as the
    /// limit of open files allows.
    pub connections_max: Option<usize>,
    /// Time for the connection to the target.
    pub connect_timeout: Duration,
    /// Time without a byte after which a connection is reset and a UDP flow ends. `None`: TCP connections stay until
    /// their keepalive fails.
    pub idle_timeout: Option<Duration>,
    /// Time that connections get to end when the relay is stopped.
    pub drain_timeout: Duration,
    /// Whether each connection to the target begins with a PROXY header, version 2, that names the client.
    pub sends_proxy: bool,
    /// Whether each connection of a client begins with such a header.
    pub accepts_proxy: bool,
    /// First bytes of each direction that are neither counted nor timed in [`Transfer`](crate::Transfer).
    pub untimed_bytes: u64,
    /// Whether connections that have ended are passed to `Board::ended`.
    pub reports_ended: bool,
}

/// A relay cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The settings contradict each other, or a value is out of range.
    #[error("{0}")]
    Invalid(String),
    /// The limit of open files is too low.
    #[error(
        "{connections} connections need {needed} descriptors, and the limit of open files is {limit}: raise it (ulimit \
         -n, LimitNOFILE=), or lower --connections"
    )]
    Descriptors {
        /// Connections at a time.
        connections: usize,
        /// Descriptors that they need.
        needed: usize,
        /// The hard limit.
        limit: u64,
    },
    /// The kernel refuses an io_uring.
    #[error(
        "io_uring cannot be used ({0}): use Linux 5.18 or later, allow it (`sysctl kernel.io_uring_disabled=0`, the \
         seccomp profile of a container), or use --path copy"
    )]
    Ring(io::Error),
    /// The address cannot be listened at.
    #[error("cannot listen at {at}: {source}")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// The listening sockets, one per thread.
#[derive(Debug)]
pub(crate) enum Sockets {
    Tcp(Vec<TcpListener>),
    Udp(Vec<UdpSocket>),
}

impl Sockets {
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        let address = match self {
            Self::Tcp(listeners) => listeners.first().map(TcpListener::local_addr),
            Self::Udp(sockets) => sockets.first().map(UdpSocket::local_addr),
        };
        address.unwrap_or(Err(io::ErrorKind::NotConnected.into()))
    }
}

impl Settings {
    /// A relay of TCP connections by [`Path::Copy`] on one thread, with the defaults of `fabricmark relay`.
    pub fn new(listen: SocketAddr, forward: SocketAddr) -> Self {
        Self {
            protocol: Protocol::Tcp,
            listen,
            clients: Vec::new(),
            forward,
            path: Path::Copy,
            buffer_bytes: BUFFER_BYTES,
            burst: None,
            threads: 1,
            connections_max: None,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: None,
            drain_timeout: Duration::from_secs(30),
            sends_proxy: false,
            accepts_proxy: false,
            untimed_bytes: 0,
            reports_ended: false,
        }
    }

    /// Whether this is the address of a client.
    pub(crate) fn admits(&self, address: SocketAddr) -> bool {
        self.clients.is_empty() || self.clients.contains(&address.ip().to_canonical())
    }

    /// Descriptors that one connection needs.
    pub fn descriptors(&self) -> usize {
        match (self.protocol, self.path) {
            (Protocol::Tcp, Path::Copy | Path::Uring) => 2,
            (Protocol::Tcp, Path::Splice) => 6,
            (Protocol::Udp, _) => 1,
        }
    }

    /// Checks the settings; returns the maximum number of connections.
    pub(crate) fn check(&self) -> Result<usize, RelayError> {
        let invalid = |message: String| Err(RelayError::Invalid(message));
        if self.buffer_bytes == 0 || self.buffer_bytes > BUFFER_BYTES_MAX {
            return invalid(format!("a buffer of {} bytes: use 1B to 16MiB", self.buffer_bytes));
        }
        if self.threads == 0 || self.connections_max == Some(0) {
            return invalid("a relay needs at least one thread and one connection".to_owned());
        }
        if self.idle_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid(
                "an idle timeout of 0 ends every connection: use at least 1s".to_owned(),
            );
        }
        if self.protocol == Protocol::Udp && (self.sends_proxy || self.accepts_proxy) {
            return invalid("PROXY headers are for TCP".to_owned());
        }
        if self.protocol == Protocol::Udp && self.burst.is_some() {
            return invalid("a departure schedule is for TCP".to_owned());
        }
        if self.burst.is_some_and(|burst| burst.bytes == 0 || burst.period.is_zero()) {
            return invalid("a departure schedule needs bytes and a period above 0".to_owned());
        }
        if self.protocol == Protocol::Udp && self.path != Path::Copy {
            return invalid(format!("{} is for TCP; use --path copy", self.path));
        }
        self.allow_files()
    }

    /// Descriptors that this many connections need.
    fn needed(&self, connections: usize) -> usize {
        let each = DESCRIPTORS_PER_THREAD + usize::from(self.path == Path::Uring);
        connections
            .saturating_mul(self.descriptors())
            .saturating_add(each.saturating_mul(self.threads) + DESCRIPTORS_BESIDE)
    }

    /// Raises the limit of open files to what the connections need; returns the number of connections.
    fn allow_files(&self) -> Result<usize, RelayError> {
        let limit = getrlimit(Resource::Nofile);
        // `None` is no limit.
        let current = limit.current.unwrap_or(u64::MAX);
        let maximum = limit.maximum.unwrap_or(u64::MAX);
        let connections = self.connections_max.unwrap_or_else(|| {
            let room =
                usize::try_from(maximum).unwrap_or(usize::MAX).saturating_sub(self.needed(0));
            CONNECTIONS.min(room / self.descriptors()).max(1)
        });
        let needed = self.needed(connections);
        if current >= needed as u64 {
            return Ok(connections);
        }
        // A privileged process may raise the hard limit, too.
        let wanted = |maximum| Rlimit { current: Some(needed as u64), maximum };
        setrlimit(Resource::Nofile, wanted(limit.maximum))
            .or_else(|_| setrlimit(Resource::Nofile, wanted(Some(needed as u64))))
            .map_err(|_| RelayError::Descriptors { connections, needed, limit: maximum })?;
        Ok(connections)
    }

    pub(crate) fn sockets(&self) -> Result<Sockets, RelayError> {
        let mut at = self.listen;
        let failed = |source| RelayError::Listen { at: self.listen, source };
        let mut sockets = Vec::new();
        for _ in 0..self.threads {
            let socket = self.bound(at).map_err(failed)?;
            // If the kernel chooses the port, all threads share it.
            let address = socket.local_addr().map_err(failed)?;
            at.set_port(address.as_socket().map_or(at.port(), |address| address.port()));
            sockets.push(socket);
        }
        Ok(match self.protocol {
            Protocol::Tcp => Sockets::Tcp(sockets.into_iter().map(Into::into).collect()),
            Protocol::Udp => {
                let sockets: Vec<UdpSocket> = sockets.into_iter().map(Into::into).collect();
                if self.listen.ip().is_unspecified() {
                    // Answers leave from the address to which their client sent.
                    sockets.iter().try_for_each(tell_destinations).map_err(failed)?;
                }
                Sockets::Udp(sockets)
            }
        })
    }

    /// A socket bound to the address; over TCP it listens. An unspecified IPv6 address includes IPv4.
    fn bound(&self, at: SocketAddr) -> io::Result<Socket> {
        let (kind, protocol) = match self.protocol {
            Protocol::Tcp => (Type::STREAM, IpProtocol::TCP),
            Protocol::Udp => (Type::DGRAM, IpProtocol::UDP),
        };
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
        if at.is_ipv6() {
            socket.set_only_v6(!at.ip().is_unspecified())?;
        }
        if self.protocol == Protocol::Tcp {
            socket.set_reuse_address(true)?;
            // Accepted sockets inherit it: a relay must not delay what the sender chose to send.
            socket.set_tcp_nodelay(true)?;
        }
        // With SO_REUSEPORT a second relay of the same user could take half of the connections unnoticed.
        if self.threads > 1 {
            socket.set_reuse_port(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        if self.protocol == Protocol::Tcp {
            socket.listen(BACKLOG)?;
        }
        Ok(socket)
    }
}

/// Keepalive of a connection: finds an end that has vanished in two minutes.
pub(crate) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    const IDLE: Duration = Duration::from_secs(60);
    const INTERVAL: Duration = Duration::from_secs(10);
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(6);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Makes the close of a socket a reset: an orderly end would look to the other side as if all had been sent.
pub(crate) fn reset(stream: &TcpStream) {
    // If it fails, the connection is broken already.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
