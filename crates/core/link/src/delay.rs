//! Delays that do not depend on packet length.

use std::collections::{BTreeMap, VecDeque};

use fabricmark_units::{Instant, Nanos, Stream};

use crate::{Counters, Element, Input, Invalid, Output, Packet, positive, some};

/// Delay model.
#[derive(Clone, Debug, PartialEq)]
pub enum Delays {
    /// The same for all packets.
    Fixed(Nanos),
    /// Normal; negative delays become 0.
    Normal {
        /// Mean before truncation at 0.
        mean: Nanos,
        /// Standard deviation.
        deviation: Nanos,
    },
    /// Pareto: `P(delay > x) = (least / x) ^ shape`. The mean is finite for a shape above 1 and is then
    /// `least * shape / (shape - 1)`; the variance is finite for a shape above 2.
    Pareto {
        /// Minimum delay.
        least: Nanos,
        /// Shape; the larger, the lighter the tail.
        shape: f64,
    },
    /// Delays of a trace, one per packet; the trace repeats.
    Trace(Vec<Nanos>),
}

/// Whether a packet may overtake one with a longer delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No: a packet waits for earlier ones, as on a path with queues and as tc-netem(8) does with a rate.
    ///
    /// A packet's effective delay is the largest of its own and what earlier packets still have to wait when it
    /// arrives: `max(X[i], X[i-1] - (A[i] - A[i-1]), ...)` for delays `X` and arrivals `A`. The mean is larger than
    /// drawn and the deviation smaller, the more so the closer packets follow each other. Packets further apart than
    /// delays differ are not affected.
    Kept,
    /// Yes, as over several paths.
    Free,
}

/// Delays each packet. Input port 0, output port 0.
pub struct Delay<T> {
    delays: Delays,
    stream: Stream,
    place: usize,
    waiting: Waiting<T>,
}

/// The queue costs O(1) per packet, the map the logarithm of the packets it holds.
enum Waiting<T> {
    Ordered(VecDeque<(Instant, Packet<T>)>),
    /// Ordered by due time, then by arrival.
    Free {
        map: BTreeMap<(Instant, u64), Packet<T>>,
        number: u64,
    },
}

impl<T> Delay<T> {
    /// The same delay for all packets.
    pub fn fixed(delay: Nanos) -> Self {
        let waiting = Waiting::Ordered(VecDeque::new());
        Self { delays: Delays::Fixed(delay), stream: Stream::new(0, "delay"), place: 0, waiting }
    }

    /// Delays by `delays`; random ones are drawn from `stream`.
    pub fn new(delays: Delays, order: Order, stream: Stream) -> Result<Self, Invalid> {
        match &delays {
            Delays::Pareto { shape, .. } => {
                positive("the shape of a Pareto delay", *shape)?;
            }
            Delays::Trace(delays) => some("the number of delays in a trace", delays.len() as u64)?,
            Delays::Fixed(_) | Delays::Normal { .. } => {}
        }
        let waiting = match order {
            Order::Kept => Waiting::Ordered(VecDeque::new()),
            Order::Free => Waiting::Free { map: BTreeMap::new(), number: 0 },
        };
        Ok(Self { delays, stream, place: 0, waiting })
    }

    fn draw(&mut self) -> Nanos {
        match &self.delays {
            Delays::Fixed(delay) => *delay,
            Delays::Normal { mean, deviation } => {
                whole(mean.0 as f64 + deviation.0 as f64 * self.stream.normal())
            }
            Delays::Pareto { least, shape } => {
                whole(least.0 as f64 * (1.0 - self.stream.unit()).powf(-1.0 / shape))
            }
            Delays::Trace(delays) => {
                let delay = delays[self.place];
                self.place = (self.place + 1) % delays.len();
                delay
            }
        }
    }
}

/// Rounds to whole nanoseconds; saturates at 0 and at `u64::MAX` (584 years).
fn whole(nanos: f64) -> Nanos {
    Nanos(nanos.round() as u64)
}

