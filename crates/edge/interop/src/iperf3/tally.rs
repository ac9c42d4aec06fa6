//! What one stream has moved, counted where it is moved and read by the conversation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fabricmark_proto::iperf3::{Arrivals, Header, StreamResults};
use fabricmark_proto::{SequenceCounts, SequenceTracker};

/// The counters of a stream.
#[derive(Debug, Default)]
pub(super) struct Tally {
    bytes: AtomicU64,
    blocks: AtomicU64,
    /// When something arrived last.
    last_ns: AtomicU64,
    /// Only its receiver locks it, until the end.
    judged: Mutex<Judged>,
}

/// What the counters of datagrams say.
#[derive(Debug, Default)]
struct Judged {
    arrivals: Arrivals,
    /// Tells duplicates from late datagrams, which iperf3's own arithmetic does not.
    sequence: Option<SequenceTracker>,
}

/// Its counters at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    pub bytes: u64,
    pub blocks: u64,
    pub arrivals: Arrivals,
}

impl Tally {
    /// Counts a write or a datagram that was sent.
    pub fn sent(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.blocks.fetch_add(1, Relaxed);
    }

    /// Counts a read or a datagram that arrived.
    pub fn received(&self, bytes: usize, now_ns: u64) {
        self.sent(bytes);
        self.last_ns.store(now_ns, Relaxed);
    }

    /// Counts a datagram that arrived.
    pub fn arrived(&self, bytes: usize, header: Header, now_ns: u64, is_wide: bool) {
        self.received(bytes, now_ns);
        let mut judged = self.judged();
        judged.arrivals.arrive(header, now_ns / 1_000, is_wide);
        if let Some(sequence) = &mut judged.sequence {
            sequence.arrive(header.counter.wrapping_sub(1));
        }
    }

    /// Has the counters of datagrams judged one by one, too; 16 KiB of memory.
    pub fn track(&self, is_wide: bool) {
        self.judged().sequence = Some(SequenceTracker::new(if is_wide { 64 } else { 32 }));
    }

    /// What that says; nothing where it was not asked for.
    pub fn sequence(&self) -> Option<SequenceCounts> {
        self.judged().sequence.as_ref().map(SequenceTracker::counts)
    }

    fn judged(&self) -> MutexGuard<'_, Judged> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When something arrived last, in the time of `fabricmark_telemetry::clock`; 0 for never.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.load(Relaxed)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Writes, reads or datagrams so far.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Everything so far.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { bytes: self.bytes(), blocks: self.blocks(), arrivals: self.judged().arrivals }
    }
}

impl Snapshot {
    /// The results of a stream of datagrams, or of bytes, that stands so at its end and stood as
    /// `omitted` when it began to count.
    pub fn results(&self, omitted: &Self, id: u32, is_udp: bool, sends: bool) -> StreamResults {
        let packets = |at: &Self| match (is_udp, sends) {
            (true, true) => at.blocks,
            (true, false) => at.arrivals.packets,
            (false, _) => 0,
        };
        StreamResults {
            id,
            bytes: self.bytes - omitted.bytes,
            retransmits: None,
            jitter_s: self.arrivals.jitter.jitter_ns / 1e9,
            errors: self.arrivals.errors,
            packets: packets(self),
            omitted_errors: Some(omitted.arrivals.errors),
            omitted_packets: Some(packets(omitted)),
            duration_s: None,
        }
    }
}
