//! Messages that complete a receive request: SEND, and WRITE with immediate. If they may be lost, each carries its
//! number.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use fabricmark_plan::{Operation, Pattern, Role, Transport};
use fabricmark_proto::{DatagramHeader, Failure, Prepare, SequenceCounts, SequenceTracker};
use fabricmark_rdma::{Adapter, Destination, Kind, ROUTE_HEADER_BYTES, Region, Request};

use super::payload::Verifier;
use super::queue::{Arrival, BATCH, Needs, Queue};
use crate::control::Control;
use crate::failure::system;
use crate::opening::random;
use crate::transport::{Flow, Message, Moved};

/// What failed if memory cannot be registered, and the remedy.
pub(super) const MEMORY: &str = "register memory for RDMA: raise `ulimit -l` or LimitMEMLOCK=";

/// Fill byte of payload memory.
pub(super) const FILL: u8 = 0x5a;

/// A flow whose receiver posts a slot for each message.
#[derive(Debug)]
pub(crate) struct MessageFlow {
    queue: Queue,
    /// One message, or as many as may be outstanding if each differs.
    out: Region,
    slots: Region,
    slot_bytes: usize,
    /// Length of the longest message.
    longest: usize,
    /// Bytes that precede a message in its slot.
    header_bytes: usize,
    /// Number of slots at the other end, if messages are written into them.
    written_slots: Option<u64>,
    /// Destination of datagrams.
    to: Option<Destination>,
    is_lossy: bool,
    /// Number of the next message of a stream; otherwise of the last message.
    next: u64,
    /// Tracks the numbers of a stream.
    numbers: Option<SequenceTracker>,
    /// Verifies what arrives.
    verifier: Option<Verifier>,
    depth: u64,
    /// Messages that were posted, and messages that were taken.
    posted: u64,
    taken: u64,
    has_ended: bool,
}

