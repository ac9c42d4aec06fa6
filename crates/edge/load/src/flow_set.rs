//! Many flows on one thread: epoll(7) reports which of them are ready.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::Control;
use crate::transport::Flow;

/// Events per epoll_wait(2): enough to serve many flows per call, few enough to stay in the L1 cache (12 bytes each).
const EVENTS: usize = 256;

/// Readiness that flows are polled for. A flow with a [`Flow::ready_fd`] is polled for input on that descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interest {
    /// Input, level-triggered.
    Read,
    /// Room for output, level-triggered.
    Write,
    /// Either, edge-triggered: a flow must then be served until it would block.
    Change,
}

/// The flows of a thread, registered with epoll by index.
pub(crate) struct FlowSet {
    epoll: OwnedFd,
    events: Vec<Event>,
    /// Flows with a `ready_fd`, which may signal nothing at first: reported as ready once, without an event.
    untold: Vec<usize>,
    /// Whether each flow has ended but still has timers to serve; empty if there is none.
    is_over: Vec<bool>,
}

impl FlowSet {
    /// Registers flows that do not block.
    pub(crate) fn of(flows: &[impl Flow], interest: Interest) -> io::Result<Self> {
        let flags = match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Change => EventFlags::IN | EventFlags::OUT | EventFlags::ET,
        };
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut untold = Vec::new();
        for (place, flow) in flows.iter().enumerate() {
            let data = EventData::new_u64(place as u64);
            if let Some(fd) = flow.ready_fd() {
                epoll::add(&epoll, fd, data, EventFlags::IN | (flags & EventFlags::ET))?;
                untold.push(place);
            } else if let Some(fd) = flow.fd() {
                epoll::add(&epoll, fd, data, flags)?;
            }
        }
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS), untold, is_over: Vec::new() })
    }

    /// As [`Self::wait`], for at most `ns` nanoseconds, which may be 0. Uses ppoll(2) on the epoll descriptor,
    /// because the timeout of epoll_wait(2) has a resolution of 1 ms.
    pub(crate) fn wait_for<F: Flow>(&mut self, flows: &mut [F], ns: u64) -> io::Result<Vec<usize>> {
        let ns = self.until_due(flows, ns.min(999_999_999));
        let timeout = Timespec { tv_sec: 0, tv_nsec: ns as i64 };
        let mut set = [PollFd::new(&self.epoll, PollFlags::IN)];
        let is_silent = ns > 0
            && match poll(&mut set, Some(&timeout)) {
                Ok(count) => count == 0,
                Err(rustix::io::Errno::INTR) => false,
                Err(error) => return Err(error.into()),
            };
        let ready = if is_silent { Vec::new() } else { self.look(0)? };
        self.with_due(flows, ready)
    }

    /// Returns the indexes of ready flows; none if nothing happens for [`Control::LOOK_EVERY`].
    pub(crate) fn wait<F: Flow>(&mut self, flows: &mut [F]) -> io::Result<Vec<usize>> {
        let ns = self.until_due(flows, Control::LOOK_EVERY.as_nanos() as u64);
        let ready = self.look(ns)?;
        self.with_due(flows, ready)
    }

    /// Nanoseconds until a flow must be served without an event, at most `at_most_ns`.
    fn until_due<F: Flow>(&self, flows: &mut [F], at_most_ns: u64) -> u64 {
        if !self.untold.is_empty() {
            return 0;
        }
        match flows.iter_mut().filter_map(Flow::due).min() {
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                at_most_ns.min(left.as_nanos() as u64)
            }
            None => at_most_ns,
        }
    }

    /// Adds flows that must be served without an event, and serves flows that have ended.
    fn with_due<F: Flow>(
        &mut self,
        flows: &mut [F],
        mut ready: Vec<usize>,
    ) -> io::Result<Vec<usize>> {
        let told = ready.len();
        ready.append(&mut self.untold);
        let mut now = None;
        for (place, flow) in flows.iter_mut().enumerate() {
            if flow.due().is_some_and(|due| due <= *now.get_or_insert_with(Instant::now)) {
                ready.push(place);
            }
        }
        if ready.len() > told {
            ready.sort_unstable();
            ready.dedup();
        }
        let mut tended = Ok(());
        if !self.is_over.is_empty() {
            ready.retain(|&place| {
                if self.is_over[place] && tended.is_ok() {
                    tended = flows[place].tend();
                }
                !self.is_over[place]
            });
        }
        tended.map(|()| ready)
    }

    /// Reads events from epoll.
    fn look(&mut self, timeout_ns: u64) -> io::Result<Vec<usize>> {
        let mut timeout = Timespec { tv_sec: 0, tv_nsec: timeout_ns as i64 };
        loop {
            self.events.clear();
            let room: &mut [MaybeUninit<Event>] = self.events.spare_capacity_mut();
            match epoll::wait(&self.epoll, room, Some(&timeout)) {
                Ok((events, _)) => {
                    return Ok(events.iter().map(|event| event.data.u64() as usize).collect());
                }
                // An io_uring completion interrupts its thread as a signal does, and its event is then in the set.
                Err(rustix::io::Errno::INTR) => timeout.tv_nsec = 0,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Stops reporting a flow.
    pub(crate) fn forget(&mut self, place: usize, flows: &mut [impl Flow]) -> io::Result<()> {
        let count = flows.len();
        let flow = &mut flows[place];
        if flow.due().is_some() {
            self.is_over.resize(count, false);
            self.is_over[place] = true;
            return Ok(());
        }
        match flow.ready_fd().or(flow.fd()) {
            Some(fd) => Ok(epoll::delete(&self.epoll, fd)?),
            None => Ok(()),
        }
    }
}

/// Waits for an event on one of these, for at most [`Control::LOOK_EVERY`]; returns the number of those with events.
pub(crate) fn poll_briefly(asked: &mut [PollFd<'_>]) -> io::Result<usize> {
    poll_for(asked, Control::LOOK_EVERY)
}

/// Waits until one of these is ready, at most `at_most`; a signal also ends the wait. Returns how many are.
pub fn poll_for(asked: &mut [PollFd<'_>], at_most: Duration) -> io::Result<usize> {
    let at_most = Timespec::try_from(at_most).map_err(io::Error::other)?;
    match poll(asked, Some(&at_most)) {
        Err(rustix::io::Errno::INTR) => Ok(0),
        polled => Ok(polled?),
    }
}
