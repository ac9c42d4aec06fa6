//! Counters that a load thread publishes while it works.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// What the flows of a load thread have moved so far. That thread writes it, any thread may read it.
///
/// It fills two cache lines of 64 bytes, because CPUs fetch them in pairs: so no other writes take them from the load
/// thread (false sharing).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauge {
    bytes: AtomicU64,
    calls: AtomicU64,
    /// Flows that have published reception, and the sum of what they published.
    numbered_flows: AtomicU64,
    lost: AtomicI64,
    /// Flows whose jitter is known, and the bits of its sum, an `f64`.
    jitter_flows: AtomicU64,
    jitter_sum_ns: AtomicU64,
}

/// What the receiver of numbered datagrams knows of the network so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reception {
    /// Datagrams that are lost by their sequence numbers.
    pub lost: i64,
    /// Interarrival jitter; `None` before it is known.
    pub jitter_ns: Option<f64>,
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
        let (bytes_before, calls_before) = self.read_one();
        self.publish(bytes_before + bytes, calls_before + calls);
    }

    /// Replaces what one flow published of its reception; `None` before its first. Only for the thread that writes.
    pub fn replace_reception(&self, before: Option<Reception>, now: Reception) {
        let numbered = u64::from(before.is_none());
        let before = before.unwrap_or_default();
        self.numbered_flows.store(self.numbered_flows.load(Relaxed) + numbered, Relaxed);
        // Numbers in datagrams are the peer's.
        let lost = self.lost.load(Relaxed).saturating_add(now.lost.saturating_sub(before.lost));
        self.lost.store(lost, Relaxed);
        let Some(jitter_ns) = now.jitter_ns else { return };
        let flows = u64::from(before.jitter_ns.is_none());
        self.jitter_flows.store(self.jitter_flows.load(Relaxed) + flows, Relaxed);
        let sum_ns = f64::from_bits(self.jitter_sum_ns.load(Relaxed));
        let sum_ns = sum_ns + jitter_ns - before.jitter_ns.unwrap_or_default();
        self.jitter_sum_ns.store(sum_ns.to_bits(), Relaxed);
    }

    /// Missing datagrams of all flows of these threads, and the mean of their jitter; `None` if no flow has published
    /// any.
    pub fn reception(gauges: &[Self]) -> Option<Reception> {
        let sum = |field: fn(&Self) -> &AtomicU64| -> u64 {
            gauges.iter().map(|gauge| field(gauge).load(Relaxed)).sum()
        };
        if sum(|gauge| &gauge.numbered_flows) == 0 {
            return None;
        }
        let lost = gauges.iter().map(|gauge| gauge.lost.load(Relaxed));
        let flows = sum(|gauge| &gauge.jitter_flows);
        let sums_ns = gauges.iter().map(|gauge| gauge.jitter_sum_ns.load(Relaxed));
        let sum_ns: f64 = sums_ns.map(f64::from_bits).sum();
        let jitter_ns = (flows > 0).then(|| sum_ns / flows as f64);
        Some(Reception { lost: lost.fold(0, i64::saturating_add), jitter_ns })
    }

    /// Sums of the bytes and calls that these threads published last; the calls may be one per thread behind or ahead of
    /// the bytes.
    pub fn read(gauges: &[Self]) -> (u64, u64) {
        let each = gauges.iter().map(Self::read_one);
        each.fold((0, 0), |sum, (bytes, calls)| (sum.0 + bytes, sum.1 + calls))
    }

    fn read_one(&self) -> (u64, u64) {
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

    #[test]
    fn missing_datagrams_of_flows_are_added_and_their_jitter_is_averaged() {
        let gauges = [Gauge::default(), Gauge::default()];
        let [gauge, other] = &gauges;
        assert_eq!(Gauge::reception(&gauges), None);
        let reception = |lost, jitter_ns| Reception { lost, jitter_ns };
        let first = reception(2, None);
        gauge.replace_reception(None, first);
        assert_eq!(Gauge::reception(&gauges), Some(first));
        gauge.replace_reception(None, reception(5, Some(30.0)));
        assert_eq!(Gauge::reception(&gauges), Some(reception(7, Some(30.0))));
        gauge.replace_reception(Some(first), reception(1, Some(10.0)));
        assert_eq!(Gauge::reception(&gauges), Some(reception(6, Some(20.0))));
        other.replace_reception(None, reception(-1, Some(50.0)));
        assert_eq!(Gauge::reception(&gauges), Some(reception(5, Some(30.0))));
    }

    #[test]
    fn threads_are_added() {
        let gauges = [Gauge::default(), Gauge::default()];
        gauges[0].add(10, 1);
        gauges[1].add(30, 3);
        gauges[1].add(5, 1);
        assert_eq!(Gauge::read(&gauges), (45, 5));
    }
}
