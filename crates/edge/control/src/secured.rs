//! TLS over a non-blocking socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use fabricmark_telemetry::clock::machine_ns;
use fabricmark_telemetry::sys;
use fabricmark_units::Instant;

/// The machine's monotonic clock.
pub(crate) fn machine_time() -> Instant {
    Instant(machine_ns())
}

/// A TLS connection whose calls do not block.
pub(crate) struct Secured {
    pub(crate) tcp: TcpStream,
    pub(crate) tls: rustls::Connection,
    /// Bytes received so far, as TLS records.
    pub(crate) received_bytes: u64,
}

impl Secured {
    /// Makes the socket non-blocking, and sets the TCP options for short messages.
    pub(crate) fn new(tcp: TcpStream, tls: impl Into<rustls::Connection>) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        // With one or two segments in flight only the retransmission timer reveals a loss. It must not double each
        // time, or a few losses in a row look like a dead peer (Documentation/networking/tcp-thin.rst). A kernel
        // without the option is of use, too.
        let _ = sys::set(tcp.as_fd(), libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, 1);
        let mut tls = tls.into();
        // The callers bound the data to be sent: see `is_behind`.
        tls.set_buffer_limit(None);
        Ok(Self { tcp, tls, received_bytes: 0 })
    }

    /// Reads and decrypts what has arrived, at most some 64 KiB; false when the peer has closed.
    pub(crate) fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        const AT_MOST: usize = 64 << 10;
        while into.len() < AT_MOST {
            match self.tls.read_tls(&mut self.tcp) {
                Ok(0) => return Ok(false),
                Ok(bytes) => self.received_bytes += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let state = self.tls.process_new_packets().map_err(|error| {
                // The alert tells the reason to the peer, which may be gone.
                let _ = self.tls.write_tls(&mut self.tcp);
                io::Error::new(io::ErrorKind::InvalidData, error)
            })?;
            let arrived = state.plaintext_bytes_to_read();
            if arrived > 0 {
                let begin = into.len();
                into.resize(begin + arrived, 0);
                self.tls.reader().read_exact(&mut into[begin..])?;
            }
            if state.peer_has_closed() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Encrypts `bytes` and sends as much as the socket accepts.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.writer().write_all(bytes)?;
        self.flush()
    }

    /// Sends what is still buffered, as far as the socket accepts it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends close_notify, as far as the socket accepts it.
    pub(crate) fn close(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
    }

    /// Whether data waits to be sent.
    pub(crate) fn is_behind(&self) -> bool {
        self.tls.wants_write()
    }
}
