//! The opening of flows over connections.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use fabricmark_plan::{Network, Pattern, Point, Transport};
use fabricmark_proto::{Failure, OPENING_BYTES, Opening, Prepare};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SocketFlags, acceptfrom_with};
use rustls::ServerConfig;
use socket2::{SockRef, Socket};

use crate::control::Control;
use crate::failure::{peer, system};
use crate::flow_set::poll_briefly;
use crate::options::labelled;
use crate::sockets::{bound, peer_within, set_wait, unix_address};
use crate::transport::bytes::ByteStream;
use crate::transport::{if_ready, security};
use fabricmark_telemetry::clock::now_ns;

pub(crate) fn opening(prepare: &Prepare, flow: u32) -> Opening {
    Opening::new(prepare.run, flow, prepare.token)
}

/// Repeats a call that blocks for a short time, until it has a result, the run is aborted, or `within` has passed.
pub(crate) fn in_time<T>(
    doing: &str,
    within: Duration,
    control: &Control,
    mut call: impl FnMut() -> io::Result<T>,
) -> Result<T, Failure> {
    let began = now_ns();
    loop {
        if let Some(value) = if_ready(call()).map_err(peer(doing))? {
            return Ok(value);
        }
        control.check()?;
        if u128::from(now_ns() - began) >= within.as_nanos() {
            let within = rounded(within);
            return Err(Failure::Peer(format!("{doing}: no answer within {within}")));
        }
    }
}

/// Connections of one transport.
pub(crate) trait Connection: ByteStream + Sized {
    /// Whether a TLS handshake comes first.
    const HAS_KEYS: bool = false;

    /// Wraps a connected socket; `server` is the TLS configuration that all connections of a server share.
    fn of(
        socket: OwnedFd,
        server: Option<&Arc<ServerConfig>>,
        prepare: &Prepare,
    ) -> io::Result<Self>;

    /// Continues the TLS handshake. Fails with a timeout while it is incomplete; the next call continues.
    fn shake_hands(&mut self, _: &Point) -> io::Result<()> {
        Ok(())
    }
}

impl Connection for TcpStream {
    fn of(socket: OwnedFd, _: Option<&Arc<ServerConfig>>, _: &Prepare) -> io::Result<Self> {
        Ok(socket.into())
    }
}

impl Connection for UnixStream {
    fn of(socket: OwnedFd, _: Option<&Arc<ServerConfig>>, _: &Prepare) -> io::Result<Self> {
        Ok(socket.into())
    }
}

/// Accepts a connection; also returns the source address, if there is one. The accept of std restarts after a signal,
/// with a new timeout: if signals are as frequent as the timeout, it never returns.
fn accept_one(listener: &Socket) -> io::Result<(OwnedFd, Option<IpAddr>)> {
    let (stream, from) = acceptfrom_with(listener, SocketFlags::CLOEXEC)?;
    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
    Ok((stream, from.map(|from| from.ip())))
}

/// A listening socket whose calls block for at most [`Control::LOOK_EVERY`], or until this thread is interrupted.
pub(crate) struct Listener<'a> {
    pub(super) socket: Socket,
    pub(super) prepare: &'a Prepare,
    /// TLS configuration with the certificate of the run, if the transport has one.
    keys: Option<Arc<ServerConfig>>,
}

impl<'a> Listener<'a> {
    pub(crate) fn new<C: Connection>(
        socket: Socket,
        prepare: &'a Prepare,
    ) -> Result<Self, Failure> {
        // accept(2) of MPTCP ignores SO_RCVTIMEO (Linux 6.12), and a connection that poll(2) reported may be gone.
        match prepare.point.transport {
            Transport::Mptcp => {
                socket.set_nonblocking(true).map_err(system("set O_NONBLOCK"))?;
            }
            _ => socket
                .set_read_timeout(Some(Control::LOOK_EVERY))
                .map_err(system("set SO_RCVTIMEO"))?,
        }
        let keys = C::HAS_KEYS.then(security::answering).transpose()?;
        Ok(Self { socket, prepare, keys })
    }

    /// Lets calls block until this thread is interrupted. Connections inherit the time-out of their listener, which
    /// costs a timer in each call that sleeps.
    pub(crate) fn wait_for_orders(&self) -> Result<(), Failure> {
        match self.prepare.point.transport {
            Transport::Mptcp => Ok(()),
            _ => self.socket.set_read_timeout(None).map_err(system("set SO_RCVTIMEO")),
        }
    }

    /// Lets no call block: the thread waits with epoll.
    pub(crate) fn does_not_block(&self) -> Result<(), Failure> {
        self.socket.set_nonblocking(true).map_err(system("set O_NONBLOCK"))
    }

