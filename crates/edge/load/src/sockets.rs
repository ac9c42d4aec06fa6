//! Creates, binds and configures sockets as a point asks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fabricmark_plan::{Network, Path, Pattern, Point, Role, Socket as Kind, Wait};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_record::Side;
use fabricmark_units::BitRate;
use fabricmark_wire::Family;
use rustix::net::{RecvFlags, SendFlags, recv};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::control::Control;
use crate::failure::system;
use crate::options;
use crate::smc;
use crate::window;
use fabricmark_telemetry::sys;

/// Timeout for the other end to open a flow, or to respond over a reliable one.
const PEER_WITHIN: Duration = Duration::from_secs(5);

/// Timeout for anything that an end awaits from the other, including what the RTT of the path needs beyond.
pub(crate) fn peer_within(prepare: &Prepare) -> Duration {
    PEER_WITHIN + Duration::from(prepare.patience())
}

/// Time in microseconds that a busy-polling call polls the device before it sleeps: the kernel's own suggestion
/// (Documentation/networking/napi.rst).
const BUSY_POLL_US: u32 = 50;

/// Descriptors that a worker has open besides the flows of a run.
const OTHER_FILES: u64 = 64;

/// Connections that a server of crr has beyond one per flow. An arbitrary choice: they may be of strangers, who must not
/// occupy memory without end.
pub(crate) const BEYOND_FLOWS: usize = 64;

/// recv(2) without the C library. Its functions for the calls that wait are cancellation points (pthreads(7)), which cost
/// time in a process with several threads: 1.5 % of a UDP exchange at each end
/// (`docs/notebook/measured.md#system-calls-of-the-c-library`).
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket, buffer, RecvFlags::empty())?.0)
}

/// send(2) without the C library, as [`receive`].
pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Raises RLIMIT_NOFILE if the flows of a run need it.
pub(crate) fn allow_files(point: &Point) -> Result<(), Failure> {
    let flows = u64::from(point.flows);
    let limit = getrlimit(Resource::Nofile);
    let of_each = match point.path {
        // Two ends of a pipe, /dev/null and the payload.
        Path::Splice => 5,
        // The payload, or an io_uring.
        Path::SendFile | Path::Uring | Path::UringZeroCopy => 2,
        Path::Copy | Path::Trunc | Path::Mmsg | Path::Gso | Path::ZeroCopy => 1,
    };
    let needed = flows * of_each + OTHER_FILES;
    let needed = needed + if point.pattern == Pattern::Crr { BEYOND_FLOWS as u64 } else { 0 };
    if limit.current.is_none_or(|files| files >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum.map(|m| m.max(needed)) };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        let most = limit.maximum.unwrap_or_default();
        Failure::Missing(format!(
            "{flows} flows need {needed} open files, but {most} are allowed ({error}): run `ulimit \
             -n {needed}` as root, or use fewer flows"
        ))
    })
}

/// Creates a socket with the options of the point, and binds it.
pub(crate) fn bound(prepare: &Prepare, port: u16) -> Result<Socket, Failure> {
    let socket = socket(prepare)?;
    bind(&socket, prepare, port).map_err(unbound(prepare, port))?;
    Ok(socket)
}

/// Sockets of a client that connects often (crr). They are not bound to the source address that the kernel chooses by
/// itself, which saves two of its nine system calls of a transaction over TCP.
pub(crate) struct ClientSockets<'a> {
    prepare: &'a Prepare,
    /// Whether the kernel might choose another source address.
    binds: bool,
}

impl<'a> ClientSockets<'a> {
    pub(crate) fn to(peer_at: SocketAddr, prepare: &'a Prepare) -> Self {
        let is_plain = prepare.point.transport.traits().socket == Kind::Tcp;
        let is_chosen = is_plain && is_chosen_source(peer_at, prepare).unwrap_or(false);
        Self { prepare, binds: !is_chosen }
    }

    /// A socket to connect, as [`bound`] otherwise.
    pub(crate) fn open(&self) -> Result<Socket, Failure> {
        if self.binds { bound(self.prepare, 0) } else { socket(self.prepare) }
    }
}

