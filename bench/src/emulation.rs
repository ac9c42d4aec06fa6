//! Work over an emulated link: what the link is asked to do, what crosses it, and for how long.

/// What crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One TCP stream (iperf3).
    Stream,
    /// One UDP datagram of 64 bytes there and one back, in a closed loop (sockperf).
    PingPong,
}

/// A link, the same in both directions, and what crosses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    pub load: Load,
    /// Round trip that it adds, half of it each way.
    pub rtt_ms: u32,
    /// Rate in Mbit/s, counted in IP packets; none where it is as fast as it can be.
    pub rate_mbps: Option<u32>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Whether fabricmark's emulator is handed single packets instead of super-packets.
    pub is_single: bool,
}

/// Bytes of a packet of TCP over IPv4 that are not payload: two headers of 20 bytes and the timestamps
/// option with its padding (RFC 7323, appendix A).
const TCP_HEADERS: u16 = 52;

/// What waits for a shaped link, in milliseconds of its rate: enough for a stream without a delay, little
/// enough that it is never the memory of this machine that bounds it.
pub const QUEUE_MS: u32 = 50;

/// Round trips that a stream is given to find its rate, before anything counts; at least a second.
const SETTLING_ROUND_TRIPS: u32 = 50;

/// Round trips that a stream counts for, at least.
const COUNTED_ROUND_TRIPS: u32 = 20;

/// Seconds that a stream at a rate counts for, at least: a payload more or less is then below 0.04 % at
/// 100 Mbit/s.
const SHAPED_S: u64 = 4;

/// Exchanges that a 99th percentile is told from, at least: two are above it.
const EXCHANGES_MIN: u32 = 200;

impl Emulation {
    /// A stream over a link with an MTU of 1500 that is as fast as it can be.
    pub fn stream(rtt_ms: u32) -> Self {
        Self { load: Load::Stream, rtt_ms, rate_mbps: None, mtu: 1500, is_single: false }
    }

    pub fn shaped(rate_mbps: u32) -> Self {
        Self { rate_mbps: Some(rate_mbps), ..Self::stream(0) }
    }

    pub fn ping_pong(rtt_ms: u32) -> Self {
        Self { load: Load::PingPong, ..Self::stream(rtt_ms) }
    }

    /// What the link is to do, as a lab's links are told (`docs/lab.md`); a backend that cannot be
    /// without a rate has `unshaped_mbps`.
    pub fn words(&self, unshaped_mbps: Option<u32>) -> String {
        let mut words = format!("mtu={}", self.mtu);
        if self.rtt_ms > 0 {
            words += &format!(" rtt={}ms", self.rtt_ms);
        }
        if let Some(rate) = self.rate_mbps.or(unshaped_mbps) {
            words += &format!(" rate={rate}M queue={QUEUE_MS}ms");
        }
        words
    }

    /// Whole seconds before a stream counts.
    pub fn settling_s(&self) -> u64 {
        u64::from(SETTLING_ROUND_TRIPS * self.rtt_ms).div_ceil(1000).max(1)
    }

    pub fn counted_s(&self, asked_s: f64) -> u64 {
        let round_trips = match self.load {
            Load::Stream => COUNTED_ROUND_TRIPS,
            Load::PingPong => EXCHANGES_MIN,
        };
        let least = if self.rate_mbps.is_some() { SHAPED_S } else { 1 };
        u64::from(round_trips * self.rtt_ms).div_ceil(1000).max(asked_s.ceil() as u64).max(least)
    }

    /// Bytes a write, and a read: few where they are what the count is rounded to.
    pub fn payload_bytes(&self) -> u32 {
        if self.rate_mbps.is_some() { 16_384 } else { 131_072 }
    }

    /// What a stream of full packets carries in payload where the link keeps its rate to the bit.
    pub fn exact_goodput_bps(&self) -> Option<f64> {
        let share = f64::from(self.mtu - TCP_HEADERS) / f64::from(self.mtu);
        self.rate_mbps.map(|rate| f64::from(rate) * 1e6 * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_asked_for_in_the_words_of_a_lab() {
        assert_eq!(Emulation::stream(100).words(None), "mtu=1500 rtt=100ms");
        assert_eq!(Emulation::stream(0).words(Some(5)), "mtu=1500 rate=5M queue=50ms");
        assert_eq!(Emulation::shaped(100).words(Some(5)), "mtu=1500 rate=100M queue=50ms");
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
