//! A connected queue pair: how it is connected, how requests are posted and completions polled, and how a flow waits
//! for these.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fabricmark_plan::{Cm, Pace, Pattern, Role, Transport, Wait};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{
    Adapter, Destination, Endpoint, Flags, IDENTITY_BYTES, Identity, Kind, Manager, Place, Region,
    Request, WorkCompletion, check,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use crate::control::Control;
use crate::failure::{peer, system};
use crate::opening::{Beside, NOT_OPEN, in_time, no_cm};
use crate::sockets::peer_within;
use crate::transport::STALLED_AFTER;

/// Default of `cq_mod`: every Nth request is signalled. Its completion covers those before it.
const SIGNAL_EVERY: u32 = 4;

/// Most bytes that travel inside the request (inline): the value of perftest.
const INLINE_BYTES: u32 = 220;

/// Completions polled at once.
pub(super) const BATCH: usize = 16;

/// Polls without a completion until the TCP connection is checked.
pub(super) const LOOK_AFTER: u32 = 4096;

/// Timeout for the acknowledgement of the last messages; seven retransmission timeouts are 0.5 s.
const FINISHED_WITHIN_S: i64 = 5;

/// How often a waiting thread checks whether to continue.
const NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Interval at which a number is sent again until the other end returns it: much longer than the RTT of an RDMA
/// network.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// IDs of receive requests: this bit and the number of the slot.
const RECEIVED: u64 = 1 << 63;

/// IDs of other requests: how many requests the completion covers; from this bit on, how many of them are payloads.
const PAYLOADS_AT: u32 = 32;

/// Sent by the client once it is connected.
const READY: u8 = 1;

/// Message about queue pairs that are connected, but not with each other.
const UNHEARD: &str = "messages over the queue pair do not arrive (a firewall may drop RoCE, UDP port 4791, or the \
                       other end named another host's queue pair)";

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Slot of the message.
    pub slot: u64,
    /// Length of the message.
    pub bytes: usize,
    /// Immediate data: the number of the message, or that of [`Queue::await_echo`].
    pub number: u32,
}

/// What a flow needs of its queue pair.
pub(super) struct Needs {
    pub kind: Kind,
    /// Most outstanding requests with payloads.
    pub depth: u32,
    /// Most outstanding requests of other kinds.
    pub beside: u32,
    /// Most messages that have arrived and were not taken.
    pub arrivals: u32,
    /// Whether every request is signalled.
    pub all_tell: bool,
    /// How a call waits for completions.
    pub wait: Wait,
}

/// One end of a connected queue pair.
#[derive(Debug)]
pub(crate) struct Queue {
    endpoint: Endpoint,
    /// The TCP connection over which the ends set up the queue pair; it shows when the other end is gone.
    beside: Beside,
    depth: u32,
    cq_mod: u32,
    /// Requests that are not known to have completed.
    under_way: u32,
    /// Requests since the last signalled one, and how many of these are payloads.
    untold: u32,
    untold_payloads: u32,
    /// Payloads that are known to have completed.
    done: u64,
    /// Messages that have arrived and were not taken.
    arrived: VecDeque<Arrival>,
    completions: Vec<WorkCompletion>,
    in_vain: u32,
    /// Since when no signalled request has completed, as far as the clock was read.
    still_since: Option<Instant>,
    made: Instant,
    /// Whether the last call found something to do: then no event was requested since, and none would report more.
    goes_on: bool,
    wait: Wait,
    /// Whether the transport signals the end of the flow before the other end is gone.
    has_end: bool,
    /// Start of the other end's memory.
    memory: Place,
    /// The RDMA CM connection, if there is one.
    manager: Option<Manager>,
}

