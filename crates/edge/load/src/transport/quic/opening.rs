//! Sets up QUIC connections and their stream.
//!
//! This server cannot flood a third party: until a client has shown that it receives at its address, quinn-proto
//! sends at most three times the bytes that came from there (RFC 9000, section 8.1). These are handshake bytes only,
//! since the stream waits for the opening. A Retry would cost each connection one more RTT.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricmark_proto::{Failure, Opening, Prepare};
use quinn_proto::{Dir, ServerConfig};
use socket2::Socket;

use super::port::{Port, SharedPort};
use super::settings;
use super::stream::{QuicStream, failed};
use crate::control::Control;
use crate::failure::{peer, system};
use crate::opening::{Candidates, NOT_OPEN, in_time};
use crate::sockets::peer_within;
use crate::transport::bytes::ByteStream;
use crate::transport::{is_timeout, security};

/// Accepts QUIC connections at a socket.
pub(crate) struct QuicListener<'a> {
    socket: Arc<UdpSocket>,
    port: SharedPort,
    prepare: &'a Prepare,
    within: Duration,
}

impl<'a> QuicListener<'a> {
    pub(crate) fn new(
        socket: Socket,
        settings: Arc<ServerConfig>,
        prepare: &'a Prepare,
    ) -> Result<Self, Failure> {
        let socket = Arc::new(UdpSocket::from(socket));
        let port = Port::new(Arc::clone(&socket), Some(settings)).map_err(system("set up QUIC"))?;
        let port = SharedPort::new(port);
        Ok(Self { socket, port, prepare, within: peer_within(prepare) })
    }

    /// Waits for a connection that opens this flow. One that opens another flow or none is closed, and a silent one
    /// does not delay the others. Open flows are served meanwhile: the client opens no further flow before their
    /// acceptance arrives.
    pub(crate) fn admit(
        &self,
        opening: Opening,
        open: &mut [QuicStream],
        control: &Control,
    ) -> Result<QuicStream, Failure> {
        self.port.lock().keep(true);
        let mut candidates = Candidates::new();
        let admitted = loop {
            control.check()?;
            open.iter_mut().try_for_each(ByteStream::tend).map_err(peer(NOT_OPEN))?;
            let mut heard = candidates.heard(QuicStream::accept).into_iter();
            if let Some((stream, _)) = heard.find(|(_, heard)| *heard == Some(opening)) {
                break stream;
            }
            match self.begin() {
                Ok(mut stream) => {
                    stream.set_wait(false);
                    candidates.add(stream, self.prepare);
                }
                Err(error) if is_timeout(&error) => {}
                // A handshake that fails at its first datagram is not the client's.
                Err(error) if error.raw_os_error().is_none() => {}
                Err(error) => return Err(system("accept a connection")(error)),
            }
        };
        drop(candidates);
        self.port.lock().keep(false);
        Ok(admitted)
    }

    /// Accepts a connection and its stream; [`io::ErrorKind::WouldBlock`] if there is none.
    pub(crate) fn accept(&self, control: &Control) -> io::Result<QuicStream> {
        let mut stream = self.begin()?;
        in_time("no stream was opened", self.within, control, || stream.accept())
            .map_err(io::Error::other)?;
        Ok(stream)
    }

    /// Accepts a connection from an admitted address; [`io::ErrorKind::WouldBlock`] if there is none. Other addresses
    /// get no response.
    fn begin(&self) -> io::Result<QuicStream> {
        let port = &mut *self.port.lock();
        if port.incoming.is_empty() {
            port.wait(Control::LOOK_EVERY)?;
            port.receive(Instant::now(), |_, event| Some(event))?;
        }
        let incoming = port.incoming.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        if !self.prepare.admits(incoming.remote_address().ip()) {
            port.endpoint.ignore(incoming);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut contents = Vec::new();
        match port.endpoint.accept(incoming, Instant::now(), &mut contents, None) {
            Ok((handle, connection)) => {
                Ok(QuicStream::new(&self.socket, &self.port, handle, connection, self.prepare))
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    port.answer(transmit, contents)?;
                }
                Err(failed(error.cause))
            }
        }
    }

    /// Restricts the socket to datagrams of this connection's client, and to ICMP errors about it.
    pub(crate) fn connect(&self, stream: &QuicStream) -> io::Result<()> {
        self.socket.connect(stream.connection.remote_address())
    }
}

impl QuicStream {
    /// Waits for the stream that the client opens.
    fn accept(&mut self) -> io::Result<()> {
        self.until(|stream| Ok(stream.connection.streams().accept(Dir::Bi).map(drop)))
    }
}

/// Connects a socket to the server, and opens a stream.
pub(crate) fn connect(
    socket: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<QuicStream, Failure> {
    let socket = Arc::new(UdpSocket::from(socket));
    let unconnected = format!("cannot connect to {peer_at}");
    // A connected socket reports ICMP errors (udp(7)).
    socket.connect(peer_at).map_err(peer(&unconnected))?;
    let mut port = Port::new(Arc::clone(&socket), None).map_err(system("set up QUIC"))?;
    let settings = settings::starting(&prepare.point)?;
    let begun = port.endpoint.connect(Instant::now(), settings, peer_at, security::NAME);
    let (handle, connection) = begun.map_err(io::Error::other).map_err(system("start QUIC"))?;
    let port = SharedPort::new(port);
    let within = peer_within(prepare);
    let mut stream = QuicStream::new(&socket, &port, handle, connection, prepare);
    let opened = |stream: &mut QuicStream| match stream.connection.is_handshaking() {
        true => None,
        false => stream.connection.streams().open(Dir::Bi),
    };
    in_time(&unconnected, within, control, || stream.until(|stream| Ok(opened(stream))))?;
    Ok(stream)
}
