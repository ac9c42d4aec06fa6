//! Rsockets: sockets of librdmacm, streams of bytes whose calls look like those of TCP (rsocket(7)).

#[expect(unsafe_code, reason = "librdmacm is a C library")]
mod sys;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use socket2::SockAddr;

pub use sys::Rsocket;

/// The error of what librdmacm is needed for.
pub(crate) fn missing(reason: &str) -> io::Error {
    let message = format!(
        "RDMA unavailable: librdmacm cannot be loaded ({reason}): install it (Debian, Ubuntu: apt-get install \
         librdmacm1)"
    );
    io::Error::new(io::ErrorKind::NotFound, message)
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Bytes, a connection, or the end.
    Arrival,
    /// Room for bytes.
    Room,
}

/// Whoever waits comes back as often.
const LOOK_EVERY_MS: u32 = 100;

fn timer() -> io::Result<OwnedFd> {
    let every = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY_MS) * 1_000_000 };
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let setting = Itimerspec { it_interval: every, it_value: every };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(timer)
}

impl Rsocket {
    /// One that listens at a free port of an address.
    pub fn listen(at: SocketAddr) -> io::Result<(Self, u16)> {
        let socket = Self::new(at.is_ipv6())?;
        socket.bind(&SockAddr::from(at))?;
        socket.begin_listen()?;
        let port = socket.name()?.as_socket().map(|at| at.port());
        let port = port.ok_or_else(|| io::Error::other("an rsocket has no port"))?;
        Ok((socket, port))
    }

    /// One that connects with what listens there, from an address of this machine: [`Self::wait`] for room tells when
    /// that is over, and [`Self::error`] how.
    pub fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = Self::new(to.is_ipv6())?;
        socket.bind(&SockAddr::from(from))?;
        socket.begin_connect(&SockAddr::from(to))?;
        Ok(socket)
    }

    /// Waits for something, or for something to read at a descriptor, at most 0.1 s; whether the first came.
    pub fn wait(&self, waiting: Waiting, beside: BorrowedFd<'_>) -> io::Result<bool> {
        let can_go_on = self.can_go_on(waiting, beside)?;
        if !can_go_on {
            // How often it has come meanwhile does not matter, nor that it has not.
            let _ = rustix::io::read(&self.timer, &mut [0_u8; size_of::<u64>()]);
        }
        Ok(can_go_on)
    }

    /// Leaves it open until the program ends: one that stands still would not close.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}
