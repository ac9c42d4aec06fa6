//! Streams as flows of the data plane, which count what they move in a [`Tally`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fabricmark_load::transport::{Flow, Message, Moved};
use fabricmark_proto::iperf3::{Header, OPENING, OPENING_REPLIES};
use fabricmark_telemetry::clock::now_ns;
use rustix::io::ioctl_fionread;
use rustix::net::{RecvFlags, recv};

use super::tally::Tally;

/// What is the same in both kinds of flow: no messages, and no end, which the control connection tells.
macro_rules! stream_only {
    () => {
        fn waiting_bytes(&mut self) -> io::Result<u64> {
            Ok(ioctl_fionread(&*self.socket)?)
        }

        fn send_message(&mut self, _: &mut [u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn receive_message(&mut self, _: &mut [u8]) -> io::Result<Message> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn has_end(&self) -> bool {
            false
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.socket.as_fd())
        }
    };
}

/// A TCP stream.
#[derive(Debug)]
pub(super) struct TcpFlow {
    pub socket: Arc<TcpStream>,
    pub tally: Arc<Tally>,
}

impl Flow for TcpFlow {
    stream_only!();

    fn tcp(&self) -> Option<&TcpStream> {
        Some(&self.socket)
    }

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let bytes = (&*self.socket).write(payload)?;
        self.tally.sent(bytes);
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        match (&*self.socket).read(buffer) {
            Ok(0) => Ok(Moved::default()),
            Ok(bytes) => {
                self.tally.received(bytes, now_ns());
                Ok(Moved::one(bytes))
            }
            // A server of 3.12 closes its streams with what it has not read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Moved::default()),
            Err(error) => Err(error),
        }
    }
}

/// A UDP stream.
#[derive(Debug)]
pub(super) struct UdpFlow {
    pub socket: Arc<UdpSocket>,
    pub tally: Arc<Tally>,
    pub is_wide: bool,
    /// Whether the other end opens the stream, and may have missed the answer.
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

impl Flow for UdpFlow {
    stream_only!();

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let counter = self.tally.blocks() + 1;
        Header { sent_us: now_ns() / 1_000, counter }.emit(payload, self.is_wide);
        let bytes = self.socket.send(payload).map_err(passing)?;
        self.tally.sent(bytes);
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        loop {
            // The length is the true one, also of a datagram that does not fit.
            let (kept, bytes) = recv(&*self.socket, &mut *buffer, RecvFlags::TRUNC)
                .map_err(|errno| passing(errno.into()))?;
            let Some(header) = Header::parse(&buffer[..kept], self.is_wide) else {
                if self.answers && buffer[..kept] == OPENING {
                    // Whoever still waits for it asks again.
                    let _ = self.socket.send(&OPENING_REPLIES[0]);
                }
                continue;
            };
            self.tally.arrived(bytes, header, now_ns(), self.is_wide);
            return Ok(Moved::one(bytes));
        }
    }
}
