//! TLS 1.3 over TCP, by rustls: the bytes of a connection in records of at most 16 KiB (RFC 8446, section 5.1).

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricmark_plan::Point;
use fabricmark_proto::Prepare;
use rustix::event::{PollFd, PollFlags};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConfig, ServerConnection};

use super::bytes::ByteStream;
use super::{if_ready, is_timeout, security};
use crate::control::Control;
use crate::flow_set::poll_briefly;
use crate::opening::Connection;
use crate::sockets::peer_within;
use fabricmark_telemetry::clock::now_ns;

/// Size of a read from TCP: four records. rustls itself asks for 4 KiB at a time.
const READ_BYTES: usize = 64 << 10;

/// A TCP connection with TLS.
pub struct TlsStream {
    tcp: BufReader<TcpStream>,
    tls: rustls::Connection,
    /// Decrypted bytes that were not read yet.
    unread: usize,
    /// Whether TCP had no room for all records.
    is_behind: bool,
    /// Whether the end of the session (close_notify) is among the records.
    has_notified: bool,
    /// Time for the other end to accept the remaining records at the end.
    within: Duration,
    began: Instant,
}

impl TlsStream {
    /// Passes the pending records to TCP.
    fn send_records(&mut self) -> io::Result<()> {
        self.is_behind = true;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.tcp.get_ref())?;
        }
        self.is_behind = false;
        Ok(())
    }

    /// Reads records from TCP, and decrypts those that are complete; returns false at the end of the connection.
    fn take_records(&mut self) -> io::Result<bool> {
        let bytes = self.tls.read_tls(&mut self.tcp)?;
        let state = self.tls.process_new_packets().map_err(|error| {
            // The alert reports the reason to the other end, which may be gone.
            let _ = self.tls.write_tls(&mut self.tcp.get_ref());
            io::Error::new(io::ErrorKind::InvalidData, error)
        })?;
        self.unread = state.plaintext_bytes_to_read();
        Ok(bytes > 0)
    }

    /// Completes the handshake. A client's last message leaves with its first payload: sent alone, it would delay
    /// that payload until it is acknowledged (Nagle's algorithm, RFC 9293, section 3.7.4).
    fn agree_on_keys(&mut self) -> io::Result<()> {
        while self.tls.is_handshaking() {
            if self.tls.wants_write() {
                self.send_records()?;
            } else if !self.take_records()? {
                return Err(io::Error::other("the other end closed the connection"));
            }
        }
        Ok(())
    }

    /// Reads what follows close_notify: the end of the TCP connection, and nothing else. An end that closed before it
    /// would be the first to close, and keep the port (RFC 9293, section 3.6.1).
    fn read_end(&mut self) -> io::Result<usize> {
        match self.tcp.read(&mut [0])? {
            0 => Ok(0),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "data after the end of the TLS session",
            )),
        }
    }
}

impl Connection for TlsStream {
    const HAS_KEYS: bool = true;

    fn of(
        socket: OwnedFd,
        server: Option<&Arc<ServerConfig>>,
        prepare: &Prepare,
    ) -> io::Result<Self> {
        let tls = match server {
            Some(settings) => ServerConnection::new(Arc::clone(settings)).map(Into::into),
            None => {
                let name = ServerName::try_from(security::NAME).map_err(io::Error::other)?;
                let settings = security::starting().map_err(io::Error::other)?;
                ClientConnection::new(settings, name).map(Into::into)
            }
        };
        let tcp = BufReader::with_capacity(READ_BYTES, socket.into());
        let tls = tls.map_err(io::Error::other)?;
        Ok(Self {
            tcp,
            tls,
            unread: 0,
            is_behind: false,
            has_notified: false,
            within: peer_within(prepare),
            began: Instant::now(),
        })
    }

    fn shake_hands(&mut self, point: &Point) -> io::Result<()> {
        self.tcp.get_ref().set_nodelay(point.nodelay.unwrap_or_default())?;
        self.agree_on_keys().map_err(|error| match is_timeout(&error) {
            true => error,
            false => io::Error::other(format!("the TLS handshake failed: {error}")),
        })
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Ok(0) if !buffer.is_empty() => return self.read_end(),
                Ok(bytes) => {
                    self.unread = self.unread.saturating_sub(bytes);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // The other end may wait for the rest of a record before it responds, or for room for its response.
            match self.send_records() {
                Err(error) if is_timeout(&error) && self.waiting_bytes()? > 0 => {}
                sent => sent?,
            }
            self.take_records()?;
        }
    }
}

