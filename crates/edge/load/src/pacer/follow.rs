//! Bursts whose period follows a measurement of their TCP connection.

use fabricmark_plan::{Law, Pace};
use fabricmark_proto::APDU_PADDED_BYTES;
use fabricmark_record::TcpSample;
use fabricmark_units::{Bytes, Nanos};

/// A rate that follows the RTT is that of P5's APDU with padding each way per RTT.
const APDU_BYTES: f64 = APDU_PADDED_BYTES as f64;

/// Pacing gains: multiples of the delivery rate, each for an RTT. More, to find out whether there is room; less by as
/// much, so that the queue which this built drains; then slightly less than what arrives, so that no queue stays. The
/// first two are those of BBRv1 (`bbr_pacing_gain` in net/ipv4/tcp_bbr.c), whose others are 1; 0.97 is chosen
/// (docs/relay.md).
const GAINS: [f64; 8] = [1.25, 0.75, 0.97, 0.97, 0.97, 0.97, 0.97, 0.97];

/// Pacing gain at first, until the delivery rate has not risen by a quarter for three RTTs: a sender that is slow measures
/// no more than it sends. The end is that of BBR's startup (`bbr_full_bw_thresh`, `bbr_full_bw_cnt`); its gain is 2.89.
const STARTUP: f64 = 2.0;
const STARTUP_RISE: f64 = 1.25;
const STARTUP_RTTS: u32 = 3;

/// Pacing gain while there is a queue: while the RTT is above [`RTT_WITHOUT_QUEUE`] of its minimum and the time that the
/// bottleneck needs for a burst. Both are chosen (docs/relay.md).
const DRAIN: f64 = 0.75;
const RTT_WITHOUT_QUEUE: f64 = 1.25;

/// Shortest and longest period in nanoseconds: a clock reads in 20 ns, and a stop ends a wait of any length.
const PERIODS_NS: (f64, f64) = (1e3, 1e9);

/// The period of the bursts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    law: Law,
    burst_bits: f64,
    /// Highest delivery rate of the startup, and RTTs since it rose to that.
    risen_bps: f64,
    rtts_since: u32,
    /// Place in [`GAINS`], and when it or an RTT of the startup began.
    phase: usize,
    phase_began_ns: u64,
}

impl Follow {
    /// `None` if the pace does not follow anything.
    pub fn of(pace: &Pace) -> Option<Self> {
        let &Pace::Follow { law, bytes: Bytes(bytes), .. } = pace else { return None };
        Some(Self {
            law,
            burst_bits: 8.0 * bytes as f64,
            risen_bps: 0.0,
            rtts_since: 0,
            phase: 0,
            phase_began_ns: 0,
        })
    }

    /// The period after a sample of the connection; `None` without a measurement.
    pub fn period(&mut self, now_ns: u64, sample: &TcpSample) -> Option<Nanos> {
        let srtt_ns = sample.srtt_ns.filter(|&ns| ns > 0)?;
        let rate_bps = match self.law {
            Law::Rtt => 2.0 * 8.0 * APDU_BYTES / (srtt_ns as f64 / 1e9),
            Law::Delivery => {
                let delivered_bps = sample.delivery_rate_bps.filter(|&bps| bps > 0)? as f64;
                let is_starting = self.rtts_since < STARTUP_RTTS;
                if now_ns.saturating_sub(self.phase_began_ns) >= srtt_ns {
                    self.phase_began_ns = now_ns;
                    if !is_starting {
                        self.phase = (self.phase + 1) % GAINS.len();
                    } else if delivered_bps > STARTUP_RISE * self.risen_bps {
                        (self.risen_bps, self.rtts_since) = (delivered_bps, 0);
                    } else {
                        self.rtts_since += 1;
                    }
                }
                let burst_ns = self.burst_bits / delivered_bps * 1e9;
                let has_queue = sample.min_rtt_ns.is_some_and(|min_ns| {
                    srtt_ns as f64 > RTT_WITHOUT_QUEUE * min_ns as f64 + burst_ns
                });
                let gain = match (has_queue, is_starting) {
                    (true, _) => DRAIN,
                    (false, true) => STARTUP,
                    (false, false) => GAINS[self.phase],
                };
                gain * delivered_bps
            }
        };
        let ns = (self.burst_bits / rate_bps * 1e9).clamp(PERIODS_NS.0, PERIODS_NS.1);
        Some(Nanos(ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(pace: &str) -> Follow {
        Follow::of(&pace.parse().unwrap()).unwrap()
    }

    fn sample(srtt_us: u64, delivery_rate_bps: u64) -> TcpSample {
        TcpSample {
            srtt_ns: Some(1_000 * srtt_us),
            delivery_rate_bps: Some(delivery_rate_bps),
            ..TcpSample::default()
        }
    }

    #[test]
    fn a_rate_that_follows_the_rtt_is_that_of_the_paper() {
        let mut follow = follow("follow-rtt");
        for (rtt_us, mbps) in [(1437, 11.40), (466, 35.16)] {
            let Nanos(ns) = follow.period(0, &sample(rtt_us, 1)).unwrap();
            let found = 8.0 * 62_487.0 / ns as f64 * 1e3;
            assert!((found - mbps).abs() < 0.005, "{rtt_us} us: {found}");
        }
    }

    #[test]
    fn a_rate_that_follows_the_delivery_rate_tries_more_for_an_rtt_and_then_drains() {
        let mut follow = follow("follow-delivery:1250/1ms");
        let rates: Vec<u64> = (1..=13)
            .map(|rtt| {
                let Nanos(ns) = follow.period(rtt * 1_000_000, &sample(1_000, 10_000_000)).unwrap();
                10_000_000_000 / ns
            })
            .collect();
        // The delivery rate is new, and does not rise for three RTTs.
        assert_eq!(rates[..4], [20_000; 4]);
        assert_eq!(rates[4..6], [7_500, 9_700]);
        assert_eq!(rates[10..], [9_700, 12_500, 7_500]);
    }

    #[test]
    fn a_queue_is_drained_whatever_the_phase() {
        let mut follow = Follow { rtts_since: STARTUP_RTTS, ..follow("follow-delivery:1250/1ms") };
        // 10 kbit take 1 ms at 10 Mbit/s: up to 2.25 ms of RTT there is no queue.
        for (srtt_us, ns) in [(2_200, 800_000), (2_300, 1_333_333)] {
            let sample = TcpSample { min_rtt_ns: Some(1_000_000), ..sample(srtt_us, 10_000_000) };
            assert_eq!(follow.period(0, &sample), Some(Nanos(ns)));
        }
    }

    #[test]
    fn without_a_measurement_the_period_stays() {
        assert_eq!(follow("follow-rtt").period(0, &TcpSample::default()), None);
        assert_eq!(follow("follow-delivery").period(0, &sample(100, 0)), None);
        assert!(Follow::of(&Pace::Closed).is_none());
    }
}
