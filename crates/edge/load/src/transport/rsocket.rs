//! Rsockets: byte streams over RDMA with the calls of sockets (rsocket(7)).
//!
//! A TCP connection stays open beside each rsocket. The ends exchange the port over it, and the sender the total
//! number of bytes that it has sent, because the calls that shut down an rsocket block while it makes no progress.
//!
//! The receiver of a stream also reports over it that it reads. If the sender began earlier by a millisecond, it might
//! fill the receive queue of the adapter, which then refuses a message (RNR NAK), and the sender waits for 655 ms, since
//! the communication manager leaves the RNR timer at 0 (IBTA volume 1, 9.7.5.2.8; seen with librdmacm 44 and Soft RoCE).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fabricmark_plan::{Pattern, Role, Wait};
use fabricmark_proto::{Failure, Prepare};
use fabricmark_rdma::{Rsocket, Waiting, check_address};
use rustix::net::{RecvFlags, recv};

use super::{Flow, Message, Moved, STALLED_AFTER};
use crate::control::Control;
use crate::failure::peer;
use crate::opening::{Beside, NOT_OPEN, in_time, no_cm};
use crate::sockets::peer_within;
use fabricmark_telemetry::clock::now_ns;

/// Interval at which a server tries to accept, so that the client waits for about as long as for the connection.
const ACCEPT_EVERY: Duration = Duration::from_millis(1);

/// What the receiver of a stream reports.
const READS: u8 = 1;

/// Calls without a result until the TCP connection is checked.
const LOOK_AFTER: u32 = 1024;

/// A flow over a connected rsocket.
#[derive(Debug)]
pub(crate) struct RsocketFlow {
    /// `None` once it was given up.
    socket: Option<Rsocket>,
    beside: Beside,
    wait: Wait,
    /// Bytes of the current payload or message that are written.
    written: usize,
    read: usize,
    /// Whether the other end of a stream has reported that it reads, and whether this end has.
    peer_reads: bool,
    has_told: bool,
    sent: u64,
    received: u64,
    /// Total bytes that the other end has sent, once it has reported them.
    in_all: Option<u64>,
    in_vain: u32,
    /// Since when expected progress is missing.
    still_since_ns: Option<u64>,
}

