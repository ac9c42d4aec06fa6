//! Ends a run when its flows together have sent a given number of bytes, as `iperf3 -n`. Runs that end by time do not
//! use it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::control::Control;
use crate::transport::{Flow, Message, Moved, passes_on};

/// Bytes that a run may still send, over the flows of all its threads.
pub(crate) struct Amount<'a> {
    left_bytes: AtomicU64,
    control: &'a Control,
}

impl<'a> Amount<'a> {
    pub(crate) fn new(bytes: u64, control: &'a Control) -> Self {
        Self { left_bytes: AtomicU64::new(bytes), control }
    }

    /// Subtracts bytes that were sent; the last byte stops the run.
    pub(crate) fn take(&self, bytes: u64) {
        let subtract = |left: u64| Some(left.saturating_sub(bytes));
        let (Ok(left) | Err(left)) = self.left_bytes.fetch_update(Relaxed, Relaxed, subtract);
        if left <= bytes {
            self.control.end();
        }
    }

    /// Whether the run has ended, by its amount or otherwise.
    pub(crate) fn is_ended(&self) -> bool {
        self.control.is_ended()
    }

    fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Relaxed)
    }
}

/// A flow that draws on an [`Amount`]. The last call of a byte stream is cut to what is left; other calls are not: a
/// path that sends many payloads per call may exceed the amount by less than one call, and several threads by less than
/// one call each.
///
/// Not generic over the flow: otherwise each pattern would be compiled once more for each kind of flow.
pub(crate) struct Limited<'a> {
    flow: &'a mut dyn Flow,
    amount: &'a Amount<'a>,
    is_stream: bool,
    /// Bytes of the current payload that were sent.
    written: usize,
}

impl<'a> Limited<'a> {
    pub(crate) fn new(flow: &'a mut dyn Flow, amount: &'a Amount<'a>, is_stream: bool) -> Self {
        Self { flow, amount, is_stream, written: 0 }
    }
}

impl Flow for Limited<'_> {
    passes_on!();

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.send_most(payload, u64::MAX)
    }

    fn send_most(&mut self, payload: &mut [u8], most: u64) -> io::Result<Moved> {
        let left_bytes = self.amount.left_bytes();
        if left_bytes == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let whole = payload.len();
        let left = usize::try_from(left_bytes).unwrap_or(whole);
        let room =
            if self.is_stream { whole.min(self.written.saturating_add(left)) } else { whole };
        let moved = self.flow.send_most(&mut payload[..room], most)?;
        self.written = (self.written + moved.bytes as usize) % whole.max(1);
        self.amount.take(moved.bytes);
        Ok(moved)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        self.flow.receive(buffer)
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        self.flow.send_message(message, number)?;
        self.amount.take(message.len() as u64);
        Ok(())
    }

    fn answered(&mut self) {
        self.flow.answered();
    }

    fn settle(&mut self) -> io::Result<Moved> {
        let moved = self.flow.settle()?;
        self.amount.take(moved.bytes);
        Ok(moved)
    }
}
