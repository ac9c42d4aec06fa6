//! A connection to an agent: first of an unauthenticated peer, then of a coordinator with a worker.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fabricmark_proto::{
    AgentAction, Answer, Connection, FrameReader, Order, PROTOCOL_VERSION, Prepare, Report,
    Request, Welcome, encode,
};
use fabricmark_record::Interface;
use fabricmark_trust::{peer_fingerprint, server_connection};
use fabricmark_units::{Bytes, Instant, Nanos};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{Coordinator, Settings};
use crate::interfaces::device_of;
use crate::process::{Duty, WorkerProcess};
use crate::secured::{Secured, machine_time};

/// Time limit for authentication: a handshake of one round trip over the longest path, with retransmissions. At an RTT
/// of 2 s and a loss of 20 % one of forty handshakes takes more than 20 s.
const PROVE_WITHIN: Nanos = Nanos::from_secs(60);

/// Limit of received bytes until then: a ClientHello, a certificate of 400 bytes and a signature take 2 KB.
const PROVE_BYTES: u64 = 16 << 10;

/// Most requests besides pings that may arrive together: a coordinator sends one and waits. An arbitrary choice.
const ORDERS_AT_ONCE: usize = 64;

/// How many orders to start a run may arrive together: a coordinator may abort a run and start another. Admitting one takes
/// time that grows with the length of the queue.
const STARTS_AT_ONCE: usize = 2;

/// Time for the peer to read why the connection ends.
const PART_WITHIN: Nanos = Nanos::from_secs(2);

/// Largest number of 4 KiB reads in a row to discard what arrives until then.
const PART_READS: usize = 8;

/// Memory of a worker in addition to the quota: its program, stacks and a run's histograms.
const WORKER_BYTES: u64 = 256 << 20;

/// Most bytes of orders that wait for a worker to read them: two of the longest messages.
const OUTBOX_MAX: usize = 8 << 20;

/// Time after the end of its duration at which a run is ended whatever the coordinator says. The coordinator itself
/// waits less.
const OVERTIME: Nanos = Nanos::from_secs(300);

/// Levels whose slices take turns, an arbitrary choice: each of them waits while the others have theirs.
const LEVELS_MAX: u64 = 64;

/// How long a run may take from its preparation on. It may start after other groups. The turns of all levels together
/// have the time that the quota allows a run, since nobody counts the slices of one.
fn lasts_at_most(prepare: &Prepare, duration_max: Nanos) -> Nanos {
    let turns = if prepare.slice_ns.is_some() { LEVELS_MAX } else { 1 };
    let run_ns = prepare.duration_ns.0.saturating_mul(turns).saturating_add(prepare.start_ns.0);
    Nanos(run_ns.min(duration_max.0).saturating_add(OVERTIME.0))
}

/// A worker process and the socket to it.
pub(super) struct Hand {
    // Closed before the process is waited for.
    socket: UnixStream,
    process: WorkerProcess,
    frames: FrameReader,
    /// Orders that the socket has not accepted yet.
    outbox: Vec<u8>,
    /// Events registered with epoll.
    watched: EventFlags,
    /// Deadline of its run.
    until: Option<Instant>,
}

impl Hand {
    fn engage(duty: Duty, program: &Path) -> io::Result<Self> {
        let (process, socket) = WorkerProcess::start(duty, program, None)?;
        socket.set_nonblocking(true)?;
        let mut hand = Self {
            process,
            socket,
            frames: FrameReader::default(),
            outbox: Vec::new(),
            watched: EventFlags::empty(),
            until: None,
        };
        hand.send(&Order::Hello { version: PROTOCOL_VERSION })?;
        Ok(hand)
    }

    /// Sends an order, or keeps what the socket does not accept until [`Self::flush`]: a worker that does not read must
    /// not delay other coordinators.
    fn send(&mut self, order: &Order) -> io::Result<()> {
        self.outbox.extend(encode(order));
        if self.outbox.len() > OUTBOX_MAX {
            return Err(io::Error::other("too many orders"));
        }
        self.flush()
    }

