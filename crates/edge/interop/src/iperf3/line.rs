//! A control connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::socket::{is_passing, notice_silence, wait};

/// Time to hand over what is to be said: at most 100 KB, of which the kernel buffers most.
const SAY_WITHIN: Duration = Duration::from_secs(2);

/// A control connection that does not block, and whose vanished other end is noticed.
#[derive(Debug)]
pub(super) struct Line(TcpStream);

impl Line {
    /// Over an open connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        notice_silence(&stream)?;
        Ok(Self(stream))
    }

    /// Hands bytes over whole.
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

    /// What has arrived, waiting at most so long for it; nothing when nothing has, and 0 bytes at the
    /// end.
    pub fn hear(&self, buffer: &mut [u8], within: Duration) -> io::Result<Option<usize>> {
        wait(&mut [PollFd::new(&self.0, PollFlags::IN)], within)?;
        match (&self.0).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the connection so that the last words arrive: one that is closed with something unread is
    /// reset.
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
