//! RDMA WRITE: payloads appear in the other end's memory without a completion there.
//!
//! A receiver of messages polls the last byte of the slot, as latency-sensitive programs do (ib_write_lat of
//! perftest). A receiver of a stream sleeps; notes from the sender say how many payloads have arrived. An adapter
//! executes requests in order (IBTA volume 1, section 9.5), so a note arrives after the payloads that it counts.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use fabricmark_plan::Pattern;
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{Adapter, Kind, Region, Request};

use super::message::{FILL, MEMORY};
use super::notes::{self, Notes};
use super::payload::Verifier;
use super::queue::{Arrival, LOOK_AFTER, Needs, Queue};
use crate::control::Control;
use crate::failure::system;
use crate::transport::{Flow, Message, Moved};

/// Writes between two clock readings, of payloads that are shorter than `SHORT_BYTES`.
const WRITES: u64 = 8;
const SHORT_BYTES: usize = 4096;

/// A flow whose receiver gets no completions of messages.
#[derive(Debug)]
pub(crate) struct WriteFlow {
    queue: Queue,
    notes: Notes,
    /// As many slots as the other end has, since a message stays until its request has completed; one if all are the
    /// same.
    out: Region,
    slots: Region,
    slot_bytes: usize,
    depth: u64,
    is_stream: bool,
    payload_bytes: u64,
    /// Verifies what arrives.
    verifier: Option<Verifier>,
    sent: u64,
    received: u64,
    in_vain: u32,
    has_ended: bool,
}

/// Last byte of a message: it counts the laps over the slots, so that it differs from the one that was there before.
fn mark(number: u64, depth: u64) -> u8 {
    (number / depth + 1) as u8
}

impl WriteFlow {
    /// Connects a queue pair with the other end of an open TCP connection.
    pub(crate) fn open(
        adapter: &Adapter,
        beside: TcpStream,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<Self, Failure> {
        let Prepare { point, .. } = prepare;
        let (longest, depth) = point.verbs_slots();
        let longest = longest as usize;
        let is_stream = point.pattern == Pattern::Stream;
        let verifier = (point.verify == Some(true)).then(Verifier::default);
        let is_same = is_stream && verifier.is_none();
        let out_slots = if is_same { 1 } else { depth as usize };
        let mut out = adapter.region(longest * out_slots).map_err(system(MEMORY))?;
        out.write(0, &vec![FILL; longest * out_slots]);
        let slots = adapter.region(longest * depth as usize).map_err(system(MEMORY))?;
        let notes = Notes::new(adapter).map_err(system(MEMORY))?;
        // A note, the last one, and the message that ends the flow; each arrives in a slot of its own.
        let needs = Needs {
            kind: Kind::Reliable,
            depth,
            beside: 3,
            arrivals: notes::SLOTS,
            all_tell: false,
            wait: point.wait,
        };
        let queue = Queue::new(adapter, beside, prepare, &needs)?;
        notes.offer_all(&queue).map_err(system("post a receive request"))?;
        let mut flow = Self {
            queue,
            notes,
            out,
            slots,
            slot_bytes: longest,
            depth: depth.into(),
            is_stream,
            payload_bytes: point.payload.0,
            verifier,
            sent: 0,
            received: 0,
            in_vain: 0,
            has_ended: false,
        };
        flow.queue.meet(&flow.slots, prepare, control)?;
        Ok(flow)
    }

    /// Fills the next slot if payloads are verified, once its previous message has left; returns the offset of the
    /// slot.
    fn fill(&mut self, bytes: usize) -> io::Result<usize> {
        let start = (self.sent % self.depth) as usize * self.slot_bytes;
        if let Some(verifier) = &mut self.verifier {
            self.queue.await_room()?;
            verifier.fill(&mut self.out, start..start + bytes, self.sent);
        }
        Ok(start)
    }

    /// Verifies the first `bytes` bytes of a payload.
    fn look(&mut self, number: u64, bytes: usize) -> io::Result<()> {
        let start = (number % self.depth) as usize * self.slot_bytes;
        match &mut self.verifier {
            Some(verifier) => verifier.check(&self.slots, start..start + bytes, number),
            None => Ok(()),
        }
    }

    /// Writes `bytes` bytes at offset `from` into the next slot of the other end.
    fn write(&mut self, from: usize, bytes: usize) -> io::Result<()> {
        let place = self.queue.place((self.sent % self.depth) as usize * self.slot_bytes);
        self.queue.post(Request::Write(place), &self.out, from..from + bytes)?;
        self.sent += 1;
        Ok(())
    }
}

impl Flow for WriteFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let start = self.fill(payload.len())?;
        self.write(if self.verifier.is_some() { start } else { 0 }, payload.len())?;
        if payload.len() >= SHORT_BYTES || self.sent.is_multiple_of(WRITES) {
            self.notes.say_at_intervals(self.sent, &mut self.queue)?;
        }
        Ok(Moved::one(payload.len()))
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        let mut moved = Moved::default();
        while moved.payloads == 0 && !self.has_ended {
            self.queue.await_arrival()?;
            while let Some(Arrival { slot, bytes, .. }) = self.queue.take_arrival() {
                if bytes == 0 {
                    self.has_ended = true;
                    // Earlier ones were overwritten.
                    for number in self.received.saturating_sub(self.depth)..self.received {
                        self.look(number, self.payload_bytes as usize)?;
                    }
                    break;
                }
                let there = self.notes.take(slot, &self.queue)?;
                moved.payloads += there.saturating_sub(self.received);
                self.received = self.received.max(there);
            }
        }
        if moved.payloads == 0 {
            // At the end nothing more follows.
            self.queue.set_goes_on(false);
        }
        moved.bytes = moved.payloads * self.payload_bytes;
        Ok(moved)
    }

    fn arrived_bytes(&mut self) -> io::Result<Option<u64>> {
        while self.queue.take()? > 0 {}
        let noted = self.queue.arrived().iter().filter(|arrival| arrival.bytes > 0);
        let there = noted.map(|arrival| self.notes.read(arrival.slot)).max().unwrap_or(0);
        Ok(Some(there.saturating_sub(self.received) * self.payload_bytes))
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        // A slot that the other end has not read must not be overwritten.
        if self.sent >= self.received + self.depth {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let start = self.fill(message.len())?;
        self.out.write(start + message.len() - 1, &[mark(self.sent, self.depth)]);
        self.write(start, message.len())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        let start = (self.received % self.depth) as usize * self.slot_bytes;
        if self.slots.byte(start + buffer.len() - 1) == mark(self.received, self.depth) {
            self.look(self.received, buffer.len() - 1)?;
            self.received += 1;
            return Ok(Message::Next);
        }
        self.in_vain = self.in_vain.wrapping_add(1);
        if self.in_vain.is_multiple_of(LOOK_AFTER) {
            self.queue.take()?;
            if !self.queue.arrived().is_empty() {
                self.has_ended = true;
                return Ok(Message::End);
            }
            self.queue.look_beside()?;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn finish(&mut self) -> io::Result<()> {
        // An end that has finished may be gone.
        if self.has_ended {
            return Ok(());
        }
        if self.is_stream {
            self.notes.say(self.sent, &mut self.queue)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_differs_from_that_of_the_lap_before_and_from_fresh_memory() {
        for depth in [4, 128] {
            let mut stood = 0;
            for lap in 0..1000 {
                let marks: Vec<u8> =
                    (0..depth).map(|slot| mark(lap * depth + slot, depth)).collect();
                assert!(marks.iter().all(|&mark| mark == marks[0] && mark != stood));
                stood = marks[0];
            }
        }
    }
}
