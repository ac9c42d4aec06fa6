//! TCP's window, where a point says how large it is.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;

use fabricmark_proto::Failure;
use fabricmark_units::Bytes;
use libc::c_int;
use socket2::Socket;

use crate::failure::system;
use crate::transport::bytes::TcpPath;
use fabricmark_telemetry::sys;

/// Bytes that may wait behind a full window: 1.6 ms of 20 Gbit/s. The kernel grants twice the buffer that is
/// asked for, and a sender that filled it would have twice the window in memory, of which all TCP sockets
/// together may have net.ipv4.tcp_mem: beyond that the kernel resets connections.
const UNSENT_BYTES: u32 = 4 << 20;

/// Gives TCP room for a window, at whichever end has to hold it. Where the kernel's limit of buffers may
/// not be passed (SO_RCVBUFFORCE needs CAP_NET_ADMIN in the first user namespace, socket(7)), the buffers
/// are left to its own tuning, which in a lab may take as much.
pub(crate) fn set(socket: &Socket, bytes: Bytes) -> Result<(), Failure> {
    for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        match sys::set(socket.as_fd(), libc::SOL_SOCKET, option, at_most(bytes)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => result.map_err(system("set a window"))?,
        }
    }
    socket.set_tcp_notsent_lowat(UNSENT_BYTES).map_err(system("set TCP_NOTSENT_LOWAT"))
}

/// A number of bytes as an option of a socket.
pub(crate) fn at_most(Bytes(bytes): Bytes) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

/// Reads after which the kernel has seen the connection's largest segments. With the first of a length it finds
/// anew how much of its buffer is window (tcp_measure_rcv_mss, net/ipv4/tcp_input.c), and forgets what was said.
const SETTLING_READS: u32 = 64;

/// Offers no larger window than asked for: the buffer that holds it may hold nearly twice as much when
/// segments are large.
#[derive(Debug)]
pub(crate) struct Windowed {
    window_bytes: c_int,
    reads: u32,
}

impl Windowed {
    pub(crate) fn new(window: Bytes) -> Self {
        Self { window_bytes: at_most(window), reads: 0 }
    }
}

impl TcpPath for Windowed {
    fn read(&mut self, mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = stream.read(buffer)?;
        if self.reads < SETTLING_READS {
            self.reads += 1;
            let level = libc::IPPROTO_TCP;
            sys::set(stream.as_fd(), level, libc::TCP_WINDOW_CLAMP, self.window_bytes)?;
        }
        Ok(bytes)
    }
}
