//! Round trips, parted by the stamps that the kernel or the network device gave to their packets.

use fabricmark_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::warning::Warning;

/// Round trips at the client, parted into what lies beyond the stamps and what lies before them.
///
/// The stamps are those of SO_TIMESTAMPING (Documentation/networking/timestamping.rst of the kernel): a
/// request's when it is handed to the network device, a response's when the device hands it over. Of
/// a datagram in several packets it is the first that is stamped, of a response over TCP the last
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTimes {
    /// From the stamp of the request to that of its response, in nanoseconds: the wire both ways, and
    /// everything at the server, its kernel and its program among it.
    pub rtt_ns: Histogram,
    /// What is left of the time from before the call that sends to after the call that receives, in
    /// nanoseconds: system calls, the kernel's protocols and the wake-up of the client. The
    /// reading of the stamps is not in it.
    pub application_ns: Histogram,
    /// Round trips that lack a stamp, or whose stamps contradict the clock, as when somebody sets
    /// the machine's time: they are in neither histogram.
    pub unstamped: u64,
}

impl KernelTimes {
    /// Those of two flows together.
    #[must_use]
    pub fn merged(mut self, other: &Self) -> Self {
        self.rtt_ns.merge(&other.rtt_ns);
        self.application_ns.merge(&other.application_ns);
        self.unstamped += other.unstamped;
        self
    }

    /// A warning where more than a hundredth lacks a stamp: the 99th percentile may be among them.
    pub fn warning(&self) -> Option<Warning> {
        let (count, of) = (self.unstamped, self.unstamped + self.rtt_ns.len());
        (count * 100 > of).then_some(Warning::Unstamped { count, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(stamped: u64, unstamped: u64) -> KernelTimes {
        let mut times = KernelTimes { unstamped, ..KernelTimes::default() };
        (0..stamped).for_each(|_| times.rtt_ns.record(1_000));
        times
    }

    #[test]
    fn round_trips_without_a_stamp_are_told_where_they_may_hide_the_99th_percentile() {
        assert_eq!(times(99, 1).warning(), None);
        assert_eq!(times(98, 2).warning(), Some(Warning::Unstamped { count: 2, of: 100 }));
        assert_eq!(times(0, 0).warning(), None);
        let both = times(49, 1).merged(&times(49, 1));
        assert_eq!(both, times(98, 2));
    }
}
