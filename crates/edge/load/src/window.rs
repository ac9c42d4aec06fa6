//! TCP's window, where a point says how large it is.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use fabricmark_proto::Failure;
use fabricmark_units::Bytes;
use socket2::Socket;

use crate::failure::system;
use crate::sys::{self, Direction};
use crate::transport::bytes::ByteStream;

/// Bytes that may wait behind a full window: 1.6 ms of 20 Gbit/s. The kernel grants twice the buffer that is
/// asked for, and a sender that filled it would have twice the window in memory, of which all TCP sockets
/// together may have net.ipv4.tcp_mem: beyond that the kernel resets connections.
const UNSENT_BYTES: libc::c_int = 4 << 20;

/// Gives TCP room for a window, at whichever end has to hold it. Where the kernel's limit of buffers may
/// not be passed (SO_RCVBUFFORCE needs CAP_NET_ADMIN in the first user namespace, socket(7)), the buffers
/// are left to its own tuning, which in a lab may take as much.
pub(crate) fn set(socket: &Socket, Bytes(bytes): Bytes) -> Result<(), Failure> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    for direction in [Direction::Receive, Direction::Send] {
        match sys::force_buffer(socket.as_fd(), direction, bytes) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => result.map_err(system("set a window"))?,
        }
    }
    sys::set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        .map_err(system("set TCP_NOTSENT_LOWAT"))
}

/// Reads after which the kernel has seen the connection's largest segments. With the first of a length it finds
/// anew how much of its buffer is window (tcp_measure_rcv_mss, net/ipv4/tcp_input.c), and forgets what was said.
const SETTLING_READS: u32 = 64;

/// A connection whose receiver offers no larger window than asked for: the buffer that holds it may
/// hold nearly twice as much when segments are large.
#[derive(Debug)]
pub struct Windowed {
    stream: TcpStream,
    window_bytes: libc::c_int,
    reads: u32,
}

impl Windowed {
    /// A connection with a window.
    pub fn new(stream: TcpStream, Bytes(bytes): Bytes) -> Self {
        let window_bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        Self { stream, window_bytes, reads: 0 }
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl Read for Windowed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.stream.read(buffer)?;
        if self.reads < SETTLING_READS {
            self.reads += 1;
            let level = libc::IPPROTO_TCP;
            sys::set(self.stream.as_fd(), level, libc::TCP_WINDOW_CLAMP, self.window_bytes)?;
        }
        Ok(bytes)
    }
}

impl io::Write for Windowed {
    fn write(&mut self, payload: &[u8]) -> io::Result<usize> {
        self.stream.write(payload)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Windowed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl ByteStream for Windowed {
    fn waiting_bytes(&self) -> io::Result<u64> {
        self.stream.waiting_bytes()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.finish()
    }
}
