//! What moves a payload. A new transport is one file and works with every pattern.

pub mod bytes;
pub mod null;
pub mod quic;
pub mod rsocket;
pub(crate) mod security;
pub mod seqpacket;
pub mod stamped;
pub mod tls;
pub mod udp;
pub mod verbs;

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fabricmark_record::KernelTimes;

/// Requests of RDMA, or bytes of an rsocket, of which none moved for so long stand still: a receiver that is not
/// ready is waited for as long as it takes, and an adapter that has lost its network may never say so.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(5);

/// What one call moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Payloads: writes, reads or datagrams.
    pub payloads: u64,
    /// Application bytes.
    pub bytes: u64,
}

impl Moved {
    /// One payload of so many bytes.
    pub fn one(bytes: usize) -> Self {
        Self { payloads: 1, bytes: bytes as u64 }
    }
}

/// A message that has arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The one after the last: the transport keeps the order.
    Next,
    /// The one of this number.
    Numbered(u64),
    /// None: the other end of a reliable transport has finished.
    End,
}

/// One end of an open flow.
///
/// A call that has nothing to do gives [`io::ErrorKind::WouldBlock`] at once where sockets do not
/// block, and [`io::ErrorKind::Interrupted`] when its thread is interrupted where they do. Nothing is lost
/// by that: the next call with the same arguments goes on where this one stopped.
pub trait Flow {
    /// Hands one payload, or several of its length, to the transport in one call.
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved>;

    /// Takes what has arrived; nothing at the end of a reliable flow.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved>;

    /// The most bytes that may have arrived and not been received yet; 0 if none have, or nobody knows.
    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    /// Sends a whole message, and its number where the transport does not keep the order.
    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()>;

    /// Receives a whole message, which fills the buffer.
    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message>;

    /// Takes note that the message received last is one that was waited for: no copy, and not too late.
    fn answered(&mut self) {}

    /// Whether the transport tells the receiver that nothing more follows.
    fn has_end(&self) -> bool {
        true
    }

    /// Tells the other end that nothing more follows, where the transport can; waits for nobody.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether a flow that is finished is to be served until the other end has everything: a transport in this
    /// process sends again what is lost only while somebody does.
    fn is_lingering(&mut self) -> bool {
        false
    }

    /// The flow's socket, which tells by itself when it can be read or written, unless there is
    /// [`Self::ready_fd`].
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The socket of TCP below the flow, where that has one.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    /// A descriptor that is readable when something has happened to the flow, whether it is to send or
    /// to receive; nothing where the socket itself is to be waited for.
    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When the flow is to be served at the latest, though no descriptor tells: the past where it can
    /// go on at once.
    fn due(&mut self) -> Option<Instant> {
        None
    }

    /// Serves a flow by which nobody sends or receives now.
    fn tend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Stops sending; gives what was sent since [`Self::send`] last said.
    fn settle(&mut self) -> io::Result<Moved> {
        Ok(Moved::default())
    }

    /// Its round trips, parted by the stamps of their packets, where it was made to ask for these.
    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        None
    }
}

/// What a flow that wraps another in `self.flow` passes on as it is, in one list: a call that is left out
/// would be answered by the default of [`Flow`].
macro_rules! passes_on {
    () => {
        fn waiting_bytes(&mut self) -> std::io::Result<u64> {
            self.flow.waiting_bytes()
        }

        fn receive_message(&mut self, buffer: &mut [u8]) -> std::io::Result<Message> {
            self.flow.receive_message(buffer)
        }

        fn has_end(&self) -> bool {
            self.flow.has_end()
        }

        fn finish(&mut self) -> std::io::Result<()> {
            self.flow.finish()
        }

        fn is_lingering(&mut self) -> bool {
            self.flow.is_lingering()
        }

        fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.flow.fd()
        }

        fn tcp(&self) -> Option<&std::net::TcpStream> {
            self.flow.tcp()
        }

        fn ready_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.flow.ready_fd()
        }

        fn due(&mut self) -> Option<std::time::Instant> {
            self.flow.due()
        }

        fn tend(&mut self) -> std::io::Result<()> {
            self.flow.tend()
        }

        fn take_kernel_times(&mut self) -> Option<fabricmark_record::KernelTimes> {
            self.flow.take_kernel_times()
        }
    };
}
pub(crate) use passes_on;

/// Whether an error only says that nothing has come yet: in no time, within a time-out, or before the
/// thread was interrupted.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
