//! A UDP socket and what QUIC remembers of it: datagrams in, datagrams out.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Incoming, ServerConfig, Transmit,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

use crate::flow_set::poll_for;

/// Buffers that one call fills, each with one datagram or with those that UDP_GRO put together.
const BATCH: usize = 8;

/// Longest datagram, and longest buffer of UDP_GRO.
const BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// What one call fills: all sockets of a thread take turns.
    static RECEIVED: RefCell<Box<[u8]>> =
        RefCell::new(vec![0; BATCH * BUFFER_BYTES].into_boxed_slice());
}

/// Datagrams cut from one buffer: as many as quinn, the library's own driver, hands over at once.
const SEGMENTS_MAX: usize = 10;

/// A socket that several connections use: one at a time, except while [`Port::keep`] says that they share
/// it.
pub(crate) struct Port {
    socket: Rc<UdpSocket>,
    offload: UdpSocketState,
    pub(super) endpoint: Endpoint,
    /// Connections that others asked for.
    pub(super) incoming: VecDeque<Incoming>,
    /// What arrived for connections other than the one that was served then; nothing is kept where there
    /// is only one.
    kept: Option<Vec<(ConnectionHandle, ConnectionEvent)>>,
    /// Whether the kernel was told that nobody is at the other end (ICMP).
    pub(super) is_refused: bool,
    /// What the socket had no room for yet.
    pub(super) unsent: Option<Transmit>,
    to_send: Vec<u8>,
}

impl Port {
    /// A socket that does not block; `answering` accepts connections.
    pub(super) fn new(
        socket: Rc<UdpSocket>,
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

    /// Sends what a connection has to say now, as far as the socket has room.
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

    /// Sends an answer that belongs to no connection, where there is room.
    pub(super) fn answer(&mut self, transmit: &Transmit, contents: Vec<u8>) -> io::Result<()> {
        if self.unsent.is_none() {
            self.to_send = contents;
            self.hand_over(transmit)?;
        }
        Ok(())
    }

    /// Hands the buffer to the kernel; false where it has no room.
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
            // Probes of the MTU are to fail where it is smaller, and a device without segmentation
            // refuses once; QUIC takes either for a loss.
            Err(error) => match error.raw_os_error() {
                Some(libc::EMSGSIZE | libc::EIO | libc::EINVAL) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Whether to keep what arrives for connections that are not served at the moment.
    pub(super) fn keep(&mut self, does_keep: bool) {
        self.kept = does_keep.then(Vec::new);
    }

    /// Gives what was kept for a connection.
    pub(super) fn kept_for(&mut self, handle: ConnectionHandle) -> Vec<ConnectionEvent> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        kept.extract_if(.., |(whose, _)| *whose == handle).map(|(_, event)| event).collect()
    }

    /// Takes what has arrived, one call's worth; says whether there was anything. `take` gives back what
    /// is for another connection.
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

    /// Waits for a datagram, or for room where something waits for it.
    pub(super) fn wait(&self, at_most: Duration) -> io::Result<()> {
        let room = if self.unsent.is_some() { PollFlags::OUT } else { PollFlags::empty() };
        let mut asked = [PollFd::new(&self.socket, PollFlags::IN | room)];
        poll_for(&mut asked, at_most).map(drop)
    }
}
