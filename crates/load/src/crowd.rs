//! Many flows on one thread: which of them can go on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::Control;
use crate::transport::Flow;

/// Events taken from the kernel at once: enough that a call serves many flows, few enough to stay in
/// the first-level cache (12 bytes each).
const EVENTS: usize = 256;

/// What flows wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interest {
    /// Something to read; told as long as there is.
    Read,
    /// Room to write; told as long as there is.
    Write,
    /// Either; told when it becomes so, and a flow is then to be served until it would block.
    Change,
}

/// The flows of a thread, known to the kernel by their places.
pub(crate) struct Crowd {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Crowd {
    /// Watches flows that do not block.
    pub(crate) fn of(flows: &[impl Flow], interest: Interest) -> io::Result<Self> {
        let flags = match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Change => EventFlags::IN | EventFlags::OUT | EventFlags::ET,
        };
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (place, flow) in flows.iter().enumerate() {
            if let Some(fd) = flow.fd() {
                epoll::add(&epoll, fd, EventData::new_u64(place as u64), flags)?;
            }
        }
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// As [`Self::wait`], for at most so many nanoseconds, which may be 0. A timer of epoll_wait(2)
    /// knows milliseconds, that of ppoll(2) nanoseconds; the set of flows is itself a file to wait for.
    pub(crate) fn wait_for(&mut self, ns: u64) -> io::Result<Vec<usize>> {
        if ns > 0 {
            let timeout = Timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as i64 };
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.take(0)
    }

    /// The places of flows that can go on; none when nothing happens for [`Control::LOOK_EVERY`].
    pub(crate) fn wait(&mut self) -> io::Result<Vec<usize>> {
        self.take(Control::LOOK_EVERY.as_nanos() as i64)
    }

    fn take(&mut self, timeout_ns: i64) -> io::Result<Vec<usize>> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout_ns };
        self.events.clear();
        let room: &mut [MaybeUninit<Event>] = self.events.spare_capacity_mut();
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64() as usize).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Watches a flow no longer.
    pub(crate) fn forget(&self, flow: &impl Flow) -> io::Result<()> {
        match flow.fd() {
            Some(fd) => Ok(epoll::delete(&self.epoll, fd)?),
            None => Ok(()),
        }
    }
}
