//! The opening of flows: each proves that its starting end was told about it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use fabricmark_plan::{Point, Transport};
use fabricmark_proto::{Failure, OPENING_BYTES, Opening, OpeningKind, Prepare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, Socket};

use crate::clock::now_ns;
use crate::control::Control;
use crate::options::labelled;
use crate::sockets::{PEER_WITHIN, bound, peer, set_wait, system, unix_address};
use crate::transport::bytes::ByteStream;
use crate::transport::is_timeout;

/// Pause between repeated openings over UDP.
const OPENING_PAUSE: Duration = Duration::from_millis(50);

/// The opening of one flow of a run.
pub(crate) fn opening(prepare: &Prepare, flow: u32) -> Opening {
    let Prepare { run, token, .. } = *prepare;
    Opening { kind: OpeningKind::Open, run, flow, token }
}

/// Connections of one transport.
pub(crate) trait Connection: ByteStream + Sized {
    /// What accepts them.
    type Listener: AsFd;

    /// From a socket that listens.
    fn listen(socket: Socket) -> Result<Self::Listener, Failure>;

    /// From a socket that is connected.
    fn connected(socket: Socket) -> Result<Self, Failure>;

    /// Accepts one.
    fn accept(listener: &Self::Listener) -> io::Result<Self>;

    /// Agrees on keys with the other end, where the transport has any.
    fn shake_hands(&mut self, _: &Point) -> io::Result<()> {
        Ok(())
    }
}

impl Connection for TcpStream {
    type Listener = TcpListener;

    fn listen(socket: Socket) -> Result<TcpListener, Failure> {
        Ok(socket.into())
    }

    fn connected(socket: Socket) -> Result<Self, Failure> {
        Ok(socket.into())
    }

    fn accept(listener: &TcpListener) -> io::Result<Self> {
        Ok(listener.accept()?.0)
    }
}

impl Connection for UnixStream {
    type Listener = UnixListener;

    fn listen(socket: Socket) -> Result<UnixListener, Failure> {
        Ok(socket.into())
    }

    fn connected(socket: Socket) -> Result<Self, Failure> {
        Ok(socket.into())
    }

    fn accept(listener: &UnixListener) -> io::Result<Self> {
        Ok(listener.accept()?.0)
    }
}

/// A listening socket whose calls wait for at most [`Control::LOOK_EVERY`].
pub(crate) struct Listener<C: Connection> {
    listener: C::Listener,
    /// MPTCP's accept knows no time-out (Linux 6.12).
    polls: bool,
}

impl<C: Connection> Listener<C> {
    /// From a socket that listens.
    pub(crate) fn new(socket: Socket, transport: Transport) -> Result<Self, Failure> {
        socket.set_read_timeout(Some(Control::LOOK_EVERY)).map_err(system("set SO_RCVTIMEO"))?;
        let polls = transport == Transport::Mptcp;
        Ok(Self { listener: C::listen(socket)?, polls })
    }

    /// Accepts a connection; [`io::ErrorKind::WouldBlock`] when nobody connects.
    pub(crate) fn accept(&self) -> io::Result<C> {
        if self.polls {
            let mut asked = [PollFd::new(&self.listener, PollFlags::IN)];
            let nanos = Control::LOOK_EVERY.as_nanos() as i64;
            if poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: nanos }))? == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        C::accept(&self.listener)
    }
}

/// Connects a socket to the other end, and agrees with it on keys.
pub(crate) fn connect<C: Connection>(
    socket: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
) -> Result<C, Failure> {
    if prepare.point.transport == Transport::Unix {
        let at = unix_address(prepare)?;
        socket.connect(&at).map_err(peer("cannot connect to the unix socket"))?;
    } else {
        let within = prepare.point.connect_timeout.map_or(PEER_WITHIN, Duration::from);
        socket
            .connect_timeout(&labelled(peer_at, &prepare.point).into(), within)
            .map_err(unconnected(peer_at, within))?;
    }
    let mut connection = C::connected(socket)?;
    connection.shake_hands(&prepare.point).map_err(peer("the flow did not open"))?;
    Ok(connection)
}

