//! The agent: a daemon on a host whose workers are the remote ends of runs, for many coordinators at once.
//!
//! One thread listens, decrypts and forwards. Each connection that sends orders has its own worker process, so that
//! coordinators do not see or disturb each other, and all resources of a connection are freed with its process.

mod connected;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use fabricmark_proto::{AdmissionQueue, AgentAction, ConnectionId, Quota, SessionId, Turn};
use fabricmark_telemetry::sys;
use fabricmark_units::{Bytes, Instant};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::process::{Resource, getrlimit};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};

use connected::{Connected, Hand, start_reaper};

use crate::interfaces::Listing;
use crate::secured::machine_time;

/// Shortest time between checks of deadlines and signals; the longest is twice this.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Largest number of events per epoll_wait call.
const EVENTS: usize = 256;

/// Largest number of connections accepted in a row before others are served.
const ACCEPTED_AT_ONCE: usize = 32;

/// Largest number of pending handshakes, whose peers are not authenticated yet. With 500 new ones a second each has
/// a second to finish, and 512 of them hold some 20 MB (measured, `docs/security.md`).
const PENDING_MAX: usize = 512;

/// Most bytes of incomplete requests on all connections of a host: four of the longest, or seven with the longest trace.
const INCOMPLETE_MAX: usize = 16 << 20;

/// Time for which the kernel keeps a connection to itself until its first byte arrives, so that a silent peer costs
/// this process nothing (tcp(7), TCP_DEFER_ACCEPT).
const SILENT_FOR_SECONDS: libc::c_int = 3;

/// Configuration of an agent.
#[derive(Clone)]
pub struct Settings {
    /// TLS with the agent's key, and the hosts that it trusts.
    pub tls: Arc<ServerConfig>,
    /// Limits for one coordinator.
    pub quota: Quota,
    /// Largest number of coordinators that measure at once; with 1 none disturbs another's measurement. Those of one host
    /// have at most half of these slots.
    pub slots: usize,
    /// Largest number of connections, of all coordinators together. One host has at most half of them, or
    /// [`Quota::connections_max`] if that is more.
    pub connections_max: usize,
    /// Most memory for the payloads and buffers of all runs in progress. Those of one host have at most half of it, or
    /// [`Quota::memory_max`] if that is more.
    pub memory_max: Bytes,
    /// This program, which is started as worker.
    pub program: PathBuf,
}

/// Present load of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections of authenticated coordinators.
    pub connections: usize,
    /// Coordinators with a run in progress.
    pub busy: usize,
    /// Connections that wait for their turn.
    pub waiting: usize,
}

/// A coordinator: the fingerprint of its host's key, and its session, which it chooses itself.
pub(crate) type Coordinator = ([u8; 32], SessionId);

/// Event number of the first listener; those of the others count down from it.
const LISTENER: u64 = u64::MAX;

/// A listening agent.
pub struct Agent {
    settings: Settings,
    listeners: Vec<TcpListener>,
    epoll: OwnedFd,
    coordinators: BTreeMap<ConnectionId, Connected>,
    /// Connections whose peers are not authenticated yet, oldest first, and how many there may be.
    pending: VecDeque<ConnectionId>,
    pending_max: usize,
    queue: AdmissionQueue<[u8; 32], SessionId>,
    /// Whether places in the queue may have changed since they were told. They are told at most once per tick: a coordinator
    /// that comes and goes must not make the agent send to all that wait.
    is_queue_changed: bool,
    next: ConnectionId,
    interfaces: Listing,
    /// Connections with an event that is not handled yet.
    stirred: VecDeque<ConnectionId>,
    /// To the thread that reaps workers, and that thread.
    reaper: Sender<Hand>,
    reaping: JoinHandle<()>,
    /// Whether accepting is suspended because the process ran out of descriptors.
    is_deaf: bool,
}

