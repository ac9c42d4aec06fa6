//! Rsockets of librdmacm: byte streams with the calls of sockets (rsocket(7)).

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

/// The error if librdmacm cannot be loaded.
pub(crate) fn missing(reason: &str) -> io::Error {
    let message = format!(
        "RDMA unavailable: librdmacm cannot be loaded ({reason}): install it (Debian, Ubuntu: apt-get install \
         librdmacm1)"
    );
    io::Error::new(io::ErrorKind::NotFound, message)
}

/// What [`Rsocket::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Data, a connection, or the end.
    Arrival,
    /// Room to send.
    Room,
}

/// Longest block of a wait.
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
    /// Listens at a free port of an address, which is also returned.
    pub fn listen(at: SocketAddr) -> io::Result<(Self, u16)> {
        let socket = Self::new(at.is_ipv6())?;
        socket.bind(&SockAddr::from(at))?;
        socket.begin_listen()?;
        let port = socket.name()?.as_socket().map(|at| at.port());
        let port = port.ok_or_else(|| io::Error::other("an rsocket has no port"))?;
        Ok((socket, port))
    }

    /// Starts to connect to a listener, from an address of this machine. [`Self::wait`] for room reports when that is
    /// complete, and [`Self::error`] with which result.
    pub fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = Self::new(to.is_ipv6())?;
        socket.bind(&SockAddr::from(from))?;
        socket.begin_connect(&SockAddr::from(to))?;
        Ok(socket)
    }

    /// Waits for at most 0.1 s, or until `beside` is readable; returns whether the rsocket is ready.
    pub fn wait(&self, waiting: Waiting, beside: BorrowedFd<'_>) -> io::Result<bool> {
        let can_go_on = self.can_go_on(waiting, beside)?;
        if !can_go_on {
            // Neither the number of expirations nor an error matters.
            let _ = rustix::io::read(&self.timer, &mut [0_u8; size_of::<u64>()]);
        }
        Ok(can_go_on)
    }

    /// Leaves the rsocket open until the program ends: closing it would block while it is stalled.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}