/// Whether an unbound socket that connects there has the source address and port of the point.
fn is_chosen_source(peer_at: SocketAddr, prepare: &Prepare) -> io::Result<bool> {
    let (point, at) = (&prepare.point, options::local(prepare, 0));
    // These may lead it elsewhere than the socket that asks.
    if point.device.is_some() || point.mark.is_some() || point.dscp.is_some() || at.port() != 0 {
        return Ok(false);
    }
    // A connect that sends nothing.
    let asking = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    asking.connect(&peer_at.into())?;
    Ok(asking.local_addr()?.as_socket().is_some_and(|chosen| chosen.ip() == at.ip()))
}

/// As [`bound`], at a datagram port that another flow of the run uses already.
pub(crate) fn bound_beside(prepare: &Prepare, port: u16) -> Result<Socket, Failure> {
    let socket = socket(prepare)?;
    socket.set_reuse_address(true).map_err(system("set SO_REUSEADDR"))?;
    socket.bind(&options::local(prepare, port).into()).map_err(unbound(prepare, port))?;
    Ok(socket)
}

/// Describes a failed bind.
fn unbound(prepare: &Prepare, port: u16) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let at = options::local(prepare, port);
        let transport = prepare.point.transport;
        let what = match transport.traits().network {
            Network::Machine => format!("bind a {transport} socket"),
            Network::Nothing | Network::Ip | Network::Rdma | Network::External => {
                format!("bind {transport} {at}")
            }
        };
        system(what)(error)
    }
}

/// The socket of a server: bound to its port, or to the first free port of its range.
pub(crate) fn waiting(prepare: &Prepare) -> Result<Socket, Failure> {
    let Some((first, last)) = prepare.ports.filter(|_| prepare.port == 0) else {
        let socket = bound(prepare, prepare.port)?;
        listen(&socket, &prepare.point).map_err(system("listen"))?;
        return Ok(socket);
    };
    if first == 0 || first > last {
        return Err(Failure::Protocol(format!("{first} to {last} is not a range of ports")));
    }
    for port in first..=last {
        let socket = socket(prepare)?;
        // If two processes bind the same port, the second may fail only at listen(2).
        match bind(&socket, prepare, port).and_then(|()| listen(&socket, &prepare.point)) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(unbound(prepare, port)(error)),
        }
    }
    Err(Failure::Missing(format!(
        "no port from {first} to {last} of {} is free for {}: use a larger range, or see `ss \
         -lntup` for their processes",
        prepare.address, prepare.point.transport
    )))
}

/// Largest listen backlog: the kernel's default limit (net.core.somaxconn).
const LISTEN_MAX: u32 = 4096;

/// Smallest listen backlog, so that a few foreign connections do not exclude the run's own: the value of std.
const LISTEN_MIN: u32 = 128;

/// Listens, if the transport has connections.
fn listen(socket: &Socket, point: &Point) -> io::Result<()> {
    if point.transport.traits().socket == Kind::Udp {
        return Ok(());
    }
    socket.listen(point.flows.clamp(LISTEN_MIN, LISTEN_MAX).cast_signed())
}

/// Creates a socket with the options of the point.
fn socket(prepare: &Prepare) -> Result<Socket, Failure> {
    let point = &prepare.point;
    let domain = Domain::for_address(options::local(prepare, 0));
    let (domain, kind, protocol) = match point.transport.traits().socket {
        Kind::Unix => (Domain::UNIX, Type::STREAM, None),
        Kind::Seqpacket => (Domain::UNIX, Type::SEQPACKET, None),
        Kind::Udp => (domain, Type::DGRAM, Some(Protocol::UDP)),
        Kind::Mptcp => (domain, Type::STREAM, Some(Protocol::MPTCP)),
        Kind::Sctp => (domain, Type::STREAM, Some(Protocol::SCTP)),
        Kind::Smc => (Domain::from(smc::DOMAIN), Type::STREAM, Some(smc::protocol(point.family))),
        Kind::Tcp | Kind::None => (domain, Type::STREAM, Some(Protocol::TCP)),
    };
    let socket = Socket::new(domain, kind, protocol).map_err(|error| {
        let transport = point.transport;
        match error.raw_os_error() {
            Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::EAFNOSUPPORT) => {
                let help = transport.traits().remedy;
                Failure::Missing(format!(
                    "this kernel does not support {transport} ({error}): \
                                          {help}"
                ))
            }
            Some(libc::ENOPROTOOPT) => Failure::Missing(format!(
                "{transport} is disabled: run `sysctl net.mptcp.enabled=1`"
            )),
            _ => system(format!("open a {transport} socket"))(error),
        }
    })?;
    set_options(&socket, point)?;
    options::set(&socket, prepare)?;
    Ok(socket)
}

