//! A thread of the relay: accepts connections and serves them, with epoll.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use fabricmark_telemetry::clock::now_ns;
use rustix::event::epoll::EventFlags;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use slab::Slab;
use socket2::{Domain, Protocol, Socket, Type};

use crate::counters::Shared;
use crate::direction::Mover;
use crate::poll::{LISTENER, Poll};
use crate::ring::Ring;
use crate::session::{CLIENT, Next, Outcome, Session, TARGET};
use crate::settings::{Settings, reset};
use crate::transfer::Ended;
use crate::{Limited, SWEEP, Stop};

/// Connections accepted before others get their turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Entries of sessions that have ended which may wait for their time.
const DUE_SPARE: usize = 1024;

/// Pause of accepting when descriptors or memory are missing, unless a connection ends before.
const EXHAUSTED_FOR: Duration = Duration::from_millis(100);

pub(crate) struct Worker<'a> {
    settings: &'a Settings,
    /// Events of sessions have twice their index, plus their end.
    poll: Poll,
    /// `None` once the relay is being stopped.
    listener: Option<TcpListener>,
    /// Whether the listening socket is registered with epoll.
    is_listening: bool,
    /// Accept nothing before this time.
    paused_until_ns: u64,
    pub(crate) sessions: Slab<Session>,
    /// Sessions that have an event or can go on.
    pub(crate) queue: Vec<usize>,
    /// Sessions whose schedule lets them go on at a time; some may have ended since.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Sessions that have ended; their indexes stay in use until the events of this turn are handled.
    pub(crate) ended: Vec<(usize, Outcome)>,
    pub(crate) mover: Mover,
    shared: &'a Shared,
    /// Open connections of all threads.
    open: &'a Limited,
    reports: SyncSender<Ended>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        (poll, ring): (Poll, Option<Ring>),
        listener: TcpListener,
        shared: &'a Shared,
        open: &'a Limited,
        reports: SyncSender<Ended>,
    ) -> Self {
        Self {
            settings,
            poll,
            listener: Some(listener),
            is_listening: false,
            paused_until_ns: 0,
            sessions: Slab::new(),
            queue: Vec::new(),
            ended: Vec::new(),
            due: BinaryHeap::new(),
            mover: Mover::new(settings, ring),
            shared,
            open,
            reports,
        }
    }

    /// Serves until it is asked to stop and all connections have ended, or the drain timeout is over.
    pub(crate) fn run(mut self, stop: &Stop) -> io::Result<()> {
        let mut events = Poll::events();
        let mut swept_ns = now_ns();
        let mut drain_until_ns = None;
        loop {
            self.listen()?;
            self.poll.wait(&mut events, self.within())?;
            let now_ns = now_ns();
            for event in &events {
                match event.data.u64() {
                    LISTENER => {
                        self.accept()?;
                    }
                    data => self.note(data, event.flags, now_ns),
                }
            }
            self.resume(now_ns);
            self.advance();
            if now_ns - swept_ns >= SWEEP.as_nanos() as u64 {
                swept_ns = now_ns;
                self.sweep(now_ns);
            }
            let is_aborted = stop.aborts.load(Relaxed);
            if (stop.drains.load(Relaxed) || is_aborted) && drain_until_ns.is_none() {
                drain_until_ns = Some(now_ns + self.settings.drain_timeout.as_nanos() as u64);
                // To the clients, connections that wait in the listening socket are open.
                while self.accept()? {}
                self.advance();
                self.is_listening = false;
                self.listener = None;
                self.paused_until_ns = 0;
            }
            if drain_until_ns.is_some_and(|until_ns| is_aborted || now_ns >= until_ns) {
                let left: Vec<_> = self.sessions.iter().map(|(index, _)| index).collect();
                self.ended.extend(left.into_iter().map(|index| (index, Outcome::Aborted)));
            }
            self.remove_ended();
            if drain_until_ns.is_some() && self.sessions.is_empty() {
                return Ok(());
            }
        }
    }

    /// Registers the listening socket if there is room for a connection, or takes it out.
    fn listen(&mut self) -> io::Result<()> {
        if self.paused_until_ns > 0 && now_ns() >= self.paused_until_ns {
            self.paused_until_ns = 0;
        }
        let Some(listener) = &self.listener else { return Ok(()) };
        let has_room = self.paused_until_ns == 0 && self.open.may_accept();
        if has_room != self.is_listening {
            if has_room {
                self.poll.add(listener.as_fd(), LISTENER, EventFlags::IN)?;
            } else {
                self.poll.delete(listener)?;
            }
            self.is_listening = has_room;
        }
        Ok(())
    }

    /// Accepts connections; whether more may wait.
    fn accept(&mut self) -> io::Result<bool> {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = &self.listener else { return Ok(false) };
            if !self.open.add() {
                return Ok(false);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = acceptfrom_with(listener, flags).map_err(io::Error::from);
            let opened = match accepted.and_then(with_address) {
                Ok((client, address)) if !self.settings.admits(address) => {
                    reset(&client);
                    self.open.remove();
                    let mut counters = self.shared.lock();
                    counters.accepted += 1;
                    counters.rejected += 1;
                    continue;
                }
                Ok(client) => {
                    self.shared.lock().accepted += 1;
                    self.open(client)
                }
                Err(error) => {
                    self.open.remove();
                    if error.kind() == io::ErrorKind::WouldBlock {
                        return Ok(false);
                    }
                    Err(error)
                }
            };
            // Other errors are those of one connection, or of the network (accept(2)).
            if opened.is_err_and(|error| is_exhausted(&error)) {
                self.shared.lock().exhausted += 1;
                self.paused_until_ns = now_ns() + EXHAUSTED_FOR.as_nanos() as u64;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens the connection to the target of one that was accepted. If it fails, the client is reset.
    fn open(&mut self, (client, address): (TcpStream, SocketAddr)) -> io::Result<()> {
        let began_ns = now_ns();
        let added = self.connect().inspect_err(|_| reset(&client)).and_then(|target| {
            let session = Session::new(client, address, target.into(), began_ns, self.settings);
            let entry = self.sessions.vacant_entry();
            let urgent = EventFlags::RDHUP | EventFlags::PRI;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET | urgent;
            for end in [CLIENT, TARGET] {
                let data = 2 * entry.key() as u64 + end as u64;
                if let Err(error) = self.poll.add(session.fd(end), data, flags) {
                    session.end(Outcome::Refused, &mut self.mover);
                    return Err(error);
                }
            }
            entry.insert(session);
            Ok(())
        });
        if added.is_err() {
            self.open.remove();
            self.shared.lock().refused += 1;
        }
        added
    }

    /// Begins to connect to the target.
    fn connect(&self) -> io::Result<Socket> {
        let at = self.settings.forward;
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(at), kind, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&at.into()) {
            Err(error)
                if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
            {
                Err(error)
            }
            _ => Ok(socket),
        }
    }

    /// Takes an event of a session.
    fn note(&mut self, data: u64, flags: EventFlags, now_ns: u64) {
        let (index, end) = ((data / 2) as usize, (data % 2) as usize);
        let Some(session) = self.sessions.get_mut(index) else { return };
        match session.note(end, flags, now_ns) {
            Next::End(outcome) => self.ended.push((index, outcome)),
            Next::Wait | Next::Again | Next::At(_) => {
                if !mem::replace(&mut session.is_queued, true) {
                    self.queue.push(index);
                }
            }
        }
    }

    /// How long to wait for an event; `None`: nothing is due.
    fn within(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        let resumes_ns = self.due.peek().map(|&Reverse((due_ns, _))| due_ns);
        let accepts_ns = Some(self.paused_until_ns).filter(|&ns| ns > 0);
        let next_ns = resumes_ns.into_iter().chain(accepts_ns).min()?;
        Some(Duration::from_nanos(next_ns.saturating_sub(now_ns())))
    }

    /// Queues the sessions whose time has come.
    fn resume(&mut self, now_ns: u64) {
        while let Some(&Reverse((due_ns, index))) = self.due.peek()
            && due_ns <= now_ns
        {
            self.due.pop();
            let Some(session) = self.sessions.get_mut(index) else { continue };
            // Its bytes wait for the schedule: it is not idle.
            session.active_ns = now_ns;
            if !mem::replace(&mut session.is_queued, true) {
                self.queue.push(index);
            }
        }
    }

    /// Serves the sessions in the queue; those that can go on are in it again.
    fn advance(&mut self) {
        if self.mover.ring.is_some() {
            self.advance_together();
        } else {
            for index in mem::take(&mut self.queue) {
                let next = self.open_session(index).or_else(|| {
                    let session = self.sessions.get_mut(index)?;
                    Some(session.advance(&mut self.mover))
                });
                if let Some(next) = next {
                    self.settle(index, next);
                }
            }
        }
        let [upstream, downstream] = self.mover.take_bytes();
        if upstream + downstream > 0 {
            let mut counters = self.shared.lock();
            counters.upstream_bytes += upstream;
            counters.downstream_bytes += downstream;
        }
    }

    /// Opens a session as far as it can; `None` once bytes may pass.
    pub(crate) fn open_session(&mut self, index: usize) -> Option<Next> {
        let session = self.sessions.get_mut(index)?;
        session.is_queued = false;
        let mut connect_ns = None;
        let next = session.open(&mut self.mover, self.settings, &mut connect_ns);
        if let Some(ns) = connect_ns {
            self.shared.lock().connect_ns.record(ns);
        }
        next
    }

    /// Does what a session needs next.
    pub(crate) fn settle(&mut self, index: usize, next: Next) {
        let Some(session) = self.sessions.get_mut(index) else { return };
        match next {
            Next::Wait => {}
            Next::Again => {
                session.is_queued = true;
                self.queue.push(index);
            }
            Next::At(due_ns) => {
                if mem::replace(&mut session.due_ns, due_ns) != due_ns {
                    self.due.push(Reverse((due_ns, index)));
                }
            }
            Next::End(outcome) => self.ended.push((index, outcome)),
        }
    }

    /// Ends sessions whose target does not answer, and those that are idle; keeps the others alive.
    fn sweep(&mut self, now_ns: u64) {
        let connect_ns = self.settings.connect_timeout.as_nanos() as u64;
        let idle_ns = self.settings.idle_timeout.map(|timeout| timeout.as_nanos() as u64);
        for (index, session) in &mut self.sessions {
            session.keep_alive();
            if let Some(outcome) = session.overdue(now_ns, connect_ns, idle_ns) {
                self.ended.push((index, outcome));
            }
        }
    }

    /// Removes the sessions that have ended.
    fn remove_ended(&mut self) {
        if self.due.len() > 2 * self.sessions.len() + DUE_SPARE {
            let sessions = &self.sessions;
            let is_its = |index: usize, due_ns| {
                sessions.get(index).is_some_and(|session| session.due_ns == due_ns)
            };
            self.due.retain(|&Reverse((due_ns, index))| is_its(index, due_ns));
        }
        for (index, outcome) in mem::take(&mut self.ended) {
            let Some(session) = self.sessions.try_remove(index) else { continue };
            if session.is_queued {
                self.queue.retain(|&queued| queued != index);
            }
            let ended = session.end(outcome, &mut self.mover);
            self.open.remove();
            self.paused_until_ns = 0;
            let mut counters = self.shared.lock();
            counters.count(outcome, &ended.upstream, &ended.downstream);
            if self.settings.reports_ended && self.reports.try_send(ended).is_err() {
                counters.unreported += 1;
            }
        }
    }
}

fn with_address(
    (fd, address): (OwnedFd, Option<SocketAddrAny>),
) -> io::Result<(TcpStream, SocketAddr)> {
    let address = address.and_then(|address| address.try_into().ok());
    Ok((fd.into(), address.ok_or(io::ErrorKind::InvalidData)?))
}

/// Whether an error means that descriptors or memory are missing.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| lacking.iter().any(|lack| lack.raw_os_error() == code))
}
