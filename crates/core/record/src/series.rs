//! What one end of a flow did through time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tcp_sample::TcpSample;

/// One end of a flow through time, or of many flows on one thread: its intervals, without gaps. Their
/// bytes and calls add up to what the end counted in all; only an answer that comes after it was
/// given up as lost stands here and not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Length asked for of each interval; the last is shorter, and one whose end was seen late is
    /// longer.
    pub interval_ns: u64,
    /// The intervals, each beginning where the one before ended.
    pub intervals: Vec<Interval>,
}

/// What happened at one end between two readings of its counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// When it began, as it was read from the clock, since the series began.
    pub start_ns: u64,
    /// When it ended, as it was read from the clock, since the series began.
    pub end_ns: u64,
    /// Application bytes moved.
    pub bytes: u64,
    /// Calls that moved data: writes, reads or datagrams. A call may stand in the interval after
    /// the one that has its bytes.
    pub calls: u64,
    /// Processor time that the end's process used, in user and in kernel mode, of all its threads; on a
    /// lab's links each end is a process of its own. Absent in records of versions before there was it.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// What TCP said of the first flow at the end of the interval; absent where it is not TCP, and
    /// where each exchange has a connection of its own.
    pub tcp: Option<TcpSample>,
}

impl Interval {
    /// Its true length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its bytes over its true length, in bit/s; nothing where it has no length.
    pub fn rate_bps(&self) -> Option<f64> {
        let length_ns = self.length_ns();
        (length_ns > 0).then(|| 8e9 * self.bytes as f64 / length_ns as f64)
    }
}

impl Series {
    /// Length of an interval unless another is asked for: 100 ms, the shortest that iperf3 takes
    /// (MIN_INTERVAL, iperf.h).
    pub const INTERVAL_NS: u64 = 100_000_000;

    /// Application bytes of all intervals.
    pub fn bytes(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.bytes).sum()
    }

    /// When so many bytes had been moved, in nanoseconds since the series began, as if each interval
    /// moved its bytes evenly; nothing where they never were.
    pub fn moved_ns(&self, bytes: u64) -> Option<u64> {
        let mut before = 0;
        self.intervals.iter().find_map(|interval| {
            let here = bytes.checked_sub(before)?;
            before += interval.bytes;
            let share = here as f64 / interval.bytes as f64;
            (before >= bytes && interval.bytes > 0)
                .then(|| interval.start_ns + (interval.length_ns() as f64 * share) as u64)
        })
    }

    /// Calls of all intervals.
    pub fn calls(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_an_interval_is_over_its_true_length() {
        // 125 bytes in 1.25 us, where 1 us was asked for.
        let interval =
            Interval { start_ns: 1_000, end_ns: 2_250, bytes: 125, ..Interval::default() };
        assert_eq!(interval.rate_bps(), Some(8e8));
        assert_eq!(Interval::default().rate_bps(), None);
    }

    #[test]
    fn the_moment_of_a_byte_lies_in_the_interval_that_moved_it() {
        let interval = |number: u64, bytes| Interval {
            start_ns: 100 * number,
            end_ns: 100 * (number + 1),
            bytes,
            ..Interval::default()
        };
        let intervals = vec![interval(0, 0), interval(1, 10), interval(2, 90)];
        let series = Series { interval_ns: 100, intervals };
        let moments = [0, 5, 10, 55, 100, 101].map(|bytes| series.moved_ns(bytes));
        assert_eq!(moments, [Some(100), Some(150), Some(200), Some(250), Some(300), None]);
    }
}
