//! Short messages beside payloads: the progress of a sender, and its end.

use std::io;

use fabricmark_rdma::{Adapter, Region, Request};

use super::queue::Queue;
use fabricmark_telemetry::clock::now_ns;

/// Interval of notes about the progress of a stream.
const EVERY_NS: u64 = 2_000_000;

/// Notes that may have arrived and not been taken: as many as are sent in an eighth of a second.
pub(super) const SLOTS: u32 = 64;

const BYTES: usize = size_of::<u64>();

/// Memory of notes: first those received, then those sent.
#[derive(Debug)]
pub(super) struct Notes {
    region: Region,
    said: usize,
    /// When the last one about the progress of a stream was sent.
    said_ns: u64,
}

impl Notes {
    pub(super) fn new(adapter: &Adapter) -> io::Result<Self> {
        Ok(Self { region: adapter.region(2 * SLOTS as usize * BYTES)?, said: 0, said_ns: 0 })
    }

    /// Posts receive requests for notes before the other end can send one.
    pub(super) fn offer_all(&self, queue: &Queue) -> io::Result<()> {
        (0..u64::from(SLOTS)).try_for_each(|slot| self.offer(slot, queue))
    }

    fn offer(&self, slot: u64, queue: &Queue) -> io::Result<()> {
        let start = slot as usize * BYTES;
        queue.offer(slot, &self.region, start..start + BYTES)
    }

    /// Sends a number.
    pub(super) fn say(&mut self, number: u64, queue: &mut Queue) -> io::Result<()> {
        let start = (SLOTS as usize + self.said % SLOTS as usize) * BYTES;
        self.said += 1;
        self.region.write(start, &number.to_be_bytes());
        queue.post_beside(Request::Send, &self.region, start..start + BYTES)
    }

    /// As [`Self::say`], but not more often than every [`EVERY_NS`].
    pub(super) fn say_at_intervals(&mut self, number: u64, queue: &mut Queue) -> io::Result<()> {
        let now = now_ns();
        if now.saturating_sub(self.said_ns) < EVERY_NS {
            return Ok(());
        }
        self.said_ns = now;
        self.say(number, queue)
    }

    /// Sends the end of the flow: an empty message.
    pub(super) fn end(&self, queue: &mut Queue) -> io::Result<()> {
        queue.post_beside(Request::Send, &self.region, 0..0)
    }

    /// The number in a received note.
    pub(super) fn read(&self, slot: u64) -> u64 {
        let mut bytes = [0; BYTES];
        self.region.read(slot as usize * BYTES, &mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// The number in a received note, whose slot is posted again.
    pub(super) fn take(&self, slot: u64, queue: &Queue) -> io::Result<u64> {
        let number = self.read(slot);
        self.offer(slot, queue)?;
        Ok(number)
    }
}