impl<T> Waiting<T> {
    fn push(&mut self, due: Instant, packet: Packet<T>) {
        match self {
            Self::Ordered(queue) => {
                let last = queue.back().map_or(due, |(last, _)| *last);
                queue.push_back((due.max(last), packet));
            }
            Self::Free { map, number } => {
                map.insert((due, *number), packet);
                *number += 1;
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        match self {
            Self::Ordered(queue) => queue.front().map(|(due, _)| *due),
            Self::Free { map, .. } => map.first_key_value().map(|((due, _), _)| *due),
        }
    }

    fn pop(&mut self) -> Option<Packet<T>> {
        match self {
            Self::Ordered(queue) => queue.pop_front().map(|(_, packet)| packet),
            Self::Free { map, .. } => map.pop_first().map(|(_, packet)| packet),
        }
    }
}

impl<T> Element<T> for Delay<T> {
    fn step(&mut self, now: Instant, input: Input<T>, _: &mut Counters) -> Output<T> {
        if let Input::Packet { packet, .. } = input {
            let due = now + self.draw();
            self.waiting.push(due, packet);
        }
        match self.waiting.next() {
            Some(due) if due <= now => match self.waiting.pop() {
                Some(packet) => Output::Packet { port: 0, packet },
                None => Output::Idle,
            },
            due => Output::wait(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Departure, Net};
    use crate::packet::Length;
    use proptest::prelude::*;

    fn trace(order: Order) -> Delay<u32> {
        let delays = Delays::Trace(vec![Nanos(100), Nanos(10), Nanos(50)]);
        Delay::new(delays, order, Stream::new(1, "delay")).unwrap()
    }

    /// Number and departure time of four packets that arrive 5 ns apart.
    fn passed(delay: Delay<u32>) -> Vec<(u32, u64)> {
        let mut net = Net::new();
        let delay = net.add(delay);
        for i in 0..4 {
            let at = Instant(5 * u64::from(i));
            net.arrive(at, (delay, 0), Packet::new(i, Length::packet(100)));
        }
        std::iter::from_fn(|| net.next(Instant(1_000)))
            .map(|departure| (departure.packet.payload, departure.at.0))
            .collect()
    }

    #[test]
    fn a_fixed_delay_moves_every_packet_by_the_same_time() {
        let times = passed(Delay::fixed(Nanos(7)));
        assert_eq!(times, [(0, 7), (1, 12), (2, 17), (3, 22)]);
    }

    #[test]
    fn a_trace_repeats_and_lets_overtake_only_where_order_is_free() {
        assert_eq!(passed(trace(Order::Free)), [(1, 15), (2, 60), (0, 100), (3, 115)]);
        assert_eq!(passed(trace(Order::Kept)), [(0, 100), (1, 100), (2, 100), (3, 115)]);
    }

    /// Delays of packets that arrive `gap` ns apart.
    fn taken(delay: Delay<u32>, gap: u64, packets: u32) -> Vec<u64> {
        let mut net = Net::new();
        let delay = net.add(delay);
        for number in 0..packets {
            let at = Instant(gap * u64::from(number));
            net.arrive(at, (delay, 0), Packet::new(number, Length::packet(100)));
        }
        let departures = std::iter::from_fn(|| net.next(Instant(u64::MAX / 2)));
        let takes =
            |departure: Departure<u32>| departure.at.0 - gap * u64::from(departure.packet.payload);
        departures.map(takes).collect()
    }

    /// The table of docs/lab.md.
    #[test]
    fn order_that_is_kept_adds_to_the_mean_delay_what_the_documentation_says() {
        let (mean, deviation) = (10e6, 1e5);
        for (gap, expected) in
            [(1_000_000, 0.0), (200_000, 0.05), (100_000, 0.23), (10_000, 1.21), (1_000, 2.13)]
        {
            let delays = Delays::Normal { mean: Nanos(10_000_000), deviation: Nanos(100_000) };
            let of = |order| {
                let stream = Stream::new(5, "delay");
                let delay = Delay::new(delays.clone(), order, stream).unwrap();
                let taken = taken(delay, gap, 200_000);
                let sum: u64 = taken.iter().sum();
                (sum as f64 / taken.len() as f64 - mean) / deviation
            };
            // At the smallest gap, waits are correlated over some 100 packets: 2,000 independent samples.
            let (kept, free) = (of(Order::Kept), of(Order::Free));
            assert!((kept - expected).abs() < 0.05, "{gap}: {kept}");
            assert!(free.abs() < 0.02, "{gap}: {free}");
        }
    }

    proptest! {
        #[test]
        fn with_order_kept_a_packet_takes_its_own_delay_or_what_is_left_of_one_before(
            delays in proptest::collection::vec(0u64..1_000, 1..20),
            gap in 0u64..300,
            packets in 1u32..60,
        ) {
            let drawn: Vec<u64> =
                delays.iter().copied().cycle().take(packets as usize).collect();
            let trace = Delays::Trace(delays.into_iter().map(Nanos).collect());
            let delay = Delay::new(trace, Order::Kept, Stream::new(0, "delay")).unwrap();
            let expected: Vec<u64> = (0..drawn.len())
                .map(|own| {
                    let left = |before: usize| {
                        drawn[before].saturating_sub(gap * (own - before) as u64)
                    };
                    (0..=own).map(left).max().unwrap()
                })
                .collect();
            prop_assert_eq!(taken(delay, gap, packets), expected);
        }
    }

    #[test]
    fn drawn_delays_have_the_moments_of_their_distribution() {
        let delay = |delays| {
            let stream = Stream::new(3, "delay");
            let mut delay = Delay::<()>::new(delays, Order::Free, stream).unwrap();
            let drawn: Vec<f64> = (0..100_000).map(|_| delay.draw().0 as f64).collect();
            let mean = drawn.iter().sum::<f64>() / 1e5;
            let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
            (mean, variance.sqrt(), drawn.iter().fold(f64::MAX, |a, &b| a.min(b)))
        };
        let normal = Delays::Normal { mean: Nanos(1_000_000), deviation: Nanos(10_000) };
        // Five standard errors: 5 s / sqrt(n), and about 5 s / sqrt(2 n).
        let (mean, deviation, _) = delay(normal);
        assert!(
            (mean - 1e6).abs() < 160.0 && (deviation - 1e4).abs() < 112.0,
            "{mean} {deviation}"
        );
        // Shape 5: mean 5/4 of the least, deviation least * sqrt(5 / 3) / 4.
        let (mean, _, least) = delay(Delays::Pareto { least: Nanos(1_000_000), shape: 5.0 });
        let error = 5.0 * 1e6 * (5.0f64 / 3.0).sqrt() / 4.0 / 1e5f64.sqrt();
        assert!((mean - 1.25e6).abs() < error && least >= 1e6, "{mean} {least}");
    }

    #[test]
    fn a_delay_that_cannot_be_drawn_is_refused() {
        let new = |delays| {
            Delay::<()>::new(delays, Order::Kept, Stream::new(0, "delay"))
                .err()
                .unwrap()
                .to_string()
        };
        assert_eq!(
            new(Delays::Trace(Vec::new())),
            "the number of delays in a trace is 0: give at least 1"
        );
        assert_eq!(
            new(Delays::Pareto { least: Nanos(1), shape: f64::NAN }),
            "the shape of a Pareto delay is NaN: give a finite number above 0"
        );
    }
}
