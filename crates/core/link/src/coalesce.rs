//! Interrupt coalescing: a NIC holds packets back to deliver them in batches.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Element, Input, Invalid, Output, Packet, some};

/// When the NIC interrupts the host: `rx-usecs` and `rx-frames` of ethtool(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moderation {
    /// Delay after the first packet of a batch; 0 delivers each packet at once.
    pub time: Nanos,
    /// Packets, segments counted, that end a batch early; 0: no limit.
    pub frames: u32,
}

/// Moderation by packet rate: `adaptive-rx` of ethtool(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Packets per second below which `low` applies.
    pub rate_low: u64,
    /// Packets per second from which `high` applies.
    pub rate_high: u64,
    /// Interval over which the rate is measured (`sample-interval`).
    pub sample: Nanos,
    /// Moderation at low rates; usually short, for latency.
    pub low: Moderation,
    /// Moderation between the rates, and before the first sample.
    pub normal: Moderation,
    /// Moderation at high rates; usually long, for throughput.
    pub high: Moderation,
}

/// Holds packets and delivers them in batches, each at one instant. Input port 0, output port 0.
#[derive(Debug)]
pub struct Coalesce<T> {
    moderation: Moderation,
    sampler: Option<Sampler>,
    waiting: VecDeque<Packet<T>>,
    frames: u64,
    /// When the waiting batch is delivered; the current instant once it has enough packets.
    due: Instant,
}

#[derive(Debug)]
struct Sampler {
    adaptive: Adaptive,
    began: Instant,
    frames: u64,
}

impl<T> Coalesce<T> {
    /// Constant moderation.
    pub fn fixed(moderation: Moderation) -> Self {
        Self { moderation, sampler: None, waiting: VecDeque::new(), frames: 0, due: Instant(0) }
    }

    /// Moderation that adapts to the packet rate.
    pub fn adaptive(adaptive: Adaptive) -> Result<Self, Invalid> {
        some("the interval over which packets are counted", adaptive.sample.0)?;
        if adaptive.rate_low > adaptive.rate_high {
            return Err(Invalid::Order {
                low: "the low packet rate",
                high: "the high packet rate",
            });
        }
        let sampler = Some(Sampler { adaptive, began: Instant(0), frames: 0 });
        Ok(Self { sampler, ..Self::fixed(adaptive.normal) })
    }

    fn arrive(&mut self, now: Instant, packet: Packet<T>) {
        let frames = u64::from(packet.length.segments());
        if let Some(moderation) = self.sampler.as_mut().and_then(|s| s.count(now, frames)) {
            self.moderation = moderation;
        }
        if self.waiting.is_empty() {
            self.due = now + self.moderation.time;
        }
        self.frames += frames;
        if self.moderation.frames > 0 && self.frames >= self.moderation.frames.into() {
            self.due = now;
        }
        self.waiting.push_back(packet);
    }
}

impl Sampler {
    /// The new moderation, if a sample interval has ended.
    fn count(&mut self, now: Instant, frames: u64) -> Option<Moderation> {
        let elapsed = now - self.began;
        let mut next = None;
        if elapsed >= self.adaptive.sample {
            let rate = u128::from(self.frames) * 1_000_000_000 / u128::from(elapsed.0);
            next = Some(match rate {
                rate if rate < self.adaptive.rate_low.into() => self.adaptive.low,
                rate if rate < self.adaptive.rate_high.into() => self.adaptive.normal,
                _ => self.adaptive.high,
            });
            (self.began, self.frames) = (now, 0);
        }
        self.frames += frames;
        next
    }
}

impl<T> Element<T> for Coalesce<T> {
    fn step(&mut self, now: Instant, input: Input<T>, _: &mut Counters) -> Output<T> {
        if let Input::Packet { packet, .. } = input {
            self.arrive(now, packet);
        }
        if self.due > now && !self.waiting.is_empty() {
            return Output::Wake(self.due);
        }
        let Some(packet) = self.waiting.pop_front() else { return Output::Idle };
        self.frames -= u64::from(packet.length.segments());
        Output::Packet { port: 0, packet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;
    use crate::packet::Length;

    const fn us(us: u64) -> Nanos {
        Nanos(us * 1000)
    }

    /// Delivery times in us of packets that arrive at `at_us`.
    fn delivered(coalesce: Coalesce<()>, at_us: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut net = Net::new();
        let coalesce = net.add(coalesce);
        for at in at_us {
            let packet = Packet::new((), Length::packet(100));
            net.arrive(Instant(at * 1000), (coalesce, 0), packet);
        }
        std::iter::from_fn(|| net.next(Instant(u64::MAX - 1))).map(|d| d.at.0 / 1000).collect()
    }

    #[test]
    fn a_batch_is_told_of_when_its_time_is_over_or_its_number_is_up() {
        let moderation = Moderation { time: us(50), frames: 3 };
        let times = delivered(Coalesce::fixed(moderation), [0, 10, 100, 110, 120, 130, 140]);
        assert_eq!(times, [50, 50, 120, 120, 120, 180, 180]);
        let moderation = Moderation { time: us(50), frames: 0 };
        let times = delivered(Coalesce::fixed(moderation), [0, 10, 20, 30, 100]);
        assert_eq!(times, [50, 50, 50, 50, 150]);
        let moderation = Moderation { time: us(0), frames: 9 };
        assert_eq!(delivered(Coalesce::fixed(moderation), [0, 10]), [0, 10]);
    }

    #[test]
    fn moderation_follows_the_rate() {
        let adaptive = Adaptive {
            rate_low: 10_000,
            rate_high: 100_000,
            sample: us(1000),
            low: Moderation { time: us(0), frames: 0 },
            normal: Moderation { time: us(10), frames: 0 },
            high: Moderation { time: us(100), frames: 0 },
        };
        let new = || Coalesce::adaptive(adaptive).unwrap();
        // 2,000 packets/s: each is delivered at once from the first sample on.
        let slow = delivered(new(), (0..10).map(|i| 500 * i));
        assert_eq!(slow[..4], [10, 510, 1000, 1500]);
        // 500,000 packets/s: batches of 10 us, then of 100 us.
        let fast = delivered(new(), (0..1000).map(|i| 2 * i));
        let mut batches = fast.clone();
        batches.dedup();
        assert_eq!(batches[..3], [10, 20, 30]);
        assert_eq!(batches[batches.len() - 2] - batches[batches.len() - 3], 100);
    }
}
