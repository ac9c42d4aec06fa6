//! Streams as flows of the data plane.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fabricmark_load::transport::{Flow, Message, Moved};
use fabricmark_proto::iperf3::{Header, OPENING, OPENING_REPLIES};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::tcp_info;
use rustix::io::ioctl_fionread;
use rustix::net::{RecvFlags, recv};

use super::tally::Tally;

/// The socket of a stream.
#[derive(Debug)]
pub(super) enum StreamSocket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl StreamSocket {
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Udp(_) => None,
        }
    }
}

impl AsFd for StreamSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// A stream, and what it has moved.
#[derive(Debug)]
pub(super) struct Stream {
    pub socket: StreamSocket,
    pub tally: Tally,
}

impl Stream {
    /// Segments that it has sent again, over TCP.
    pub fn retransmits(&self) -> Option<u64> {
        tcp_info::sample(self.socket.tcp()?.as_fd()).ok()?.retransmitted_segments
    }
}

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct StreamFlow {
    pub stream: Arc<Stream>,
    /// Whether counters of datagrams have 64 bits.
    pub is_wide: bool,
    /// Whether the other end opens a stream of datagrams, and may have missed the answer.
    pub answers: bool,
}

/// Errors that a datagram socket has for one datagram and not for the next: the other end is not there
/// (yet), or there is no buffer for it.
fn passing(error: io::Error) -> io::Error {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOBUFS) => {
            io::ErrorKind::WouldBlock.into()
        }
        _ => error,
    }
}

impl StreamFlow {
    fn receive_datagram(&self, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Moved> {
        loop {
            // The length is the true one, also of a datagram that does not fit.
            let (kept, bytes) = recv(socket, &mut *buffer, RecvFlags::TRUNC)
                .map_err(|errno| passing(errno.into()))?;
            let Some(header) = Header::parse(&buffer[..kept], self.is_wide) else {
                if self.answers && buffer[..kept] == OPENING {
                    // Whoever still waits for it asks again.
                    let _ = socket.send(&OPENING_REPLIES[0]);
                }
                continue;
            };
            self.stream.tally.arrived(bytes, header, now_ns(), self.is_wide);
            return Ok(Moved::one(bytes));
        }
    }
}

impl Flow for StreamFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let Stream { socket, tally } = &*self.stream;
        let bytes = match socket {
            StreamSocket::Tcp(socket) => (&mut &*socket).write(payload)?,
            StreamSocket::Udp(socket) => {
                let counter = tally.blocks() + 1;
                Header { sent_us: now_ns() / 1_000, counter }.emit(payload, self.is_wide);
                socket.send(payload).map_err(passing)?
            }
        };
        tally.sent(bytes);
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        let mut socket = match &self.stream.socket {
            StreamSocket::Tcp(socket) => socket,
            StreamSocket::Udp(socket) => return self.receive_datagram(socket, buffer),
        };
        match socket.read(buffer) {
            Ok(0) => Ok(Moved::default()),
            Ok(bytes) => {
                self.stream.tally.received(bytes, now_ns());
                Ok(Moved::one(bytes))
            }
            // A server of 3.12 closes its streams with what it has not read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Moved::default()),
            Err(error) => Err(error),
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(ioctl_fionread(&self.stream.socket)?)
    }

    fn send_message(&mut self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive_message(&mut self, _: &mut [u8]) -> io::Result<Message> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The control connection tells the end.
    fn has_end(&self) -> bool {
        false
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.socket.as_fd())
    }
}
