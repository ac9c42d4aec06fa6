//! Relays flows of datagrams. A flow is the datagrams of one client address and port to one address of the relay; it has a
//! socket of its own to the target, whose answers go back from the one to the other, and ends when it is idle.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::datagrams::{self, Received};
use rustix::event::epoll::EventFlags;
use slab::Slab;

use crate::counters::Shared;
use crate::poll::{LISTENER, Poll};
use crate::session::Outcome;
use crate::settings::Settings;
use crate::transfer::Transfer;
use crate::worker::is_exhausted;
use crate::{Limited, SWEEP, Stop};

/// Datagrams of one socket before others get their turn.
const DATAGRAMS_PER_TURN: usize = 64;

/// The longest UDP payload (RFC 768) is shorter.
const BUFFER_BYTES: usize = 65_536;

/// Idle time after which a flow ends, if none is given. RFC 4787, REQ-5, asks a NAT for at least two minutes.
const IDLE: Duration = Duration::from_secs(120);

/// Address of a client, and the local one to which it sends; `None` if the socket is bound to one.
type Ends = (SocketAddr, Option<IpAddr>);

struct Flow {
    ends: Ends,
    target: UdpSocket,
    active_ns: u64,
    upstream: Transfer,
    downstream: Transfer,
}

pub(crate) struct Worker<'a> {
    settings: &'a Settings,
    poll: Poll,
    socket: UdpSocket,
    flows: Slab<Flow>,
    indexes: HashMap<Ends, usize>,
    buffer: Vec<u8>,
    bytes: [u64; 2],
    dropped: u64,
    shared: &'a Shared,
    /// Open flows of all threads.
    open: &'a Limited,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        poll: Poll,
        socket: UdpSocket,
        shared: &'a Shared,
        open: &'a Limited,
    ) -> Self {
        Self {
            settings,
            poll,
            socket,
            flows: Slab::new(),
            indexes: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
            bytes: [0; 2],
            dropped: 0,
            shared,
            open,
        }
    }

    /// Serves until it is asked to stop: a flow has no end to wait for.
    pub(crate) fn run(mut self, stop: &Stop) -> io::Result<()> {
        self.poll.add(self.socket.as_fd(), LISTENER, EventFlags::IN)?;
        let mut events = Poll::events();
        let mut swept_ns = now_ns();
        let idle_ns = self.settings.idle_timeout.unwrap_or(IDLE).as_nanos() as u64;
        while !stop.drains.load(Relaxed) && !stop.aborts.load(Relaxed) {
            self.poll.wait(&mut events, None)?;
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.send_on()?,
                    index => self.send_back(index as usize),
                }
            }
            let now_ns = now_ns();
            if now_ns - swept_ns >= SWEEP.as_nanos() as u64 {
                swept_ns = now_ns;
                self.forget_idle(now_ns, idle_ns);
            }
            self.publish();
        }
        self.forget_idle(now_ns(), 0);
        Ok(())
    }

    /// Sends datagrams of clients to the target.
    fn send_on(&mut self) -> io::Result<()> {
        for _ in 0..DATAGRAMS_PER_TURN {
            let began_ns = now_ns();
            let (length, ends) = match datagrams::receive(&self.socket, &mut self.buffer) {
                Ok(Received { bytes, source, destination, .. }) => {
                    // No answer leaves from a multicast address.
                    (bytes, (source, destination.filter(|to| !to.is_multicast())))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // An ICMP error that a datagram to a client caused (udp(7)).
                Err(_) => continue,
            };
            let received_ns = now_ns();
            let Some(index) = self.flow(ends, began_ns) else {
                self.dropped += 1;
                continue;
            };
            let flow = &mut self.flows[index];
            flow.active_ns = received_ns;
            match flow.target.send(&self.buffer[..length]) {
                Ok(_) => {
                    count(&mut flow.upstream, length, began_ns, received_ns);
                    self.bytes[0] += length as u64;
                }
                Err(_) => self.dropped += 1,
            }
        }
        Ok(())
    }

    /// Sends datagrams of the target to the client of a flow.
    fn send_back(&mut self, index: usize) {
        let Some(flow) = self.flows.get_mut(index) else { return };
        for _ in 0..DATAGRAMS_PER_TURN {
            let began_ns = now_ns();
            let length = match flow.target.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The target's host answered that nothing listens there.
                Err(_) => continue,
            };
            let received_ns = now_ns();
            flow.active_ns = received_ns;
            let (client, from) = flow.ends;
            let bytes = &self.buffer[..length];
            match datagrams::send(&self.socket, bytes, client, from, None) {
                Ok(()) => {
                    count(&mut flow.downstream, length, began_ns, received_ns);
                    self.bytes[1] += length as u64;
                }
                Err(_) => self.dropped += 1,
            }
        }
    }

    /// The flow of a client, which is opened if it is new; `None` if there is no room for it.
    fn flow(&mut self, ends: Ends, now_ns: u64) -> Option<usize> {
        if let Some(&index) = self.indexes.get(&ends) {
            return Some(index);
        }
        if !self.settings.admits(ends.0) || !self.open.add() {
            return None;
        }
        let entry = self.flows.vacant_entry();
        let opened = connected(self.settings.forward).and_then(|target| {
            self.poll.add(target.as_fd(), entry.key() as u64, EventFlags::IN)?;
            Ok(target)
        });
        let mut counters = self.shared.lock();
        let target = match opened {
            Ok(target) => target,
            Err(error) => {
                self.open.remove();
                counters.exhausted += u64::from(is_exhausted(&error));
                return None;
            }
        };
        counters.accepted += 1;
        let index = entry.key();
        let (upstream, downstream) = (Transfer::default(), Transfer::default());
        entry.insert(Flow { ends, target, active_ns: now_ns, upstream, downstream });
        self.indexes.insert(ends, index);
        Some(index)
    }

    fn forget_idle(&mut self, now_ns: u64, idle_ns: u64) {
        let mut counters = self.shared.lock();
        self.flows.retain(|_, flow| {
            let is_idle = now_ns.saturating_sub(flow.active_ns) >= idle_ns;
            if is_idle {
                self.indexes.remove(&flow.ends);
                self.open.remove();
                counters.count(Outcome::Ended, &flow.upstream, &flow.downstream);
            }
            !is_idle
        });
    }

    fn publish(&mut self) {
        let [upstream, downstream] = mem::take(&mut self.bytes);
        let dropped = mem::take(&mut self.dropped);
        if upstream + downstream + dropped > 0 {
            let mut counters = self.shared.lock();
            counters.upstream_bytes += upstream;
            counters.downstream_bytes += downstream;
            counters.dropped_datagrams += dropped;
        }
    }
}

fn count(transfer: &mut Transfer, bytes: usize, began_ns: u64, received_ns: u64) {
    if transfer.receives == 0 {
        (transfer.receive_began_ns, transfer.send_began_ns) = (began_ns, received_ns);
    }
    transfer.receives += 1;
    transfer.bytes += bytes as u64;
    (transfer.receive_ended_ns, transfer.send_ended_ns) = (received_ns, now_ns());
}

fn connected(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(target)?;
    Ok(socket)
}