impl Agent {
    /// Listens at these addresses.
    pub fn listen(addresses: &[SocketAddr], mut settings: Settings) -> io::Result<Self> {
        // A pending handshake has two descriptors, and a coordinator a third for its worker: these have half of those
        // that the process may have, and handshakes a quarter.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as usize;
        settings.connections_max = settings.connections_max.min(descriptors / 6).max(1);
        let (reaper, reaping) = start_reaper()?;
        let agent = Self {
            listeners: addresses.iter().copied().map(listen).collect::<Result<_, _>>()?,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            coordinators: BTreeMap::new(),
            pending: VecDeque::new(),
            pending_max: PENDING_MAX.min(descriptors / 8).max(1),
            queue: AdmissionQueue::new(settings.slots),
            is_queue_changed: false,
            next: 0,
            interfaces: Listing::default(),
            stirred: VecDeque::new(),
            reaper,
            reaping,
            is_deaf: false,
            settings,
        };
        agent.watch_listeners()?;
        Ok(agent)
    }

    fn watch_listeners(&self) -> io::Result<()> {
        for (listener, place) in self.listeners.iter().zip(0..) {
            let data = EventData::new_u64(LISTENER - place);
            epoll::add(&self.epoll, listener, data, EventFlags::IN)?;
        }
        Ok(())
    }

