//! Workloads over an emulated link: the link's parameters, the traffic, and the durations.

use fabricmark_lab::Offload;

/// Traffic over the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One TCP stream (iperf3).
    Stream,
    /// One UDP datagram of 64 bytes in each direction, in a closed loop (sockperf).
    PingPong,
}

/// A link, symmetric, and the traffic over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    pub load: Load,
    /// Added RTT, half of it in each direction.
    pub rtt_ms: u32,
    /// Rate in Mbit/s of IP packets; `None` for no limit.
    pub rate_mbps: Option<u32>,
    /// MTU: largest IP packet in bytes.
    pub mtu: u16,
    /// Where fabricmark's super-packets are segmented.
    pub offload: Offload,
}

/// Header bytes of a TCP packet over IPv4: two headers of 20 bytes and the timestamps option with padding (RFC 7323,
/// appendix A).
const TCP_HEADERS: u16 = 52;

/// Queue of a shaped link, in milliseconds at its rate: enough for a stream without a delay, too little to exhaust
/// the memory of this machine.
pub const QUEUE_MS: u32 = 50;

/// Minimum warm-up of a stream, in RTTs; at least a second.
const SETTLING_ROUND_TRIPS: u32 = 50;

/// Minimum counted time of a stream, in RTTs.
const COUNTED_ROUND_TRIPS: u32 = 20;

/// Minimum counted time of a shaped stream in seconds.
const SHAPED_S: u64 = 4;

/// Minimum number of transactions for a 99th percentile: two are above it.
const TRANSACTIONS_MIN: u32 = 200;

impl Emulation {
    /// A stream over a link with an MTU of 1500 and no rate limit.
    pub fn stream(rtt_ms: u32) -> Self {
        Self { load: Load::Stream, rtt_ms, rate_mbps: None, mtu: 1500, offload: Offload::On }
    }

    pub fn shaped(rate_mbps: u32) -> Self {
        Self { rate_mbps: Some(rate_mbps), ..Self::stream(0) }
    }

    pub fn ping_pong(rtt_ms: u32) -> Self {
        Self { load: Load::PingPong, ..Self::stream(rtt_ms) }
    }

    /// Link options of a lab (`docs/lab.md`). `unshaped_mbps` is the rate for backends that require one.
    pub fn link_options(&self, unshaped_mbps: Option<u32>) -> String {
        let mut options = format!("mtu={}", self.mtu);
        if self.rtt_ms > 0 {
            options += &format!(" rtt={}ms", self.rtt_ms);
        }
        if let Some(rate) = self.rate_mbps.or(unshaped_mbps) {
            options += &format!(" rate={rate}M queue={QUEUE_MS}ms");
        }
        options
    }

    /// Warm-up of a stream, in whole seconds.
    pub fn settling_s(&self) -> u64 {
        u64::from(SETTLING_ROUND_TRIPS * self.rtt_ms).div_ceil(1000).max(1)
    }

    pub fn counted_s(&self, asked_s: f64) -> u64 {
        let round_trips = match self.load {
            Load::Stream => COUNTED_ROUND_TRIPS,
            Load::PingPong => TRANSACTIONS_MIN,
        };
        let least = if self.rate_mbps.is_some() { SHAPED_S } else { 1 };
        u64::from(round_trips * self.rtt_ms).div_ceil(1000).max(asked_s.ceil() as u64).max(least)
    }

    /// Bytes per write and read. A payload is less than 0.04 % of the stream that is counted in [`SHAPED_S`]. With 16 KiB
    /// iperf3 itself ends at 4 Gbit/s (over an emulated link of 10 Gbit/s, both ends on one CPU).
    pub fn payload_bytes(&self) -> u32 {
        if self.rate_mbps.is_some_and(|rate| rate < 1000) { 16_384 } else { 131_072 }
    }

    /// Goodput of full packets if the link keeps its rate exactly.
    pub fn exact_goodput_bps(&self) -> Option<f64> {
        let share = f64::from(self.mtu - TCP_HEADERS) / f64::from(self.mtu);
        self.rate_mbps.map(|rate| f64::from(rate) * 1e6 * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_asked_for_by_the_options_of_a_lab() {
        assert_eq!(Emulation::stream(100).link_options(None), "mtu=1500 rtt=100ms");
        assert_eq!(Emulation::stream(0).link_options(Some(5)), "mtu=1500 rate=5M queue=50ms");
        assert_eq!(Emulation::shaped(100).link_options(Some(5)), "mtu=1500 rate=100M queue=50ms");
    }

    #[test]
    fn long_round_trips_take_long_runs() {
        let (near, far) = (Emulation::stream(0), Emulation::stream(100));
        assert_eq!((near.settling_s(), near.counted_s(0.3)), (1, 1));
        assert_eq!((far.settling_s(), far.counted_s(0.3)), (5, 2));
        assert_eq!(Emulation::ping_pong(20).counted_s(1.0), 4);
        assert_eq!(Emulation::shaped(100).counted_s(1.0), 4);
    }

    #[test]
    fn headers_are_no_payload() {
        assert_eq!(Emulation::shaped(1500).exact_goodput_bps(), Some(1448e6));
        assert_eq!(Emulation::stream(0).exact_goodput_bps(), None);
    }
}
