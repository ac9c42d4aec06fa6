//! RDMA READ and atomics: one end reads the other's memory, without involving its program.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use fabricmark_plan::{Operation, Wait};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{Adapter, Kind, Region, Request};

use super::message::{FILL, MEMORY};
use super::notes::{self, Notes};
use super::payload::Verifier;
use super::queue::{Needs, Queue};
use crate::control::Control;
use crate::failure::system;
use crate::transport::{Flow, Message, Moved};

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
    got: u64,
    is_active: bool,
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
        let wait = match prepare.point.wait {
            Wait::Spin if !prepare.is_active() => Wait::Block,
            wait => wait,
        };
        let needs = Needs {
            kind: Kind::Reliable,
            depth,
            beside: 1,
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
            is_active: prepare.is_active(),
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
}

impl Flow for FetchFlow {
    fn send(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        // A result that was not checked yet must not be overwritten.
        if self.asked >= self.got + self.depth {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (start, lap) = self.slot(self.asked);
        if self.verifier.is_some() {
            // Cleared, so that the result of an earlier lap does not pass for this one's.
            self.fetched.write(start, &vec![0; message.len()]);
        }
        let place = self.queue.place(start);
        let request = match self.operation {
            Operation::FetchAdd => Request::FetchAdd(place, 1),
            Operation::CompareSwap => Request::CompareSwap(place, [lap, lap + 1]),
            _ => Request::Read(place),
        };
        self.queue.post(request, &self.fetched, start..start + message.len())?;
        self.asked += 1;
        Ok(())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        if !self.is_active {
            self.queue.await_arrival()?;
            return Ok(Message::End);
        }
        self.queue.await_done(self.got)?;
        if self.operation.is_atomic() {
            self.check(self.got)?;
        }
        let (start, _) = self.slot(self.got);
        if let Some(verifier) = &mut self.verifier {
            let slot = self.got % self.depth;
            verifier.check(&self.fetched, start..start + buffer.len(), slot)?;
        }
        self.got += 1;
        Ok(Message::Next)
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.is_active {
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
