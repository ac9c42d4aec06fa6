//! A control connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};

/// Silence of the other host, its kernel included, after which a connection counts as closed.
const GONE_AFTER: Duration = Duration::from_secs(4);

/// Silence after which its kernel is asked whether it is there, and how often then. This also keeps the
/// connection alive in what remembers it on the way.
const ASK_AFTER: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Time to hand over what is to be said: at most 100 KB, of which the kernel buffers most.
const SAY_WITHIN: Duration = Duration::from_secs(2);

/// A control connection that does not block, and whose vanished other end is noticed.
#[derive(Debug)]
pub(super) struct Line(TcpStream);

impl Line {
    /// Over an open connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_EVERY);
        socket.set_tcp_keepalive(&keepalive.with_retries(2))?;
        socket.set_tcp_user_timeout(Some(GONE_AFTER))?;
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
                    self.wait(PollFlags::OUT, left)?;
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
        self.wait(PollFlags::IN, within)?;
        match (&self.0).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
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

    fn wait(&self, flags: PollFlags, within: Duration) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: within.as_secs().cast_signed(),
            tv_nsec: i64::from(within.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(&self.0, flags)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
