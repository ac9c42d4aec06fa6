//! RDMA READ and atomics: one end reads the other's memory, without involving its program. In a stream that is the
//! receiver; notes tell the sender how many payloads it has read.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use fabricmark_plan::{Operation, Pattern, Wait};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{Adapter, Kind, Region, Request};
use rustix::event::{PollFd, PollFlags};

use super::message::{FILL, MEMORY};
use super::notes::{self, Notes};
use super::payload::Verifier;
use super::queue::{Arrival, Needs, Queue};
use crate::control::Control;
use crate::failure::system;
use crate::flow_set::poll_briefly;
use crate::transport::{Flow, Message, Moved, STALLED_AFTER, if_ready};

/// Bytes after which a receiver of a stream reports what it has read: more at once would be one arrival.
const AT_ONCE_BYTES: usize = 64 << 10;

/// A flow of READ or atomic requests; each takes an RTT.
#[derive(Debug)]
pub(crate) struct FetchFlow {
    queue: Queue,
    notes: Notes,
    /// Destination of the data.
    fetched: Region,
    /// Memory that the other end reads.
    _slots: Region,
    slot_bytes: usize,
    depth: u64,
    operation: Operation,
    /// Verifies the data.
    verifier: Option<Verifier>,
    asked: u64,
    /// Payloads that were read; at a sender those of the last progress report.
    got: u64,
    is_stream: bool,
    payload_bytes: usize,
    /// Whether this end reads.
    does_fetch: bool,
    has_ended: bool,
}

impl FetchFlow {
    /// Connects a queue pair with the other end of an open TCP connection.
    pub(crate) fn open(
        adapter: &Adapter,
        beside: TcpStream,
        prepare: &Prepare,
        operation: Operation,
        control: &Control,
    ) -> Result<Self, Failure> {
        let (longest, depth) = prepare.point.verbs_slots();
        let (slot_bytes, bytes) = (longest as usize, longest as usize * depth as usize);
        let fetched = adapter.region(bytes).map_err(system(MEMORY))?;
        let mut slots = adapter.region_to_fetch(bytes).map_err(system(MEMORY))?;
        let does_verify = prepare.point.verify == Some(true) && !operation.is_atomic();
        let mut verifier = does_verify.then(Verifier::default);
        for slot in 0..depth as usize {
            let part = slot * slot_bytes..(slot + 1) * slot_bytes;
            match &mut verifier {
                _ if operation.is_atomic() => {}
                Some(verifier) => verifier.fill(&mut slots, part, slot as u64),
                None => slots.write(part.start, &vec![FILL; slot_bytes]),
            }
        }
        let notes = Notes::new(adapter).map_err(system(MEMORY))?;
        // The end whose memory is read has nothing to poll for: polling would only slow its adapter down.
        let is_stream = prepare.point.pattern == Pattern::Stream;
        let does_fetch = prepare.is_active() != is_stream;
        let wait = match prepare.point.wait {
            Wait::Spin if !does_fetch => Wait::Block,
            wait => wait,
        };
        let needs = Needs {
            kind: Kind::Reliable,
            depth,
            beside: 2,
            arrivals: notes::SLOTS,
            all_tell: true,
            wait,
        };
        let mut queue = Queue::new(adapter, beside, prepare, &needs)?;
        notes.offer_all(&queue).map_err(system("post a receive request"))?;
        queue.meet(&slots, prepare, control)?;
        Ok(Self {
            queue,
            notes,
            fetched,
            _slots: slots,
            slot_bytes,
            depth: depth.into(),
            operation,
            verifier,
            asked: 0,
            got: 0,
            is_stream,
            payload_bytes: prepare.point.payload.0 as usize,
            does_fetch,
            has_ended: false,
        })
    }

    /// Offset of a request's slot, and how often the slot was used before.
    fn slot(&self, number: u64) -> (usize, u64) {
        ((number % self.depth) as usize * self.slot_bytes, number / self.depth)
    }

    /// Fails if an atomic did not return the value that the previous one left in its slot.
    fn check(&self, number: u64) -> io::Result<()> {
        let (start, lap) = self.slot(number);
        let mut word = [0; size_of::<u64>()];
        self.fetched.read(start, &mut word);
        if u64::from_ne_bytes(word) == lap {
            return Ok(());
        }
        let message = "an atomic operation returned an unexpected value";
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }

