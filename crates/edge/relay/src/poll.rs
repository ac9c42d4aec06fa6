//! Waits for the events of a thread's sockets.
//!
//! A thread that is idle sleeps without a timer: to arm one and to cancel it again adds 20 µs to a round trip through a
//! relay on a virtual machine (`docs/bench.md`). What happens at intervals is started by [`Waker::wake`] from outside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::{read, write};

/// Events per epoll_wait(2).
const EVENTS: usize = 256;

/// Data of the event of a wake-up.
const WAKE: u64 = u64::MAX;

/// Data of the event of the listening socket; all other sockets have lower ones.
pub(crate) const LISTENER: u64 = u64::MAX - 1;

/// The events of a thread.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
}

/// Ends a wait of another thread.
#[derive(Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // If the counter is full, the thread has not noticed yet.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self { epoll, wake: Arc::new(wake) })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// Space for the events of a wait.
    pub(crate) fn events() -> Vec<Event> {
        Vec::with_capacity(EVENTS)
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(data), flags)?)
    }

    pub(crate) fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits for events, for a wake-up or for a time; the wake-up is not among `events`.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, within: Option<Duration>) -> io::Result<()> {
        events.clear();
        let timeout = within.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: time.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(place) = events.iter().position(|event| event.data.u64() == WAKE) {
            events.swap_remove(place);
            let mut count = [0; 8];
            // Resets the counter.
            let _ = read(&self.wake, &mut count);
        }
        Ok(())
    }
}