    /// Addresses at which it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves until `stop` is set, all runs in progress have ended, and their workers have put back what they set. Calls
    /// `look` two to four times a second.
    pub fn serve(mut self, stop: &AtomicBool, look: &mut dyn FnMut(Load)) -> io::Result<()> {
        let mut looked = Instant(0);
        let mut is_draining = false;
        loop {
            for token in self.wait()? {
                self.on_event(token);
                self.settle();
            }
            let now = machine_time();
            if (now - looked).0 < LOOK_EVERY.as_nanos() as u64 {
                continue;
            }
            looked = now;
            self.on_tick(now);
            if stop.load(Relaxed) && !is_draining {
                is_draining = true;
                self.listeners.clear();
                self.coordinators.values_mut().for_each(Connected::drain);
            }
            self.stirred.extend(self.coordinators.keys());
            self.settle();
            look(self.load());
            if is_draining && self.coordinators.is_empty() {
                break;
            }
        }
        let load = self.load();
        drop(self.reaper);
        while !self.reaping.is_finished() {
            look(load);
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn load(&self) -> Load {
        let (busy, waiting) = (self.queue.busy(), self.queue.waiting());
        Load { connections: self.known(), busy, waiting }
    }

    /// Number of connections whose peers are authenticated.
    fn known(&self) -> usize {
        self.coordinators.values().filter(|coordinator| coordinator.is_known()).count()
    }

    fn wait(&self) -> io::Result<Vec<u64>> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let within = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&within)) {
            Ok(_) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn on_event(&mut self, token: u64) {
        let place = (LISTENER - token) as usize;
        if place < self.listeners.len() {
            return self.accept(place);
        }
        let (id, is_worker) = (token / 2, token % 2 == 1);
        let Some(coordinator) = self.coordinators.get_mut(&id) else { return };
        if is_worker {
            coordinator.on_worker();
        } else {
            let was = coordinator.owner();
            coordinator.on_peer(&self.settings);
            if coordinator.owner() != was {
                self.count(id);
            }
            self.check_incomplete(id);
        }
        self.stirred.push_back(id);
    }

    /// Refuses a connection that exceeds the limit of the agent or of its coordinator.
    fn count(&mut self, id: ConnectionId) {
        let all = self.settings.connections_max;
        let each = self.settings.quota.connections_max as usize;
        let Some(owner) = self.coordinators.get(&id).and_then(Connected::owner) else { return };
        let (host, session) = owner;
        let owners = self.coordinators.values().filter_map(Connected::owner);
        let of_host = owners.clone().filter(|other| other.0 == host).count();
        let of_session = owners.filter(|other| *other == owner).count();
        let each_host = (all / 2).max(each).min(all);
        let why = if self.known() > all {
            format!("the agent has its maximum of {all} connections: try again later")
        } else if of_host > each_host {
            format!("the agent allows {each_host} connections per host: try again later")
        } else if session != [0; 16] && of_session > each {
            format!("the agent allows {each} connections per coordinator")
        } else {
            return;
        };
        if let Some(protocol) = self.coordinators.get_mut(&id).and_then(Connected::protocol) {
            protocol.refuse(why);
        }
    }

    /// Refuses a connection if the incomplete requests of its host are too long together.
    fn check_incomplete(&mut self, id: ConnectionId) {
        let Some(this) = self.coordinators.get(&id) else { return };
        let Some((host, _)) = this.owner().filter(|_| this.incomplete_bytes() > 0) else { return };
        let of_host = self
            .coordinators
            .values()
            .filter(|other| other.owner().is_some_and(|(owner, _)| owner == host));
        if of_host.map(Connected::incomplete_bytes).sum::<usize>() <= INCOMPLETE_MAX {
            return;
        }
        if let Some(protocol) = self.coordinators.get_mut(&id).and_then(Connected::protocol) {
            protocol.refuse(format!(
                "the agent buffers at most {} of incomplete requests per host: send one after the other",
                Bytes(INCOMPLETE_MAX as u64)
            ));
        }
    }

    fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listeners[place].accept() {
                Ok((tcp, peer)) => self.admit(tcp, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors: other connections may end until the next tick.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    self.hush();
                    return;
                }
                // The connection has been aborted.
                Err(_) => {}
            }
        }
    }

    /// Suspends accepting until the next tick, and drops the oldest pending handshake.
    fn hush(&mut self) {
        self.make_room(1);
        for listener in &self.listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
        self.is_deaf = true;
    }

    /// Drops the oldest connection whose peer is not authenticated, if there are at least `least` of them.
    fn make_room(&mut self, least: usize) {
        let is_known = |id| self.coordinators.get(&id).is_some_and(Connected::is_known);
        if let Some(oldest) = oldest_unauthenticated(&mut self.pending, least, is_known) {
            self.coordinators.remove(&oldest);
        }
    }

    fn admit(&mut self, tcp: TcpStream, peer: SocketAddr) {
        self.make_room(self.pending_max);
        let id = self.next;
        let coordinator = Connected::new(tcp, peer, self.reaper.clone(), machine_time());
        if epoll::add(&self.epoll, &coordinator.tcp, EventData::new_u64(2 * id), EventFlags::IN)
            .is_ok()
        {
            self.next += 1;
            self.coordinators.insert(id, coordinator);
            self.pending.push_back(id);
        }
    }

    fn on_tick(&mut self, now: Instant) {
        self.coordinators.values_mut().for_each(|coordinator| coordinator.on_timeout(now));
        self.pending.retain(|id| {
            self.coordinators.get(id).is_some_and(|coordinator| !coordinator.is_known())
        });
        if std::mem::take(&mut self.is_deaf) {
            let _ = self.watch_listeners();
        }
        if std::mem::take(&mut self.is_queue_changed) {
            self.tell_places();
        }
    }

    /// Carries out the actions of connections with events, until none has any.
    fn settle(&mut self) {
        while let Some(id) = self.stirred.pop_front() {
            while let Some(action) = self.coordinators.get_mut(&id).and_then(Connected::poll_output)
            {
                self.act(id, action);
            }
            if let Some(coordinator) = self.coordinators.get_mut(&id)
                && coordinator.watch(&self.epoll, id).is_err()
            {
                coordinator.end();
                self.stirred.push_back(id);
            }
        }
    }

    fn act(&mut self, id: ConnectionId, action: AgentAction) {
        let Some(coordinator) = self.coordinators.get_mut(&id) else { return };
        let owner = coordinator.owner();
        match action {
            AgentAction::Say(answer) => coordinator.say(&answer),
            AgentAction::Hand(order) => coordinator.hand(order, &self.settings),
            AgentAction::ListInterfaces => {
                let listed = self.interfaces.get(machine_time(), fabricmark_host::interfaces::all);
                coordinator.say_interfaces(listed);
            }
            AgentAction::Ask => {
                if let Some(owner) = owner {
                    let turn = self.queue.ask(owner, id);
                    self.turn(id, turn);
                }
            }
            AgentAction::Done => {
                if let Some(owner) = owner {
                    self.queue.done(owner);
                    self.call();
                }
            }
            AgentAction::Leave => {
                self.queue.leave(id);
                self.call();
            }
            AgentAction::Close => {
                if coordinator.close() {
                    self.coordinators.remove(&id);
                }
            }
        }
    }

    /// Starts waiting runs whose turn has come.
    fn call(&mut self) {
        while let Some(id) = self.queue.call() {
            self.turn(id, Turn::Now);
        }
        self.is_queue_changed = true;
    }

    /// Tells waiting connections their places in the queue, where these have changed.
    fn tell_places(&mut self) {
        let places: Vec<(ConnectionId, u32)> = self.queue.places().collect();
        for (id, place) in places {
            if self.coordinators.get(&id).is_some_and(|waiting| waiting.place != place) {
                self.turn(id, Turn::Waits { place });
            }
        }
    }

    /// Passes on the queue's answer. A run whose turn it is fails if it and other runs would need too much memory.
    fn turn(&mut self, id: ConnectionId, turn: Turn) {
        let allowed = if turn == Turn::Now { self.check_memory(id) } else { Ok(()) };
        let Some(coordinator) = self.coordinators.get_mut(&id) else { return };
        coordinator.place = match turn {
            Turn::Now => 0,
            Turn::Waits { place } => place,
        };
        let Some(protocol) = coordinator.protocol() else { return };
        match allowed {
            Ok(()) => protocol.on_turn(turn),
            Err(why) => protocol.decline(why),
        }
        self.stirred.push_back(id);
    }

    /// Checks that there is memory for a run, of all runs together and of those of its host.
    fn check_memory(&self, id: ConnectionId) -> Result<(), String> {
        let most = self.settings.memory_max;
        let most_of_host = Bytes((most.0 / 2).max(self.settings.quota.memory_max.0)).min(most);
        let Some(this) = self.coordinators.get(&id) else { return Ok(()) };
        let needed = this.needed();
        let used = |is_counted: &dyn Fn(&Connected) -> bool| {
            let counted = self.coordinators.values().filter(|other| is_counted(other));
            Bytes(counted.fold(0, |sum, other| sum.saturating_add(other.used().0)))
        };
        let host = this.owner().map(|(host, _)| host);
        let of_host = used(&|other| other.owner().map(|(host, _)| host) == host);
        for (most, used, whose) in
            [(most, used(&|_| true), "all runs"), (most_of_host, of_host, "the runs of a host")]
        {
            if used.0.saturating_add(needed.0) > most.0 {
                return Err(format!(
                    "the agent allows {most} of memory for {whose} together, of which {used} are in use, and this run \
                     needs {needed}: try again later, use fewer flows or smaller buffers, or start the agent \
                     with more --memory-total"
                ));
            }
        }
        Ok(())
    }
}

/// Removes and returns the oldest connection whose peer is not authenticated, if there are at least `least` of them. `pending`
/// may still list some that were authenticated meanwhile: these are removed from it first.
fn oldest_unauthenticated(
    pending: &mut VecDeque<ConnectionId>,
    least: usize,
    is_known: impl Fn(ConnectionId) -> bool,
) -> Option<ConnectionId> {
    if pending.len() >= least {
        pending.retain(|&id| !is_known(id));
    }
    if pending.len() >= least { pending.pop_front() } else { None }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // One socket for each family, so that IPv4 addresses are not mapped to IPv6.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    sys::set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, SILENT_FOR_SECONDS)?;
    socket.listen(libc::SOMAXCONN)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_take_no_place_of_one_that_was_authenticated_meanwhile() {
        let mut pending = VecDeque::from([1, 2, 3, 4]);
        assert_eq!(oldest_unauthenticated(&mut pending, 4, |id| id <= 2), None, "two are left");
        assert_eq!(pending, [3, 4]);
        assert_eq!(oldest_unauthenticated(&mut pending, 2, |_| false), Some(3));
        assert_eq!(oldest_unauthenticated(&mut pending, 1, |_| true), None);
    }
}
