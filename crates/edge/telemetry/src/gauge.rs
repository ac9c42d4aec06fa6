//! Counters that a load thread publishes while it works.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one end of a flow has moved so far. One thread writes it, any thread may read it.
///
/// It fills two cache lines of 64 bytes, because CPUs fetch them in pairs: so no other writes take them from the load
/// thread (false sharing).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauge {
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl Gauge {
    /// Publishes the counts of the writing thread: two plain stores into a cache line of its own. Neither number may
    /// decrease.
    pub fn publish(&self, bytes: u64, calls: u64) {
        self.bytes.store(bytes, Relaxed);
        self.calls.store(calls, Relaxed);
    }

    /// Adds to the published counts; only for the thread that writes.
    pub fn add(&self, bytes: u64, calls: u64) {
        let (bytes_before, calls_before) = self.read();
        self.publish(bytes_before + bytes, calls_before + calls);
    }

    /// The bytes and calls published last; the calls may be one behind or ahead of the bytes.
    pub fn read(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), self.calls.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_shares_its_cache_lines_with_nothing() {
        assert_eq!((size_of::<Gauge>(), align_of::<Gauge>()), (128, 128));
    }
}