    /// Accepts a connection from an admitted address; [`io::ErrorKind::WouldBlock`] if there is none. A connection
    /// from any other address is closed at once.
    pub(crate) fn accept<C: Connection>(&self) -> io::Result<C> {
        if self.prepare.point.transport == Transport::Mptcp {
            let mut asked = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll_briefly(&mut asked)? == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.accept_waiting()
    }

    /// As [`Self::accept`], for a caller that has waited for connections itself.
    pub(crate) fn accept_waiting<C: Connection>(&self) -> io::Result<C> {
        match accept_one(&self.socket) {
            Ok((socket, from)) if from.is_none_or(|from| self.prepare.admits(from)) => {
                C::of(socket, self.keys.as_ref(), self.prepare)
            }
            Ok(_) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) if is_of_connection(&error) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether accept(2) reports an error of the pending connection, not of the listening socket.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
        )
    )
}

/// Connects a socket to the server, and completes the TLS handshake if there is one.
fn connect<C: Connection>(
    socket: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<C, Failure> {
    let connections = connect_all(vec![socket], peer_at, prepare, control)?;
    Ok(connections.into_iter().next().expect("a connection for each socket"))
}

/// As [`connect`], on a thread that orders interrupt. The call blocks, which saves six calls of fcntl(2), ppoll(2) and
/// getsockopt(2).
pub(crate) fn connect_until_interrupted<C: Connection>(
    socket: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<C, Failure> {
    let point = &prepare.point;
    let is_plain = !C::HAS_KEYS && point.transport.traits().network != Network::Machine;
    // Interrupts are a second apart, too far for a shorter time limit.
    if !is_plain || point.connect_timeout.is_some() {
        return connect(socket, peer_at, prepare, control);
    }
    let within = peer_within(prepare);
    let began = now_ns();
    let connected = match socket.connect(&labelled(peer_at, point).into()) {
        // The connect goes on (connect(2)).
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            end_connect(&socket, began, within, control)
        }
        connected => connected,
    };
    control.check()?;
    connected.map_err(unconnected(peer_at, within))?;
    C::of(socket.into(), None, prepare).map_err(system("use a connection"))
}

/// A connection whose calls do not block, and whose connect(2) and TLS handshake may be incomplete. A connect over a Unix
/// socket is complete: the kernel has no notice of room in a backlog.
pub(crate) fn connecting<C: Connection>(
    socket: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<C, Failure> {
    let point = &prepare.point;
    if point.transport.traits().network == Network::Machine {
        let at = unix_address(prepare)?;
        // A full backlog blocks.
        while let Err(error) = socket.connect(&at) {
            control.check()?;
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(peer("cannot connect to the unix socket")(error));
            }
        }
        socket.set_nonblocking(true).map_err(system("set O_NONBLOCK"))?;
    } else {
        let within = peer_within(prepare);
        begin_connect(&socket, labelled(peer_at, point)).map_err(unconnected(peer_at, within))?;
    }
    C::of(socket.into(), None, prepare).map_err(system("use a connection"))
}

/// Connects the sockets to the server in parallel, and completes their TLS handshakes.
fn connect_all<C: Connection>(
    sockets: Vec<Socket>,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<Vec<C>, Failure> {
    let point = &prepare.point;
    if point.transport.traits().network == Network::Machine {
        let at = unix_address(prepare)?;
        for socket in &sockets {
            socket.connect(&at).map_err(peer("cannot connect to the unix socket"))?;
        }
    } else {
        let within = point.connect_timeout.map_or(peer_within(prepare), Duration::from);
        let at = labelled(peer_at, point);
        let begun = sockets.iter().try_for_each(|socket| begin_connect(socket, at));
        let connected = begun.and_then(|()| {
            let began = now_ns();
            sockets.iter().try_for_each(|socket| end_connect(socket, began, within, control))
        });
        control.check()?;
        connected.map_err(unconnected(peer_at, within))?;
    }
    let connections = sockets.into_iter().map(|socket| C::of(socket.into(), None, prepare));
    let connections: io::Result<Vec<C>> = connections.collect();
    let mut connections = connections.map_err(system("begin TLS"))?;
    if C::HAS_KEYS {
        let within = peer_within(prepare);
        for connection in &mut connections {
            set_looks(connection, Some(Control::LOOK_EVERY))?;
            // Each connection sends its ClientHello before any waits for an answer.
            if_ready(connection.shake_hands(point)).map_err(peer(NOT_OPEN))?;
        }
        for connection in &mut connections {
            in_time(NOT_OPEN, within, control, || connection.shake_hands(point))?;
            set_looks(connection, None)?;
        }
    }
    Ok(connections)
}

/// A non-blocking connect(2).
fn begin_connect(socket: &Socket, at: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.connect(&at.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        connected => connected,
    }
}

/// Waits until a connect completes; checks for orders of the coordinator meanwhile.
fn end_connect(socket: &Socket, began: u64, within: Duration, control: &Control) -> io::Result<()> {
    while poll_briefly(&mut [PollFd::new(socket, PollFlags::OUT)])? == 0 {
        control.check().map_err(io::Error::other)?;
        if u128::from(now_ns() - began) >= within.as_nanos() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)
}

/// A time limit as text: `5.0 s`, `30 ms`.
pub(crate) fn rounded(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Why packets of data may not arrive although the agent is reached, and the remedy.
pub(crate) const FILTER: &str = "a firewall may drop packets to this port: let the agent use ports that it passes (agent \
                                 --ports)";

/// Describes a failed connect, with a remedy.
pub(crate) fn unconnected(at: SocketAddr, within: Duration) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let help = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nothing listens there, or a firewall rejects the connection: see `nft list \
                 ruleset`"
                    .to_owned()
            }
            io::ErrorKind::TimedOut => {
                let within = rounded(within);
                format!("no answer within {within}; {FILTER}, or use a longer connect_timeout")
            }
            _ => format!("see `ip route get {}`", at.ip()),
        };
        Failure::Unreachable(format!("cannot connect to {at}: {error}: {help}"))
    }
}

