//! UDP of the kernel: one `send` per payload, which contains a sequence number.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use fabricmark_plan::{Pace, Pattern, Point, Role};
use fabricmark_proto::{
    DatagramHeader, Jitter, OPENING_BYTES, Opened, SequenceCounts, SequenceTracker,
};
use rustix::net::{RecvFlags, recv};

use super::{Flow, Message, Moved};
use crate::sockets::{self, waiting_bytes};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Reception;

/// Bits of a sequence number in datagrams that also have room for the time of sending.
const TIMED_BITS: u32 = 64;

/// Fewest bits of a sequence number with which the datagrams of a stream are tracked.
const TRACKED_BITS: u32 = 32;

/// A connected UDP socket, in pairs of cache lines of its own, as [`ByteFlow`](super::bytes::ByteFlow).
#[derive(Debug)]
#[repr(align(128))]
pub struct UdpFlow {
    socket: UdpSocket,
    /// Payload length of the stream.
    payload_bytes: usize,
    /// The opening of this flow; late messages of it may still arrive.
    opened: Opened,
    role: Role,
    next: u64,
    /// Tracks the sequence numbers of a stream; `None` if they have fewer than [`TRACKED_BITS`].
    arrivals: Option<SequenceTracker>,
    /// Measures jitter of a stream in an open loop; `None` if its datagrams have no room for the time of sending.
    jitter: Option<Jitter>,
    /// Bits of the sequence number in messages of either direction.
    number_bits: u32,
}

/// Estimates the payload bytes in a receive queue from the memory that it holds. Each datagram costs a struct sk_buff
/// (256 bytes) and a buffer of at least 512 bytes for headers, payload and struct skb_shared_info (320 bytes):
/// SKB_TRUESIZE in include/linux/skbuff.h.
pub(super) fn waiting_payload_bytes(memory_bytes: u64, payload_bytes: u64) -> u64 {
    const LEAST_BYTES: u64 = 256 + 512;
    const OVERHEAD_BYTES: u64 = 256 + 320;
    memory_bytes.div_ceil(LEAST_BYTES.max(payload_bytes + OVERHEAD_BYTES)) * payload_bytes
}

impl UdpFlow {
    /// A flow over a connected socket that has already opened it.
    pub fn new(socket: UdpSocket, opened: Opened, role: Role, point: &Point) -> Self {
        let payload_bytes = point.payload.0 as usize;
        let shortest_bytes =
            point.response.map_or(payload_bytes, |response| payload_bytes.min(response.0 as usize));
        let bits = DatagramHeader::sequence_bits(payload_bytes);
        let tracks = point.pattern == Pattern::Stream && bits >= TRACKED_BITS;
        Self {
            socket,
            payload_bytes,
            opened,
            role,
            next: 0,
            arrivals: tracks.then(|| SequenceTracker::new(bits)),
            jitter: (tracks && bits >= TIMED_BITS && point.pace != Pace::Closed)
                .then(Jitter::default),
            number_bits: DatagramHeader::sequence_bits(shortest_bytes),
        }
    }

    /// The connected socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Counts by the sequence numbers of a stream; `None` if they have fewer than [`TRACKED_BITS`].
    pub fn sequence(&self) -> Option<SequenceCounts> {
        self.arrivals.as_ref().map(SequenceTracker::counts)
    }

    /// Interarrival jitter of a stream in an open loop, in nanoseconds; `None` if the stream was too short.
    pub fn jitter_ns(&self) -> Option<f64> {
        self.jitter?.settled_ns()
    }

    /// The header of the next datagram of a stream.
    pub(crate) fn next_header(&mut self) -> DatagramHeader {
        let sent_ns = if self.jitter.is_some() { now_ns() } else { 0 };
        let header = DatagramHeader { sequence: self.next, sent_ns };
        self.next += 1;
        header
    }