fn bind(socket: &Socket, prepare: &Prepare, port: u16) -> io::Result<()> {
    let point = &prepare.point;
    if point.transport.traits().network == Network::Machine {
        return match prepare.role {
            Role::Server => socket.bind(&unix_address(prepare).map_err(io::Error::other)?),
            Role::Client => Ok(()),
        };
    }
    let at = options::local(prepare, port);
    if point.transport.traits().socket == Kind::Udp {
        socket.bind(&at.into())?;
        // The other datagram flows of the run share this port. SO_REUSEADDR is set after bind, so that bind fails if
        // another program has the port, even with that option.
        return match prepare.role == Role::Server && point.flows > 1 {
            true => socket.set_reuse_address(true),
            false => Ok(()),
        };
    }
    if prepare.role == Role::Server || at.port() != 0 {
        // A connection of this run stays in TIME_WAIT, and the next run may use the same port.
        socket.set_reuse_address(true)?;
    } else {
        // The kernel chooses the port when the destination is known, so that only the pair must be unique (ip(7)).
        let set = sys::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
        // MPTCP has the option since Linux 6.8 (mptcp_setsockopt_v4).
        set.or_else(|error| match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT) => Ok(()),
            _ => Err(error),
        })?;
    }
    socket.bind(&at.into())
}

/// Name of the run's unix socket: its token, in the abstract namespace, where it vanishes with its last socket
/// (unix(7)).
pub(crate) fn unix_address(prepare: &Prepare) -> Result<SockAddr, Failure> {
    let token: String = prepare.token.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("fabricmark-{token}");
    let at = std::os::unix::net::SocketAddr::from_abstract_name(name)
        .map_err(system("name a unix socket"))?;
    let name = at.as_abstract_name().unwrap_or_default();
    SockAddr::unix(std::ffi::OsStr::from_bytes(&[b"\0", name].concat()))
        .map_err(system("name a unix socket"))
}

