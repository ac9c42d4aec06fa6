//! Calls on many sockets at once, through one io_uring.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::net::{RecvFlags, SendFlags};

use super::REQUESTS;

/// A ring whose requests all end before a call returns.
pub(crate) struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ring")
    }
}

impl Ring {
    /// A ring for [`REQUESTS`] requests at a time.
    pub(crate) fn new() -> io::Result<Self> {
        // A request that fails does not keep those behind it back (io_uring_setup(2), IORING_SETUP_SUBMIT_ALL).
        Ok(Self(IoUring::builder().setup_submit_all().build(REQUESTS as u32)?))
    }

    /// Receives from each socket into its part of the buffer, without waiting; the results are in the order of the calls.
    pub(super) fn receive<'a>(
        &mut self,
        calls: impl Iterator<Item = (BorrowedFd<'a>, &'a Range<usize>)>,
        buffer: &mut [u8],
    ) -> Vec<io::Result<usize>> {
        let flags = RecvFlags::DONTWAIT.bits().cast_signed();
        let entries = calls.map(|(socket, part)| {
            let part = &mut buffer[part.clone()];
            let receive =
                opcode::Recv::new(Fd(socket.as_raw_fd()), part.as_mut_ptr(), part.len() as u32);
            receive.flags(flags).build()
        });
        // SAFETY: the sockets and the buffer, whose parts do not overlap, are borrowed until all requests have ended.
        unsafe { self.carry_out(entries) }
    }

    /// Sends the part of the buffer of each socket, without waiting; the results are in the order of the calls.
    pub(super) fn send<'a>(
        &mut self,
        calls: impl Iterator<Item = (BorrowedFd<'a>, &'a Range<usize>)>,
        buffer: &[u8],
    ) -> Vec<io::Result<usize>> {
        let flags = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits().cast_signed();
        let entries = calls.map(|(socket, part)| {
            let part = &buffer[part.clone()];
            let send = opcode::Send::new(Fd(socket.as_raw_fd()), part.as_ptr(), part.len() as u32);
            send.flags(flags).build()
        });
        // SAFETY: the sockets and the buffer are borrowed until all requests have ended.
        unsafe { self.carry_out(entries) }
    }

    /// Carries out requests; the results are in their order.
    ///
    /// # Safety
    /// What the requests point to must be valid during the call.
    unsafe fn carry_out(
        &mut self,
        entries: impl Iterator<Item = squeue::Entry>,
    ) -> Vec<io::Result<usize>> {
        let mut results = Vec::new();
        for entry in entries {
            let number = results.len() as u64;
            // SAFETY: as the caller promises; the request ends before this function does.
            let pushed = unsafe { self.0.submission().push(&entry.user_data(number)) };
            assert!(pushed.is_ok(), "more requests than the ring has room for");
            results.push(Err(io::ErrorKind::WouldBlock.into()));
        }
        let mut ended = 0;
        while ended < results.len() {
            match self.0.submit_and_wait(results.len() - ended) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel lacks memory for requests at the moment.
                Err(error) if error.raw_os_error() == Some(EAGAIN) => std::thread::yield_now(),
                Err(error) => {
                    // Requests may be under way that point into memory of the caller.
                    let _abort = AbortOnUnwind;
                    panic!("io_uring_enter: {error}")
                }
            }
            for entry in self.0.completion() {
                results[entry.user_data() as usize] = usize::try_from(entry.result())
                    .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
                ended += 1;
            }
        }
        results
    }
}

/// Ends the process instead of unwinding.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

const EAGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();
