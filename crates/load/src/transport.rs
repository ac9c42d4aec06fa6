//! What moves a payload. A new transport is one file and works with every pattern.

pub mod null;
pub mod tcp;
pub mod udp;

use std::io;

/// One end of an open flow.
///
/// Calls block for at most the socket's time-out; then they give [`io::ErrorKind::WouldBlock`], so
/// that the pattern can look at its stop flag. Nothing is lost by that: the next call goes on.
pub trait Flow {
    /// Hands one payload to the transport in one call; gives the bytes that it took.
    fn send(&mut self, payload: &mut [u8]) -> io::Result<usize>;

    /// Takes whatever has arrived; 0 bytes at the end of a reliable stream.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// The most bytes that may have arrived and not been received yet; 0 if none have.
    fn waiting_bytes(&mut self) -> io::Result<u64>;

    /// One round trip: sends the payload and waits until as much has come back.
    fn ask(&mut self, payload: &mut [u8], buffer: &mut [u8]) -> io::Result<()>;

    /// Waits for one payload, which fills the buffer, and sends it back; false at the end of a
    /// reliable stream.
    fn answer(&mut self, buffer: &mut [u8]) -> io::Result<bool>;
}

/// Whether an error only says that nothing came within the time-out.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
