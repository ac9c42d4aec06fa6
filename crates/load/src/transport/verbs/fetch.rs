//! READ and atomics: one end fetches from the other's memory, whose program has nothing to do.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;

use fabricmark_plan::Operation;
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{Adapter, Kind, Region, Request};

use super::message::{FILL, MEMORY};
use super::notes::{self, Notes};
use super::queue::{Needs, Queue};
use crate::control::Control;
use crate::sockets::system;
use crate::transport::{Flow, Message, Moved};

/// A flow of requests that bring something back: each is a round trip.
#[derive(Debug)]
pub(crate) struct FetchFlow {
    queue: Queue,
    notes: Notes,
    /// Where it is brought.
    fetched: Region,
    /// Where the other end fetches from.
    _slots: Region,
    slot_bytes: usize,
    depth: u64,
    operation: Operation,
    asked: u64,
    got: u64,
    is_active: bool,
}

impl FetchFlow {
    /// Connects a queue pair with the other end of an open connection.
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
        let mut slots = adapter.region(bytes).map_err(system(MEMORY))?;
        if !operation.is_atomic() {
            slots.write(0, &vec![FILL; bytes]);
        }
        let notes = Notes::new(adapter).map_err(system(MEMORY))?;
        let needs = Needs {
            kind: Kind::Reliable,
            depth,
            beside: 1,
            arrivals: notes::SLOTS,
            all_tell: true,
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
            asked: 0,
            got: 0,
            is_active: prepare.is_active(),
        })
    }

    /// Where a request's slot begins, and the laps around the slots before it.
    fn slot(&self, number: u64) -> (usize, u64) {
        ((number % self.depth) as usize * self.slot_bytes, number / self.depth)
    }

    /// Whether an atomic brought back what the one before it in its slot left there.
    fn check(&self, number: u64) -> io::Result<()> {
        let (start, lap) = self.slot(number);
        let mut word = [0; size_of::<u64>()];
        self.fetched.read(start, &mut word);
        if u64::from_ne_bytes(word) == lap {
            return Ok(());
        }
        let message = "an atomic operation brought back another number than was left there";
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

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        // What was brought and not looked at is not written over.
        if self.asked >= self.got + self.depth {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (start, lap) = self.slot(self.asked);
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

    fn receive_message(&mut self, _: &mut [u8]) -> io::Result<Message> {
        if !self.is_active {
            self.queue.await_arrival()?;
            return Ok(Message::End);
        }
        self.queue.await_done(self.got)?;
        if self.operation.is_atomic() {
            self.check(self.got)?;
        }
        self.got += 1;
        Ok(Message::Next)
    }

    fn has_end(&self) -> bool {
        true
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.is_active {
            return Ok(());
        }
        self.notes.end(&mut self.queue)?;
        self.queue.drain()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.fd())
    }
}
