//! Streams as flows of the data plane. Their counters can be read by the thread of the control connection.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabricmark_load::transport::{Flow, Message, Moved};
use fabricmark_proto::iperf3::{Arrivals, Header, OPENING, OPENING_REPLIES, StreamResults};
use fabricmark_proto::{SequenceCounts, SequenceTracker};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Reception;
use fabricmark_telemetry::tcp_info;
use rustix::io::ioctl_fionread;
use rustix::net::{RecvFlags, recv};

#[derive(Debug)]
pub(super) enum StreamSocket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl StreamSocket {
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Udp(_) => None,
        }
    }
}

impl AsFd for StreamSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    pub socket: StreamSocket,
    pub tally: Tally,
}

impl Stream {
    /// Retransmitted segments; `None` for UDP.
    pub fn retransmits(&self) -> Option<u64> {
        tcp_info::sample(self.socket.tcp()?.as_fd()).ok()?.retransmitted_segments
    }
}

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct StreamFlow {
    pub stream: Arc<Stream>,
    /// Whether the counters of datagrams have 64 bits.
    pub is_wide: bool,
    /// Whether the peer opens UDP streams, and may have missed the reply.
    pub answers: bool,
}

/// Most datagrams without a header that are received in a row before the receiver checks whether the test has ended. An
/// arbitrary choice.
const STRAY_MAX: usize = 64;

/// Maps transient errors of a datagram socket to `WouldBlock`: no one listens at the peer's port (yet), or there is
/// no buffer space.
fn passing(error: io::Error) -> io::Error {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOBUFS) => {
            io::ErrorKind::WouldBlock.into()
        }
        _ => error,
    }
}

impl StreamFlow {
    fn receive_datagram(&self, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Moved> {
        for _ in 0..STRAY_MAX {
            // MSG_TRUNC returns the real length of a datagram that is longer than the buffer.
            let (kept, bytes) = recv(socket, &mut *buffer, RecvFlags::TRUNC)
                .map_err(|errno| passing(errno.into()))?;
            let Some(header) = Header::parse(&buffer[..kept], self.is_wide) else {
                if self.answers && buffer[..kept] == OPENING {
                    // A client that missed the reply sends its opening datagram again.
                    let _ = socket.send(&OPENING_REPLIES[0]);
                }
                continue;
            };
            self.stream.tally.arrived(bytes, header, now_ns(), self.is_wide);
            return Ok(Moved::one(bytes));
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Flow for StreamFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let Stream { socket, tally } = &*self.stream;
        let bytes = match socket {
            StreamSocket::Tcp(socket) => (&mut &*socket).write(payload)?,
            StreamSocket::Udp(socket) => {
                let counter = tally.blocks() + 1;
                Header { sent_us: now_ns() / 1_000, counter }.emit(payload, self.is_wide);
                socket.send(payload).map_err(passing)?
            }
        };
        tally.sent(bytes);
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        let mut socket = match &self.stream.socket {
            StreamSocket::Tcp(socket) => socket,
            StreamSocket::Udp(socket) => return self.receive_datagram(socket, buffer),
        };
        match socket.read(buffer) {
            Ok(0) => Ok(Moved::default()),
            Ok(bytes) => {
                self.stream.tally.received(bytes, now_ns());
                Ok(Moved::one(bytes))
            }
            // A server of 3.12 closes its streams with unread data, which resets the connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Moved::default()),
            Err(error) => Err(error),
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(ioctl_fionread(&self.stream.socket)?)
    }

    fn send_message(&mut self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive_message(&mut self, _: &mut [u8]) -> io::Result<Message> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn reception(&self) -> Option<Reception> {
        let StreamSocket::Udp(_) = self.stream.socket else { return None };
        let Arrivals { errors, jitter, .. } = self.stream.tally.judged().arrivals;
        let lost = errors.try_into().unwrap_or(i64::MAX);
        Some(Reception { lost, jitter_ns: jitter.settled_ns() })
    }

    /// The end is signalled on the control connection.
    fn has_end(&self) -> bool {
        false
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tcp(&self) -> Option<&TcpStream> {
        self.stream.socket.tcp()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.socket.as_fd())
    }
}

/// The counters of a stream.
#[derive(Debug, Default)]
pub(super) struct Tally {
    bytes: AtomicU64,
    blocks: AtomicU64,
    /// Time of the last arrival.
    last_ns: AtomicU64,
    /// Locked only by the receiver until the test ends.
    judged: Mutex<Judged>,
}

/// Statistics from the counters in datagrams.
#[derive(Debug, Default)]
struct Judged {
    arrivals: Arrivals,
    /// Distinguishes duplicates from late datagrams, which iperf3's own algorithm does not.
    sequence: Option<SequenceTracker>,
}

/// Values of the counters at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    pub bytes: u64,
    pub blocks: u64,
    pub arrivals: Arrivals,
}

impl Tally {
    /// Counts a write or a sent datagram.
    pub fn sent(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.blocks.fetch_add(1, Relaxed);
    }

    /// Counts a read or a received datagram.
    pub fn received(&self, bytes: usize, now_ns: u64) {
        self.sent(bytes);
        self.last_ns.store(now_ns, Relaxed);
    }

    /// Counts a received datagram and its sequence number.
    pub fn arrived(&self, bytes: usize, header: Header, now_ns: u64, is_wide: bool) {
        self.received(bytes, now_ns);
        let mut judged = self.judged();
        judged.arrivals.arrive(header, now_ns / 1_000, is_wide);
        if let Some(sequence) = &mut judged.sequence {
            sequence.arrive(header.counter.wrapping_sub(1));
        }
    }

    /// Enables the detection of duplicate and reordered datagrams; needs 16 KiB.
    pub fn track(&self, is_wide: bool) {
        self.judged().sequence = Some(SequenceTracker::new(if is_wide { 64 } else { 32 }));
    }

    /// `None` unless [`Tally::track`] was called.
    pub fn sequence(&self) -> Option<SequenceCounts> {
        self.judged().sequence.as_ref().map(SequenceTracker::counts)
    }

    fn judged(&self) -> MutexGuard<'_, Judged> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time of the last arrival, on the clock of `fabricmark_telemetry::clock`; 0 if nothing has arrived.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.load(Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Number of writes, reads or datagrams.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot { bytes: self.bytes(), blocks: self.blocks(), arrivals: self.judged().arrivals }
    }
}

impl Snapshot {
    /// Results of a stream: the difference between these counters, at its end, and `omitted`, at the end of the omitted
    /// part.
    pub fn results(&self, omitted: &Self, id: u32, is_udp: bool, sends: bool) -> StreamResults {
        let packets = |at: &Self| match (is_udp, sends) {
            (true, true) => at.blocks,
            (true, false) => at.arrivals.packets,
            (false, _) => 0,
        };
        StreamResults {
            id,
            bytes: self.bytes - omitted.bytes,
            retransmits: None,
            jitter_s: self.arrivals.jitter.jitter_ns / 1e9,
            errors: self.arrivals.errors,
            packets: packets(self),
            omitted_errors: Some(omitted.arrivals.errors),
            omitted_packets: Some(packets(omitted)),
            duration_s: None,
        }
    }
}
