//! Sockets as a point wants them, and the opening of a flow over them.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use fabricmark_plan::{Point, Transport};
use fabricmark_proto::{Failure, OPENING_BYTES, Opening, Prepare};
use fabricmark_record::Side;
use fabricmark_units::Bytes;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::clock::now_ns;
use crate::endpoint::Control;
use crate::sys;
use crate::transport::is_timeout;

/// Time for the other end to open a flow, or to answer over a reliable one.
pub(crate) const PEER_WITHIN: Duration = Duration::from_secs(5);

/// Pause between repeated openings over UDP.
const OPENING_PAUSE: Duration = Duration::from_millis(50);

/// A failed call with what it was about and, where it helps, what to do.
pub(crate) fn system(doing: impl Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; set another port in [run], or leave it out to let the kernel choose"
            }
            _ => "",
        };
        Failure::System(format!("cannot {doing}: {error}{help}"))
    }
}

/// A failure that only the other end can have caused.
pub(crate) fn peer(doing: impl Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Peer(format!("{doing}: {error}"))
}

/// A socket bound to its address, with the options that the point asks for.
pub(crate) fn bound(prepare: &Prepare, port: u16) -> Result<Socket, Failure> {
    let Prepare { point, address, .. } = prepare;
    let at = SocketAddr::new(*address, port);
    let (kind, protocol) = match point.transport {
        Transport::Tcp => (Type::STREAM, Protocol::TCP),
        _ => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))
        .map_err(system(format!("open a {} socket", point.transport)))?;
    if point.transport == Transport::Tcp {
        // A run's connection lingers in TIME_WAIT; the next run may use the same port.
        socket.set_reuse_address(true).map_err(system("set SO_REUSEADDR"))?;
        if let Some(name) = &point.congestion {
            socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
                Failure::System(format!(
                    "cannot use congestion control {name}: {error}; this kernel has {}",
                    available_congestion()
                ))
            })?;
        }
    }
    if let Some(bytes) = point.receive_buffer {
        set_receive_buffer(&socket, bytes)?;
    }
    socket.bind(&at.into()).map_err(system(format!("bind {} {at}", point.transport)))?;
    Ok(socket)
}

fn set_receive_buffer(socket: &Socket, Bytes(bytes): Bytes) -> Result<(), Failure> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // Without the privilege the kernel's limit holds; what it granted is stored either way.
    if sys::force_receive_buffer(socket.as_fd(), bytes).is_err() {
        socket.set_recv_buffer_size(bytes).map_err(system("set SO_RCVBUF"))?;
    }
    Ok(())
}

fn available_congestion() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_or_else(|_| "others".to_owned(), |names| names.trim().replace(' ', ", "))
}

/// What the kernel granted.
pub(crate) fn side(socket: &SockRef<'_>, cpu: Option<u32>) -> Side {
    Side {
        cpu,
        receive_buffer_bytes: socket.recv_buffer_size().ok().map(|bytes| bytes as u64),
        send_buffer_bytes: socket.send_buffer_size().ok().map(|bytes| bytes as u64),
    }
}

/// Connects and opens a TCP flow; gives the time that the opening took.
pub(crate) fn open_tcp(
    socket: Socket,
    peer_at: SocketAddr,
    opening: Opening,
    point: &Point,
) -> Result<(TcpStream, u64), Failure> {
    socket
        .connect_timeout(&peer_at.into(), PEER_WITHIN)
        .map_err(peer(format!("cannot connect to {peer_at}")))?;
    let mut stream = TcpStream::from(socket);
    set_tcp(&stream, point)?;
    let sent = now_ns();
    stream.write_all(&opening.emit()).map_err(peer("cannot open the flow"))?;
    read_opening(&mut stream, opening.acceptance())?;
    Ok((stream, now_ns() - sent))
}

/// Waits for a TCP flow to open.
pub(crate) fn accept_tcp(
    listener: &TcpListener,
    opening: Opening,
    point: &Point,
    control: &Control,
) -> Result<TcpStream, Failure> {
    SockRef::from(listener)
        .set_read_timeout(Some(Control::LOOK_EVERY))
        .map_err(system("set SO_RCVTIMEO"))?;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_timeout(&error) => control.check()?,
            Err(error) => return Err(system("accept a connection")(error)),
        }
    };
    set_tcp(&stream, point)?;
    read_opening(&mut stream, opening)?;
    stream.write_all(&opening.acceptance().emit()).map_err(peer("cannot accept the flow"))?;
    Ok(stream)
}

fn set_tcp(stream: &TcpStream, point: &Point) -> Result<(), Failure> {
    stream
        .set_nodelay(point.nodelay == Some(true))
        .and_then(|()| stream.set_read_timeout(Some(PEER_WITHIN)))
        .and_then(|()| stream.set_write_timeout(Some(Control::LOOK_EVERY)))
        .map_err(system("set TCP options"))
}

fn read_opening(stream: &mut TcpStream, expected: Opening) -> Result<(), Failure> {
    let mut bytes = [0; OPENING_BYTES];
    stream.read_exact(&mut bytes).map_err(peer("the flow did not open"))?;
    if Opening::parse(&bytes) == Some(expected) {
        Ok(())
    } else {
        Err(Failure::Peer("the flow opened with a wrong token or version".to_owned()))
    }
}

/// Connects and opens a UDP flow; gives the time that the opening took.
pub(crate) fn open_udp(
    socket: UdpSocket,
    peer_at: SocketAddr,
    opening: Opening,
) -> Result<(UdpSocket, u64), Failure> {
    socket.connect(peer_at).map_err(peer(format!("cannot connect to {peer_at}")))?;
    socket.set_read_timeout(Some(OPENING_PAUSE)).map_err(system("set SO_RCVTIMEO"))?;
    let began = now_ns();
    let mut bytes = [0; OPENING_BYTES + 1];
    loop {
        let sent = now_ns();
        socket.send(&opening.emit()).map_err(peer("cannot open the flow"))?;
        match socket.recv(&mut bytes) {
            Ok(n) if Opening::parse(&bytes[..n]) == Some(opening.acceptance()) => {
                return Ok((socket, now_ns() - sent));
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

/// Waits for a UDP flow to open, and connects the socket to its other end.
pub(crate) fn accept_udp(
    socket: UdpSocket,
    opening: Opening,
    control: &Control,
) -> Result<UdpSocket, Failure> {
    socket.set_read_timeout(Some(Control::LOOK_EVERY)).map_err(system("set SO_RCVTIMEO"))?;
    let mut bytes = [0; OPENING_BYTES + 1];
    loop {
        match socket.recv_from(&mut bytes) {
            Ok((n, from)) if Opening::parse(&bytes[..n]) == Some(opening) => {
                socket.connect(from).map_err(system(format!("connect to {from}")))?;
                let accepted = socket.send(&opening.acceptance().emit());
                accepted.map_err(peer("cannot accept the flow"))?;
                return Ok(socket);
            }
            // A stranger's datagram.
            Ok(_) => {}
            Err(error) if is_timeout(&error) => control.check()?,
            Err(error) => return Err(system("receive the opening")(error)),
        }
    }
}
