//! Control connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::socket::{is_passing, notice_silence, wait};

/// Time-out of a write: at most 100 KB, most of which the kernel buffers.
const SAY_WITHIN: Duration = Duration::from_secs(2);

/// A non-blocking control connection that detects a dead peer.
#[derive(Debug)]
pub(super) struct Line(TcpStream);

impl Line {
    /// Wraps a connected socket.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        notice_silence(&stream)?;
        Ok(Self(stream))
    }

    /// Writes all bytes.
    pub fn say(&self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + SAY_WITHIN;
        while !bytes.is_empty() {
            match (&self.0).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    wait(&mut [PollFd::new(&self.0, PollFlags::OUT)], left)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has arrived, waiting at most `within`. `None` if nothing arrived, `Some(0)` at the end of the stream.
    pub fn hear(&self, buffer: &mut [u8], within: Duration) -> io::Result<Option<usize>> {
        wait(&mut [PollFd::new(&self.0, PollFlags::IN)], within)?;
        match (&self.0).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Closes the connection after the peer has read the last bytes: closing a socket with unread data would reset the
    /// connection.
    pub fn close(self) {
        const WITHIN: Duration = Duration::from_millis(100);
        let _ = self.0.shutdown(Shutdown::Write);
        let until = Instant::now() + WITHIN;
        let mut buffer = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.hear(&mut buffer, left) {
                Ok(Some(bytes)) if bytes > 0 && !left.is_zero() => {}
                _ => return,
            }
        }
    }
}