impl Queue {
    /// Creates a queue pair for an open TCP connection; receive requests may be posted from now on.
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
            .map_err(system("create a queue pair"))?;
        let cq_mod = match point.cq_mod {
            _ if needs.all_tell => 1,
            // Half of the requests can be sent while the other half is being signalled.
            None => SIGNAL_EVERY.min(needs.depth / 2).max(1),
            Some(every) => every,
        };
        // The client of an open loop also waits for departures, so its calls must not block.
        let is_paced = point.pace != Pace::Closed && point.pattern != Pattern::Stream;
        let wait = if is_paced && prepare.is_active() { Wait::Epoll } else { needs.wait };
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
            wait,
            has_end: needs.kind == Kind::Reliable,
            memory: Place { address: 0, key: 0 },
            manager: None,
        })
    }

    /// Connects to the other end, which may access `memory` and provides as much; returns the destination of
    /// datagrams. The ends exchange their identities; finally the client reports that it is ready.
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
                "a datagram of {longest} bytes does not fit in a packet of {packet}: use a larger \
                 MTU or a smaller payload"
            );
            return Err(Failure::System(message));
        }
        self.memory = other.memory;
        if prepare.point.cm == Some(Cm::Rdma) {
            return self.dial(prepare, control).map(|()| None);
        }
        let address = self.beside.peer_at([0; 2])?.ip();
        self.endpoint.connect(&other, address).map_err(|error| match error.raw_os_error() {
            None => Failure::Peer(error.to_string()),
            Some(_) => system("connect a queue pair; are both ends in the same network?")(error),
        })
    }

    /// Repeats `ask`, which sends the number over the queue pair, until the other end returns it over TCP.
    pub(super) fn await_echo(
        &mut self,
        number: u32,
        prepare: &Prepare,
        control: &Control,
        mut ask: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let (mut echo, mut heard) = ([0; size_of::<u32>()], 0);
        let mut asked: Option<Instant> = None;
        // Less than the other end waits: its end would hide the reason.
        let within = peer_within(prepare) * 4 / 5;
        let echoed = in_time(UNHEARD, within, control, || {
            if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
                self.take()?;
                ask(self)?;
                asked = Some(Instant::now());
            }
            or_gone(self.beside.fill(&mut echo, &mut heard))
        })?;
        let gone = || peer(NOT_OPEN)(io::ErrorKind::UnexpectedEof.into());
        echoed.ok_or_else(gone)?;
        if u32::from_be_bytes(echo) == number { Ok(()) } else { Err(strange()) }
    }

    /// Receives the number of the other end's [`Self::await_echo`], and sends it back over TCP. Returns the receive slot
    /// to post again.
    pub(super) fn echo(&mut self, prepare: &Prepare, control: &Control) -> Result<u64, Failure> {
        let arrival = in_time(UNHEARD, peer_within(prepare), control, || {
            if self.arrived.is_empty() && !self.arm()? {
                let channel = self.endpoint.completions.fd();
                let mut asked = [
                    PollFd::new(&channel, PollFlags::IN),
                    PollFd::new(self.beside.stream(), PollFlags::RDHUP),
                ];
                let within = Timespec::try_from(Control::LOOK_EVERY).map_err(io::Error::other)?;
                poll(&mut asked, Some(&within))?;
                if !asked[1].revents().is_empty() {
                    return Ok(None);
                }
            }
            self.take_arrival().map(Some).ok_or_else(|| io::ErrorKind::WouldBlock.into())
        })?;
        // The other end gives up first.
        let Some(Arrival { slot, number, .. }) = arrival else {
            return Err(peer(UNHEARD)(io::ErrorKind::UnexpectedEof.into()));
        };
        self.beside.tell(&number.to_be_bytes())?;
        Ok(slot)
    }

    /// Accepts an RDMA CM connection at a port that it sends to the client; does nothing if TCP sets up the queue
    /// pair.
    fn accept(&mut self, prepare: &Prepare, control: &Control) -> Result<(), Failure> {
        if prepare.point.cm != Some(Cm::Rdma) {
            return Ok(());
        }
        let (first, last) = prepare.ports.unwrap_or_default();
        let is_used = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let mut tried = (first..=last)
            .map(|port| Manager::listen(SocketAddr::new(prepare.address, port)))
            .skip_while(|tried| tried.as_ref().is_err_and(is_used));
        let listening = tried.next().ok_or_else(|| {
            let message = format!(
                "no port from {first} to {last} of {} is free for cm=rdma, which needs one for each flow: use a larger \
                 range",
                prepare.address
            );
            Failure::Missing(message)
        })?;
        let (manager, port) = listening.map_err(no_cm("communication manager", prepare))?;
        self.beside.tell(&port.to_be_bytes())?;
        self.manage(manager, prepare, control)
    }

    /// Client side of [`Self::accept`]; does nothing at the server.
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

    /// Address at offset `at` of the other end's memory.
    pub(super) fn place(&self, at: usize) -> Place {
        Place { address: self.memory.address.wrapping_add(at as u64), ..self.memory }
    }

    /// Posts a part of a region for the next message; its arrival names the slot.
    pub(super) fn offer(&self, slot: u64, region: &Region, part: Range<usize>) -> io::Result<()> {
        self.endpoint.pair.post_receive(RECEIVED | slot, region, part)
    }

    /// Waits, in the point's wait mode, until one more payload may be outstanding.
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

    /// Sends a message that is no payload, beyond the depth. It is signalled.
    pub(super) fn post_beside(
        &mut self,
        request: Request<'_>,
        region: &Region,
        part: Range<usize>,
    ) -> io::Result<()> {
        self.hand_over(request, region, part, true)
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

    /// Polls completions; returns how many there were.
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

    /// Messages that have arrived and were not taken, oldest first.
    pub(super) fn arrived(&self) -> &VecDeque<Arrival> {
        &self.arrived
    }

    /// Takes the oldest message, if there is one.
    pub(super) fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// Waits, in the point's wait mode, until a message has arrived.
    pub(super) fn await_arrival(&mut self) -> io::Result<()> {
        while self.arrived.is_empty() {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        self.goes_on = true;
        Ok(())
    }

    /// Waits, in the point's wait mode, until more than `more_than` payloads have completed.
    pub(super) fn await_done(&mut self, more_than: u64) -> io::Result<()> {
        while self.done <= more_than {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        self.goes_on = true;
        Ok(())
    }

    /// Payloads that are known to have completed.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Sets whether there may be more to do without an event.
    pub(super) fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }

    /// Waits, in the point's wait mode, until there may be a completion. Fails if it must not wait, if it takes long,
    /// or if the other end is gone.
    pub(super) fn pause(&mut self) -> io::Result<()> {
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

    /// Requests an event for the next completion; returns whether one has arrived meanwhile.
    fn arm(&mut self) -> io::Result<bool> {
        let completions = &self.endpoint.completions;
        // Events of completions that were taken already.
        while completions.take_notice().is_ok() {}
        completions.arm()?;
        // All of them: no event reports what is left here.
        let mut are_any = false;
        loop {
            let count = self.take()?;
            are_any |= count > 0;
            if count < BATCH {
                return Ok(are_any);
            }
        }
    }

    /// Fails if the other end has closed the TCP connection and no completion of it is left.
    #[cold]
    pub(super) fn look_beside(&mut self) -> io::Result<()> {
        // If the transport does not signal the end of the flow, the coordinator does.
        if !self.has_end {
            return Ok(());
        }
        let mut byte = [0];
        match recv(self.beside.stream(), &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            _ if self.take()? > 0 => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the other end closed the connection",
            )),
        }
    }

    /// Fails if no signalled request has completed for [`STALLED_AFTER`].
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
        let message = "stalled: no work request completed for 5 s (the other end posts no buffers, \
                       or its adapter is gone)";
        Err(io::Error::other(message))
    }

    /// When a thread that waits for events must serve the flow without one: at once if it can continue, or later, to
    /// check for stalled requests.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.goes_on {
            return Some(self.made);
        }
        self.still_since.map(|since| since + STALLED_AFTER)
    }

    /// Waits until all signalled requests have completed.
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

    /// Readable when a requested event has arrived.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.endpoint.completions.fd()
    }
}

/// `None` if the other end has closed the connection.
fn or_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(Some),
    }
}

fn strange() -> Failure {
    Failure::Peer("the other end of the queue pair sent an invalid message".to_owned())
}
