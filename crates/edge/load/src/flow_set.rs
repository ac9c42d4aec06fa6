//! Many flows on one thread: epoll(7) reports which of them are ready.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, OwnedFd};
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
    /// Either, edge-triggered: a flow must then be served until it would block, or until nothing can arrive before it sends.
    /// Datagram flows are polled for input only, until [`FlowSet::needs_room`].
    Change,
}

/// Descriptors of a thread, registered with epoll by number.
pub(crate) struct Ready {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Ready {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Reports `place` when the descriptor is ready. A closed descriptor is forgotten by itself.
    pub(crate) fn add(&self, fd: impl AsFd, place: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(place as u64), flags)?)
    }

    /// As [`Self::add`], for a descriptor that was added.
    pub(crate) fn modify(&self, fd: impl AsFd, place: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(place as u64), flags)?)
    }

    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// The numbers of what is ready; none after a signal, or if nothing is within `timeout`.
    pub(crate) fn look(&mut self, mut timeout: Option<Duration>) -> io::Result<Vec<usize>> {
        loop {
            self.events.clear();
            let room: &mut [MaybeUninit<Event>] = self.events.spare_capacity_mut();
            match epoll::wait(&self.epoll, room, timespec(timeout).as_ref()) {
                Ok((events, _)) => {
                    return Ok(events.iter().map(|event| event.data.u64() as usize).collect());
                }
                // An io_uring completion interrupts its thread as a signal does, and its event is then in the set.
                Err(rustix::io::Errno::INTR) => timeout = Some(Duration::ZERO),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// As [`Self::look`], by ppoll(2) on the epoll descriptor, because the timeout of epoll_wait(2) has a resolution of 1
    /// ms.
    pub(crate) fn look_for(&mut self, timeout: Option<Duration>) -> io::Result<Vec<usize>> {
        let mut set = [PollFd::new(&self.epoll, PollFlags::IN)];
        let is_silent = timeout != Some(Duration::ZERO)
            && match poll(&mut set, timespec(timeout).as_ref()) {
                Ok(count) => count == 0,
                Err(rustix::io::Errno::INTR) => false,
                Err(error) => return Err(error.into()),
            };
        if is_silent { Ok(Vec::new()) } else { self.look(Some(Duration::ZERO)) }
    }
}

/// The flows of a thread, registered with epoll by index.
pub(crate) struct FlowSet {
    ready: Ready,
    /// Flows with a `ready_fd`, which may signal nothing at first: reported as ready once, without an event.
    untold: Vec<usize>,
    /// Whether each flow has ended but still has timers to serve; empty if there is none.
    is_over: Vec<bool>,
    /// Whether each datagram flow is polled for output, too; empty if none is.
    has_room_events: Vec<bool>,
    /// Time limit of a wait; `None`: until an event or a signal.
    at_most: Option<Duration>,
}

impl FlowSet {
    /// Registers flows that do not block.
    pub(crate) fn of(flows: &[impl Flow], interest: Interest) -> io::Result<Self> {
        let flags_of = |flow: &_| match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            // A datagram socket reports room after each datagram that it has sent.
            Interest::Change if !Flow::has_end(flow) => EventFlags::IN | EventFlags::ET,
            Interest::Change => EventFlags::IN | EventFlags::OUT | EventFlags::ET,
        };
        let ready = Ready::new()?;
        let mut untold = Vec::new();
        for (place, flow) in flows.iter().enumerate() {
            let flags = flags_of(flow);
            if let Some(fd) = flow.ready_fd() {
                ready.add(fd, place, EventFlags::IN | (flags & EventFlags::ET))?;
                untold.push(place);
            } else if let Some(fd) = flow.fd() {
                ready.add(fd, place, flags)?;
            }
        }
        Ok(Self {
            ready,
            untold,
            is_over: Vec::new(),
            has_room_events: Vec::new(),
            at_most: Some(Control::LOOK_EVERY),
        })
    }

    /// Removes the time limit of waits if orders interrupt this thread: the kernel sets a timer for each wait that has one.
    pub(crate) fn until_interrupted(mut self, control: &Control) -> Self {
        if control.interrupter.interrupts_this_thread() {
            self.at_most = None;
        }
        self
    }

    /// Polls a flow for output as well from now on, since a send would block.
    pub(crate) fn needs_room(&mut self, place: usize, flows: &[impl Flow]) -> io::Result<()> {
        let flow = &flows[place];
        let is_reported = flow.has_end() || flow.ready_fd().is_some();
        let Some(fd) = flow.fd().filter(|_| !is_reported) else { return Ok(()) };
        self.has_room_events.resize(flows.len(), false);
        if !mem::replace(&mut self.has_room_events[place], true) {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            self.ready.modify(fd, place, flags)?;
        }
        Ok(())
    }

    /// As [`Self::wait`], for at most `ns` nanoseconds, which may be 0.
    pub(crate) fn wait_for<F: Flow>(&mut self, flows: &mut [F], ns: u64) -> io::Result<Vec<usize>> {
        let timeout = self.until_due(flows, Some(Duration::from_nanos(ns)));
        let ready = self.ready.look_for(timeout)?;
        self.with_due(flows, ready)
    }

    /// Returns the indexes of ready flows; none after a signal, or if nothing happens for [`Control::LOOK_EVERY`] on a
    /// thread that is not interrupted.
    pub(crate) fn wait<F: Flow>(&mut self, flows: &mut [F]) -> io::Result<Vec<usize>> {
        let timeout = self.until_due(flows, self.at_most);
        let ready = self.ready.look(timeout)?;
        self.with_due(flows, ready)
    }

    /// Time until a flow must be served without an event, at most `at_most`.
    fn until_due<F: Flow>(&self, flows: &mut [F], at_most: Option<Duration>) -> Option<Duration> {
        if !self.untold.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = flows.iter_mut().filter_map(Flow::due).min();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        left.into_iter().chain(at_most).min()
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
            Some(fd) => self.ready.remove(fd),
            None => Ok(()),
        }
    }
}

/// The time limit of a system call; `None` for no limit.
fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    timeout.and_then(|timeout| timeout.try_into().ok())
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

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::transport::{Message, Moved, is_timeout};

    /// A flow of datagrams whose other end decides when there is room.
    struct Datagrams(UnixDatagram);

    impl Flow for Datagrams {
        fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
            self.0.send(payload).map(Moved::one)
        }

        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
            self.0.recv(buffer).map(Moved::one)
        }

        fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
            self.0.send(message).map(|_| ())
        }

        fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
            self.0.recv(buffer).map(|_| Message::Next)
        }

        fn has_end(&self) -> bool {
            false
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }
    }

    #[test]
    fn a_datagram_flow_is_reported_for_room_only_after_it_needed_some() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut flows = [Datagrams(ours)];
        let mut flow_set = FlowSet::of(&flows, Interest::Change).unwrap();
        assert_eq!(flow_set.wait(&mut flows).unwrap(), [0; 0]);
        let full = loop {
            if let Err(error) = flows[0].send(&mut [0]) {
                break error;
            }
        };
        assert!(is_timeout(&full), "{full}");
        flow_set.needs_room(0, &flows).unwrap();
        assert_eq!(flow_set.wait(&mut flows).unwrap(), [0; 0]);
        theirs.set_nonblocking(true).unwrap();
        while theirs.recv(&mut [0]).is_ok() {}
        assert_eq!(flow_set.wait(&mut flows).unwrap(), [0]);
        flows[0].send(&mut [0]).unwrap();
    }
}
