//! A connected queue pair: how both ends meet, how requests are posted and their completions taken, and how
//! a flow waits for these.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fabricmark_plan::{Cm, Role, Transport, Wait};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{
    Adapter, Destination, Endpoint, Flags, IDENTITY_BYTES, Identity, Kind, Manager, Place, Region,
    Request, WorkCompletion, check,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use crate::control::Control;
use crate::failure::system;
use crate::opening::{Beside, NOT_OPEN, in_time, no_cm};
use crate::sockets::peer_within;
use crate::transport::STALLED_AFTER;

/// One in so many requests tells that it has been done, and with it those before it.
const SIGNAL_EVERY: u32 = 4;

/// Bytes that travel in the request itself: what perftest asks for.
const INLINE_BYTES: u32 = 220;

/// Completions taken at once.
pub(super) const BATCH: usize = 16;

/// How often in vain a queue is asked until the connection beside is looked at.
pub(super) const LOOK_AFTER: u32 = 4096;

/// How long the last messages may take to be acknowledged: seven times that after which one is sent again
/// are 0.5 s.
const FINISHED_WITHIN_S: i64 = 5;

/// Whoever waits looks as often whether he still should.
const NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Completions of receive requests have this bit in their identifier, beside the slot.
const RECEIVED: u64 = 1 << 63;

/// Those of other requests say how many they stand for, and from here on how many of these are payloads.
const PAYLOADS_AT: u32 = 32;

/// What the client says when it is connected.
const READY: u8 = 1;

/// A message that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Where it is.
    pub slot: u64,
    /// Bytes of it.
    pub bytes: usize,
    /// The number that came with it.
    pub number: u32,
}

/// What a flow needs of its queue pair.
pub(super) struct Needs {
    pub kind: Kind,
    /// Requests with payloads that may be under way.
    pub depth: u32,
    /// Requests of other kinds beside them.
    pub beside: u32,
    /// Messages that may arrive and not be taken.
    pub arrivals: u32,
    /// Whether each request tells that it has been done.
    pub all_tell: bool,
    /// How a call that finds nothing done waits.
    pub wait: Wait,
}

/// One end of a connected queue pair.
#[derive(Debug)]
pub(crate) struct Queue {
    endpoint: Endpoint,
    /// The connection by which both ends found each other; it tells when the other end is gone.
    beside: Beside,
    depth: u32,
    cq_mod: u32,
    /// Requests of which it is not known that they have been done.
    under_way: u32,
    /// Those since the last that will tell, and how many of these are payloads.
    untold: u32,
    untold_payloads: u32,
    /// Payloads that are known to have been done.
    done: u64,
    /// What arrived and nobody took.
    arrived: VecDeque<Arrival>,
    completions: Vec<WorkCompletion>,
    in_vain: u32,
    /// Since when nothing was done that is to tell so, as far as the clock was read.
    still_since: Option<Instant>,
    made: Instant,
    /// Whether the last call found something to do: no notice was asked for since, and nobody would tell of more.
    goes_on: bool,
    wait: Wait,
    /// Whether this end is told that nothing more follows, before the other end is gone.
    has_end: bool,
    /// Where the other end's memory begins.
    memory: Place,
    /// The connection of RDMA's communication manager, where that made it.
    manager: Option<Manager>,
}

impl Queue {
    /// Makes a queue pair for an open connection; receive requests may be posted from here on.
    pub(super) fn new(
        adapter: &Adapter,
        beside: TcpStream,
        prepare: &Prepare,
        needs: &Needs,
    ) -> Result<Self, Failure> {
        let Prepare { point, token, .. } = prepare;
        let room = needs.arrivals.max(needs.depth + needs.beside);
        let inline = point.inline.unwrap_or(INLINE_BYTES);
        let endpoint = Endpoint::new(adapter, needs.kind, room, inline, *token)
            .map_err(system("make a queue pair"))?;
        let cq_mod = match point.cq_mod {
            _ if needs.all_tell => 1,
            // One half of the requests can leave while the other is told of.
            None => SIGNAL_EVERY.min(needs.depth / 2).max(1),
            Some(every) => every,
        };
        Ok(Self {
            endpoint,
            beside: Beside::of(beside)?,
            depth: needs.depth,
            cq_mod,
            under_way: 0,
            untold: 0,
            untold_payloads: 0,
            done: 0,
            arrived: VecDeque::with_capacity(room as usize),
            completions: vec![WorkCompletion::default(); BATCH],
            in_vain: 0,
            still_since: None,
            made: Instant::now(),
            goes_on: false,
            wait: needs.wait,
            has_end: needs.kind == Kind::Reliable,
            memory: Place { address: 0, key: 0 },
            manager: None,
        })
    }