fn set_options(socket: &Socket, point: &Point) -> Result<(), Failure> {
    if let Some(name) = point.congestion.as_ref().filter(|_| point.transport.has_tcp()) {
        socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
            let (known, help) = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    let known = congestion_controls("tcp_allowed_congestion_control");
                    (format!("unprivileged users may use {known}"), "or run as root".to_owned())
                }
                _ => {
                    let known = congestion_controls("tcp_available_congestion_control");
                    (format!("this kernel has {known}"), format!("or run `modprobe tcp_{name}`"))
                }
            };
            let said = format!("cannot use congestion control {name} ({error})");
            Failure::Missing(format!("{said}: {known}; use one of these, {help}"))
        })?;
    }
    if let Some(mss) = point.mss {
        socket.set_tcp_mss(mss).map_err(system(format!("set a segment size of {mss}")))?;
    }
    if let Some(BitRate(bps)) = point.pacing_rate {
        // Kernels before 4.20 read 32 bits of it. With 0 the kernel does not pace.
        let bytes_per_s = (bps / 8).max(1);
        sys::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_s)
            .map_err(system(format!("set a pacing rate of {bps} bit/s")))?;
    }
    if let Some(dscp) = point.dscp {
        // DSCP is the upper six bits of the octet (RFC 2474).
        let octet = dscp << 2;
        let set = match point.family {
            Family::V4 => socket.set_tos_v4(octet),
            Family::V6 => socket.set_tclass_v6(octet),
        };
        set.map_err(system(format!("set DSCP {dscp}")))?;
    }
    for (bytes, forced, limited) in [
        (point.receive_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (point.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        let Some(bytes) = bytes.map(window::at_most) else { continue };
        let set = |option| sys::set(socket.as_fd(), libc::SOL_SOCKET, option, bytes);
        // Without the privilege the kernel's limit applies; the granted size is recorded either way.
        set(forced).or_else(|_| set(limited)).map_err(system("set a socket buffer"))?;
    }
    if let Some(window) = point.window_bytes() {
        window::set(socket, window)?;
    }
    if point.wait == Wait::BusyPoll {
        socket.set_busy_poll(BUSY_POLL_US).map_err(|error| {
            Failure::Missing(format!(
                "busy polling is refused ({error}): run as root, or run \
                 `sysctl net.core.busy_read={BUSY_POLL_US}`"
            ))
        })?;
    }
    Ok(())
}

/// Sets how calls of an open flow wait, as the point says: until something happens or the thread is interrupted, or
/// not at all.
pub fn set_wait(socket: &SockRef<'_>, point: &Point) -> Result<(), Failure> {
    // With several outstanding requests, a send without room must time out so that responses are read: otherwise both
    // ends would wait for the other to read. The timeout costs nothing while there is room.
    let room_within = point.outstanding.filter(|&requests| requests > 1);
    let result = match point.wait {
        Wait::Epoll | Wait::Spin => socket.set_nonblocking(true),
        Wait::Block | Wait::BusyPoll => socket
            .set_read_timeout(None)
            .and_then(|()| socket.set_write_timeout(room_within.map(|_| Control::LOOK_EVERY))),
    };
    result.map_err(system("set the time-outs of a socket"))
}

/// Congestion control algorithms in a list of the kernel (ip-sysctl.rst).
fn congestion_controls(list: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{list}"))
        .map_or_else(|_| "others".to_owned(), |names| names.trim().replace(' ', ", "))
}

/// Buffer sizes and pacing rate that the kernel granted.
pub(crate) fn side(socket: &impl AsFd, cpu: Option<u32>) -> Side {
    // The kernel sets all bits if there is no limit.
    let fd = socket.as_fd();
    let pacing_rate = sys::get(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX).ok();
    let socket = SockRef::from(socket);
    Side {
        cpu,
        receive_buffer_bytes: socket.recv_buffer_size().ok().map(|bytes| bytes as u64),
        send_buffer_bytes: socket.send_buffer_size().ok().map(|bytes| bytes as u64),
        pacing_rate_bps: pacing_rate
            .filter(|&(rate, _)| rate != u64::MAX)
            .map(|(rate, _)| 8 * rate),
        clock: None,
    }
}

/// Memory counters of a socket, SO_MEMINFO (linux/sock_diag.h); 0 for those that an older kernel lacks.
fn memory(socket: BorrowedFd<'_>) -> io::Result<[u32; 9]> {
    Ok(sys::get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, [0; 9])?.0)
}

/// Memory in bytes of packets that were not received yet (SK_MEMINFO_RMEM_ALLOC): more than their payloads, and with
/// TCP including those out of order. 0 if there are none.
pub(crate) fn waiting_bytes(socket: BorrowedFd<'_>) -> io::Result<u64> {
    const SK_MEMINFO_RMEM_ALLOC: usize = 0;
    Ok(memory(socket)?[SK_MEMINFO_RMEM_ALLOC].into())
}

/// Datagrams that a socket dropped for lack of buffer: SK_MEMINFO_DROPS, the counter that SO_RXQ_OVFL reports with a
/// later datagram.
pub fn socket_drops(socket: &impl AsFd) -> io::Result<u64> {
    const SK_MEMINFO_DROPS: usize = 8;
    Ok(memory(socket.as_fd())?[SK_MEMINFO_DROPS].into())
}
