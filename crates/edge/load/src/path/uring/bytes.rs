//! Connections over io_uring.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use fabricmark_plan::{Pattern, Point};
use fabricmark_proto::Failure;

use super::{Arrival, Channel, PLACES_MIN, RECEIVE_BYTES};
use crate::transport::bytes::{ByteFlow, ByteStream};
use crate::transport::{Flow, Message, Moved};

/// Largest receive buffer of a stream: the read size of other paths.
const STREAM_BYTES: usize = 128 << 10;

/// Smallest receive buffer of a stream, if many flows share the memory.
const STREAM_BYTES_MIN: usize = 4 << 10;

/// A flow over a connection that uses io_uring. It belongs to the thread that created it, unless the point has several
/// load threads.
pub struct UringBytes<S> {
    /// Dropped first, since its requests use the connection.
    channel: Channel,
    flow: ByteFlow<S>,
    /// Data beyond the last message, and how much of it was read.
    opened: Option<(Arrival, usize)>,
    /// Bytes of the current message that were read.
    read: usize,
}

impl<S: ByteStream> UringBytes<S> {
    /// A flow that sends payloads of `send_bytes` bytes.
    pub fn new(stream: S, point: &Point, send_bytes: usize) -> Result<Self, Failure> {
        let receive_bytes = match point.pattern {
            Pattern::Stream | Pattern::Burst => (RECEIVE_BYTES / PLACES_MIN / point.flows as usize)
                .clamp(STREAM_BYTES_MIN, STREAM_BYTES),
            _ => {
                let largest = point.response.map_or(point.payload, |r| r.max(point.payload));
                (largest.0 as usize).clamp(64, STREAM_BYTES)
            }
        };
        let channel = Channel::new(stream.as_fd(), point, send_bytes, receive_bytes)?;
        Ok(Self { channel, flow: ByteFlow::new(stream), opened: None, read: 0 })
    }
}

impl<S: ByteStream> Flow for UringBytes<S> {
    fn send(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        self.channel.catch_up()?;
        // Every slot holds the payload already.
        while self.channel.slot().is_some() {
            self.channel.fill();
        }
        self.channel.send()
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        self.channel.await_arrival()?;
        let mut moved = Moved::default();
        while let Some(arrival) = self.channel.arrived.pop_front() {
            moved.payloads += 1;
            moved.bytes += arrival.bytes as u64;
            self.channel.ring.give_back(arrival.place);
        }
        self.channel.is_end_told = moved.payloads == 0;
        self.channel.receive_on()?;
        Ok(moved)
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(self.flow.waiting_bytes()? + self.channel.waiting_bytes()?)
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        self.channel.queue(message)
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        while self.read < buffer.len() {
            let (arrival, from) = match self.opened.take() {
                Some(opened) => opened,
                None => {
                    self.channel.await_arrival()?;
                    match self.channel.arrived.pop_front() {
                        Some(arrival) => (arrival, 0),
                        None if self.read == 0 => return Ok(Message::End),
                        None => return Err(io::ErrorKind::UnexpectedEof.into()),
                    }
                }
            };
            let bytes = (buffer.len() - self.read).min(arrival.bytes - from);
            let arrived = self.channel.ring.arrived(arrival.place, arrival.bytes);
            buffer[self.read..][..bytes].copy_from_slice(&arrived[from..][..bytes]);
            self.read += bytes;
            if from + bytes < arrival.bytes {
                self.opened = Some((arrival, from + bytes));
            } else {
                self.channel.ring.give_back(arrival.place);
            }
        }
        self.read = 0;
        Ok(Message::Next)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.channel.end()?;
        self.flow.finish()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.flow.fd()
    }

    fn tcp(&self) -> Option<&TcpStream> {
        self.flow.tcp()
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use crate::transport::is_timeout;

    fn point() -> Point {
        let levels =
            "pattern=stream,transport=unix,family=4,link=loopback,path=io-uring,payload=4000";
        fabricmark_testkit::point(levels)
    }

    #[test]
    fn bytes_keep_their_order_though_sends_fall_short_and_are_cancelled() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // Smaller than a chain, so that the socket fills up in the middle of a payload.
        socket2::SockRef::from(&ours).set_send_buffer_size(16 << 10).unwrap();
        let mut flow = UringBytes::new(ours, &point(), 4000).unwrap();
        // The slots repeat. The period is a prime number, so no byte has the same position in two slots.
        let area = flow.channel.ring.outgoing();
        area.iter_mut().zip(0..).for_each(|(byte, at)| *byte = (at % 251) as u8);
        let period = area.to_vec();
        let send = |flow: &mut UringBytes<UnixStream>| loop {
            match flow.send(&mut []) {
                Ok(moved) => return moved.bytes as usize,
                Err(error) => assert!(is_timeout(&error), "{error}"),
            }
        };
        // Without a reader, the chain is cancelled midway.
        let first = send(&mut flow);
        assert!(first > 0 && first < period.len());
        let (sent, received) = thread::scope(|scope| {
            let mut theirs = theirs;
            let reader = scope.spawn(move || {
                let mut all = Vec::new();
                theirs.read_to_end(&mut all).unwrap();
                all
            });
            let mut sent = first;
            while sent < 5 * period.len() {
                sent += send(&mut flow);
            }
            flow.finish().unwrap();
            (sent, reader.join().unwrap())
        });
        assert_eq!(received.len(), sent);
        let expected: Vec<u8> = period.iter().copied().cycle().take(sent).collect();
        assert!(received == expected, "bytes are out of order");
    }
}
