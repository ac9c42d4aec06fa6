//! Several datagrams per system call: sendmmsg(2) and recvmmsg(2).

use std::io;
use std::os::fd::AsFd;

use fabricmark_plan::Point;

use super::sys::Batch;
use crate::transport::udp::UdpFlow;
use crate::transport::{Flow, Message, Moved, passes_on};

/// UDP whose stream is sent and received in batches.
#[derive(Debug)]
pub struct MmsgFlow {
    flow: UdpFlow,
    batch: Batch,
}

impl MmsgFlow {
    /// One of the point's flows.
    pub fn new(flow: UdpFlow, point: &Point) -> Self {
        let batch = Batch::new(point.mmsg_batch() as usize, point.payload.0 as usize);
        Self { flow, batch }
    }

    /// The plain UDP flow.
    pub fn udp(&self) -> &UdpFlow {
        &self.flow
    }
}

impl Flow for MmsgFlow {
    passes_on!();

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.send_most(payload, u64::MAX)
    }

    fn send_most(&mut self, payload: &mut [u8], most: u64) -> io::Result<Moved> {
        let count = most.min(self.batch.count() as u64);
        for place in 0..count as usize {
            let header = self.flow.next_header();
            header.emit(self.batch.buffer(place));
        }
        let sent = self.batch.send(self.flow.socket().as_fd(), count as usize);
        let payloads = *sent.as_ref().unwrap_or(&0) as u64;
        self.flow.take_back(count - payloads);
        sent.map(|_| Moved { payloads, bytes: payloads * payload.len() as u64 })
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        loop {
            let arrived = self.batch.receive(self.flow.socket().as_fd())?;
            let moved = self.flow.note_all((0..arrived).map(|place| self.batch.arrived(place)));
            if moved.payloads > 0 {
                return Ok(moved);
            }
        }
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.flow.send_message(message, number)
    }
}
