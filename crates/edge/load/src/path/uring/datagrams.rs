//! UDP over io_uring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use fabricmark_plan::Point;
use fabricmark_proto::Failure;

use super::Channel;
use crate::transport::udp::UdpFlow;
use crate::transport::{Flow, Message, Moved};
use fabricmark_telemetry::gauge::Reception;

/// A UDP flow that uses io_uring. It belongs to the thread that created it.
pub struct UringDatagrams {
    /// Dropped first, since its requests use the socket.
    channel: Channel,
    udp: UdpFlow,
}

impl UringDatagrams {
    /// A flow that sends datagrams of `send_bytes` bytes.
    pub fn new(udp: UdpFlow, point: &Point, send_bytes: usize) -> Result<Self, Failure> {
        let largest = point.response.map_or(point.payload, |r| r.max(point.payload));
        // One byte more than a datagram, so that a longer one is not mistaken for it.
        let receive_bytes = largest.0 as usize + 1;
        let channel = Channel::new(udp.socket().as_fd(), point, send_bytes, receive_bytes)?;
        Ok(Self { channel, udp })
    }

    /// The plain UDP flow.
    pub fn udp(&self) -> &UdpFlow {
        &self.udp
    }
}

impl Flow for UringDatagrams {
    fn send(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        // A header must not change while it is sent.
        match self.channel.out.unfreed {
            0 => self.channel.catch_up()?,
            _ => self.channel.turn(1)?,
        }
        if self.channel.out.unfreed == 0 {
            while let Some(slot) = self.channel.slot() {
                self.udp.next_header().emit(slot);
                self.channel.fill();
            }
        }
        self.channel.send()
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        loop {
            self.channel.await_arrival()?;
            self.channel.is_over = false;
            let Channel { ring, arrived, .. } = &mut self.channel;
            let datagrams = arrived
                .iter()
                .map(|arrival| (ring.arrived(arrival.place, arrival.bytes), arrival.bytes));
            let moved = self.udp.note_all(datagrams);
            arrived.drain(..).for_each(|arrival| ring.give_back(arrival.place));
            if moved.payloads > 0 {
                self.channel.receive_on()?;
                return Ok(moved);
            }
        }
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(self.udp.waiting_bytes()? + self.channel.waiting_bytes()?)
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.udp.number(message, number);
        self.channel.queue(message)
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        loop {
            self.channel.await_arrival()?;
            // An empty datagram is not the end.
            self.channel.is_over = false;
            let Some(arrival) = self.channel.arrived.pop_front() else { continue };
            let datagram = self.channel.ring.arrived(arrival.place, arrival.bytes);
            let message = self.udp.read_message(datagram, datagram.len(), buffer.len());
            self.channel.ring.give_back(arrival.place);
            if let Some(message) = message {
                return Ok(message);
            }
        }
    }

    fn has_end(&self) -> bool {
        false
    }

    fn reception(&self) -> Option<Reception> {
        self.udp.reception()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.channel.end()?;
        self.udp.finish()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.udp.fd()
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        self.channel.ready_fd()
    }

    fn due(&mut self) -> Option<Instant> {
        self.channel.due()
    }

    fn settle(&mut self) -> io::Result<Moved> {
        self.channel.settle()
    }
}
