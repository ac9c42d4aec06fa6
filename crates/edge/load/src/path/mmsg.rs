//! Several datagrams a call: sendmmsg(2) and recvmmsg(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::sys::Batch;
use crate::transport::udp::UdpFlow;
use crate::transport::{Flow, Message, Moved};

/// Datagrams a call: beyond some 32 a system call's cost is a small part of the kernel's for each
/// datagram.
const BATCH: usize = 64;

/// UDP whose stream moves in batches.
#[derive(Debug)]
pub struct MmsgFlow {
    udp: UdpFlow,
    batch: Batch,
}

impl MmsgFlow {
    /// A flow whose datagrams carry `payload_bytes` bytes.
    pub fn new(udp: UdpFlow, payload_bytes: usize) -> Self {
        Self { udp, batch: Batch::new(BATCH, payload_bytes) }
    }

    /// The flow without its path.
    pub fn udp(&self) -> &UdpFlow {
        &self.udp
    }
}

impl Flow for MmsgFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        for place in 0..self.batch.count() {
            let header = self.udp.next_header();
            header.emit(self.batch.buffer(place));
        }
        let sent = self.batch.send(self.udp.socket().as_fd());
        let payloads = *sent.as_ref().unwrap_or(&0) as u64;
        self.udp.take_back(self.batch.count() as u64 - payloads);
        sent.map(|_| Moved { payloads, bytes: payloads * payload.len() as u64 })
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        loop {
            let arrived = self.batch.receive(self.udp.socket().as_fd())?;
            let moved = self.udp.note_all((0..arrived).map(|place| self.batch.arrived(place)));
            if moved.payloads > 0 {
                return Ok(moved);
            }
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        self.udp.waiting_bytes()
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.udp.send_message(message, number)
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        self.udp.receive_message(buffer)
    }

    fn has_end(&self) -> bool {
        false
    }

    fn finish(&mut self) -> io::Result<()> {
        self.udp.finish()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.udp.fd()
    }
}