/// Flows that carry a token. In crr that is only the first connection; later ones send only the request, as with other
/// tools.
pub(super) fn flows_to_open(point: &Point) -> u32 {
    if point.pattern == Pattern::Crr { 1 } else { point.flows }
}

/// Opens all flows of a run. Also returns the time that the first opening took, in nanoseconds.
pub(crate) fn open_all<C: Connection>(
    first: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<(Vec<C>, u64), Failure> {
    let flows = flows_to_open(&prepare.point);
    let mut streams: Vec<C> = Vec::with_capacity(flows as usize);
    // The first flow alone, to measure the RTT.
    let mut sockets = vec![first];
    let mut opening_rtt_ns = 0;
    loop {
        control.check()?;
        let opened = streams.len();
        let together: Vec<C> = connect_all(sockets, peer_at, prepare, control)?;
        streams.extend(together);
        let mut begun = Vec::new();
        for (stream, flow) in streams[opened..].iter_mut().zip(opened as u32..) {
            set_stream(stream, &prepare.point)?;
            begun.push(begin_open(stream, prepare, flow)?);
        }
        for (stream, begun) in streams[opened..].iter_mut().zip(begun) {
            let took_ns = end_open(stream, begun, prepare, control)?;
            if opened == 0 {
                opening_rtt_ns = took_ns;
            }
            set_wait(&SockRef::from(&*stream), &prepare.point)?;
        }
        let left = flows as usize - streams.len();
        if left == 0 {
            return Ok((streams, opening_rtt_ns));
        }
        let more = (0..left.min(OPENED_AT_ONCE)).map(|_| bound(prepare, 0));
        sockets = more.collect::<Result<_, Failure>>()?;
    }
}

/// Flows that are opened in parallel: one after the other, each would take its own RTTs.
pub(super) const OPENED_AT_ONCE: usize = 16;

/// Message about a flow that did not open.
pub(crate) const NOT_OPEN: &str = "the flow did not open";

pub(super) fn set_stream(stream: &impl ByteStream, point: &Point) -> Result<(), Failure> {
    if let Some(is_set) = point.nodelay {
        SockRef::from(stream).set_tcp_nodelay(is_set).map_err(system("set TCP_NODELAY"))?;
    }
    set_looks(stream, Some(Control::LOOK_EVERY))
}

/// Sets how long calls of a connection block; `None` for indefinitely.
fn set_looks(stream: &impl ByteStream, every: Option<Duration>) -> Result<(), Failure> {
    let socket = SockRef::from(stream);
    let read = socket.set_read_timeout(every);
    read.and_then(|()| socket.set_write_timeout(every))
        .map_err(system("set the time-outs of a connection"))
}

/// A flow whose opening has been sent.
#[derive(Clone, Copy)]
struct Begun {
    opening: Opening,
    sent_ns: u64,
}

fn begin_open(stream: &mut impl Write, prepare: &Prepare, flow: u32) -> Result<Begun, Failure> {
    let begun = Begun { opening: opening(prepare, flow), sent_ns: now_ns() };
    stream.write_all(&begun.opening.emit()).map_err(peer("cannot open the flow"))?;
    Ok(begun)
}

/// Waits for the acceptance of a flow; returns the time since its opening was sent. Calls of the connection must time
/// out.
fn end_open(
    stream: &mut impl Read,
    begun: Begun,
    prepare: &Prepare,
    control: &Control,
) -> Result<u64, Failure> {
    let mut heard = Hearing::default();
    let heard = in_time(NOT_OPEN, peer_within(prepare), control, || heard.hear(stream))?;
    if heard != Some(begun.opening.acceptance()) {
        return Err(Failure::Peer(
            "the other end answered with a wrong token or version".to_owned(),
        ));
    }
    Ok(now_ns() - begun.sent_ns)
}

/// Opens a flow over a connection whose calls time out; returns the time that this took, in nanoseconds.
pub(crate) fn open(
    stream: &mut (impl Read + Write),
    prepare: &Prepare,
    flow: u32,
    control: &Control,
) -> Result<u64, Failure> {
    let begun = begin_open(stream, prepare, flow)?;
    end_open(stream, begun, prepare, control)
}

/// Fills a buffer, of which `heard` bytes are read already. Fails with a timeout if the rest has not arrived yet.
fn fill(stream: &mut impl Read, bytes: &mut [u8], heard: &mut usize) -> io::Result<()> {
    while *heard < bytes.len() {
        match stream.read(&mut bytes[*heard..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => *heard += read,
        }
    }
    Ok(())
}

/// The first bytes of a connection, collected as they arrive.
pub(crate) struct Hearing {
    bytes: [u8; OPENING_BYTES],
    heard: usize,
}

impl Default for Hearing {
    fn default() -> Self {
        Self { bytes: [0; OPENING_BYTES], heard: 0 }
    }
}

impl Hearing {
    /// Reads the rest of an opening and parses it. Fails with a timeout while bytes are missing.
    pub(crate) fn hear(&mut self, stream: &mut impl Read) -> io::Result<Option<Opening>> {
        fill(stream, &mut self.bytes, &mut self.heard)?;
        Ok(Opening::parse(&self.bytes))
    }
}

/// A TCP connection beside a flow that cannot carry its own opening.
#[derive(Debug)]
pub(crate) struct Beside(TcpStream);

impl Beside {
    /// Wraps an open connection, whose calls block for at most [`Control::LOOK_EVERY`] from now on.
    pub(crate) fn of(stream: TcpStream) -> Result<Self, Failure> {
        stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(Control::LOOK_EVERY)))
            // A message would wait for the delayed acknowledgement of the one before.
            .and_then(|()| stream.set_nodelay(true))
            .map_err(system("set SO_RCVTIMEO and TCP_NODELAY"))?;
        Ok(Self(stream))
    }

    pub(crate) fn tell(&self, bytes: &[u8]) -> Result<(), Failure> {
        (&self.0).write_all(bytes).map_err(peer(NOT_OPEN))
    }

    /// Receives `N` bytes from the other end.
    pub(crate) fn hear<const N: usize>(
        &self,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<[u8; N], Failure> {
        let (mut bytes, mut heard) = ([0; N], 0);
        let within = peer_within(prepare);
        in_time(NOT_OPEN, within, control, || self.fill(&mut bytes, &mut heard))?;
        Ok(bytes)
    }

    /// Fills a buffer, of which `heard` bytes are read already. Fails with a timeout if the rest has not arrived yet.
    pub(crate) fn fill(&self, bytes: &mut [u8], heard: &mut usize) -> io::Result<()> {
        fill(&mut &self.0, bytes, heard)
    }

    /// Address of the other end, with a port that it has sent.
    pub(crate) fn peer_at(&self, port: [u8; 2]) -> Result<SocketAddr, Failure> {
        let mut at = self.0.peer_addr().map_err(system("read the other end's address"))?;
        at.set_port(u16::from_be_bytes(port));
        Ok(at)
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.0
    }
}

/// Failure of librdmacm to create a `what`.
pub(crate) fn no_cm(what: &str, prepare: &Prepare) -> impl Fn(io::Error) -> Failure {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Missing(error.to_string()),
        _ => Failure::System(format!(
            "no {what} at {}: {error}; is the module rdma_ucm loaded?",
            prepare.address
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::interrupt::Interrupter;
    use crate::transport::is_timeout;

    #[test]
    fn time_limits_are_told_in_the_unit_of_their_size() {
        for (time_ms, text) in
            [(30, "30 ms"), (999, "999 ms"), (5_000, "5.0 s"), (12_016, "12.0 s")]
        {
            assert_eq!(rounded(Duration::from_millis(time_ms)), text);
        }
    }

    #[test]
    fn a_wait_for_connections_ends_although_signals_are_more_frequent_than_its_time_out() {
        let (interrupter, stop) = (Interrupter::default(), AtomicBool::new(false));
        let listener = Socket::from(TcpListener::bind("127.0.0.1:0").unwrap());
        listener.set_read_timeout(Some(20 * Control::LOOK_EVERY)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| interrupter.keep_time(&stop, false));
            let _left = interrupter.leaving();
            let _blocking = interrupter.block(Some(Duration::from_millis(1))).unwrap();
            let error = accept_one(&listener).unwrap_err();
            assert!(is_timeout(&error), "{error}");
        });
    }
}
