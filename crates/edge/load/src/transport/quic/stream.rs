//! The stream of a QUIC connection.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use fabricmark_proto::Prepare;
use fabricmark_record::QuicCounters;
use quinn_proto::{
    Connection, ConnectionHandle, Dir, EndpointEvent, Event, ReadError, Side, StreamEvent,
    StreamId, VarInt, WriteError,
};

use super::super::bytes::ByteStream;
use super::super::udp::waiting_payload_bytes;
use super::super::{if_ready, is_timeout};
use super::port::SharedPort;
use super::settings::send_window;
use crate::control::Control;
use crate::sockets::{peer_within, waiting_bytes};

/// UDP payload up to which quinn-proto's MTU discovery probes: the default of `MtuDiscoveryConfig::upper_bound`.
const DATAGRAM_BYTES: u64 = 1_452;

/// The only stream of a connection.
pub struct QuicStream {
    socket: Arc<UdpSocket>,
    port: SharedPort,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    id: StreamId,
    /// How long a call blocks; `None` to return at once.
    patience: Option<Duration>,
    /// Silence after which an end that must still receive something counts as dead.
    within: Duration,
    /// Flows that share the limit of unacknowledged bytes.
    flows: u32,
    /// Data in order that was not read yet.
    arrived: VecDeque<Bytes>,
    /// Whether the other end has finished, and nothing follows `arrived`.
    has_ended: bool,
    /// Whether the other end has acknowledged everything, including the end of the stream.
    is_acknowledged: bool,
    /// Why the connection was lost.
    lost: Option<String>,
    /// Whether this end has closed the connection.
    is_closed: bool,
    /// Set once this end has finished: how many datagrams had arrived, and when the last of them did.
    finished: Option<(u64, Instant)>,
    wants: Wants,
    /// A time in the past.
    began: Instant,
}

/// What the thread that serves the stream waits for.
#[derive(Debug, Default)]
struct Wants {
    /// The last read found nothing.
    reads: bool,
    /// The last write found no room.
    writes: bool,
    /// The last call was a write that found room.
    writes_on: bool,
    /// Data or room is available that the thread does not know of.
    is_met: bool,
}

/// Delay until a transmit without room in the socket is tried again.
const UNSENT_PAUSE: Duration = Duration::from_millis(1);

pub(super) fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the QUIC connection failed: {error}"))
}

impl QuicStream {
    pub(super) fn new(
        socket: &Arc<UdpSocket>,
        port: &SharedPort,
        handle: ConnectionHandle,
        connection: Connection,
        prepare: &Prepare,
    ) -> Self {
        Self {
            socket: Arc::clone(socket),
            port: port.clone(),
            handle,
            // The first stream that the client opens.
            id: StreamId::new(Side::Client, Dir::Bi, 0),
            connection,
            patience: Some(Control::LOOK_EVERY),
            within: peer_within(prepare),
            flows: prepare.point.flows,
            arrived: VecDeque::new(),
            has_ended: false,
            is_acknowledged: false,
            lost: None,
            is_closed: false,
            finished: None,
            wants: Wants::default(),
            began: Instant::now(),
        }
    }

    /// Sets whether calls block, for at most [`Control::LOOK_EVERY`].
    pub(crate) fn set_wait(&mut self, does_wait: bool) {
        self.patience = does_wait.then_some(Control::LOOK_EVERY);
    }

    /// Counters of the connection so far.
    pub(crate) fn counters(&self) -> QuicCounters {
        let path = self.connection.stats().path;
        QuicCounters {
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            lost_bytes: path.lost_bytes,
            congestion_events: path.congestion_events,
            cwnd_bytes: path.cwnd,
            srtt_ns: u64::try_from(path.rtt.as_nanos()).unwrap_or(u64::MAX),
            mtu_bytes: path.current_mtu.into(),
            black_holes: path.black_holes_detected,
        }
    }