    /// Takes back the last `count` headers: their datagrams were not sent.
    pub(crate) fn take_back(&mut self, count: u64) {
        self.next -= count;
    }

    /// Records the arrival of a datagram of `bytes` bytes that begins with `kept`; returns false if it is not a
    /// payload of the stream.
    pub(crate) fn note(&mut self, kept: &[u8], bytes: usize) -> bool {
        if bytes != self.payload_bytes || (bytes == OPENING_BYTES && self.opened.is_message(kept)) {
            self.confirm_again(kept);
            return false;
        }
        if let (Some(tracker), Some(header)) = (&mut self.arrivals, DatagramHeader::parse(kept)) {
            tracker.arrive(header.sequence);
            if let Some(jitter) = &mut self.jitter {
                jitter.arrive(header.sent_ns, now_ns());
            }
        }
        true
    }

    /// Records the arrival of datagrams, each with its true length; returns those that are payloads of the stream.
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

    /// Writes the number of a message into it before it is sent.
    pub(crate) fn number(&mut self, message: &mut [u8], number: u64) {
        DatagramHeader { sequence: number, sent_ns: 0 }.emit(message);
        self.next = number;
    }

    /// The message of `wanted` bytes in a datagram of `bytes` bytes; `None` if it contains none.
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
        let DatagramHeader { sequence, .. } = DatagramHeader::parse(kept)?;
        let number = DatagramHeader::number_until(self.next, sequence, self.number_bits);
        Some(Message::Numbered(number))
    }

    /// Answers a repeated confirmation, the answer to which was lost or late.
    #[cold]
    fn confirm_again(&self, kept: &[u8]) {
        if self.role == Role::Server
            && let Some(confirmed) = self.opened.answer(kept)
        {
            // If it is lost, the client repeats its request.
            let _ = self.socket.send(&confirmed);
        }
    }
}

impl Flow for UdpFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let sent_ns = if self.jitter.is_some() { now_ns() } else { 0 };
        DatagramHeader { sequence: self.next, sent_ns }.emit(payload);
        let bytes = sockets::send(&self.socket, payload)?;
        self.next += 1;
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        loop {
            // MSG_TRUNC: the length is the true one, also of a datagram that does not fit.
            let (kept, bytes) = recv(&self.socket, &mut *buffer, RecvFlags::TRUNC)?;
            if self.note(&buffer[..kept], bytes) {
                return Ok(Moved::one(bytes));
            }
        }
    }

    /// An estimate: the kernel reports the memory of the receive queue, not its payload.
    fn waiting_bytes(&mut self) -> io::Result<u64> {
        let memory_bytes = waiting_bytes(self.socket.as_fd())?;
        Ok(waiting_payload_bytes(memory_bytes, self.payload_bytes as u64))
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.number(message, number);
        sockets::send(&self.socket, message)?;
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

    fn reception(&self) -> Option<Reception> {
        let lost = self.arrivals.as_ref()?.lost().try_into().unwrap_or(i64::MAX);
        Some(Reception { lost, jitter_ns: self.jitter_ns() })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_in_a_receive_queue_is_estimated_from_its_memory() {
        for (payload_bytes, count, most_bytes) in
            [(2, 13, 39), (1_000, 20, 40_000), (60_000, 2, 180_000)]
        {
            let to = UdpSocket::bind("127.0.0.1:0").unwrap();
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            from.connect(to.local_addr().unwrap()).unwrap();
            (0..count).for_each(|_| assert!(from.send(&vec![0; payload_bytes]).is_ok()));
            let memory_bytes = waiting_bytes(to.as_fd()).unwrap();
            let waiting_bytes = waiting_payload_bytes(memory_bytes, payload_bytes as u64);
            let least_bytes = (count * payload_bytes) as u64;
            assert!((least_bytes..=most_bytes).contains(&waiting_bytes), "{waiting_bytes}");
        }
        assert_eq!(waiting_payload_bytes(0, 1_000), 0);
    }
}
