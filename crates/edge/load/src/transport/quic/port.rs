//! A UDP socket and the QUIC endpoint on it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Incoming, ServerConfig, Transmit,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

use crate::flow_set::poll_for;

/// Receive buffers per call, each with one datagram or with those that UDP_GRO joined.
const BATCH: usize = 8;

/// Longest datagram, and longest UDP_GRO buffer.
const BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// Receive buffers, which all sockets of a thread share.
    static RECEIVED: RefCell<Box<[u8]>> =
        RefCell::new(vec![0; BATCH * BUFFER_BYTES].into_boxed_slice());
}

/// Most datagrams per UDP_SEGMENT buffer: as many as quinn, the library's own driver, sends at once.
const SEGMENTS_MAX: usize = 10;

/// A socket that several connections use: one at a time, unless [`Port::keep`] lets them share it.
pub(crate) struct Port {
    socket: Arc<UdpSocket>,
    offload: UdpSocketState,
    pub(super) endpoint: Endpoint,
    /// Connections that clients have requested.
    pub(super) incoming: VecDeque<Incoming>,
    /// Events for connections other than the one that was being served; `None` if there is only one connection.
    kept: Option<Vec<(ConnectionHandle, ConnectionEvent)>>,
    /// Whether the kernel reported that the other end's port is closed (ICMP).
    pub(super) is_refused: bool,
    /// A transmit for which the socket had no room yet.
    pub(super) unsent: Option<Transmit>,
    to_send: Vec<u8>,
}

/// A port that its listener and its connection, or several connections, refer to. Only one thread uses it at a time.
#[derive(Clone)]
pub(super) struct SharedPort(Arc<Mutex<Port>>);

impl SharedPort {
    pub(super) fn new(port: Port) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Port> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port {
    /// A socket that does not block. With the configuration `answering`, it accepts connections.
    pub(super) fn new(
        socket: Arc<UdpSocket>,
        answering: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let offload = UdpSocketState::new((&*socket).into())?;
        let may_probe_mtu = !offload.may_fragment();
        let config = Arc::new(EndpointConfig::default());
        Ok(Self {
            endpoint: Endpoint::new(config, answering, may_probe_mtu, None),
            socket,
            offload,
            incoming: VecDeque::new(),
            kept: None,
            is_refused: false,
            unsent: None,
            to_send: Vec::new(),
        })
    }

    /// Sends what a connection has to send now, as far as the socket has room.
    pub(super) fn send(&mut self, connection: &mut Connection, now: Instant) -> io::Result<()> {
        loop {
            if let Some(transmit) = self.unsent.take()
                && !self.hand_over(&transmit)?
            {
                self.unsent = Some(transmit);
                return Ok(());
            }
            self.to_send.clear();
            let segments = self.offload.max_gso_segments().min(SEGMENTS_MAX);
            self.unsent = connection.poll_transmit(now, segments, &mut self.to_send);
            if self.unsent.is_none() {
                return Ok(());
            }
        }
    }

    /// Sends a response that belongs to no connection, if there is room.
    pub(super) fn answer(&mut self, transmit: &Transmit, contents: Vec<u8>) -> io::Result<()> {
        if self.unsent.is_none() {
            self.to_send = contents;
            self.hand_over(transmit)?;
        }
        Ok(())
    }

    /// Passes the buffer to the kernel; returns false if there is no room.
    fn hand_over(&mut self, transmit: &Transmit) -> io::Result<bool> {
        let datagrams = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &self.to_send[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.offload.try_send((&*self.socket).into(), &datagrams) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.is_refused = true;
                Ok(true)
            }
            // MTU probes fail where the MTU is smaller, and a device without segmentation offload fails once; QUIC
            // treats both as loss.
            Err(error) => match error.raw_os_error() {
                Some(libc::EMSGSIZE | libc::EIO | libc::EINVAL) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Sets whether events for connections that are not being served are kept.
    pub(super) fn keep(&mut self, does_keep: bool) {
        self.kept = does_keep.then(Vec::new);
    }

    /// Takes the events that were kept for a connection.
    pub(super) fn kept_for(&mut self, handle: ConnectionHandle) -> Vec<ConnectionEvent> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        kept.extract_if(.., |(whose, _)| *whose == handle).map(|(_, event)| event).collect()
    }

    /// Receives the datagrams of one call; returns whether there were any. `take` returns events for other
    /// connections.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        take: impl FnMut(ConnectionHandle, ConnectionEvent) -> Option<ConnectionEvent>,
    ) -> io::Result<bool> {
        RECEIVED.with_borrow_mut(|buffers| self.receive_into(buffers, now, take))
    }

    fn receive_into(
        &mut self,
        received: &mut [u8],
        now: Instant,
        mut take: impl FnMut(ConnectionHandle, ConnectionEvent) -> Option<ConnectionEvent>,
    ) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH];
        let count = {
            let mut rest = received.chunks_exact_mut(BUFFER_BYTES);
            let mut buffers: [IoSliceMut<'_>; BATCH] =
                std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
            match self.offload.recv((&*self.socket).into(), &mut buffers, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.is_refused = true;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        };
        for (place, meta) in metas[..count].iter().enumerate() {
            let from = place * BUFFER_BYTES;
            let mut arrived = BytesMut::from(&received[from..from + meta.len]);
            while !arrived.is_empty() {
                let datagram = arrived.split_to(meta.stride.clamp(1, arrived.len()));
                let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
                let mut contents = Vec::new();
                let event =
                    self.endpoint.handle(now, meta.addr, meta.dst_ip, ecn, datagram, &mut contents);
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let (Some(event), Some(kept)) = (take(handle, event), &mut self.kept) {
                            kept.push((handle, event));
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        self.incoming.push_back(incoming);
                    }
                    Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, contents)?,
                    None => {}
                }
            }
        }
        Ok(true)
    }

    /// Waits for a datagram, or for room if a transmit is pending.
    pub(super) fn wait(&self, at_most: Duration) -> io::Result<()> {
        let room = if self.unsent.is_some() { PollFlags::OUT } else { PollFlags::empty() };
        let mut asked = [PollFd::new(&self.socket, PollFlags::IN | room)];
        poll_for(&mut asked, at_most).map(drop)
    }
}
