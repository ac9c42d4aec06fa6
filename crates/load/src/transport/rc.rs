//! RDMA's reliable connection, by SEND: messages from registered memory into registered memory.
//!
//! What a program would fill before each message is filled once: the adapter takes it from there again
//! and again, as it does for a program that has its data in place.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;

use fabricmark_plan::Wait;
use fabricmark_proto::{Failure, Prepare, Role};
use fabricmark_rdma::{
    Adapter, Endpoint, Flags, IDENTITY_BYTES, Identity, Kind, Operation, Region, WorkCompletion,
    check,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use super::{Flow, Message, Moved};
use crate::control::Control;
use crate::opening::{NOT_OPEN, in_time};
use crate::sockets::{peer, peer_within, system};

/// Requests under way in each direction, where their memory allows it: perftest's queues have 128.
const DEPTH_MAX: u32 = 128;

/// Fewest, so that one can be prepared while another is under way.
const DEPTH_MIN: u32 = 4;

/// Memory for what arrives.
const SLOTS_BYTES: usize = 64 << 20;

/// One in so many requests tells that it has been done, and with it those before it.
const PERIOD: u32 = 4;

/// Bytes that travel in the request itself: what perftest asks for.
const INLINE_BYTES: u32 = 220;

/// Completions taken at once.
const BATCH: usize = 16;

/// How often in vain a queue is asked until the connection beside is looked at.
const LOOK_AFTER: u32 = 4096;

/// How long the last messages may take to be acknowledged: eight times that after which one is sent again
/// are 0.6 s.
const FINISHED_WITHIN_S: i64 = 5;

/// A notice that was lost is made up for by asking the queue again.
const NOTICED_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Completions of receive requests have this bit in their identifier, which is the slot; those of sent
/// ones say how many they stand for.
const RECEIVED: u64 = 1 << 63;

/// A flow over a connected queue pair.
#[derive(Debug)]
pub struct RcFlow {
    endpoint: Endpoint,
    /// The connection by which both ends found each other; it tells when the other end is gone.
    beside: TcpStream,
    out: Region,
    slots: Region,
    slot_bytes: usize,
    depth: u32,
    /// Requests sent of which it is not known that they have been done, and those of them since the last
    /// that will tell.
    under_way: u32,
    untold: u32,
    /// What arrived and nobody took: slot and bytes.
    arrived: VecDeque<(u64, usize)>,
    completions: Vec<WorkCompletion>,
    in_vain: u32,
    wait: Wait,
    has_ended: bool,
}

impl RcFlow {
    /// Connects a queue pair with the other end of an open connection.
    pub(crate) fn open(
        beside: TcpStream,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<Self, Failure> {
        let Prepare { point, .. } = prepare;
        let adapter = Adapter::open(prepare.address, &prepare.device)
            .map_err(|error| Failure::Missing(error.to_string()))?;
        let longest = point.response.unwrap_or(point.payload).0.max(point.payload.0) as usize;
        let depth = u32::try_from(SLOTS_BYTES / longest).unwrap_or(DEPTH_MAX);
        let depth = depth.clamp(DEPTH_MIN, DEPTH_MAX);
        let memory = "register memory for RDMA: raise `ulimit -l` or LimitMEMLOCK=";
        let mut out = adapter.region(longest).map_err(system(memory))?;
        out.write(0, &vec![0x5a; longest]);
        let slots = adapter.region(longest * depth as usize).map_err(system(memory))?;
        let first_packet =
            u32::from_be_bytes([0, prepare.token[0], prepare.token[1], prepare.token[2]]);
        // One more for the message that ends the flow.
        let endpoint =
            Endpoint::new(&adapter, Kind::Reliable, depth + 1, INLINE_BYTES, first_packet)
                .map_err(system("make a queue pair"))?;
        let mut flow = Self {
            endpoint,
            beside,
            out,
            slots,
            slot_bytes: longest,
            depth,
            under_way: 0,
            untold: 0,
            arrived: VecDeque::with_capacity(depth as usize),
            completions: vec![WorkCompletion::default(); BATCH],
            in_vain: 0,
            wait: point.wait,
            has_ended: false,
        };
        for slot in 0..depth {
            flow.offer(u64::from(slot)).map_err(system("post a receive request"))?;
        }
        flow.meet(prepare, control)?;
        rustix::io::ioctl_fionbio(flow.endpoint.completions.fd(), true)
            .map_err(|error| system("set O_NONBLOCK")(error.into()))?;
        Ok(flow)
    }

    /// Both ends tell each other who they are; the one that starts says last that it is ready, too.
    fn meet(&mut self, prepare: &Prepare, control: &Control) -> Result<(), Failure> {
        let beside = &self.beside;
        let waiting = beside
            .set_nonblocking(false)
            .and_then(|()| beside.set_read_timeout(Some(Control::LOOK_EVERY)));
        waiting.map_err(system("set SO_RCVTIMEO"))?;
        let own = self.endpoint.identity(None).emit();
        match prepare.role {
            Role::Start => {
                self.tell(&own)?;
                self.connect(prepare, control)?;
                self.tell(&[READY])
            }
            Role::Answer => {
                self.connect(prepare, control)?;
                self.tell(&own)?;
                match self.hear::<1>(prepare, control)? {
                    [READY] => Ok(()),
                    _ => Err(strange()),
                }
            }
        }
    }

    fn connect(&mut self, prepare: &Prepare, control: &Control) -> Result<(), Failure> {
        let bytes = self.hear::<IDENTITY_BYTES>(prepare, control)?;
        let other = Identity::parse(&bytes).ok_or_else(strange)?;
        let connected = self.endpoint.connect(&other);
        connected
            .map(|_| ())
            .map_err(system("connect a queue pair; is the other end's network the same?"))
    }

    fn tell(&self, bytes: &[u8]) -> Result<(), Failure> {
        (&self.beside).write_all(bytes).map_err(peer(NOT_OPEN))
    }

    fn hear<const N: usize>(
        &self,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<[u8; N], Failure> {
        let (mut bytes, mut heard) = ([0; N], 0);
        in_time(NOT_OPEN, peer_within(prepare), control, || {
            while heard < N {
                match (&self.beside).read(&mut bytes[heard..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    more => heard += more,
                }
            }
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Offers a slot for the next message.
    fn offer(&mut self, slot: u64) -> io::Result<()> {
        let start = slot as usize * self.slot_bytes;
        let part = start..start + self.slot_bytes;
        self.endpoint.pair.post_receive(RECEIVED | slot, &self.slots, part)
    }

    /// Sends a message of so many bytes once there is room for it.
    fn post(&mut self, bytes: usize, is_last: bool) -> io::Result<()> {
        while self.under_way >= self.depth && !is_last {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        self.under_way += 1;
        self.untold += 1;
        let signaled = self.untold >= PERIOD || is_last;
        let id = u64::from(self.untold);
        if signaled {
            self.untold = 0;
        }
        let inline = bytes <= self.endpoint.pair.inline_max();
        let flags = Flags { signaled, inline };
        self.endpoint.pair.post(id, Operation::Send, &self.out, 0..bytes, flags)
    }

    /// Takes completions; gives how many there were.
    fn take(&mut self) -> io::Result<usize> {
        let count = self.endpoint.completions.poll(&mut self.completions)?;
        for completion in &self.completions[..count] {
            check(completion)?;
            if completion.wr_id & RECEIVED == 0 {
                self.under_way -= completion.wr_id as u32;
            } else {
                self.arrived
                    .push_back((completion.wr_id & !RECEIVED, completion.byte_len as usize));
            }
        }
        Ok(count)
    }

    /// Waits as the point says until there may be a completion; an error where nobody is to wait, or the
    /// other end is gone.
    fn pause(&mut self) -> io::Result<()> {
        match self.wait {
            Wait::Spin | Wait::BusyPoll => {
                self.in_vain = self.in_vain.wrapping_add(1);
                if self.in_vain.is_multiple_of(LOOK_AFTER) {
                    self.look_beside()?;
                }
                Err(io::ErrorKind::WouldBlock.into())
            }
            Wait::Epoll => {
                if self.arm()? {
                    return Ok(());
                }
                self.look_beside()?;
                Err(io::ErrorKind::WouldBlock.into())
            }
            Wait::Block => {
                if self.arm()? {
                    return Ok(());
                }
                let channel = self.endpoint.completions.fd();
                let mut asked = [
                    PollFd::new(&channel, PollFlags::IN),
                    PollFd::new(&self.beside, PollFlags::IN | PollFlags::RDHUP),
                ];
                poll(&mut asked, Some(&NOTICED_WITHIN))?;
                if asked[1].revents().is_empty() { Ok(()) } else { self.look_beside() }
            }
        }
    }

    /// Asks for a notice of the next completion; whether one came meanwhile.
    fn arm(&mut self) -> io::Result<bool> {
        let completions = &self.endpoint.completions;
        // Notices of completions that were taken already.
        while completions.take_notice().is_ok() {}
        completions.arm()?;
        Ok(self.take()? > 0)
    }

    /// An error where the other end has closed the connection beside, and nothing of it is left to take.
    #[cold]
    fn look_beside(&mut self) -> io::Result<()> {
        let mut byte = [0];
        match recv(&self.beside, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            _ if self.take()? > 0 => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end is gone")),
        }
    }

    /// Whether a message has arrived; the next is the first of `arrived`.
    fn await_arrival(&mut self) -> io::Result<()> {
        while self.arrived.is_empty() {
            if self.take()? == 0 {
                self.pause()?;
            }
        }
        Ok(())
    }
}

/// What the starting end says when it is connected.
const READY: u8 = 1;

fn strange() -> Failure {
    Failure::Peer("the other end of the queue pair says what nobody understands".to_owned())
}

impl Flow for RcFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.post(payload.len(), false)?;
        Ok(Moved::one(payload.len()))
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        if self.has_ended {
            return Ok(Moved::default());
        }
        self.await_arrival()?;
        let mut moved = Moved::default();
        while let Some((slot, bytes)) = self.arrived.pop_front() {
            if bytes == 0 {
                self.has_ended = true;
                break;
            }
            self.offer(slot)?;
            moved.payloads += 1;
            moved.bytes += bytes as u64;
        }
        Ok(moved)
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        while self.take()? > 0 {}
        Ok(self.arrived.iter().map(|&(_, bytes)| bytes as u64).sum())
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        self.post(message.len(), false)
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        self.await_arrival()?;
        match self.arrived.pop_front() {
            Some((_, 0)) => Ok(Message::End),
            Some((slot, bytes)) if bytes == buffer.len() => {
                self.offer(slot)?;
                Ok(Message::Next)
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a message has another length")),
        }
    }

    fn has_end(&self) -> bool {
        true
    }

    fn finish(&mut self) -> io::Result<()> {
        // Whoever has ended may be gone.
        if self.has_ended {
            return Ok(());
        }
        self.post(0, true)?;
        let limit = Timespec { tv_sec: FINISHED_WITHIN_S, tv_nsec: 0 };
        while self.under_way > 0 {
            if !self.arm()? {
                let channel = self.endpoint.completions.fd();
                if poll(&mut [PollFd::new(&channel, PollFlags::IN)], Some(&limit))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.endpoint.completions.fd())
    }
}
