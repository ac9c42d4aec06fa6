//! TCP without a copy by the program: MSG_ZEROCOPY, sendfile(2), splice(2), and MSG_TRUNC, which
//! leaves the bytes in the kernel altogether. Each is a connection that writes or reads in its way.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use super::sys;
use crate::control::Control;
use crate::sys as options;
use crate::transport::bytes::ByteStream;
use crate::transport::is_timeout;

/// A connection that moves bytes by one of the kernel's shorter ways.
#[derive(Debug)]
pub struct Pages {
    stream: TcpStream,
    way: Way,
}

#[derive(Debug)]
enum Way {
    ZeroCopy(ZeroCopy),
    SendFile(File),
    Splice(Splice),
    Trunc,
}

/// Calls under way beyond which the next one waits for a completion: the kernel refuses more than
/// fit into net.core.optmem_max (128 KiB by default).
const UNDER_WAY_MAX: u64 = 64;

/// Looks for the last completions, [`Control::LOOK_EVERY`] apart: 5 s in all.
const COMPLETION_LOOKS: u32 = 1000;

#[derive(Debug, Default)]
struct ZeroCopy {
    under_way: u64,
    completed: sys::Completed,
}

#[derive(Debug)]
struct Splice {
    file: File,
    read_end: OwnedFd,
    write_end: OwnedFd,
    /// Bytes in the pipe.
    held: usize,
    nowhere: File,
}

impl Pages {
    /// Sends from the program's pages.
    pub fn zerocopy(stream: TcpStream) -> io::Result<Self> {
        options::set(stream.as_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)?;
        Ok(Self { stream, way: Way::ZeroCopy(ZeroCopy::default()) })
    }

    /// Sends from a file in memory that holds `payload_bytes` bytes.
    pub fn sendfile(stream: TcpStream, payload_bytes: usize) -> io::Result<Self> {
        Ok(Self { stream, way: Way::SendFile(payload_file(payload_bytes)?) })
    }

    /// Sends and receives through a pipe.
    pub fn splice(stream: TcpStream, payload_bytes: usize) -> io::Result<Self> {
        let file = payload_file(payload_bytes)?;
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        // As much as one payload, or what the kernel allows without privilege (1 MiB).
        let wanted = payload_bytes.clamp(64 << 10, 1 << 20);
        let _ = rustix::pipe::fcntl_setpipe_size(&write_end, wanted);
        let nowhere = File::options().write(true).open("/dev/null")?;
        let splice = Splice { file, read_end, write_end, held: 0, nowhere };
        Ok(Self { stream, way: Way::Splice(splice) })
    }

    /// Receives without taking the bytes out of the kernel.
    pub fn trunc(stream: TcpStream) -> Self {
        Self { stream, way: Way::Trunc }
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

fn payload_file(bytes: usize) -> io::Result<File> {
    let mut file = File::from(memfd_create("fabricmark", MemfdFlags::CLOEXEC)?);
    file.write_all(&vec![0x5a; bytes])?;
    Ok(file)
}

impl ZeroCopy {
    fn send(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        self.reap(stream)?;
        if self.under_way >= UNDER_WAY_MAX {
            wait_for_completion(stream)?;
            self.reap(stream)?;
        }
        let bytes = sys::send_zerocopy(stream.as_fd(), payload)?;
        self.under_way += 1;
        Ok(bytes)
    }

    fn reap(&mut self, stream: &TcpStream) -> io::Result<()> {
        while let Some(completed) = sys::zerocopy_completed(stream.as_fd())? {
            self.under_way = self.under_way.saturating_sub(completed.calls);
            self.completed.calls += completed.calls;
            self.completed.copied += completed.copied;
        }
        Ok(())
    }
}

/// A completion shows as an error condition of the socket.
fn wait_for_completion(stream: &TcpStream) -> io::Result<()> {
    let mut asked = [PollFd::new(stream, PollFlags::empty())];
    let within = Timespec { tv_sec: 0, tv_nsec: Control::LOOK_EVERY.as_nanos() as i64 };
    match poll(&mut asked, Some(&within))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

impl Splice {
    fn send(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<usize> {
        if self.held == 0 {
            let mut from = 0;
            let pipe = (&self.write_end, SpliceFlags::MOVE);
            self.held = splice(&self.file, Some(&mut from), pipe.0, None, bytes, pipe.1)?;
        }
        let sent = splice(&self.read_end, None, stream, None, self.held, SpliceFlags::MOVE)?;
        self.held -= sent;
        Ok(sent)
    }

    fn receive(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<usize> {
        let received = splice(stream, None, &self.write_end, None, bytes, SpliceFlags::MOVE)?;
        let mut left = received;
        while left > 0 {
            // Though there is no need to wait, a signal may come first (fs/splice.c,
            // splice_from_pipe_next), and what has left the socket must leave the pipe.
            left -= retry_on_intr(|| {
                let flags = SpliceFlags::MOVE;
                splice(&self.read_end, None, &self.nowhere, None, left, flags)
            })?;
        }
        Ok(received)
    }
}

impl Write for Pages {
    fn write(&mut self, payload: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::ZeroCopy(zerocopy) => zerocopy.send(&self.stream, payload),
            Way::SendFile(file) => {
                let mut from = 0;
                Ok(sendfile(&self.stream, &*file, Some(&mut from), payload.len())?)
            }
            Way::Splice(splice) => splice.send(&self.stream, payload.len()),
            Way::Trunc => self.stream.write(payload),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Pages {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Splice(splice) => splice.receive(&self.stream, buffer.len()),
            // For TCP the buffer is not touched (tcp(7)).
            Way::Trunc => Ok(recv(&self.stream, buffer, RecvFlags::TRUNC)?.1),
            _ => self.stream.read(buffer),
        }
    }
}

impl AsFd for Pages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl ByteStream for Pages {
    fn waiting_bytes(&self) -> io::Result<u64> {
        self.stream.waiting_bytes()
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Way::ZeroCopy(zerocopy) = &mut self.way {
            // The counts are whole with the last completion; a peer that is gone sends none.
            for _ in 0..COMPLETION_LOOKS {
                zerocopy.reap(&self.stream)?;
                if zerocopy.under_way == 0 {
                    break;
                }
                match wait_for_completion(&self.stream) {
                    Err(error) if !is_timeout(&error) => return Err(error),
                    _ => {}
                }
            }
        }
        self.stream.finish()
    }
}
