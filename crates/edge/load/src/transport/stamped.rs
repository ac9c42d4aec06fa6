//! UDP and TCP whose RTTs are split by packet timestamps. Each transaction costs the client one system call more,
//! which reads the timestamp of the request when the response has arrived.

use std::cell::RefCell;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use fabricmark_plan::Timestamps;
use fabricmark_record::KernelTimes;
use rustix::net::RecvFlags;

use super::bytes::TcpPath;
use super::udp::UdpFlow;
use super::{Flow, Message, Moved};
use crate::sockets;
use fabricmark_telemetry::gauge::Reception;
use fabricmark_telemetry::stamp::{self, Arrivals, Trips, recv_with_stamp};

/// Enables packet timestamps on a socket.
pub(crate) fn ask_for(socket: &impl AsFd, source: Timestamps) -> io::Result<Trips> {
    stamp::enable(socket.as_fd(), source == Timestamps::Hardware)?;
    Ok(Trips::by(source))
}

/// UDP at the client of request/response.
#[derive(Debug)]
pub struct StampedUdp {
    udp: UdpFlow,
    /// Number of the outstanding request.
    asked: u64,
    trips: Trips,
}

impl StampedUdp {
    /// Wraps a flow, and enables packet timestamps on its socket.
    pub fn new(udp: UdpFlow, source: Timestamps) -> io::Result<Self> {
        let trips = ask_for(udp.socket(), source)?;
        Ok(Self { udp, asked: 0, trips })
    }

    /// The plain UDP flow.
    pub fn udp(&self) -> &UdpFlow {
        &self.udp
    }
}

impl Flow for StampedUdp {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.udp.send(payload)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        self.udp.receive(buffer)
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        self.udp.waiting_bytes()
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.asked = number;
        self.trips.departs();
        self.udp.send_message(message, number)
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        loop {
            let socket = self.udp.socket().as_fd();
            let (bytes, stamp) = recv_with_stamp(socket, buffer, RecvFlags::TRUNC)?;
            let (kept, wanted) = (&buffer[..bytes.min(buffer.len())], buffer.len());
            let Some(message) = self.udp.read_message(kept, bytes, wanted) else { continue };
            // A response that arrives after its request was given up does not belong to this RTT.
            if message == Message::Numbered(self.asked) {
                self.trips.arrives(self.udp.socket().as_fd(), stamp)?;
            }
            return Ok(message);
        }
    }

    fn reception(&self) -> Option<Reception> {
        self.udp.reception()
    }

    fn has_end(&self) -> bool {
        self.udp.has_end()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.udp.fd()
    }

    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        Some(self.trips.finish())
    }
}

/// Times of the connections of crr, one after the other, at the client.
impl TcpPath for &RefCell<Trips> {
    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        self.borrow_mut().read(stream, buffer)
    }

    fn write(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        self.borrow_mut().write(stream, payload)
    }
}

/// The same at the server.
impl TcpPath for &RefCell<Arrivals> {
    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, stamp) = recv_with_stamp(stream.as_fd(), buffer, RecvFlags::empty())?;
        if bytes > 0 {
            self.borrow_mut().arrives(stamp);
        }
        Ok(bytes)
    }

    fn write(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        self.borrow_mut().answers();
        sockets::send(stream, payload)
    }
}

/// TCP at the client of request/response: an RTT lasts from the last write before reads to the last of these.
impl TcpPath for Trips {
    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, stamp) = recv_with_stamp(stream.as_fd(), buffer, RecvFlags::empty())?;
        if bytes > 0 {
            self.arrives(stream.as_fd(), stamp)?;
        }
        Ok(bytes)
    }

    fn write(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        self.departs();
        sockets::send(stream, payload)
    }

    fn take_kernel_times(&mut self) -> Option<KernelTimes> {
        Some(self.finish())
    }
}
