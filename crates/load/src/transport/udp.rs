//! The kernel's UDP: one `send` a payload, sequence numbers inside.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use fabricmark_proto::{DatagramHeader, Opening, SequenceCounts, SequenceTracker};

use super::Flow;
use crate::sys;

/// A connected datagram socket.
#[derive(Debug)]
pub struct UdpFlow {
    socket: UdpSocket,
    /// The opening of this flow, as a late copy of it may still arrive.
    opening: Opening,
    next: u64,
    arrivals: Option<SequenceTracker>,
}

impl UdpFlow {
    /// A flow over a connected socket whose opening is done and whose time-outs are set.
    pub fn new(socket: UdpSocket, opening: Opening, payload_bytes: usize) -> Self {
        let bits = DatagramHeader::sequence_bits(payload_bytes);
        let arrivals = (bits > 0).then(|| SequenceTracker::new(bits));
        Self { socket, opening, next: 0, arrivals }
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// What sequence numbers say; nothing where payloads are too short to carry one.
    pub fn sequence(&self) -> Option<SequenceCounts> {
        self.arrivals.as_ref().map(SequenceTracker::counts)
    }

    /// Whether a datagram is the opening again, whose acceptance was lost; it is answered.
    fn is_opening(&self, datagram: &[u8]) -> bool {
        let is_opening = Opening::parse(datagram) == Some(self.opening);
        if is_opening {
            // A lost acceptance is asked for again.
            let _ = self.socket.send(&self.opening.acceptance().emit());
        }
        is_opening
    }

    fn header(&mut self) -> DatagramHeader {
        let header = DatagramHeader { sequence: self.next, departure_ns: 0 };
        self.next += 1;
        header
    }
}

impl Flow for UdpFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<usize> {
        let header = DatagramHeader { sequence: self.next, departure_ns: 0 };
        header.emit(payload);
        let bytes = self.socket.send(payload)?;
        self.next += 1;
        Ok(bytes)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.socket.recv(buffer)?;
            // No payload is empty, and 0 bytes would read as the end of the stream.
            if bytes == 0 || self.is_opening(&buffer[..bytes]) {
                continue;
            }
            if let (Some(tracker), Some(header)) =
                (&mut self.arrivals, DatagramHeader::parse(&buffer[..bytes]))
            {
                tracker.arrive(header.sequence);
            }
            return Ok(bytes);
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        sys::waiting_bytes(self.socket.as_fd())
    }

    /// A datagram that does not come back within the time-out is lost; a late copy of an earlier
    /// answer is passed over by its sequence number.
    fn ask(&mut self, payload: &mut [u8], buffer: &mut [u8]) -> io::Result<()> {
        self.header().emit(payload);
        self.socket.send(payload)?;
        let wanted = DatagramHeader::parse(payload);
        loop {
            let bytes = self.socket.recv(buffer)?;
            if bytes == payload.len() && DatagramHeader::parse(&buffer[..bytes]) == wanted {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        loop {
            let bytes = self.socket.recv(buffer)?;
            if !self.is_opening(&buffer[..bytes]) {
                self.socket.send(&buffer[..bytes])?;
                return Ok(true);
            }
        }
    }
}
