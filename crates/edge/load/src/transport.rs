//! Transports: what moves a payload. A new transport is one file and works with every pattern.

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

use fabricmark_proto::ZeroCopySends;
use fabricmark_record::KernelTimes;
use fabricmark_telemetry::gauge::Reception;

/// Time without progress after which RDMA requests, or the bytes of an rsocket, count as stalled. A receiver that is
/// not ready is retried indefinitely, and an adapter that has lost its network may never report it.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(5);

/// What one call moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Writes, reads or datagrams.
    pub payloads: u64,
    /// Application bytes.
    pub bytes: u64,
}

impl Moved {
    /// One payload of `bytes` bytes.
    pub fn one(bytes: usize) -> Self {
        Self { payloads: 1, bytes: bytes as u64 }
    }
}

/// Result of receiving a whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The next message: the transport keeps the order.
    Next,
    /// The message with this number.
    Numbered(u64),
    /// No message: the other end of a reliable transport has finished.
    End,
}

/// One end of an open flow.
///
/// If there is nothing to do, a call returns [`io::ErrorKind::WouldBlock`] at once on sockets that do not block, and
/// [`io::ErrorKind::Interrupted`] when its thread is interrupted on sockets that do. Nothing is lost: the next call
/// with the same arguments continues where this one stopped.
pub trait Flow {
    /// Passes one payload, or several of its length, to the transport in one call.
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved>;

    /// As [`Self::send`], of at most `most` payloads.
    fn send_most(&mut self, payload: &mut [u8], most: u64) -> io::Result<Moved> {
        let _ = most;
        self.send(payload)
    }

    /// Receives what has arrived; zero bytes at the end of a reliable flow.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved>;

    /// Bytes that have arrived and were not received yet; `None` if the transport does not know them exactly, and for TCP,
    /// whose socket tells ([`crate::tcp::unread`]).
    fn arrived_bytes(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Upper bound of the bytes that have arrived and were not received yet; 0 if there are none, or if unknown.
    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(self.arrived_bytes()?.unwrap_or(0))
    }

    /// Sends a whole message, with its number if the transport does not keep the order.
    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()>;

    /// Receives a whole message, which fills the buffer.
    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message>;

    /// Confirms that the last received message was expected: not a duplicate, and not too late.
    fn answered(&mut self) {}

    /// Whether the transport signals the end of the flow to the receiver.
    fn has_end(&self) -> bool {
        true
    }

    /// Signals the end of the flow to the other end, if the transport can. Does not block.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether a finished flow must be served until the other end has received everything: a transport in user space
    /// retransmits only while it is served.
    fn is_lingering(&mut self) -> bool {
        false
    }

    /// The socket of the flow, which is polled for readiness unless there is a [`Self::ready_fd`].
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The TCP socket below the flow, if there is one.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    /// A descriptor that becomes readable when the flow can continue, sending or receiving. `None`: poll the socket
    /// itself.
    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Time by which the flow must be served without an event; in the past if it can continue at once.
    fn due(&mut self) -> Option<Instant> {
        None
    }

    /// Serves a flow that is neither sending nor receiving at the moment.
    fn tend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Tells the other end that nothing more is sent, if it has to stop by itself. Does not wait for it.
    fn stop(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Stops sending; returns what was sent and not yet reported by [`Self::send`].
    fn settle(&mut self) -> io::Result<Moved> {
        Ok(Moved::default())
    }

    /// What the sequence numbers of received datagrams say; `None` if they have none.
    fn reception(&self) -> Option<Reception> {
        None
    }

    /// Zero-copy sends that have completed; `None` if the path has none.
    fn zero_copy(&self) -> Option<ZeroCopySends> {
        None
    }

    /// RTTs split by packet timestamps, if the flow was opened with these.
    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        None
    }
}

/// Forwards the methods that a wrapper leaves unchanged to `self.flow`. One list for all wrappers: for a method that
/// is left out, the default of [`Flow`] would apply.
macro_rules! passes_on {
    () => {
        fn arrived_bytes(&mut self) -> std::io::Result<Option<u64>> {
            self.flow.arrived_bytes()
        }

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

        fn stop(&mut self) -> std::io::Result<()> {
            self.flow.stop()
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

        fn reception(&self) -> Option<fabricmark_telemetry::gauge::Reception> {
            self.flow.reception()
        }

        fn zero_copy(&self) -> Option<fabricmark_proto::ZeroCopySends> {
            self.flow.zero_copy()
        }

        fn take_kernel_times(&mut self) -> Option<fabricmark_record::KernelTimes> {
            self.flow.take_kernel_times()
        }
    };
}
pub(crate) use passes_on;

/// A flow of any kind, by virtual calls, on the thread that carries it. The patterns are compiled once for all flows
/// that are used through it, and once more for each other kind of flow, which takes a second of the release build.
pub(crate) struct AnyFlow<'a> {
    flow: &'a mut (dyn Flow + Send),
}

impl<'a> AnyFlow<'a> {
    pub(crate) fn of<F: Flow + Send>(flows: &'a mut [F]) -> Vec<Self> {
        flows.iter_mut().map(|flow| Self { flow }).collect()
    }
}

impl Flow for AnyFlow<'_> {
    passes_on!();

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.send_most(payload, u64::MAX)
    }

    fn send_most(&mut self, payload: &mut [u8], most: u64) -> io::Result<Moved> {
        self.flow.send_most(payload, most)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        self.flow.receive(buffer)
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.flow.send_message(message, number)
    }

    fn answered(&mut self) {
        self.flow.answered();
    }

    fn settle(&mut self) -> io::Result<Moved> {
        self.flow.settle()
    }
}

/// Whether an error only means that nothing has arrived yet: would block, timed out or interrupted.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The result of a call; `None` if it failed by [`is_timeout`].
pub(crate) fn if_ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if is_timeout(&error) => Ok(None),
        result => result.map(Some),
    }
}
