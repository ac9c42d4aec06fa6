//! A flow for tests of patterns.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::transport::{Flow, Message, Moved};

/// Length of each arrival in bytes.
pub(crate) const ARRIVAL_BYTES: usize = 100;

/// A flow without an other end.
#[derive(Default)]
pub(crate) struct Scripted<'a> {
    /// Arrivals until the end of the flow.
    pub(crate) arrivals: u64,
    /// Arrivals that wait in the kernel; each receive call takes one.
    pub(crate) waiting: u64,
    /// Whether the transport knows how many wait.
    pub(crate) knows_arrived: bool,
    /// Payloads that can be sent.
    pub(crate) room: u64,
    /// The run that a payload ends for which there is no room.
    pub(crate) control: Option<&'a Control>,
}

impl Flow for Scripted<'_> {
    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        let Some(room) = self.room.checked_sub(1) else {
            if let Some(control) = self.control {
                control.stop.store(true, Relaxed);
            }
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.room = room;
        Ok(Moved::one(payload.len()))
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        let was_last = self.arrivals == 0;
        self.arrivals = self.arrivals.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
        Ok(if was_last { Moved::default() } else { Moved::one(ARRIVAL_BYTES) })
    }

    fn arrived_bytes(&mut self) -> io::Result<Option<u64>> {
        Ok(self.knows_arrived.then_some(ARRIVAL_BYTES as u64 * self.waiting))
    }

    fn waiting_bytes(&mut self) -> io::Result<u64> {
        Ok(ARRIVAL_BYTES as u64 * self.waiting)
    }

    fn send_message(&mut self, _: &mut [u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn receive_message(&mut self, _: &mut [u8]) -> io::Result<Message> {
        Ok(Message::End)
    }
}
