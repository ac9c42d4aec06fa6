//! UDP segmentation offload: the kernel cuts one buffer into datagrams (UDP_SEGMENT), and joins them at the receiver
//! (UDP_GRO).

use std::io;
use std::os::fd::AsFd;

use fabricmark_plan::Point;
use rustix::net::RecvFlags;

use crate::buffer::Buffer;
use crate::sockets;
use crate::transport::udp::UdpFlow;
use crate::transport::{Flow, Message, Moved, passes_on};
use fabricmark_telemetry::sys::{plain, receive, set};

/// Receive buffer: room for whatever the kernel joins.
const RECEIVE_BYTES: usize = 65_536;

/// UDP whose stream is sent and received in large buffers.
#[derive(Debug)]
pub struct GsoFlow {
    flow: UdpFlow,
    payload_bytes: usize,
    buffer: Buffer,
}

impl GsoFlow {
    /// Sends the point's datagrams. Sets UDP_SEGMENT to their length.
    pub fn sending(flow: UdpFlow, point: &Point) -> io::Result<Self> {
        let payload_bytes = point.payload.0 as usize;
        let size = libc::c_int::try_from(payload_bytes).unwrap_or(libc::c_int::MAX);
        set(flow.socket().as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, size)?;
        let datagrams = point.datagrams_per_buffer() as usize;
        let buffer = Buffer::filled_with(0x5a, datagrams * payload_bytes);
        Ok(Self { flow, payload_bytes, buffer })
    }

    /// Receives the point's datagrams. Sets UDP_GRO.
    pub fn receiving(flow: UdpFlow, point: &Point) -> io::Result<Self> {
        let payload_bytes = point.payload.0 as usize;
        set(flow.socket().as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        Ok(Self { flow, payload_bytes, buffer: Buffer::filled_with(0, RECEIVE_BYTES) })
    }

    /// The plain UDP flow.
    pub fn udp(&self) -> &UdpFlow {
        &self.flow
    }
}

impl Flow for GsoFlow {
    passes_on!();

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.send_most(payload, u64::MAX)
    }

    fn send_most(&mut self, _: &mut [u8], most: u64) -> io::Result<Moved> {
        let segments = most.min((self.buffer.len() / self.payload_bytes) as u64);
        let buffer = &mut self.buffer[..segments as usize * self.payload_bytes];
        for payload in buffer.chunks_exact_mut(self.payload_bytes) {
            self.flow.next_header().emit(payload);
        }
        match sockets::send(self.flow.socket(), buffer) {
            Ok(bytes) => Ok(Moved { payloads: segments, bytes: bytes as u64 }),
            Err(error) => {
                self.flow.take_back(segments);
                Err(error)
            }
        }
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        loop {
            // Without a segment size, the buffer contains a single datagram.
            let (socket, mut segment) = (self.flow.socket().as_fd(), None);
            let bytes = receive(socket, &mut self.buffer, RecvFlags::empty(), |kind, data| {
                if kind == (libc::SOL_UDP, libc::UDP_GRO) {
                    segment = plain::<libc::c_int>(data).filter(|&length| length > 0);
                }
            })?;
            let segment = segment.map_or(bytes, |length| length as usize);
            let datagrams = self.buffer[..bytes].chunks(segment.max(1));
            let moved = self.flow.note_all(datagrams.map(|datagram| (datagram, datagram.len())));
            if moved.payloads > 0 {
                return Ok(moved);
            }
        }
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.flow.send_message(message, number)
    }
}
