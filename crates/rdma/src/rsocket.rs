//! Rsockets: sockets of librdmacm, streams of bytes whose calls look like those of TCP (rsocket(7)).

#[expect(unsafe_code, reason = "librdmacm is a C library")]
mod sys;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use socket2::SockAddr;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Bytes, a connection, or the end.
    Arrival,
    /// Room for bytes.
    Room,
}

/// A stream of bytes over RDMA, or what accepts these.
#[derive(Debug)]
pub struct Rsocket {
    inner: sys::Inner,
}

impl Rsocket {
    /// One that listens at a free port of an address.
    pub fn listen(at: SocketAddr) -> io::Result<(Self, u16)> {
        let inner = sys::Inner::new(at.is_ipv6())?;
        inner.bind(&SockAddr::from(at))?;
        inner.listen()?;
        let port = inner.name()?.as_socket().map(|at| at.port());
        let port = port.ok_or_else(|| io::Error::other("an rsocket has no port"))?;
        Ok((Self { inner }, port))
    }

    /// One that is connected with what listens there, from an address of this machine.
    pub fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let inner = sys::Inner::new(to.is_ipv6())?;
        inner.bind(&SockAddr::from(from))?;
        inner.connect(&SockAddr::from(to))?;
        Ok(Self { inner })
    }

    /// The next connection; waits for it unless [`Self::wait`] has told of one.
    pub fn accept(&self) -> io::Result<Self> {
        self.inner.accept().map(|inner| Self { inner })
    }

    /// Sends what there is room for now.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.send(bytes)
    }

    /// Receives what has arrived; 0 where the other end is gone.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.inner.receive(bytes)
    }

    /// Waits for something, or for something to read at a descriptor; whether the first came in time.
    pub fn wait(
        &self,
        waiting: Waiting,
        beside: BorrowedFd<'_>,
        within: Duration,
    ) -> io::Result<bool> {
        self.inner.wait(waiting, beside, within)
    }

    /// Leaves it open until the program ends: one that stands still would not close.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}