impl MessageFlow {
    /// Connects a queue pair with the other end of an open TCP connection.
    pub(crate) fn open(
        adapter: &Adapter,
        beside: TcpStream,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<Self, Failure> {
        let (longest, depth) = prepare.point.verbs_slots();
        let Prepare { point, .. } = prepare;
        let (kind, header_bytes) = match point.transport {
            Transport::Ud => (Kind::Datagram, ROUTE_HEADER_BYTES),
            Transport::Uc => (Kind::Unreliable, 0),
            _ => (Kind::Reliable, 0),
        };
        let (longest, is_lossy) = (longest as usize, kind != Kind::Reliable);
        let slot_bytes = header_bytes + longest;
        let arrivals = point.verbs_arrivals();
        let verifier = (point.verify == Some(true)).then(Verifier::default);
        let leaving = if verifier.is_some() { depth as usize } else { 1 };
        let mut out = adapter.region(longest * leaving).map_err(system(MEMORY))?;
        if verifier.is_none() {
            out.write(0, &vec![FILL; longest]);
        }
        let slots = adapter.region(slot_bytes * arrivals as usize).map_err(system(MEMORY))?;
        // One more for the message that ends the flow, or for a number of `prove`.
        let needs = Needs { kind, depth, beside: 1, arrivals, all_tell: false, wait: point.wait };
        let is_written = point.operation == Some(Operation::WriteImmediate);
        let is_stream = point.pattern == Pattern::Stream;
        let mut flow = Self {
            queue: Queue::new(adapter, beside, prepare, &needs)?,
            out,
            slots,
            slot_bytes,
            longest,
            header_bytes,
            written_slots: is_written.then_some(arrivals.into()),
            to: None,
            is_lossy,
            next: 0,
            numbers: (is_stream && is_lossy).then(|| SequenceTracker::new(u32::BITS)),
            verifier,
            depth: depth.into(),
            posted: 0,
            taken: 0,
            has_ended: false,
        };
        // A written message may begin to appear before its receive request is posted. With half of the slots posted,
        // it is then in a slot whose previous message was verified.
        let is_looked_at = is_written && flow.verifier.is_some();
        let offered = if is_looked_at { arrivals / 2 } else { arrivals };
        for slot in 0..u64::from(offered) {
            flow.offer(slot).map_err(system("post a receive request"))?;
        }
        flow.to = flow.queue.meet(&flow.slots, prepare, control)?;
        if flow.is_lossy {
            flow.prove(prepare, control)?;
        }
        Ok(flow)
    }

    /// Each end in turn sends a random number over the queue pair until the other end returns it over TCP. An end that
    /// named another host's queue pair cannot return it. Without acknowledgements that host would otherwise get the
    /// load.
    fn prove(&mut self, prepare: &Prepare, control: &Control) -> Result<(), Failure> {
        for asking in [Role::Client, Role::Server] {
            if asking == prepare.role {
                let number = random()? as u32;
                let Self { queue, out, to, .. } = self;
                let request = match to {
                    Some(to) => Request::SendTo(to, number),
                    None => Request::SendImmediate(number),
                };
                let ask = |queue: &mut Queue| queue.post_beside(request, out, 0..0);
                queue.await_echo(number, prepare, control, ask)?;
            } else {
                let slot = self.queue.echo(prepare, control)?;
                self.offer(slot).map_err(system("post a receive request"))?;
            }
        }
        Ok(())
    }

    /// Counts by the numbers of a stream; `None` if no message can be lost.
    pub(crate) fn sequence(&self) -> Option<SequenceCounts> {
        self.numbers.as_ref().map(SequenceTracker::counts)
    }

    /// Posts a slot for the next message.
    fn offer(&self, slot: u64) -> io::Result<()> {
        let start = slot as usize * self.slot_bytes;
        self.queue.offer(slot, &self.slots, start..start + self.slot_bytes)
    }

    /// Sends a message of `bytes` bytes once there is room for it.
    fn post(&mut self, bytes: usize, number: u64) -> io::Result<()> {
        let mut start = 0;
        if let Some(verifier) = &mut self.verifier {
            // Wait until the previous message in this slot has left.
            self.queue.await_room()?;
            start = (self.posted % self.depth) as usize * self.longest;
            let named = if self.is_lossy { u64::from(number as u32) } else { self.posted };
            verifier.fill(&mut self.out, start..start + bytes, named);
        }
        let request = match (self.written_slots, &self.to) {
            (Some(slots), _) => {
                // The slot of the number that the other end receives.
                let slot = u64::from(number as u32) % slots;
                let place = self.queue.place(slot as usize * self.slot_bytes);
                Request::WriteImmediate(place, number as u32)
            }
            (_, Some(to)) => Request::SendTo(to, number as u32),
            _ if self.is_lossy => Request::SendImmediate(number as u32),
            _ => Request::Send,
        };
        self.queue.post(request, &self.out, start..start + bytes)?;
        self.posted += 1;
        Ok(())
    }

    /// Verifies a message, if asked to.
    fn look(&mut self, arrival: &Arrival, bytes: usize) -> io::Result<()> {
        if let Some(verifier) = &mut self.verifier {
            let start = arrival.slot as usize * self.slot_bytes + self.header_bytes;
            // A written message is in the slot of its number, whichever request it completes.
            let start = match self.written_slots {
                Some(slots) => (u64::from(arrival.number) % slots) as usize * self.slot_bytes,
                None => start,
            };
            let named = if self.is_lossy { arrival.number.into() } else { self.taken };
            verifier.check(&self.slots, start..start + bytes, named)?;
        }
        self.taken += 1;
        Ok(())
    }

    /// Length of a message.
    fn bytes(&self, arrival: &Arrival) -> usize {
        arrival.bytes.saturating_sub(self.header_bytes)
    }
}

impl Flow for MessageFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.post(payload.len(), self.next)?;
        self.next += 1;
        Ok(Moved::one(payload.len()))
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        if self.has_ended {
            return Ok(Moved::default());
        }
        self.queue.await_arrival()?;
        let mut moved = Moved::default();
        // Not everything that waits: a stalled receiver drains its backlog at full speed, but not in zero time.
        for _ in 0..BATCH {
            let Some(arrival) = self.queue.take_arrival() else { break };
            let bytes = self.bytes(&arrival);
            // A number of `prove` that was sent again.
            if bytes == 0 && self.is_lossy {
                self.offer(arrival.slot)?;
                continue;
            }
            if bytes == 0 {
                self.has_ended = true;
                break;
            }
            self.look(&arrival, bytes)?;
            if let Some(numbers) = &mut self.numbers {
                numbers.arrive(arrival.number.into());
            }
            self.offer(arrival.slot)?;
            moved.payloads += 1;
            moved.bytes += bytes as u64;
        }
        if moved.payloads == 0 && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(moved)
    }

    fn arrived_bytes(&mut self) -> io::Result<Option<u64>> {
        while self.queue.take()? > 0 {}
        Ok(Some(self.queue.arrived().iter().map(|arrival| self.bytes(arrival) as u64).sum()))
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.post(message.len(), number)?;
        self.next = number;
        Ok(())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        self.queue.await_arrival()?;
        let Some(arrival) = self.queue.take_arrival() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        match self.bytes(&arrival) {
            // A number of `prove` that was sent again.
            0 if self.is_lossy => {
                self.offer(arrival.slot)?;
                Err(io::ErrorKind::WouldBlock.into())
            }
            0 => Ok(Message::End),
            bytes if bytes == buffer.len() => {
                self.look(&arrival, bytes)?;
                self.offer(arrival.slot)?;
                if !self.is_lossy {
                    return Ok(Message::Next);
                }
                let carried = arrival.number.into();
                let number = DatagramHeader::number_until(self.next, carried, u32::BITS);
                Ok(Message::Numbered(number))
            }
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message has an unexpected length",
            )),
        }
    }

    fn has_end(&self) -> bool {
        !self.is_lossy
    }

    fn finish(&mut self) -> io::Result<()> {
        // An end that has finished may be gone.
        if self.has_ended {
            return Ok(());
        }
        if !self.is_lossy {
            self.queue.post_beside(Request::Send, &self.out, 0..0)?;
        }
        self.queue.drain()
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.fd())
    }

    fn due(&mut self) -> Option<Instant> {
        self.queue.due()
    }
}
