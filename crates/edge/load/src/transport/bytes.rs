//! Transports that carry a byte stream in both directions: TCP, MPTCP, SCTP, Unix-domain sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use fabricmark_proto::ZeroCopySends;
use fabricmark_record::KernelTimes;

use super::{Flow, Message, Moved};
use crate::sockets;

/// A connection that carries a byte stream.
pub trait ByteStream: Read + Write + AsFd {
    /// As [`Read::read`]; a socket does it without the C library ([`sockets::receive`]).
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }

    /// As [`Write::write`]; a socket does it without the C library ([`sockets::send`]).
    fn send(&mut self, payload: &[u8]) -> io::Result<usize> {
        self.write(payload)
    }

    /// Bytes that have arrived and were not read yet.
    fn waiting_bytes(&self) -> io::Result<u64>;

    /// Shuts down this direction of the connection.
    fn finish(&mut self) -> io::Result<()>;

    /// As [`Self::finish`]; fails with a timeout instead of waiting for room, and is then to be called again.
    fn try_finish(&mut self) -> io::Result<()> {
        self.finish()
    }

    /// As [`Flow::tcp`].
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    /// As [`Flow::is_lingering`].
    fn is_lingering(&mut self) -> bool {
        false
    }

    /// Serves a finished connection while [`Self::is_lingering`].
    fn linger(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// As [`Flow::ready_fd`].
    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// As [`Flow::due`].
    fn due(&mut self) -> Option<Instant> {
        None
    }

    /// As [`Flow::tend`].
    fn tend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// As [`Flow::zero_copy`].
    fn zero_copy(&self) -> Option<ZeroCopySends> {
        None
    }

    /// As [`Flow::take_kernel_times`].
    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        None
    }
}

impl ByteStream for TcpStream {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        sockets::receive(self, buffer)
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<usize> {
        sockets::send(self, payload)
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(self)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl ByteStream for UnixStream {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        sockets::receive(self, buffer)
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<usize> {
        sockets::send(self, payload)
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(self)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// How a TCP connection reads and writes: by plain calls, unless a method is overridden.
pub trait TcpPath {
    /// As [`Read::read`].
    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        sockets::receive(stream, buffer)
    }

    /// As [`Write::write`].
    fn write(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        sockets::send(stream, payload)
    }

    /// Completes pending writes before the connection ends.
    fn complete(&mut self, _: &TcpStream) -> io::Result<()> {
        Ok(())
    }

    /// As [`Flow::zero_copy`].
    fn zero_copy(&self) -> Option<ZeroCopySends> {
        None
    }

    /// As [`Flow::take_kernel_times`].
    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        None
    }
}

/// A TCP connection with a path of its own.
#[derive(Debug)]
pub struct PathStream<P> {
    pub(crate) stream: TcpStream,
    pub(crate) path: P,
}

impl<P: TcpPath> Read for PathStream<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.path.read(&self.stream, buffer)
    }
}

impl<P: TcpPath> Write for PathStream<P> {
    fn write(&mut self, payload: &[u8]) -> io::Result<usize> {
        self.path.write(&self.stream, payload)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P> AsFd for PathStream<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl<P: TcpPath> ByteStream for PathStream<P> {
    fn waiting_bytes(&self) -> io::Result<u64> {
        self.stream.waiting_bytes()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.path.complete(&self.stream)?;
        self.stream.finish()
    }

    fn tcp(&self) -> Option<&TcpStream> {
        Some(&self.stream)
    }

    fn zero_copy(&self) -> Option<ZeroCopySends> {
        self.path.zero_copy()
    }

    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        self.path.take_kernel_times()
    }
}

/// A flow over an open connection, in a pair of cache lines of its own: each call writes to it, and another load thread
/// may carry the flow beside it (false sharing).
#[derive(Debug)]
#[repr(align(128))]
pub struct ByteFlow<S> {
    stream: S,
    /// Bytes of the current payload that are written.
    written: usize,
    /// Bytes of the current message that are read.
    read: usize,
}

impl<S: ByteStream> ByteFlow<S> {
    /// A flow over a connection that has already opened it.
    pub fn new(stream: S) -> Self {
        Self { stream, written: 0, read: 0 }
    }

    /// The connection below the flow.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Bytes of messages that are written or read in part.
    pub(crate) fn moved_bytes(&self) -> usize {
        self.written + self.read
    }
}

impl<S: ByteStream> Flow for ByteFlow<S> {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let bytes = self.stream.send(&payload[self.written..])?;
        self.written += bytes;
        if self.written == payload.len() {
            self.written = 0;
        }
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        match self.stream.receive(buffer)? {
            0 => Ok(Moved::default()),
            bytes => Ok(Moved::one(bytes)),
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        self.stream.waiting_bytes()
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        while self.written < message.len() {
            self.written += self.stream.send(&message[self.written..])?;
        }
        self.written = 0;
        Ok(())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        while self.read < buffer.len() {
            match self.stream.receive(&mut buffer[self.read..])? {
                0 if self.read == 0 => return Ok(Message::End),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.read += bytes,
            }
        }
        self.read = 0;
        Ok(Message::Next)
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.stream.finish() {
            // The other end may have closed first.
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        }
    }

    fn is_lingering(&mut self) -> bool {
        self.stream.is_lingering()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn tcp(&self) -> Option<&TcpStream> {
        self.stream.tcp()
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.ready_fd()
    }

    fn due(&mut self) -> Option<Instant> {
        self.stream.due()
    }

    fn tend(&mut self) -> io::Result<()> {
        self.stream.tend()
    }

    fn zero_copy(&self) -> Option<ZeroCopySends> {
        self.stream.zero_copy()
    }

    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        self.stream.take_kernel_times()
    }
}