/// Why a connection was not made, and what to look at.
fn unconnected(at: SocketAddr, within: Duration) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let help = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nobody listens there; a filter may also refuse: see `nft list ruleset`".to_owned()
            }
            io::ErrorKind::TimedOut => {
                format!(
                    "no answer within {within:?}; a filter may drop packets, or raise connect_timeout"
                )
            }
            _ => format!("see `ip route get {}`", at.ip()),
        };
        Failure::Peer(format!("cannot connect to {at}: {error}: {help}"))
    }
}

/// Opens every flow of a run; gives the time that the first opening took.
pub(crate) fn open_all<C: Connection>(
    first: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<(Vec<C>, u64), Failure> {
    let mut opening_rtt_ns = 0;
    let mut streams = Vec::with_capacity(prepare.point.flows as usize);
    let mut first = Some(first);
    for flow in 0..prepare.point.flows {
        control.check()?;
        let socket = match first.take() {
            Some(socket) => socket,
            None => bound(prepare, 0)?,
        };
        let mut stream: C = connect(socket, peer_at, prepare)?;
        set_stream(&stream, &prepare.point)?;
        let took_ns = open(&mut stream, prepare, flow)?;
        if flow == 0 {
            opening_rtt_ns = took_ns;
        }
        set_wait(&SockRef::from(&stream), &prepare.point)?;
        streams.push(stream);
    }
    Ok((streams, opening_rtt_ns))
}

/// Waits for every flow of a run to open.
pub(crate) fn accept_all<C: Connection>(
    listener: &Listener<C>,
    prepare: &Prepare,
    control: &Control,
) -> Result<Vec<C>, Failure> {
    let mut streams = Vec::with_capacity(prepare.point.flows as usize);
    for flow in 0..prepare.point.flows {
        let mut stream = loop {
            match listener.accept() {
                Ok(stream) => break stream,
                Err(error) if is_timeout(&error) => control.check()?,
                Err(error) => return Err(system("accept a connection")(error)),
            }
        };
        set_stream(&stream, &prepare.point)?;
        stream.shake_hands(&prepare.point).map_err(peer("the flow did not open"))?;
        admit(&mut stream, prepare, flow)?;
        set_wait(&SockRef::from(&stream), &prepare.point)?;
        streams.push(stream);
    }
    Ok(streams)
}

fn set_stream(stream: &impl ByteStream, point: &Point) -> Result<(), Failure> {
    let socket = SockRef::from(stream);
    let nodelay = match point.nodelay {
        Some(is_set) => socket.set_tcp_nodelay(is_set),
        None => Ok(()),
    };
    nodelay
        .and_then(|()| socket.set_read_timeout(Some(PEER_WITHIN)))
        .and_then(|()| socket.set_write_timeout(Some(PEER_WITHIN)))
        .map_err(system("set options of a connection"))
}

/// Opens a flow over a connection; gives the time that it took.
pub(crate) fn open(
    stream: &mut (impl Read + Write),
    prepare: &Prepare,
    flow: u32,
) -> Result<u64, Failure> {
    let opening = opening(prepare, flow);
    let sent = now_ns();
    stream.write_all(&opening.emit()).map_err(peer("cannot open the flow"))?;
    read_opening(stream, opening.acceptance())?;
    Ok(now_ns() - sent)
}

/// Waits for a flow to open over a connection.
pub(crate) fn admit(
    stream: &mut (impl Read + Write),
    prepare: &Prepare,
    flow: u32,
) -> Result<(), Failure> {
    let opening = opening(prepare, flow);
    read_opening(stream, opening)?;
    stream.write_all(&opening.acceptance().emit()).map_err(peer("cannot accept the flow"))
}

fn read_opening(stream: &mut impl Read, expected: Opening) -> Result<(), Failure> {
    let mut bytes = [0; OPENING_BYTES];
    stream.read_exact(&mut bytes).map_err(peer("the flow did not open"))?;
    if Opening::parse(&bytes) == Some(expected) {
        Ok(())
    } else {
        Err(Failure::Peer("the flow opened with a wrong token or version".to_owned()))
    }
}

/// Opens every datagram flow of a run; gives the time that the first opening took.
pub(crate) fn open_all_udp(
    first: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<(Vec<UdpSocket>, u64), Failure> {
    let mut opening_rtt_ns = 0;
    let mut sockets = Vec::with_capacity(prepare.point.flows as usize);
    let mut first = Some(first);
    for flow in 0..prepare.point.flows {
        control.check()?;
        let socket = match first.take() {
            Some(socket) => socket,
            None => bound(prepare, 0)?,
        };
        let socket = UdpSocket::from(socket);
        let peer_at = labelled(peer_at, &prepare.point);
        let took_ns = open_udp(&socket, peer_at, opening(prepare, flow))?;
        if flow == 0 {
            opening_rtt_ns = took_ns;
        }
        set_wait(&SockRef::from(&socket), &prepare.point)?;
        sockets.push(socket);
    }
    Ok((sockets, opening_rtt_ns))
}

fn open_udp(socket: &UdpSocket, peer_at: SocketAddr, opening: Opening) -> Result<u64, Failure> {
    socket.connect(peer_at).map_err(peer(format!("cannot connect to {peer_at}")))?;
    socket.set_read_timeout(Some(OPENING_PAUSE)).map_err(system("set SO_RCVTIMEO"))?;
    let began = now_ns();
    let mut bytes = [0; OPENING_BYTES + 1];
    loop {
        let sent = now_ns();
        socket.send(&opening.emit()).map_err(peer("cannot open the flow"))?;
        match socket.recv(&mut bytes) {
            Ok(n) if Opening::parse(&bytes[..n]) == Some(opening.acceptance()) => {
                return Ok(now_ns() - sent);
            }
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(peer("the flow did not open")(error)),
        }
        if now_ns() - began > PEER_WITHIN.as_nanos() as u64 {
            return Err(Failure::Peer(format!("{peer_at} did not accept the flow")));
        }
    }
}

/// Waits for every datagram flow of a run to open, and connects a socket to each other end.
pub(crate) fn accept_all_udp(
    first: Socket,
    prepare: &Prepare,
    control: &Control,
) -> Result<Vec<UdpSocket>, Failure> {
    let port = first.local_addr().ok().and_then(|at| at.as_socket()).map_or(0, |at| at.port());
    let mut sockets = Vec::with_capacity(prepare.point.flows as usize);
    let mut waiting = UdpSocket::from(first);
    for flow in 0..prepare.point.flows {
        let opening = opening(prepare, flow);
        let from = await_udp(&waiting, opening, control)?;
        waiting.connect(from).map_err(system(format!("connect to {from}")))?;
        // The next flow opens as soon as this one is accepted.
        let next = match flow + 1 < prepare.point.flows {
            true => Some(UdpSocket::from(bound(prepare, port)?)),
            false => None,
        };
        let accepted = waiting.send(&opening.acceptance().emit());
        accepted.map_err(peer("cannot accept the flow"))?;
        set_wait(&SockRef::from(&waiting), &prepare.point)?;
        sockets.push(waiting);
        match next {
            Some(next) => waiting = next,
            None => break,
        }
    }
    Ok(sockets)
}

fn await_udp(
    socket: &UdpSocket,
    opening: Opening,
    control: &Control,
) -> Result<SocketAddr, Failure> {
    socket.set_read_timeout(Some(Control::LOOK_EVERY)).map_err(system("set SO_RCVTIMEO"))?;
    let mut bytes = [0; OPENING_BYTES + 1];
    loop {
        match socket.recv_from(&mut bytes) {
            Ok((n, from)) if Opening::parse(&bytes[..n]) == Some(opening) => return Ok(from),
            // A stranger's datagram.
            Ok(_) => {}
            Err(error) if is_timeout(&error) => control.check()?,
            Err(error) => return Err(system("receive the opening")(error)),
        }
    }
}
