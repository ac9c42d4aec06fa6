//! Tests over UDP: UDP_STREAM, UDP_RR, and omni tests in which the server sends.

use std::net::{SocketAddr, UdpSocket};

use fabricmark_load::transport::is_timeout;
use fabricmark_proto::netperf::{Results, Test, Traffic};

use super::is_closed;
use super::watch::{Failure, Watch};

/// Maximum length of a datagram (RFC 768).
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Number of empty datagrams that signal the end of a test: any of them may be lost.
const FAREWELLS: u32 = 3;

/// Runs a test with the client at `peer`. Returns without a result if nothing came in time.
pub(super) fn carry_out(
    socket: &UdpSocket,
    peer: SocketAddr,
    test: &Test,
    watch: &mut Watch<'_>,
    counted: &mut Results,
) -> Result<(), Failure> {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut end = End { socket, watch, counted };
    let count = test.count_max();
    match test.traffic {
        Traffic::Receive { .. } => {
            let mut arrived = end.first(&mut buffer, peer, test)?;
            while arrived.is_some() {
                arrived = end.receive(&mut buffer)?;
            }
        }
        Traffic::Exchange { response_bytes, .. } | Traffic::Crr { response_bytes, .. } => {
            let mut arrived = end.first(&mut buffer, peer, test)?;
            while arrived.is_some() && end.send(&buffer[..response_bytes as usize])? {
                end.counted.transactions += 1;
                if end.counted.transactions >= count {
                    break;
                }
                arrived = end.receive(&mut buffer)?;
            }
        }
        Traffic::Send { call_bytes } => {
            let mut to = peer;
            to.set_port(test.client_port);
            socket.connect(to)?;
            end.watch.begin(test.within);
            while end.counted.bytes_sent < count && end.send(&buffer[..call_bytes as usize])? {}
            for _ in 0..FAREWELLS {
                // The client may already have closed its socket.
                let _ = socket.send(&[]);
            }
        }
    }
    Ok(())
}

struct End<'a, 'w> {
    socket: &'a UdpSocket,
    watch: &'a mut Watch<'w>,
    counted: &'a mut Results,
}

impl End<'_, '_> {
    /// Waits for the client's first datagram and connects the socket to its port. Returns the length, or `None` if no
    /// datagram came.
    fn first(
        &mut self,
        buffer: &mut [u8],
        peer: SocketAddr,
        test: &Test,
    ) -> Result<Option<usize>, Failure> {
        loop {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) if from.ip() == peer.ip() => {
                    self.socket.connect(from)?;
                    self.watch.begin(test.within);
                    return Ok(self.arrive(length));
                }
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if self.watch.is_over(false)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the next datagram; returns its length, or `None` at the end of the test.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        loop {
            let received = match self.socket.recv(buffer) {
                Ok(length) => self.arrive(length),
                Err(error) if is_timeout(&error) => {
                    if self.watch.is_over(false)? {
                        return Ok(None);
                    }
                    continue;
                }
                Err(error) if is_closed(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let is_over = self.watch.is_over(received.is_some())?;
            return Ok(received.filter(|_| !is_over));
        }
    }

    /// Counts a datagram; an empty one ends the test.
    fn arrive(&mut self, length: usize) -> Option<usize> {
        if length == 0 {
            return None;
        }
        self.counted.bytes_received += length as u64;
        self.counted.receive_calls += 1;
        Some(length)
    }

    /// Sends a datagram; false if the client has closed or the time is up.
    fn send(&mut self, datagram: &[u8]) -> Result<bool, Failure> {
        if self.watch.wait_to_send(datagram.len())? {
            return Ok(false);
        }
        let is_sent = match self.socket.send(datagram) {
            Ok(_) => true,
            Err(error) if is_timeout(&error) || error.raw_os_error() == Some(libc::ENOBUFS) => {
                false
            }
            Err(error) if is_closed(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if is_sent {
            self.counted.bytes_sent += datagram.len() as u64;
            self.counted.send_calls += 1;
        } else {
            self.counted.failed_sends += 1;
        }
        Ok(!self.watch.is_over(is_sent)?)
    }
}