    /// Posts the next request for `bytes` bytes.
    fn post(&mut self, bytes: usize) -> io::Result<()> {
        let (start, lap) = self.slot(self.asked);
        if self.verifier.is_some() {
            // Cleared, so that the result of an earlier lap does not pass for this one's.
            self.fetched.write(start, &vec![0; bytes]);
        }
        let place = self.queue.place(start);
        let request = match self.operation {
            Operation::FetchAdd => Request::FetchAdd(place, 1),
            Operation::CompareSwap => Request::CompareSwap(place, [lap, lap + 1]),
            _ => Request::Read(place),
        };
        self.queue.post(request, &self.fetched, start..start + bytes)?;
        self.asked += 1;
        Ok(())
    }

    /// Takes the oldest result, which has arrived.
    fn take(&mut self, bytes: usize) -> io::Result<()> {
        if self.operation.is_atomic() {
            self.check(self.got)?;
        }
        let (start, _) = self.slot(self.got);
        if let Some(verifier) = &mut self.verifier {
            let slot = self.got % self.depth;
            verifier.check(&self.fetched, start..start + bytes, slot)?;
        }
        self.got += 1;
        Ok(())
    }

    /// Posts as many requests as may be in flight, until the sender has ended.
    fn read_ahead(&mut self) -> io::Result<()> {
        while !self.has_ended && self.asked < self.got + self.depth {
            if if_ready(self.post(self.payload_bytes))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn moved_since(&self, before: u64) -> Moved {
        let payloads = self.got - before;
        Moved { payloads, bytes: payloads * self.payload_bytes as u64 }
    }
}

impl Flow for FetchFlow {
    /// Waits until the other end has read more.
    fn send(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        let before = self.got;
        self.queue.await_arrival()?;
        while let Some(Arrival { slot, bytes, .. }) = self.queue.take_arrival() {
            if bytes == 0 {
                self.has_ended = true;
                break;
            }
            self.got = self.got.max(self.notes.take(slot, &self.queue)?);
        }
        Ok(self.moved_since(before))
    }

    /// Keeps as many requests in flight as may be, until the sender signals the end.
    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        let before = self.got;
        let most = (AT_ONCE_BYTES / self.payload_bytes.max(1)).max(1) as u64;
        loop {
            self.queue.take()?;
            self.has_ended |= self.queue.take_arrival().is_some();
            self.read_ahead()?;
            while self.got < self.queue.done() && self.got < before + most {
                self.take(self.payload_bytes)?;
                self.read_ahead()?;
            }
            if self.got > before {
                // The sender waits for the end of other flows, too, and does not take more.
                if !self.has_ended {
                    self.notes.say_at_intervals(self.got, &mut self.queue)?;
                }
                self.queue.set_goes_on(true);
                return Ok(self.moved_since(before));
            }
            if self.has_ended && self.asked == self.got {
                self.queue.set_goes_on(false);
                self.notes.say(self.got, &mut self.queue)?;
                self.notes.end(&mut self.queue)?;
                self.queue.drain()?;
                return Ok(Moved::default());
            }
            self.queue.pause()?;
        }
    }

    fn arrived_bytes(&mut self) -> io::Result<Option<u64>> {
        while self.queue.take()? > 0 {}
        Ok(Some(self.queue.done().saturating_sub(self.got) * self.payload_bytes as u64))
    }

    fn stop(&mut self) -> io::Result<()> {
        if self.is_stream && !self.does_fetch { self.notes.end(&mut self.queue) } else { Ok(()) }
    }

    /// Waits until the receiver reports how much it has read in all.
    fn settle(&mut self) -> io::Result<Moved> {
        let before = self.got;
        if self.does_fetch || !self.is_stream {
            return Ok(Moved::default());
        }
        let mut heard = Instant::now();
        while !self.has_ended {
            if if_ready(self.send(&mut []))?.is_some() {
                heard = Instant::now();
            } else if heard.elapsed() > STALLED_AFTER {
                let message = "stalled: the receiver does not report how much it has read";
                return Err(io::Error::other(message));
            } else {
                poll_briefly(&mut [PollFd::new(&self.queue.fd(), PollFlags::IN)])?;
            }
        }
        Ok(self.moved_since(before))
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        // A result that was not checked yet must not be overwritten.
        if self.asked >= self.got + self.depth {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.post(message.len())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        if !self.does_fetch {
            self.queue.await_arrival()?;
            return Ok(Message::End);
        }
        self.queue.await_done(self.got)?;
        self.take(buffer.len())?;
        Ok(Message::Next)
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_stream || !self.does_fetch {
            return Ok(());
        }
        self.notes.end(&mut self.queue)?;
        self.queue.drain()
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.fd())
    }

    fn due(&mut self) -> Option<Instant> {
        self.queue.due()
    }
}
