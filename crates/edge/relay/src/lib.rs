//! A layer-4 relay: accepts TCP connections, or UDP flows, at one address, opens one of its own to another address for
//! each, and moves bytes between the two. The families of the addresses may differ.
//!
//! - [`Settings`]: what to relay, how, and the limits.
//! - `worker`: a thread that accepts connections and serves its own; there is one per `threads`, each with a listening
//!   socket of its own (SO_REUSEPORT).
//! - `session`: one connection of a client and the relay's connection to the target.
//! - `direction`: the hot loop. Moves what one end sent to the other, by `read` and `write` or by splice(2).
//! - `ring`: the same for many connections at once, by io_uring.
//! - `poll`: waits for events.
//! - `udp`: the same for flows of datagrams.
//! - [`Transfer`], [`Counters`]: what was moved, and the times of paper P5.
//!
//! A relay has no queue: it reads from a connection only if the other one can be written, so the windows of TCP hold
//! back a sender that is faster than its receiver.

mod counters;
mod direction;
mod poll;
mod ring;
mod session;
mod settings;
mod transfer;
mod udp;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

pub use counters::{Counters, Times};
pub use fabricmark_plan::RelayPath as Path;
pub use session::Outcome;
pub use settings::{Burst, Protocol, RelayError, Settings};
pub use transfer::{Ended, Transfer};

use counters::Shared;
use poll::Poll;
use ring::Ring;

/// Interval at which [`Relay::serve`] calls `look`, and threads look whether they are to stop or may accept again.
const TICK: Duration = Duration::from_millis(100);

/// Ticks after which threads look for timeouts.
const SWEEP_TICKS: u32 = 10;

/// Least time between two looks for timeouts, a tick less: wake-ups are not exactly on time.
const SWEEP: Duration = TICK.saturating_mul(SWEEP_TICKS - 1);

/// Ended connections that wait to be read by [`Board::ended`]; more are counted in [`Counters::unreported`].
const ENDED_MAX: usize = 4096;

/// A relay that listens.
#[derive(Debug)]
pub struct Relay {
    settings: Settings,
    connections_max: usize,
    sockets: settings::Sockets,
    /// One per thread.
    polls: Vec<Poll>,
    /// One per thread with [`Path::Uring`], else none.
    rings: Vec<Ring>,
}

/// Asks a relay to end.
#[derive(Debug, Default)]
pub struct Stop {
    /// Accept nothing new, and end when the connections have.
    pub drains: Arc<AtomicBool>,
    /// End now: reset the connections.
    pub aborts: Arc<AtomicBool>,
}

/// Open connections of all threads, and how many there may be.
#[derive(Debug)]
pub(crate) struct Limited {
    count: AtomicUsize,
    most: usize,
    /// Whether a thread waits until there may be more.
    has_waiting: AtomicBool,
}

impl Limited {
    /// Counts one more, if there may be.
    fn add(&self) -> bool {
        let has_room = self.count.fetch_add(1, Relaxed) < self.most;
        if !has_room {
            self.remove();
        }
        has_room
    }

    fn remove(&self) {
        self.count.fetch_sub(1, Relaxed);
    }

    fn has_room(&self) -> bool {
        self.count.load(Relaxed) < self.most
    }

    /// Whether a thread may accept a connection. If not, it waits until it is woken.
    fn may_accept(&self) -> bool {
        let has_room = self.has_room();
        if !has_room {
            self.has_waiting.store(true, Relaxed);
        }
        has_room
    }

    /// Whether there is room for which a thread waits.
    fn has_news(&self) -> bool {
        self.has_room() && self.has_waiting.swap(false, Relaxed)
    }
}

/// What a relay has done so far.
#[derive(Debug)]
pub struct Board<'a> {
    shared: &'a [Shared],
    ended: Receiver<Ended>,
}

impl Board<'_> {
    /// The sum over all threads.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for thread in self.shared {
            sum += &*thread.lock();
        }
        sum
    }

    /// Connections that have ended since the last call, if [`Settings::reports_ended`].
    pub fn ended(&self) -> impl Iterator<Item = Ended> {
        self.ended.try_iter()
    }
}

impl Relay {
    /// Opens the listening sockets, and all other descriptors that it has besides those of connections.
    pub fn listen(settings: Settings) -> Result<Self, RelayError> {
        let connections_max = settings.check()?;
        let sockets = settings.sockets()?;
        let polls = (0..settings.threads).map(|_| Poll::new()).collect::<io::Result<_>>();
        let at = settings.listen;
        let polls = polls.map_err(|source| RelayError::Listen { at, source })?;
        let rings = if settings.path == Path::Uring { settings.threads } else { 0 };
        let rings = (0..rings).map(|_| Ring::new()).collect::<io::Result<_>>();
        let rings = rings.map_err(RelayError::Ring)?;
        Ok(Self { settings, connections_max, sockets, polls, rings })
    }

    /// Address that it listens at, with the port that the kernel chose if none was given.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.sockets.address()
    }

    /// Most connections that are open at a time.
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Serves until it is asked to stop; then accepts nothing new, and returns when all connections have ended, at the
    /// latest after [`Settings::drain_timeout`]. `look` is called ten times a second, and once at the end.
    pub fn serve(self, stop: &Stop, look: &mut dyn FnMut(&Board<'_>)) -> io::Result<Counters> {
        let Self { settings, connections_max, sockets, polls, rings } = self;
        let shared: Vec<Shared> = (0..settings.threads).map(|_| Shared::default()).collect();
        let (ended, reader) = sync_channel(ENDED_MAX);
        let board = Board { shared: &shared, ended: reader };
        let open = Limited {
            count: AtomicUsize::new(0),
            most: connections_max,
            has_waiting: AtomicBool::new(false),
        };
        let (settings, open) = (&settings, &open);
        let served: io::Result<()> = thread::scope(|scope| {
            let wakers: Vec<poll::Waker> = polls.iter().map(Poll::waker).collect();
            let mut threads = Vec::new();
            match sockets {
                settings::Sockets::Tcp(listeners) => {
                    let rings = rings.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
                    let each = polls.into_iter().zip(rings).zip(listeners).zip(board.shared);
                    for ((waits, listener), shared) in each {
                        let ended = ended.clone();
                        let worker =
                            worker::Worker::new(settings, waits, listener, shared, open, ended);
                        threads.push(scope.spawn(move || worker.run(stop)));
                    }
                }
                settings::Sockets::Udp(sockets) => {
                    let each = polls.into_iter().zip(sockets).zip(board.shared);
                    for ((poll, socket), shared) in each {
                        let worker = udp::Worker::new(settings, poll, socket, shared, open);
                        threads.push(scope.spawn(move || worker.run(stop)));
                    }
                }
            }
            let mut ticks = 0_u32;
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(TICK);
                ticks = ticks.wrapping_add(1);
                let is_time = ticks.is_multiple_of(SWEEP_TICKS);
                let is_asked = stop.drains.load(Relaxed) || stop.aborts.load(Relaxed);
                if is_asked || is_time || open.has_news() {
                    wakers.iter().for_each(poll::Waker::wake);
                }
                look(&board);
            }
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        });
        look(&board);
        served.map(|()| board.counters())
    }
}
