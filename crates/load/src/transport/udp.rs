//! The kernel's UDP: one `send` a payload, sequence numbers inside.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use fabricmark_plan::{Pattern, Point};
use fabricmark_proto::{
    DatagramHeader, OPENING_BYTES, Opened, Role, SequenceCounts, SequenceTracker,
};
use rustix::net::{RecvFlags, recv};

use super::{Flow, Message, Moved};
use crate::sys;

/// A connected datagram socket.
#[derive(Debug)]
pub struct UdpFlow {
    socket: UdpSocket,
    /// Bytes of a payload of the stream.
    payload_bytes: usize,
    /// The opening of this flow, of which late messages may still arrive.
    opened: Opened,
    role: Role,
    next: u64,
    /// Judges a stream's numbers; nothing where payloads are too short to carry one.
    arrivals: Option<SequenceTracker>,
    /// Whether both directions' messages are long enough for a number.
    is_numbered: bool,
}

impl UdpFlow {
    /// A flow over a connected socket whose opening is done.
    pub fn new(socket: UdpSocket, opened: Opened, role: Role, point: &Point) -> Self {
        let payload_bytes = point.payload.0 as usize;
        let shortest_bytes =
            point.response.map_or(payload_bytes, |response| payload_bytes.min(response.0 as usize));
        let bits = DatagramHeader::sequence_bits(payload_bytes);
        let tracks = point.pattern == Pattern::Stream && bits > 0;
        Self {
            socket,
            payload_bytes,
            opened,
            role,
            next: 0,
            arrivals: tracks.then(|| SequenceTracker::new(bits)),
            is_numbered: DatagramHeader::sequence_bits(shortest_bytes) > 0,
        }
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// What sequence numbers say; nothing where payloads are too short to carry one.
    pub fn sequence(&self) -> Option<SequenceCounts> {
        self.arrivals.as_ref().map(SequenceTracker::counts)
    }

    /// The header of the next datagram of a stream.
    pub(crate) fn next_header(&mut self) -> DatagramHeader {
        let header = DatagramHeader { sequence: self.next, departure_ns: 0 };
        self.next += 1;
        header
    }

    /// Takes the last `count` headers back: their datagrams were not sent.
    pub(crate) fn take_back(&mut self, count: u64) {
        self.next -= count;
    }

    /// Notes the arrival of a datagram of so many bytes, of which `kept` is the beginning; false for
    /// one that is no payload of the stream.
    pub(crate) fn note(&mut self, kept: &[u8], bytes: usize) -> bool {
        if bytes != self.payload_bytes || (bytes == OPENING_BYTES && self.opened.is_message(kept)) {
            self.confirm_again(kept);
            return false;
        }
        if let (Some(tracker), Some(header)) = (&mut self.arrivals, DatagramHeader::parse(kept)) {
            tracker.arrive(header.sequence);
        }
        true
    }

    /// Notes the arrival of datagrams, each with its true length; gives those that are payloads of the
    /// stream.
    pub(crate) fn note_all<'a>(
        &mut self,
        datagrams: impl Iterator<Item = (&'a [u8], usize)>,
    ) -> Moved {
        let mut moved = Moved::default();
        for (kept, bytes) in datagrams {
            if self.note(kept, bytes) {
                moved.payloads += 1;
                moved.bytes += bytes as u64;
            }
        }
        moved
    }

    /// Writes its number into a message that is about to be sent.
    pub(crate) fn number(&mut self, message: &mut [u8], number: u64) {
        if self.is_numbered {
            DatagramHeader { sequence: number, departure_ns: 0 }.emit(message);
        }
        self.next = number;
    }

    /// The message of `wanted` bytes that a datagram of so many bytes is; nothing for one that is none.
    pub(crate) fn read_message(
        &mut self,
        kept: &[u8],
        bytes: usize,
        wanted: usize,
    ) -> Option<Message> {
        if bytes != wanted || (bytes == OPENING_BYTES && self.opened.is_message(kept)) {
            self.confirm_again(kept);
            return None;
        }
        Some(match DatagramHeader::parse(kept) {
            Some(header) if self.is_numbered => {
                // A short message carries 32 bits; the number is the last one sent, or before.
                let behind = (self.next as u32).wrapping_sub(header.sequence as u32);
                Message::Numbered(self.next.wrapping_sub(u64::from(behind)))
            }
            _ => Message::Next,
        })
    }

    /// Answers a confirmation that is repeated because its answer was lost, or late.
    #[cold]
    fn confirm_again(&self, kept: &[u8]) {
        if self.role == Role::Answer
            && let Some(confirmed) = self.opened.answer(kept)
        {
            // Whoever still waits for it asks again.
            let _ = self.socket.send(&confirmed);
        }
    }
}

impl Flow for UdpFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let header = DatagramHeader { sequence: self.next, departure_ns: 0 };
        header.emit(payload);
        let bytes = self.socket.send(payload)?;
        self.next += 1;
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        loop {
            // The length is the true one, also of a datagram that does not fit.
            let (kept, bytes) = recv(&self.socket, &mut *buffer, RecvFlags::TRUNC)?;
            if self.note(&buffer[..kept], bytes) {
                return Ok(Moved::one(bytes));
            }
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        sys::waiting_bytes(self.socket.as_fd())
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.number(message, number);
        self.socket.send(message)?;
        Ok(())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        loop {
            let (kept, bytes) = recv(&self.socket, &mut *buffer, RecvFlags::TRUNC)?;
            let wanted = buffer.len();
            if let Some(message) = self.read_message(&buffer[..kept], bytes, wanted) {
                return Ok(message);
            }
        }
    }

    fn has_end(&self) -> bool {
        false
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
