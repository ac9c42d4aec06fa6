//! The data socket of a test.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;

use fabricmark_load::transport::is_timeout;
use fabricmark_proto::netperf::{Refusal, Response, Results, Test, Traffic, Transport};
use fabricmark_telemetry::tcp_info;
use socket2::{Domain, SockRef, Socket, Type};

use super::watch::{Failure, Watch};
use super::{LOOK_EVERY, tcp, udp};
use crate::socket::{congestion, set_traffic_class};

/// Listen backlog. One connection at a time would suffice, except for CRR connections that the client has given up.
const BACKLOG: i32 = 16;

/// A data socket that waits for its client.
pub(super) struct Data {
    socket: Socket,
    transport: Transport,
    /// Peer of the control connection.
    peer: SocketAddr,
}

impl Data {
    /// Opens the data socket of a test at the local address of the control connection, and at one of `ports` if the owner
    /// allows only those.
    pub fn open(
        test: &Test,
        local: SocketAddr,
        peer: SocketAddr,
        ports: Option<(u16, u16)>,
    ) -> io::Result<(Self, Response)> {
        at_allowed_port(test.server_port, ports, |port| {
            let mut at = local;
            at.set_port(port);
            Self::open_at(test, at, peer)
        })
    }

    /// Buffers, traffic class and congestion control are best effort: the response tells the client the actual values.
    fn open_at(test: &Test, local: SocketAddr, peer: SocketAddr) -> io::Result<(Self, Response)> {
        let kind = match test.transport {
            Transport::Tcp => Type::STREAM,
            Transport::Udp => Type::DGRAM,
        };
        let socket = Socket::new(Domain::for_address(local), kind, None)?;
        if let Some(bytes) = test.receive_buffer_bytes {
            let _ = socket.set_recv_buffer_size(bytes as usize);
        }
        if let Some(bytes) = test.send_buffer_bytes {
            let _ = socket.set_send_buffer_size(bytes as usize);
        }
        if test.transport == Transport::Tcp {
            socket.set_reuse_address(true)?;
            socket.set_tcp_nodelay(test.no_delay)?;
            if let Some(name) = &test.congestion {
                let _ = socket.set_tcp_congestion(name.as_bytes());
            }
        }
        let class = test.traffic_class.map(u32::from);
        let traffic_class =
            class.filter(|&class| set_traffic_class(&socket, local.is_ipv6(), class).is_ok());
        socket.bind(&local.into())?;
        if test.transport == Transport::Tcp {
            socket.listen(BACKLOG)?;
        }
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        socket.set_write_timeout(Some(LOOK_EVERY))?;
        let at = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let (receive_buffer_bytes, send_buffer_bytes) = buffers(&SockRef::from(&socket))?;
        let prepared = Response {
            data_port: at.port().into(),
            receive_buffer_bytes,
            send_buffer_bytes,
            traffic_class,
            ..Response::default()
        };
        Ok((Self { socket, transport: test.transport, peer }, prepared))
    }

    /// Runs the test. Fails if no client came.
    pub fn carry_out(self, test: &Test, mut watch: Watch<'_>) -> Result<Results, Failure> {
        let mut counted = Results {
            processors: thread::available_parallelism().map_or(1, |count| count.get() as u32),
            ..Results::default()
        };
        match self.transport {
            Transport::Tcp => {
                let listener = Listener { socket: self.socket.into(), peer: self.peer };
                tcp::carry_out(&listener, test, &mut watch, &mut counted)?;
            }
            Transport::Udp => {
                let socket: UdpSocket = self.socket.into();
                udp::carry_out(&socket, self.peer, test, &mut watch, &mut counted)?;
                note_end(&SockRef::from(&socket), test, &mut counted);
            }
        }
        let silence = || io::Error::from_raw_os_error(Refusal::Silence.errno());
        counted.elapsed_s = watch.elapsed().ok_or_else(silence)?.as_secs_f64() as f32;
        Ok(counted)
    }
}

/// Tries the port that the client names, or if that is 0 one after the other, among those that the owner allows.
fn at_allowed_port<S>(
    named: u16,
    ports: Option<(u16, u16)>,
    open: impl Fn(u16) -> io::Result<S>,
) -> io::Result<S> {
    match ports {
        Some((first, last)) if named == 0 => {
            let is_used = |tried: &io::Result<S>| {
                tried.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
            };
            let mut tried = (first..=last).map(open).skip_while(is_used);
            let none_is_free = || Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
            tried.next().unwrap_or_else(none_is_free)
        }
        Some((first, last)) if !(first..=last).contains(&named) => {
            Err(io::Error::from_raw_os_error(Refusal::Port.errno()))
        }
        _ => open(named),
    }
}

/// A listening socket that accepts only its client.
pub(super) struct Listener {
    socket: TcpListener,
    peer: SocketAddr,
}

impl Listener {
    /// The client's next connection; `None` when the time is up.
    pub fn accept(&self, watch: &mut Watch<'_>) -> Result<Option<TcpStream>, Failure> {
        loop {
            match self.socket.accept() {
                Ok((stream, from)) if from.ip() == self.peer.ip() => {
                    stream.set_read_timeout(Some(LOOK_EVERY))?;
                    stream.set_write_timeout(Some(LOOK_EVERY))?;
                    return Ok(Some(stream));
                }
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error.into()),
            }
            if watch.is_over(false)? {
                return Ok(None);
            }
        }
    }
}

/// Records the final state of a socket's buffers and connection.
pub(super) fn note_end(socket: &SockRef<'_>, test: &Test, counted: &mut Results) {
    if let Ok(granted) = buffers(socket) {
        (counted.receive_buffer_bytes, counted.send_buffer_bytes) = granted;
    }
    let is_tcp = test.transport == Transport::Tcp;
    if is_tcp && !matches!(test.traffic, Traffic::Crr { .. }) {
        let sample = tcp_info::sample(socket.as_fd()).ok();
        let segments = sample.and_then(|sample| sample.retransmitted_segments);
        counted.retransmissions = segments.map(|segments| segments.min(i32::MAX as u64) as u32);
    }
    if test.tells_congestion && is_tcp {
        counted.congestion = congestion(socket).unwrap_or_default();
    }
}

/// SO_RCVBUF and SO_SNDBUF.
fn buffers(socket: &SockRef<'_>) -> io::Result<(u32, u32)> {
    Ok((socket.recv_buffer_size()? as u32, socket.send_buffer_size()? as u32))
}