    /// Sends what waits, as far as the socket accepts it.
    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.socket.write(&self.outbox) {
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Starts the thread that reaps workers: it waits for the exit of those that it is sent, and ends when all of them have
/// ended and nobody can send another one.
pub(super) fn start_reaper() -> io::Result<(Sender<Hand>, JoinHandle<()>)> {
    let (reaper, released) = mpsc::channel();
    let reap = move || {
        let mut waiting: Vec<JoinHandle<()>> = Vec::new();
        for hand in released {
            waiting.retain(|thread| !thread.is_finished());
            // If the kernel has no further thread, the closure is dropped here, and this thread waits itself.
            waiting.extend(thread::Builder::new().spawn(|| drop(hand)));
        }
        for thread in waiting {
            // It fails only if the thread panicked.
            let _ = thread.join();
        }
    };
    let reaping = thread::Builder::new().spawn(reap)?;
    Ok((reaper, reaping))
}

enum Phase {
    /// No byte has arrived.
    Silent,
    /// The handshake is in progress.
    Proving(Box<Secured>),
    /// The peer is authenticated.
    Known(Box<Secured>, Box<Connection>),
    /// A rejection or goodbye was sent: the connection stays open until the peer has closed it, or for a moment.
    Parting {
        /// Deadline.
        until: Instant,
    },
    /// To be closed.
    Over,
}

pub(super) struct Connected {
    pub(super) tcp: TcpStream,
    peer: SocketAddr,
    /// Key of the peer; zeros until it is authenticated.
    fingerprint: [u8; 32],
    began: Instant,
    phase: Phase,
    frames: FrameReader,
    hand: Option<Hand>,
    /// To the thread that reaps workers.
    reaper: Sender<Hand>,
    /// Place in the queue that the peer was told last; 0 if it does not wait.
    pub(super) place: u32,
    /// Events registered with epoll.
    watched: EventFlags,
}

impl Connected {
    pub(super) fn new(
        tcp: TcpStream,
        peer: SocketAddr,
        reaper: Sender<Hand>,
        now: Instant,
    ) -> Self {
        Self {
            tcp,
            peer,
            fingerprint: [0; 32],
            began: now,
            phase: Phase::Silent,
            frames: FrameReader::default(),
            hand: None,
            reaper,
            place: 0,
            watched: EventFlags::IN,
        }
    }

    /// Whether the peer is authenticated.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.phase, Phase::Known(..))
    }

    /// Whose connection it is, with a session of zeros before its hello; `None` unless the peer is authenticated.
    pub(super) fn owner(&self) -> Option<Coordinator> {
        match &self.phase {
            Phase::Known(_, protocol) => Some((self.fingerprint, protocol.session())),
            _ => None,
        }
    }

    /// Bytes of an incomplete request.
    pub(super) fn incomplete_bytes(&self) -> usize {
        self.frames.incomplete_bytes()
    }

    /// Memory that the run in progress may use.
    pub(super) fn used(&self) -> Bytes {
        match &self.phase {
            Phase::Known(_, protocol) => protocol.used(),
            _ => Bytes(0),
        }
    }

    /// Memory that the waiting run needs; 0 if none waits.
    pub(super) fn needed(&self) -> Bytes {
        match &self.phase {
            Phase::Known(_, protocol) => protocol.needed(),
            _ => Bytes(0),
        }
    }

    /// The conversation with an authenticated peer; `None` before and after.
    pub(super) fn protocol(&mut self) -> Option<&mut Connection> {
        match &mut self.phase {
            Phase::Known(_, protocol) => Some(protocol),
            _ => None,
        }
    }

    /// Handles an event of the connection: bytes have arrived, or there is room to send.
    pub(super) fn on_peer(&mut self, settings: &Settings) {
        if let Err(_gone) = self.take(settings) {
            self.end();
        }
    }

    fn take(&mut self, settings: &Settings) -> io::Result<()> {
        if matches!(self.phase, Phase::Parting { .. }) {
            return self.part();
        }
        if matches!(self.phase, Phase::Silent) {
            let tls = server_connection(&settings.tls).map_err(io::Error::other)?;
            let secured = Secured::new(self.tcp.try_clone()?, tls)?;
            self.began = machine_time();
            self.phase = Phase::Proving(Box::new(secured));
        }
        let (Phase::Proving(secured) | Phase::Known(secured, _)) = &mut self.phase else {
            return Ok(());
        };
        secured.flush()?;
        if secured.is_behind() {
            // Further requests would add to the answers that the peer has not read.
            return Ok(());
        }
        let mut bytes = Vec::new();
        let is_open = secured.receive(&mut bytes)?;
        secured.flush()?;
        if let Phase::Proving(secured) = &mut self.phase {
            if secured.tls.is_handshaking() {
                let is_over = !is_open || secured.received_bytes > PROVE_BYTES;
                return if is_over { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) };
            }
            self.welcome(settings)?;
        }
        let requests: Vec<Request> = self.frames.messages(&bytes).map_err(io::Error::other)?;
        if let Some(protocol) = self.protocol() {
            on_requests(protocol, requests);
        }
        if is_open { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Starts the conversation with a peer that has authenticated itself.
    fn welcome(&mut self, settings: &Settings) -> io::Result<()> {
        let Phase::Proving(secured) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        self.fingerprint = peer_fingerprint(&secured.tls).map_err(io::Error::other)?.0;
        let device = device_of(secured.tcp.local_addr()?.ip());
        let welcome = Welcome {
            version: PROTOCOL_VERSION,
            host: fabricmark_host::facts(),
            quota: settings.quota.clone(),
            cpus: fabricmark_host::near(&device.name, &fabricmark_host::cpus()),
            device: device.name,
            addresses: device.addresses,
            boot: fabricmark_host::boot(),
        };
        let now = machine_time();
        let protocol = Connection::new(now, welcome, now - self.began);
        self.phase = Phase::Known(secured, Box::new(protocol));
        Ok(())
    }

    pub(super) fn say(&mut self, answer: &Answer) {
        if let Phase::Known(secured, _) = &mut self.phase
            && secured.send(&encode(answer)).is_err()
        {
            self.end();
        }
    }

    /// Sends the network interfaces of this host.
    pub(super) fn say_interfaces(&mut self, interfaces: Result<Vec<Interface>, impl Display>) {
        match interfaces {
            Ok(interfaces) => self.say(&Answer::Interfaces { interfaces }),
            Err(error) => {
                if let Some(protocol) = self.protocol() {
                    protocol.refuse(format!("cannot list the network interfaces: {error}"));
                }
            }
        }
    }

    pub(super) fn drain(&mut self) {
        match self.protocol() {
            Some(protocol) => protocol.drain(),
            None => self.phase = Phase::Over,
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<AgentAction> {
        match &mut self.phase {
            Phase::Known(_, protocol) => protocol.poll_output(),
            Phase::Over => Some(AgentAction::Close),
            Phase::Silent | Phase::Proving(_) | Phase::Parting { .. } => None,
        }
    }

    /// Gives an order to the worker.
    pub(super) fn hand(&mut self, mut order: Order, settings: &Settings) {
        let engaged = match &mut order {
            Order::Prepare(prepare) => {
                self.confine(prepare, settings);
                self.engage(prepare, settings)
            }
            Order::Tier { ports, .. } => {
                *ports = settings.quota.ports;
                self.engage_tier(settings)
            }
            _ => Ok(()),
        };
        if let Err(error) = engaged {
            let is_tier = matches!(order, Order::Tier { .. });
            if is_tier && error.kind() == io::ErrorKind::NotFound {
                if let Some(protocol) = self.protocol() {
                    protocol.on_tier_missing(error.to_string());
                }
                return;
            }
            return self.worker_lost(&format!("could not be started ({error})"));
        }
        let Some(hand) = &mut self.hand else { return };
        if let Err(error) = hand.send(&order) {
            self.worker_lost(&format!("does not read its socket ({error})"));
        }
    }

    /// Sets what a coordinator must not decide or cannot know: who may open flows, the range of ports, the rate of
    /// responses, and the scope id of link-local addresses on this host.
    fn confine(&self, prepare: &mut Prepare, settings: &Settings) {
        if let Ok(SocketAddr::V6(own)) = self.tcp.local_addr() {
            prepare.scope_id = own.scope_id();
        }
        let peer = self.peer.ip().to_canonical();
        if !prepare.from.contains(&peer) {
            prepare.from.push(peer);
        }
        prepare.ports = settings.quota.ports;
        prepare.response_rate_max = settings.quota.response_rate_max(&prepare.point);
    }

    /// Starts the worker for the first run, and sets the deadline of each run.
    fn engage(&mut self, prepare: &Prepare, settings: &Settings) -> io::Result<()> {
        if self.hand.is_none() {
            let hand = Hand::engage(Duty::Load, &settings.program)?;
            let bytes = Some(settings.quota.memory_max.0.saturating_add(WORKER_BYTES));
            let limit = Rlimit { current: bytes, maximum: bytes };
            let pid = Pid::from_raw(hand.process.id().cast_signed());
            prlimit(pid, Resource::Data, limit)?;
            self.hand = Some(hand);
        }
        if let Some(hand) = &mut self.hand {
            let at_most = lasts_at_most(prepare, settings.quota.duration_max);
            hand.until = Some(machine_time() + at_most);
        }
        Ok(())
    }

    /// Starts the tier for its first order. It has no deadline: it lives as long as the connection.
    fn engage_tier(&mut self, settings: &Settings) -> io::Result<()> {
        if self.hand.as_ref().is_none_or(|hand| hand.process.duty() != Duty::Tier) {
            self.release();
            self.hand = Some(Hand::engage(Duty::Tier, &settings.program)?);
        }
        Ok(())
    }

    /// Handles reports of the worker.
    pub(super) fn on_worker(&mut self) {
        match self.hear() {
            Ok(reports) => {
                for report in reports {
                    match report {
                        Report::Hello { version: PROTOCOL_VERSION } => {}
                        Report::Hello { .. } => {
                            return self.worker_lost(
                                "is of another version than the agent: install the same, and restart the agent",
                            );
                        }
                        report => {
                            if let Some(protocol) = self.protocol() {
                                protocol.on_report(report);
                            }
                        }
                    }
                }
                // A report of an earlier run does not end this one.
                let is_busy = self.protocol().is_some_and(|protocol| protocol.is_busy());
                if let Some(hand) = self.hand.as_mut().filter(|_| !is_busy) {
                    hand.until = None;
                }
            }
            Err(error) => self.worker_lost(&error.to_string()),
        }
    }

    fn hear(&mut self) -> io::Result<Vec<Report>> {
        let Some(hand) = &mut self.hand else { return Ok(Vec::new()) };
        // If the worker is gone, reading says how it ended.
        let _ = hand.flush();
        let mut buffer = [0; 64 << 10];
        let read = match hand.socket.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            read => read?,
        };
        match read {
            0 => {
                let fate = hand.process.fate(Duration::from_millis(100));
                Err(io::Error::other(format!("ended ({fate})")))
            }
            bytes => hand.frames.messages(&buffer[..bytes]).map_err(io::Error::other),
        }
    }

    /// Ends the worker. Waiting for it would delay other coordinators.
    fn release(&mut self) {
        if let Some(hand) = self.hand.take() {
            // It fails only if that thread is gone.
            let _ = self.reaper.send(hand);
        }
    }

    fn worker_lost(&mut self, why: &str) {
        self.release();
        if let Some(protocol) = self.protocol() {
            protocol.on_worker_lost(why);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        let overtime = self.hand.as_ref().and_then(|hand| hand.until);
        if overtime.is_some_and(|until| now >= until) {
            self.worker_lost(
                "was stopped: the run exceeded its announced duration, or the agent's --duration",
            );
        }
        match &mut self.phase {
            // The peer has sent something that was not read yet, because other connections took long: it is not silent.
            Phase::Known(secured, protocol)
                if protocol.deadline().is_some_and(|deadline| now >= deadline)
                    && !secured.is_behind()
                    && self.tcp.peek(&mut [0]).is_ok() => {}
            Phase::Known(_, protocol) => protocol.on_timeout(now),
            Phase::Silent | Phase::Proving(_) if now >= self.began + PROVE_WITHIN => self.end(),
            Phase::Parting { until } if now >= *until => self.phase = Phase::Over,
            _ => {}
        }
    }

    /// Registers the events of interest with epoll. While the peer does not read, its worker's reports are read only as
    /// long as orders wait for the worker.
    pub(super) fn watch(&mut self, epoll: &OwnedFd, id: u64) -> io::Result<()> {
        let is_behind = match &self.phase {
            Phase::Proving(secured) | Phase::Known(secured, _) => secured.is_behind(),
            Phase::Silent | Phase::Parting { .. } | Phase::Over => false,
        };
        let wanted = if is_behind { EventFlags::OUT } else { EventFlags::IN };
        if wanted != self.watched {
            epoll::modify(epoll, &self.tcp, EventData::new_u64(2 * id), wanted)?;
            self.watched = wanted;
        }
        if let Some(hand) = &mut self.hand {
            let mut wanted = EventFlags::empty();
            wanted.set(EventFlags::IN, !is_behind);
            wanted.set(EventFlags::OUT, !hand.outbox.is_empty());
            let data = EventData::new_u64(2 * id + 1);
            match (hand.watched.is_empty(), wanted.is_empty()) {
                _ if hand.watched == wanted => {}
                (true, _) => epoll::add(epoll, &hand.socket, data, wanted)?,
                (_, true) => epoll::delete(epoll, &hand.socket)?,
                _ => epoll::modify(epoll, &hand.socket, data, wanted)?,
            }
            hand.watched = wanted;
        }
        Ok(())
    }

    /// Ends the connection, after an error or after the peer has closed it.
    pub(super) fn end(&mut self) {
        match &mut self.phase {
            Phase::Known(_, protocol) => protocol.on_closed(),
            // Closing with unread bytes resets the connection, and the peer would lose the reason (RFC 9293,
            // section 3.10.4).
            Phase::Proving(_) if self.tcp.shutdown(Shutdown::Write).is_ok() => {
                self.phase = Phase::Parting { until: machine_time() + PART_WITHIN };
            }
            _ => self.phase = Phase::Over,
        }
    }

    /// Discards what arrives until the peer closes.
    fn part(&mut self) -> io::Result<()> {
        let mut scratch = [0; 4096];
        for _ in 0..PART_READS {
            match (&self.tcp).read(&mut scratch) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Says goodbye, and frees the worker with all its resources. False while the peer may still read what was sent
    /// before.
    pub(super) fn close(&mut self) -> bool {
        self.release();
        self.frames = FrameReader::default();
        let Phase::Known(mut secured, _) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return true;
        };
        secured.close();
        let may_read = self.tcp.shutdown(Shutdown::Write).is_ok();
        if may_read {
            self.phase = Phase::Parting { until: machine_time() + PART_WITHIN };
        }
        !may_read
    }
}

/// Handles requests that have arrived together. One read has room for 1500 pings: of several in a row only the last is
/// answered, or the answers would delay other coordinators.
fn on_requests(protocol: &mut Connection, requests: Vec<Request>) {
    let is_ping = |request: &Request| matches!(request, Request::Ping { .. });
    let orders = requests.iter().filter(|request| !is_ping(request)).count();
    if orders > ORDERS_AT_ONCE {
        protocol.refuse(format!("more than {ORDERS_AT_ONCE} orders arrived together"));
        return;
    }
    let starts = |request: &&Request| {
        matches!(request, Request::Order { order: Order::Prepare(_) | Order::Tier { .. } })
    };
    if requests.iter().filter(starts).count() > STARTS_AT_ONCE {
        protocol.refuse(format!("more than {STARTS_AT_ONCE} orders to start a run arrived together: wait for the answer to each"));
        return;
    }
    let mut requests = requests.into_iter().peekable();
    while let Some(request) = requests.next() {
        if !(is_ping(&request) && requests.peek().is_some_and(is_ping)) {
            protocol.on_request(machine_time(), request);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;

    #[test]
    fn a_run_that_starts_later_or_takes_turns_has_the_time_for_it() {
        let prepare = |start_s, slice_ns| {
            let levels = "pattern=stream,transport=udp,family=4,link=loopback,payload=64";
            let prepare = fabricmark_testkit::prepare(fabricmark_plan::Role::Client, levels);
            let (duration_ns, start_ns) = (Nanos::from_secs(60), Nanos::from_secs(start_s));
            Prepare { duration_ns, start_ns, slice_ns, ..prepare }
        };
        let day = Nanos::from_secs(24 * 3600);
        assert_eq!(lasts_at_most(&prepare(0, None), day), Nanos::from_secs(360));
        assert_eq!(lasts_at_most(&prepare(600, None), day), Nanos::from_secs(960));
        let sliced = prepare(0, Some(Nanos::from_millis(1)));
        assert_eq!(lasts_at_most(&sliced, day), Nanos::from_secs(64 * 60 + 300));
        let hostile = Prepare { duration_ns: Nanos(u64::MAX), ..sliced };
        assert_eq!(lasts_at_most(&hostile, day), Nanos::from_secs(24 * 3600 + 300));
        assert_eq!(lasts_at_most(&hostile, Nanos(u64::MAX)), Nanos(u64::MAX));
    }

    #[test]
    fn orders_for_a_worker_that_does_not_read_wait_up_to_a_limit_and_block_nobody() {
        // It runs until it is killed, and reads nothing.
        let mut hand = Hand::engage(Duty::Load, Path::new("/usr/bin/yes")).unwrap();
        let order = Order::Hello { version: PROTOCOL_VERSION };
        let error = (0..OUTBOX_MAX).find_map(|_| hand.send(&order).err()).unwrap();
        assert_eq!(error.to_string(), "too many orders");
        kill_process(Pid::from_raw(hand.process.id().cast_signed()).unwrap(), Signal::KILL)
            .unwrap();
    }
}