    /// Repeats `attempt` until it has a result; [`io::ErrorKind::WouldBlock`] after `patience`.
    pub(super) fn until<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut ends = None;
        self.wants.is_met = false;
        loop {
            if let Some(value) = attempt(self)? {
                return Ok(value);
            }
            if let Some(reason) = &self.lost {
                return Err(failed(reason));
            }
            let has_moved = self.turn()?;
            let now = Instant::now();
            let ends = *ends.get_or_insert(now + self.patience.unwrap_or_default());
            match (has_moved, self.patience) {
                (true, None) => {}
                (false, None) => return Err(io::ErrorKind::WouldBlock.into()),
                (_, Some(_)) if now >= ends => return Err(io::ErrorKind::WouldBlock.into()),
                (true, Some(_)) => {}
                (false, Some(_)) => {
                    let due = self.connection.poll_timeout().map_or(ends, |due| due.min(ends));
                    self.port.lock().wait(due.saturating_duration_since(now))?;
                }
            }
        }
    }

    /// Sends what is pending, receives, and lets timers expire; returns whether anything was received or has expired.
    fn turn(&mut self) -> io::Result<bool> {
        let port = &mut *self.port.lock();
        let (connection, handle) = (&mut self.connection, self.handle);
        port.send(connection, Instant::now())?;
        // Read again: an acknowledgement may have arrived already, and is later than what it acknowledges.
        let now = Instant::now();
        let mut has_moved = false;
        for event in port.kept_for(handle) {
            connection.handle_event(event);
            has_moved = true;
        }
        has_moved |= port.receive(now, |whose, event| match whose == handle {
            true => {
                connection.handle_event(event);
                None
            }
            false => Some(event),
        })?;
        // The last datagrams of an end that has left may still be in the socket.
        if !has_moved && port.is_refused && self.lost.is_none() {
            self.lost = Some("connection refused".to_owned());
        }
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
            has_moved = true;
        }
        if !has_moved {
            return Ok(false);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = port.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        port.send(connection, now)?;
        let window = connection.congestion_state().window();
        connection.set_send_window(send_window(self.flows, window));
        while let Some(event) = connection.poll() {
            match event {
                Event::ConnectionLost { reason } => self.lost = Some(reason.to_string()),
                Event::Stream(StreamEvent::Finished { .. }) => self.is_acknowledged = true,
                Event::Stream(StreamEvent::Readable { .. }) => {
                    self.wants.is_met |= self.wants.reads;
                }
                Event::Stream(StreamEvent::Writable { .. }) => {
                    self.wants.is_met |= self.wants.writes;
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// Fills a buffer with received data; 0 at the end of the stream.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.arrived.is_empty() && !self.has_ended {
            self.fetch()?;
        }
        let mut filled = 0;
        while filled < buffer.len()
            && let Some(bytes) = self.arrived.front_mut()
        {
            let part = bytes.len().min(buffer.len() - filled);
            bytes.copy_to_slice(&mut buffer[filled..filled + part]);
            filled += part;
            if bytes.is_empty() {
                self.arrived.pop_front();
            }
        }
        Ok((filled > 0 || self.has_ended).then_some(filled))
    }

    /// Reads all data that is available in order; the next turn advertises the window that this opens.
    fn fetch(&mut self) -> io::Result<()> {
        let mut stream = self.connection.recv_stream(self.id);
        let mut chunks = stream.read(true).map_err(failed)?;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.arrived.push_back(chunk.bytes),
                Ok(None) => {
                    self.has_ended = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        let _ = chunks.finalize();
        Ok(())
    }

    /// Closes the connection, so that the other end need not wait; this end requests no lost data any more.
    fn close(&mut self) {
        self.is_closed = true;
        let now = Instant::now();
        self.connection.close(now, VarInt::from_u32(0), Bytes::new());
        // The other end may be gone already.
        let _ = self.port.lock().send(&mut self.connection, now);
    }
}

impl Read for QuicStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.until(|stream| stream.take(buffer));
        self.wants.writes_on = false;
        self.wants.reads = taken.as_ref().is_err_and(is_timeout);
        if let Ok(0) = taken {
            // No pattern sends anything after the other end has finished.
            self.close();
        }
        taken
    }
}

impl Write for QuicStream {
    fn write(&mut self, payload: &[u8]) -> io::Result<usize> {
        let written =
            self.until(|stream| match stream.connection.send_stream(stream.id).write(payload) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(WriteError::Blocked) => Ok(None),
                Err(error) => Err(failed(error)),
            });
        self.wants.writes_on = written.is_ok();
        self.wants.writes = written.as_ref().is_err_and(is_timeout);
        if written.is_ok() {
            self.turn()?;
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for QuicStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ByteStream for QuicStream {
    /// Received data that was not read, and an estimate of the payload in the socket.
    fn waiting_bytes(&self) -> io::Result<u64> {
        let arrived: usize = self.arrived.iter().map(Bytes::len).sum();
        let memory_bytes = waiting_bytes(self.as_fd())?;
        Ok(arrived as u64 + waiting_payload_bytes(memory_bytes, DATAGRAM_BYTES))
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        // A stream that the other end has closed cannot be finished again.
        let _ = self.connection.send_stream(self.id).finish();
        self.wants = Wants::default();
        self.finished = Some((self.connection.stats().udp_rx.datagrams, Instant::now()));
        self.turn().map(drop)
    }

    /// True until the other end has acknowledged everything, has closed, or is silent: nothing else retransmits what
    /// is lost. A silent end is reported by the code that waits for its data.
    fn is_lingering(&mut self) -> bool {
        if self.is_closed || self.is_acknowledged || self.lost.is_some() {
            return false;
        }
        let Some((heard, since)) = &mut self.finished else { return false };
        let datagrams = self.connection.stats().udp_rx.datagrams;
        if datagrams > *heard {
            (*heard, *since) = (datagrams, Instant::now());
        }
        since.elapsed() < self.within
    }

    fn linger(&mut self) -> io::Result<()> {
        self.set_wait(true);
        while self.is_lingering() {
            if_ready(self.until(|stream| {
                Ok((stream.is_acknowledged || stream.lost.is_some()).then_some(()))
            }))?;
        }
        Ok(())
    }

    /// Everything happens by a datagram or a timer.
    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn due(&mut self) -> Option<Instant> {
        let Wants { writes_on, is_met, .. } = self.wants;
        let is_to_be_read = self.has_ended || !self.arrived.is_empty() || self.lost.is_some();
        let is_over = self.is_closed || self.finished.is_some();
        if !is_over && (writes_on || is_met || is_to_be_read) {
            return Some(self.began);
        }
        let retry = self.port.lock().unsent.is_some().then(|| Instant::now() + UNSENT_PAUSE);
        self.connection.poll_timeout().into_iter().chain(retry).min()
    }

    /// Also repeats the close for an end that has not received it.
    fn tend(&mut self) -> io::Result<()> {
        while self.turn()? {}
        Ok(())
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        self.close();
        let port = &mut *self.port.lock();
        drop(port.kept_for(self.handle));
        while let Some(event) = self.connection.poll_endpoint_events() {
            let _ = port.endpoint.handle_event(self.handle, event);
        }
        if !self.connection.is_drained() {
            let _ = port.endpoint.handle_event(self.handle, EndpointEvent::drained());
        }
    }
}
