//! How a QUIC connection and its stream come about.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use fabricmark_plan::Point;
use fabricmark_proto::Failure;
use quinn_proto::{Dir, ServerConfig};
use socket2::Socket;

use super::port::Port;
use super::{QuicStream, failed, settings};
use crate::control::Control;
use crate::sockets::{peer, system};
use crate::transport::{is_timeout, security};

/// What accepts connections.
pub(crate) struct QuicListener {
    socket: Rc<UdpSocket>,
    port: Rc<RefCell<Port>>,
}

impl QuicListener {
    /// From a socket that is bound.
    pub(crate) fn new(socket: Socket, settings: Arc<ServerConfig>) -> Result<Self, Failure> {
        let socket = Rc::new(UdpSocket::from(socket));
        let port = Port::new(Rc::clone(&socket), Some(settings)).map_err(system("set QUIC up"))?;
        Ok(Self { socket, port: Rc::new(RefCell::new(port)) })
    }

    /// Accepts a connection and its stream; [`io::ErrorKind::WouldBlock`] when nobody connects.
    pub(crate) fn accept(&self) -> io::Result<QuicStream> {
        let (handle, connection) = {
            let port = &mut *self.port.borrow_mut();
            if port.incoming.is_empty() {
                port.wait(Control::LOOK_EVERY)?;
                // What comes late for a connection that is closed is of no use.
                port.receive(Instant::now(), |_, _| {})?;
            }
            let incoming = port.incoming.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
            let mut contents = Vec::new();
            match port.endpoint.accept(incoming, Instant::now(), &mut contents, None) {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(transmit) = &error.response {
                        port.answer(transmit, contents)?;
                    }
                    return Err(failed(error.cause));
                }
            }
        };
        let mut stream = QuicStream::new(&self.socket, &self.port, handle, connection);
        let opened = |stream: &mut QuicStream| stream.connection.streams().accept(Dir::Bi);
        stream.until(|stream| Ok(opened(stream))).map_err(in_time)?;
        Ok(stream)
    }

    /// Takes datagrams of this connection's other end only, and is told when it is gone.
    pub(crate) fn connect(&self, stream: &QuicStream) -> io::Result<()> {
        self.socket.connect(stream.connection.remote_address())
    }
}

/// Connects a socket to the other end, and opens a stream.
pub(crate) fn connect(
    socket: Socket,
    peer_at: SocketAddr,
    point: &Point,
) -> Result<QuicStream, Failure> {
    let socket = Rc::new(UdpSocket::from(socket));
    // A connected socket is told that nobody is there (udp(7)).
    socket.connect(peer_at).map_err(peer(format!("cannot connect to {peer_at}")))?;
    let mut port = Port::new(Rc::clone(&socket), None).map_err(system("set QUIC up"))?;
    let settings = settings::starting(point)?;
    let begun = port.endpoint.connect(Instant::now(), settings, peer_at, security::NAME);
    let (handle, connection) = begun.map_err(io::Error::other).map_err(system("begin QUIC"))?;
    let mut stream = QuicStream::new(&socket, &Rc::new(RefCell::new(port)), handle, connection);
    let opened = |stream: &mut QuicStream| match stream.connection.is_handshaking() {
        true => None,
        false => stream.connection.streams().open(Dir::Bi),
    };
    let opened = stream.until(|stream| Ok(opened(stream))).map_err(in_time);
    opened.map_err(peer(format!("cannot connect to {peer_at}")))?;
    Ok(stream)
}

fn in_time(error: io::Error) -> io::Error {
    match is_timeout(&error) {
        true => io::Error::other("no end of the QUIC handshake within 5 s"),
        false => error,
    }
}
