//! TCP without a copy by the program: MSG_ZEROCOPY, sendfile(2), splice(2), and MSG_TRUNC, which discards the bytes
//! in the kernel.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};

use fabricmark_proto::ZeroCopySends;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use crate::flow_set::poll_briefly;
use crate::sockets;
use crate::transport::bytes::TcpPath;
use crate::transport::if_ready;
use fabricmark_telemetry::sys::{plain, receive, set};

/// One of the kernel's paths without a copy.
#[derive(Debug)]
pub(crate) enum Pages {
    ZeroCopy(ZeroCopy),
    SendFile(File),
    Splice(Splice),
    Trunc,
}

/// Sends in progress beyond which the next one waits for a completion: the kernel refuses more than fit into
/// net.core.optmem_max (128 KiB by default).
const UNDER_WAY_MAX: u64 = 64;

/// Checks for the last completions, [`Control::LOOK_EVERY`](crate::control::Control::LOOK_EVERY) apart: 5 s in total.
const COMPLETION_LOOKS: u32 = 1000;

#[derive(Debug)]
pub(crate) struct ZeroCopy {
    under_way: u64,
    /// Whether a send waits for completions; otherwise it is the turn of another flow.
    waits: bool,
    completed: ZeroCopySends,
}

#[derive(Debug)]
pub(crate) struct Splice {
    file: File,
    read_end: OwnedFd,
    write_end: OwnedFd,
    /// Bytes in the pipe.
    held: usize,
    nowhere: File,
}

impl Pages {
    /// Sends from the program's pages. `waits`: it is the only flow of its thread, and may wait for completions.
    pub(crate) fn zerocopy(stream: &TcpStream, waits: bool) -> io::Result<Self> {
        set(stream.as_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)?;
        let completed = ZeroCopySends::default();
        Ok(Self::ZeroCopy(ZeroCopy { under_way: 0, waits, completed }))
    }

    /// Sends from a [`payload_file`].
    pub(crate) fn sendfile(file: &File) -> io::Result<Self> {
        Ok(Self::SendFile(file.try_clone()?))
    }

    /// Sends a [`payload_file`], and receives, through a pipe.
    pub(crate) fn splice(file: &File, payload_bytes: usize) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        // One payload, but at most what the kernel allows without privilege (1 MiB).
        let wanted = payload_bytes.clamp(64 << 10, 1 << 20);
        let _ = rustix::pipe::fcntl_setpipe_size(&write_end, wanted);
        let nowhere = File::options().write(true).open("/dev/null")?;
        Ok(Self::Splice(Splice { file, read_end, write_end, held: 0, nowhere }))
    }
}

/// A file in memory with `bytes` bytes, for all flows of an end: they read it at offsets of their own.
pub(crate) fn payload_file(bytes: usize) -> io::Result<File> {
    let mut file = File::from(memfd_create("fabricmark", MemfdFlags::CLOEXEC)?);
    file.write_all(&vec![0x5a; bytes])?;
    Ok(file)
}

impl ZeroCopy {
    fn send(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        self.reap(stream)?;
        if self.under_way >= UNDER_WAY_MAX && self.waits {
            wait_for_completion(stream)?;
            self.reap(stream)?;
        }
        if self.under_way >= UNDER_WAY_MAX && !self.waits {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // The kernel holds references to the pages that it reads after the call, so it never reads freed memory.
        let flags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32) | SendFlags::NOSIGNAL;
        let bytes = send(stream, payload, flags)?;
        self.under_way += 1;
        Ok(bytes)
    }

    fn reap(&mut self, stream: &TcpStream) -> io::Result<()> {
        while let Some(more) = completed(stream)? {
            self.under_way = self.under_way.saturating_sub(more.sends);
            self.completed += more;
        }
        Ok(())
    }
}

/// Reads one completion notification from a socket's error queue: the completed sends, `None` if there is none.
fn completed(stream: &TcpStream) -> io::Result<Option<ZeroCopySends>> {
    /// linux/errqueue.h
    const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
    const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
    let mut completed = ZeroCopySends::default();
    let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
    let read = receive(stream.as_fd(), &mut [], flags, |kind, data| {
        if let (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) = kind
            && let Some(error) = plain::<libc::sock_extended_err>(data)
            && error.ee_origin == SO_EE_ORIGIN_ZEROCOPY
        {
            // Numbers of the first and the last send, inclusive, modulo 2^32.
            let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
            let copied = if error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0 { sends } else { 0 };
            completed += ZeroCopySends { sends, copied };
        }
    });
    match read {
        Ok(_) => Ok(Some(completed)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits a short time for a completion, which poll(2) reports as an error condition.
fn wait_for_completion(stream: &TcpStream) -> io::Result<()> {
    let mut asked = [PollFd::new(stream, PollFlags::empty())];
    match poll_briefly(&mut asked)? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

impl Splice {
    fn send(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<usize> {
        if self.held == 0 {
            let (pipe, flags) = (&self.write_end, SpliceFlags::MOVE);
            self.held = splice(&self.file, Some(&mut 0), pipe, None, bytes, flags)?;
        }
        let sent = splice(&self.read_end, None, stream, None, self.held, SpliceFlags::MOVE)?;
        self.held -= sent;
        Ok(sent)
    }

    fn receive(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<usize> {
        let received = splice(stream, None, &self.write_end, None, bytes, SpliceFlags::MOVE)?;
        let mut left = received;
        while left > 0 {
            // There is no need to wait, but a signal may interrupt the call (fs/splice.c, splice_from_pipe_next), and
            // what was read from the socket must leave the pipe.
            left -= retry_on_intr(|| {
                let flags = SpliceFlags::MOVE;
                splice(&self.read_end, None, &self.nowhere, None, left, flags)
            })?;
        }
        Ok(received)
    }
}

impl TcpPath for Pages {
    fn write(&mut self, stream: &TcpStream, payload: &[u8]) -> io::Result<usize> {
        match self {
            Self::ZeroCopy(zerocopy) => zerocopy.send(stream, payload),
            Self::SendFile(file) => Ok(sendfile(stream, &*file, Some(&mut 0), payload.len())?),
            Self::Splice(splice) => splice.send(stream, payload.len()),
            Self::Trunc => sockets::send(stream, payload),
        }
    }

    fn read(&mut self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Splice(splice) => splice.receive(stream, buffer.len()),
            // TCP does not touch the buffer (tcp(7)).
            Self::Trunc => Ok(recv(stream, buffer, RecvFlags::TRUNC)?.1),
            _ => sockets::receive(stream, buffer),
        }
    }

    fn zero_copy(&self) -> Option<ZeroCopySends> {
        match self {
            Self::ZeroCopy(zerocopy) => Some(zerocopy.completed),
            _ => None,
        }
    }

    fn complete(&mut self, stream: &TcpStream) -> io::Result<()> {
        let Self::ZeroCopy(zerocopy) = self else { return Ok(()) };
        // If the peer is gone, the last completion does not arrive.
        for _ in 0..COMPLETION_LOOKS {
            zerocopy.reap(stream)?;
            if zerocopy.under_way == 0 {
                break;
            }
            if_ready(wait_for_completion(stream))?;
        }
        Ok(())
    }
}