impl RsocketFlow {
    /// Connects an rsocket to the other end of an open TCP connection. Its first bytes are the token of the run, as
    /// proof.
    pub(crate) fn open(
        beside: TcpStream,
        prepare: &Prepare,
        control: &Control,
    ) -> Result<Self, Failure> {
        check_address(prepare.address, &prepare.device)
            .map_err(|error| Failure::Missing(error.to_string()))?;
        let beside = Beside::of(beside)?;
        let own = SocketAddr::new(prepare.address, 0);
        let made = no_cm("rsocket", prepare);
        let within = peer_within(prepare);
        let socket = match prepare.role {
            Role::Server => {
                let (listener, port) = Rsocket::listen(own).map_err(made)?;
                beside.tell(&port.to_be_bytes())?;
                let socket = in_time(NOT_OPEN, within, control, || {
                    // rpoll may miss a connection (librdmacm 44: up to 80 ms until its next event).
                    thread::sleep(ACCEPT_EVERY);
                    listener.accept()
                })?;
                let mut token = [0; 16];
                let mut heard = 0;
                in_time(NOT_OPEN, within, control, || {
                    while heard < token.len() {
                        match socket.receive(&mut token[heard..]) {
                            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                            Ok(bytes) => heard += bytes,
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                                socket.wait(Waiting::Arrival, beside.stream().as_fd())?;
                                return Err(error);
                            }
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(())
                })?;
                if token != prepare.token {
                    return Err(Failure::Peer(
                        "an rsocket with a wrong token connected first".to_owned(),
                    ));
                }
                socket
            }
            Role::Client => {
                let to = beside.peer_at(beside.hear(prepare, control)?)?;
                let socket = Rsocket::connect(own, to).map_err(made)?;
                in_time(NOT_OPEN, within, control, || {
                    if socket.wait(Waiting::Room, beside.stream().as_fd())? {
                        return socket.error();
                    }
                    Err(io::ErrorKind::WouldBlock.into())
                })?;
                if socket.send(&prepare.token).map_err(peer(NOT_OPEN))? != prepare.token.len() {
                    return Err(Failure::Peer(NOT_OPEN.to_owned()));
                }
                socket
            }
        };
        let is_stream = prepare.point.pattern == Pattern::Stream;
        Ok(Self {
            socket: Some(socket),
            peer_reads: !is_stream,
            has_told: !is_stream,
            beside,
            wait: prepare.point.wait,
            written: 0,
            read: 0,
            sent: 0,
            received: 0,
            in_all: None,
            in_vain: 0,
            still_since_ns: None,
        })
    }

    fn socket(&self) -> io::Result<&Rsocket> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.peer_reads {
            self.peer_reads = self.hear_that_peer_reads()?;
        }
        loop {
            match self.socket()?.send(bytes) {
                Ok(sent) => {
                    self.still_since_ns = None;
                    self.sent += sent as u64;
                    return Ok(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pause(Waiting::Room, true)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what has arrived; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.has_told {
            self.beside.stream().write_all(&[READS])?;
            self.has_told = true;
        }
        loop {
            match self.socket()?.receive(buffer) {
                // The other end has closed: after its last byte, as reported over TCP, or before.
                Ok(0) => {
                    self.look_beside()?;
                    return if self.in_all == Some(self.received) { Ok(0) } else { Err(gone()) };
                }
                Ok(bytes) => {
                    self.still_since_ns = None;
                    self.received += bytes as u64;
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.in_all == Some(self.received) {
                        return Ok(0);
                    }
                    // While the total is unknown, there may be nothing to wait for.
                    self.pause(Waiting::Arrival, self.in_all.is_some())?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the other end reads. Fails if that is not known yet.
    fn hear_that_peer_reads(&self) -> io::Result<bool> {
        let flags = if self.wait == Wait::Spin { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let mut told = [0];
        match recv(self.beside.stream(), &mut told[..], flags)? {
            (1.., _) if told == [READS] => Ok(true),
            _ => Err(gone()),
        }
    }

    /// Waits as the point says. Fails if it must not wait, if it takes long, if the other end is gone, or if expected
    /// progress has stalled.
    fn pause(&mut self, waiting: Waiting, should_move: bool) -> io::Result<()> {
        let is_told = match self.wait {
            Wait::Spin => {
                self.in_vain = self.in_vain.wrapping_add(1);
                if !self.in_vain.is_multiple_of(LOOK_AFTER) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                false
            }
            _ => self.socket()?.wait(waiting, self.beside.stream().as_fd())?,
        };
        self.look_beside()?;
        if should_move {
            let now = now_ns();
            let since_ns = *self.still_since_ns.get_or_insert(now);
            if u128::from(now - since_ns) > STALLED_AFTER.as_nanos() {
                self.socket.take().into_iter().for_each(Rsocket::abandon);
                return Err(io::Error::other("stalled: no data for 5 s"));
            }
        }
        if is_told { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Checks the TCP connection: for the total number of bytes, or because the other end is gone.
    fn look_beside(&mut self) -> io::Result<()> {
        if self.in_all.is_some() {
            return Ok(());
        }
        let mut bytes = [0; 8];
        let peeked =
            recv(self.beside.stream(), &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        match peeked.map(|(bytes, _)| bytes) {
            Ok(8) => {
                self.beside.stream().read_exact(&mut bytes)?;
                self.in_all = Some(u64::from_be_bytes(bytes));
                Ok(())
            }
            Ok(1..) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Ok(0) | Err(_) => Err(gone()),
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other end closed the connection")
}

impl Flow for RsocketFlow {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let bytes = self.write(&payload[self.written..])?;
        self.written += bytes;
        if self.written == payload.len() {
            self.written = 0;
        }
        Ok(Moved::one(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        match self.read(buffer)? {
            0 => Ok(Moved::default()),
            bytes => Ok(Moved::one(bytes)),
        }
    }

    fn send_message(&mut self, message: &mut [u8], _: u64) -> io::Result<()> {
        while self.written < message.len() {
            self.written += self.write(&message[self.written..])?;
        }
        self.written = 0;
        Ok(())
    }

    fn receive_message(&mut self, buffer: &mut [u8]) -> io::Result<Message> {
        while self.read < buffer.len() {
            let start = self.read;
            match self.read(&mut buffer[start..])? {
                0 => return Ok(Message::End),
                bytes => self.read += bytes,
            }
        }
        self.read = 0;
        Ok(Message::Next)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.beside.stream().write_all(&self.sent.to_be_bytes())
    }
}