impl Write for TlsStream {
    /// Accepts as much of the payload as fits into TCP, and at most one part more: what is accepted is encrypted and
    /// counts as written, and leaves with the next call or at the end.
    fn write(&mut self, payload: &[u8]) -> io::Result<usize> {
        if self.is_behind {
            self.send_records()?;
        }
        let mut written = 0;
        while written < payload.len() {
            written += self.tls.writer().write(&payload[written..])?;
            if if_ready(self.send_records())?.is_none() {
                break;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_records()
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.get_ref().as_fd()
    }
}

impl ByteStream for TlsStream {
    /// Ciphertext and plaintext. Does not include the incomplete record that rustls holds, less than 16 KiB.
    fn waiting_bytes(&self) -> io::Result<u64> {
        Ok(self.tcp.get_ref().waiting_bytes()? + (self.tcp.buffer().len() + self.unread) as u64)
    }

    fn tcp(&self) -> Option<&TcpStream> {
        Some(self.tcp.get_ref())
    }

    /// At once if bytes were read from TCP and not received yet, which epoll does not report. It reports room for records
    /// that wait.
    fn due(&mut self) -> Option<Instant> {
        let has_more = self.unread > 0 || !self.tcp.buffer().is_empty();
        (has_more && !self.is_behind).then_some(self.began)
    }

    fn finish(&mut self) -> io::Result<()> {
        let until = now_ns() + self.within.as_nanos() as u64;
        // The thread is not interrupted any more.
        self.tcp.get_ref().set_write_timeout(Some(Control::LOOK_EVERY))?;
        loop {
            match self.try_finish() {
                Err(error) if is_timeout(&error) && now_ns() < until => {
                    poll_briefly(&mut [PollFd::new(self.tcp.get_ref(), PollFlags::OUT)])?;
                }
                finished => return finished,
            }
        }
    }

    fn try_finish(&mut self) -> io::Result<()> {
        if !self.has_notified {
            self.tls.send_close_notify();
            self.has_notified = true;
        }
        self.send_records().map_err(|error| match is_closed(&error) {
            // The other end has closed first: TCP alone would report that here.
            true => io::ErrorKind::NotConnected.into(),
            false => error,
        })?;
        self.tcp.get_ref().shutdown(Shutdown::Write)
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use fabricmark_plan::Role;

    use super::*;

    #[test]
    fn what_was_read_from_tcp_is_due_without_another_event() {
        const RECORD: usize = 1000;
        const RECORDS: usize = 20;
        // Without Nagle's algorithm, so that what was written arrives at once.
        let levels = "pattern=stream,transport=tls,congestion=cubic,family=4,payload=1000,\
                      link=loopback,nodelay=true";
        let prepare = fabricmark_testkit::prepare(Role::Server, levels);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let sender = thread::spawn({
            let prepare = prepare.clone();
            move || {
                let tcp = TcpStream::connect(at).unwrap();
                let mut client = TlsStream::of(tcp.into(), None, &prepare).unwrap();
                client.shake_hands(&prepare.point).unwrap();
                (0..RECORDS).for_each(|_| client.write_all(&[0; RECORD]).unwrap());
                client
            }
        });
        let tcp = listener.accept().unwrap().0;
        let settings = security::answering().unwrap();
        let mut server = TlsStream::of(tcp.into(), Some(&settings), &prepare).unwrap();
        server.shake_hands(&prepare.point).unwrap();
        // From here on everything has arrived.
        let _client = sender.join().unwrap();
        let mut received = 0;
        while received < RECORDS * RECORD {
            let is_reported = server.tcp.get_ref().waiting_bytes().unwrap() > 0;
            assert!(is_reported || server.due().is_some(), "{received}");
            received += server.read(&mut [0; RECORDS * RECORD]).unwrap();
        }
        assert_eq!(server.due(), None);
    }
}
