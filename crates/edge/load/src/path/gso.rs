//! One buffer that the kernel cuts into datagrams, and puts together again at the receiver:
//! UDP_SEGMENT and UDP_GRO.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use fabricmark_plan::Point;

use super::sys;
use crate::sys as options;
use crate::transport::udp::UdpFlow;
use crate::transport::{Flow, Message, Moved};

/// Room for whatever the kernel puts together.
const RECEIVE_BYTES: usize = 65_536;

/// UDP whose stream moves as large buffers.
#[derive(Debug)]
pub struct GsoFlow {
    udp: UdpFlow,
    payload_bytes: usize,
    buffer: Vec<u8>,
}

impl GsoFlow {
    /// A flow that sends the point's datagrams.
    pub fn sending(udp: UdpFlow, point: &Point) -> io::Result<Self> {
        let payload_bytes = point.payload.0 as usize;
        let size = libc::c_int::try_from(payload_bytes).unwrap_or(libc::c_int::MAX);
        options::set(udp.socket().as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, size)?;
        let buffer = vec![0x5a; point.datagrams_per_buffer() as usize * payload_bytes];
        Ok(Self { udp, payload_bytes, buffer })
    }

    /// A flow that receives the point's datagrams.
    pub fn receiving(udp: UdpFlow, point: &Point) -> io::Result<Self> {
        let payload_bytes = point.payload.0 as usize;
        options::set(udp.socket().as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        Ok(Self { udp, payload_bytes, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// The flow without its path.
    pub fn udp(&self) -> &UdpFlow {
        &self.udp
    }
}

impl Flow for GsoFlow {
    fn send(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        let segments = (self.buffer.len() / self.payload_bytes) as u64;
        for payload in self.buffer.chunks_exact_mut(self.payload_bytes) {
            self.udp.next_header().emit(payload);
        }
        match self.udp.socket().send(&self.buffer) {
            Ok(bytes) => Ok(Moved { payloads: segments, bytes: bytes as u64 }),
            Err(error) => {
                self.udp.take_back(segments);
                Err(error)
            }
        }
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        loop {
            let (bytes, segment) = sys::receive_gro(self.udp.socket().as_fd(), &mut self.buffer)?;
            let datagrams = self.buffer[..bytes].chunks(segment.max(1));
            let moved = self.udp.note_all(datagrams.map(|datagram| (datagram, datagram.len())));
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
