//! Opens the connections of a client.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fabricmark_load::{Control, foreign};
use fabricmark_proto::iperf3::{
    COOKIE_BYTES, Cookie, Kind, OPENING, OPENING_REPLIES, Parameters, cookie,
};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_telemetry::clock::now_ns;
use rustix::rand::{GetRandomFlags, getrandom};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::client::ClientEnd;
use super::flow::StreamSocket;
use super::line::Line;

/// Time-out for the control connection, the same as for the flows of other runs.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Time-out for the reply to a datagram that opens a stream.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often a wait checks whether the run has been aborted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An unpredictable cookie.
pub(super) fn new_cookie() -> Result<Cookie, Failure> {
    let mut random = [0; COOKIE_BYTES - 1];
    match getrandom(&mut random, GetRandomFlags::empty()) {
        Ok(bytes) if bytes == random.len() => Ok(cookie(&random)),
        Ok(_) => Err(Failure::System("cannot get random bytes".to_owned())),
        Err(error) => Err(Failure::System(format!("cannot get random bytes: {error}"))),
    }
}

/// Opens the control connection.
pub(super) fn control(prepare: &Prepare, server: SocketAddr) -> Result<Line, Failure> {
    let from = SocketAddr::new(prepare.point.source.unwrap_or(prepare.address), 0);
    let system = |error| Failure::System(format!("cannot open a connection from {from}: {error}"));
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP));
    let socket = socket.map_err(system)?;
    socket.bind(&from.into()).map_err(system)?;
    let within = prepare.point.connect_timeout.map_or(CONNECT_WITHIN, Duration::from);
    socket.connect_timeout(&server.into(), within).map_err(|error| {
        Failure::Unreachable(format!(
            "no iperf3 server at {server}: {error}; start one with `iperf3 -s`"
        ))
    })?;
    Line::new(socket.into()).map_err(system)
}

/// Opens all streams, one after the other. Also returns the time to open the first one, in nanoseconds.
pub(super) fn streams(
    &ClientEnd { prepare, control }: &ClientEnd<'_>,
    server: SocketAddr,
    cookie: &Cookie,
    parameters: &Parameters,
) -> Result<(Vec<StreamSocket>, u64), Failure> {
    let began_ns = now_ns();
    let mut first_ns = 0;
    let mut streams = Vec::new();
    for _ in 0..parameters.streams() {
        control.check()?;
        let socket = foreign::connect(prepare, server)?;
        streams.push(match parameters.kind {
            Kind::Tcp => StreamSocket::Tcp(tcp_stream(socket, cookie, prepare)?),
            Kind::Udp => StreamSocket::Udp(udp_stream(socket, prepare, control)?),
        });
        if first_ns == 0 {
            first_ns = now_ns() - began_ns;
        }
    }
    Ok((streams, first_ns))
}

fn tcp_stream(socket: Socket, cookie: &Cookie, prepare: &Prepare) -> Result<TcpStream, Failure> {
    let mut stream: TcpStream = socket.into();
    stream
        .write_all(cookie)
        .map_err(|error| Failure::Peer(format!("a stream did not open: {error}")))?;
    if let Some(is_set) = prepare.point.nodelay {
        let set = stream.set_nodelay(is_set);
        set.map_err(|error| Failure::System(format!("cannot set TCP_NODELAY: {error}")))?;
    }
    foreign::set_wait(&SockRef::from(&stream), &prepare.point)?;
    Ok(stream)
}

fn udp_stream(socket: Socket, prepare: &Prepare, control: &Control) -> Result<UdpSocket, Failure> {
    let socket: UdpSocket = socket.into();
    let failed = |error: io::Error| Failure::Peer(format!("a UDP stream did not open: {error}"));
    socket.set_read_timeout(Some(LOOK_EVERY)).map_err(failed)?;
    socket.send(&OPENING).map_err(failed)?;
    let until = Instant::now() + ANSWER_WITHIN;
    let mut buffer = [0; 16];
    loop {
        control.check()?;
        match socket.recv(&mut buffer) {
            Ok(bytes) if OPENING_REPLIES.iter().any(|reply| buffer[..bytes] == *reply) => break,
            // In reverse, payloads may arrive before the reply.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
        if Instant::now() >= until {
            return Err(Failure::Peer(format!(
                "a UDP stream did not open within {ANSWER_WITHIN:?}: a firewall may drop its \
                 datagrams; a lost one cannot be resent, because an iperf3 server counts it as \
                 another stream"
            )));
        }
    }
    foreign::set_wait(&SockRef::from(&socket), &prepare.point)?;
    Ok(socket)
}