    /// Connects with the other end, which may use `memory` and has as much itself; of datagrams, gives where
    /// they are to go. Both tell each other who they are; the one that starts says last that it is ready, too.
    pub(super) fn meet(
        &mut self,
        memory: &Region,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<Option<Destination>, Failure> {
        let own = self.endpoint.identity(Some(memory)).emit();
        let memory_bytes = memory.len() as u64;
        let to = match prepare.role {
            Role::Client => {
                self.beside.tell(&own)?;
                let to = self.connect(memory_bytes, prepare, control)?;
                self.beside.tell(&[READY])?;
                to
            }
            Role::Server => {
                let to = self.connect(memory_bytes, prepare, control)?;
                self.beside.tell(&own)?;
                self.accept(prepare, control)?;
                if self.beside.hear::<1>(prepare, control)? != [READY] {
                    return Err(strange());
                }
                to
            }
        };
        rustix::io::ioctl_fionbio(self.endpoint.completions.fd(), true)
            .map_err(|error| system("set O_NONBLOCK")(error.into()))?;
        Ok(to)
    }

    fn connect(
        &mut self,
        memory_bytes: u64,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<Option<Destination>, Failure> {
        let bytes = self.beside.hear::<IDENTITY_BYTES>(prepare, control)?;
        let other = Identity::parse(&bytes).ok_or_else(strange)?;
        if other.memory_bytes < memory_bytes {
            return Err(strange());
        }
        let (longest, _) = prepare.point.verbs_slots();
        let packet = self.endpoint.path_mtu_bytes(&other);
        if prepare.point.transport == Transport::Ud && longest > packet as u64 {
            let message = format!(
                "a datagram of {longest} bytes does not fit a packet of {packet}: raise the MTU, or lower payload"
            );
            return Err(Failure::System(message));
        }
        self.memory = other.memory;
        if prepare.point.cm == Some(Cm::Rdma) {
            return self.dial(prepare, control).map(|()| None);
        }
        self.endpoint
            .connect(&other)
            .map_err(system("connect a queue pair; is the other end's network the same?"))
    }

    /// Connects by the communication manager with whoever is told its port; nothing where the pair was connected.
    fn accept(&mut self, prepare: &Prepare, control: &Control) -> Result<(), Failure> {
        if prepare.point.cm != Some(Cm::Rdma) {
            return Ok(());
        }
        let (manager, port) = Manager::listen(SocketAddr::new(prepare.address, 0))
            .map_err(no_cm("communication manager", prepare))?;
        self.beside.tell(&port.to_be_bytes())?;
        self.manage(manager, prepare, control)
    }

    /// The client of [`Self::accept`]; the other end has nothing to dial.
    fn dial(&mut self, prepare: &Prepare, control: &Control) -> Result<(), Failure> {
        if prepare.role == Role::Server {
            return Ok(());
        }
        let to = self.beside.peer_at(self.beside.hear(prepare, control)?)?;
        let from = SocketAddr::new(prepare.address, 0);
        let manager = Manager::dial(from, to).map_err(no_cm("communication manager", prepare))?;
        self.manage(manager, prepare, control)
    }

    fn manage(
        &mut self,
        mut manager: Manager,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<(), Failure> {
        in_time(NOT_OPEN, peer_within(prepare), control, || {
            manager.advance(&self.endpoint, &prepare.token, Control::LOOK_EVERY)
        })?;
        self.manager = Some(manager);
        Ok(())
    }

    /// A place in the other end's memory.
    pub(super) fn place(&self, at: usize) -> Place {
        Place { address: self.memory.address.wrapping_add(at as u64), ..self.memory }
    }

    /// Offers a part of a region for the next message; its arrival names the slot.
    pub(super) fn offer(&self, slot: u64, region: &Region, part: Range<usize>) -> io::Result<()> {
        self.endpoint.pair.post_receive(RECEIVED | slot, region, part)
    }

    /// Waits as the point says until one more payload may be under way.
    pub(super) fn await_room(&mut self) -> io::Result<()> {
        while self.under_way >= self.depth {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        Ok(())
    }

    /// Posts a request with a payload once there is room for it.
    pub(super) fn post(
        &mut self,
        request: Request<'_>,
        region: &Region,
        part: Range<usize>,
    ) -> io::Result<()> {
        self.await_room()?;
        self.goes_on = true;
        self.untold_payloads += 1;
        self.hand_over(request, region, part, false)
    }

    /// Sends what is no payload, in the room beside the depth; it tells that it has been done.
    pub(super) fn post_beside(&mut self, region: &Region, part: Range<usize>) -> io::Result<()> {
        self.hand_over(Request::Send, region, part, true)
    }

    fn hand_over(
        &mut self,
        request: Request<'_>,
        region: &Region,
        part: Range<usize>,
        tells: bool,
    ) -> io::Result<()> {
        self.under_way += 1;
        self.untold += 1;
        let signaled = tells || self.untold >= self.cq_mod;
        let id = u64::from(self.untold_payloads) << PAYLOADS_AT | u64::from(self.untold);
        if signaled {
            (self.untold, self.untold_payloads) = (0, 0);
        }
        let is_sent = matches!(
            request,
            Request::Send
                | Request::SendImmediate(_)
                | Request::SendTo(..)
                | Request::Write(_)
                | Request::WriteImmediate(..)
        );
        let inline = is_sent && part.len() <= self.endpoint.pair.inline_max();
        self.endpoint.pair.post(id, request, region, part, Flags { signaled, inline })
    }

    /// Takes completions; gives how many there were.
    pub(super) fn take(&mut self) -> io::Result<usize> {
        let count = self.endpoint.completions.poll(&mut self.completions)?;
        for completion in &self.completions[..count] {
            check(completion)?;
            let id = completion.wr_id;
            if id & RECEIVED == 0 {
                self.still_since = None;
                self.under_way -= id as u32;
                self.done += id >> PAYLOADS_AT;
            } else {
                self.arrived.push_back(Arrival {
                    slot: id & !RECEIVED,
                    bytes: completion.byte_len as usize,
                    number: u32::from_be(completion.immediate),
                });
            }
        }
        Ok(count)
    }

    /// What arrived and nobody took, oldest first.
    pub(super) fn arrived(&self) -> &VecDeque<Arrival> {
        &self.arrived
    }

    /// Takes the oldest arrival, if there is one.
    pub(super) fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// Waits as the point says until something has arrived.
    pub(super) fn await_arrival(&mut self) -> io::Result<()> {
        while self.arrived.is_empty() {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        self.goes_on = true;
        Ok(())
    }

    /// Waits as the point says until more payloads than these have been done.
    pub(super) fn await_done(&mut self, more_than: u64) -> io::Result<()> {
        while self.done <= more_than {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        self.goes_on = true;
        Ok(())
    }

    /// Waits as the point says until there may be a completion; an error where nobody is to wait, where it
    /// takes long, or where the other end is gone.
    fn pause(&mut self) -> io::Result<()> {
        self.goes_on = false;
        match self.wait {
            Wait::Spin | Wait::BusyPoll => {
                self.in_vain = self.in_vain.wrapping_add(1);
                if self.in_vain.is_multiple_of(LOOK_AFTER) {
                    self.look_beside()?;
                    self.look_for_progress()?;
                }
                Err(io::ErrorKind::WouldBlock.into())
            }
            Wait::Epoll => {
                if self.arm()? {
                    return Ok(());
                }
                self.look_beside()?;
                self.look_for_progress()?;
                Err(io::ErrorKind::WouldBlock.into())
            }
            Wait::Block => {
                if self.arm()? {
                    return Ok(());
                }
                let channel = self.endpoint.completions.fd();
                let mut asked = [
                    PollFd::new(&channel, PollFlags::IN),
                    PollFd::new(self.beside.stream(), PollFlags::IN | PollFlags::RDHUP),
                ];
                let count = if self.has_end { 2 } else { 1 };
                let within = Timespec::try_from(NOTICED_WITHIN).map_err(io::Error::other)?;
                let told = poll(&mut asked[..count], Some(&within))?;
                if !asked[1].revents().is_empty() {
                    return self.look_beside();
                }
                if told == 0 && self.take()? == 0 {
                    self.look_for_progress()?;
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            }
        }
    }

    /// Asks for a notice of the next completion; whether one came meanwhile.
    fn arm(&mut self) -> io::Result<bool> {
        let completions = &self.endpoint.completions;
        // Notices of completions that were taken already.
        while completions.take_notice().is_ok() {}
        completions.arm()?;
        // All of them: nobody is told of what is left here.
        let mut are_any = false;
        loop {
            let count = self.take()?;
            are_any |= count > 0;
            if count < BATCH {
                return Ok(are_any);
            }
        }
    }

    /// An error where the other end has closed the connection beside, and nothing of it is left to take.
    #[cold]
    pub(super) fn look_beside(&mut self) -> io::Result<()> {
        // Whoever is not told of the end by the flow itself is told by the coordinator.
        if !self.has_end {
            return Ok(());
        }
        let mut byte = [0];
        match recv(self.beside.stream(), &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            _ if self.take()? > 0 => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end is gone")),
        }
    }

    /// An error where requests stand still that are to tell when they have been done.
    #[cold]
    fn look_for_progress(&mut self) -> io::Result<()> {
        if self.under_way <= self.untold {
            return Ok(());
        }
        let now = Instant::now();
        let since = *self.still_since.get_or_insert(now);
        if now.duration_since(since) < STALLED_AFTER || self.take()? > 0 {
            return Ok(());
        }
        let message = "stalled: no request was done for 5 s (the other end offers no memory, or its adapter is gone)";
        Err(io::Error::other(message))
    }

    /// When whoever waits for events is to serve the flow without one: at once where it can go on, or later, to look
    /// whether requests stand still.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.goes_on {
            return Some(self.made);
        }
        self.still_since.map(|since| since + STALLED_AFTER)
    }

    /// Waits until everything under way has been done.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let limit = Timespec { tv_sec: FINISHED_WITHIN_S, tv_nsec: 0 };
        while self.under_way > self.untold {
            if !self.arm()? {
                let channel = self.endpoint.completions.fd();
                if poll(&mut [PollFd::new(&channel, PollFlags::IN)], Some(&limit))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        Ok(())
    }

    /// Tells that a completion was asked for has come.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.endpoint.completions.fd()
    }
}

fn strange() -> Failure {
    Failure::Peer("the other end of the queue pair says what nobody understands".to_owned())
}
