//! The TCP window, if a point sets its size.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use fabricmark_proto::Failure;
use fabricmark_units::Bytes;
use libc::c_int;
use socket2::Socket;

use crate::failure::system;
use crate::sockets;
use crate::transport::bytes::TcpPath;
use fabricmark_telemetry::sys;

/// Limit of unsent bytes in the send buffer (TCP_NOTSENT_LOWAT): 1.6 ms of 20 Gbit/s. The kernel grants twice the
/// buffer that is asked for, and a sender that filled it would hold twice the window in memory. All TCP sockets
/// together may hold net.ipv4.tcp_mem; beyond that the kernel resets connections.
const UNSENT_BYTES: u32 = 4 << 20;

/// Sets buffers that hold a window, at whichever end needs them. Without CAP_NET_ADMIN in the initial user namespace
/// (SO_RCVBUFFORCE, socket(7)), the buffers are left to the kernel's autotuning, which may grow as large in a lab.
pub(crate) fn set(socket: &Socket, bytes: Bytes) -> Result<(), Failure> {
    for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        match sys::set(socket.as_fd(), libc::SOL_SOCKET, option, at_most(bytes)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => result.map_err(system("set a window"))?,
        }
    }
    socket.set_tcp_notsent_lowat(UNSENT_BYTES).map_err(system("set TCP_NOTSENT_LOWAT"))
}

/// A number of bytes as a socket option.
pub(crate) fn at_most(Bytes(bytes): Bytes) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

/// Reads after which the kernel has seen the largest segments of the connection. With the first segment of a new
/// length it recomputes how much of its buffer is window (tcp_measure_rcv_mss, net/ipv4/tcp_input.c), and forgets the
/// clamp.
const SETTLING_READS: u32 = 64;

/// Clamps the advertised window to the requested size: its buffer may hold nearly twice as much when segments are
/// large.
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
    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = sockets::receive(stream, buffer)?;
        if self.reads < SETTLING_READS {
            self.reads += 1;
            let level = libc::IPPROTO_TCP;
            sys::set(stream.as_fd(), level, libc::TCP_WINDOW_CLAMP, self.window_bytes)?;
        }
        Ok(bytes)
    }
}
