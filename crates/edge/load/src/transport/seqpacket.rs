//! Unix-domain sockets that keep message boundaries (unix(7), SOCK_SEQPACKET).

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fabricmark_proto::Prepare;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ServerConfig;
use socket2::SockRef;

use super::bytes::ByteStream;
use crate::opening::Connection;

/// A connected socket: each write sends a message, and each read receives one.
#[derive(Debug)]
pub struct Seqpacket(OwnedFd);

impl Read for Seqpacket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len();
        // MSG_TRUNC: the length is the true one, also of a message that does not fit.
        let (_, bytes) = recv(&self.0, buffer, RecvFlags::TRUNC)?;
        if bytes > room {
            let error = format!("received a message of {bytes} bytes, expected {room}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(bytes)
    }
}

impl Write for Seqpacket {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, message, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Seqpacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ByteStream for Seqpacket {
    fn waiting_bytes(&self) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(self)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        SockRef::from(&*self).shutdown(Shutdown::Write)
    }
}

impl Connection for Seqpacket {
    fn of(socket: OwnedFd, _: Option<&Arc<ServerConfig>>, _: &Prepare) -> io::Result<Self> {
        Ok(Self(socket))
    }
}
