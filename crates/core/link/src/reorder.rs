//! Reordered packets.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos, Stream};

use crate::{Counters, Element, Input, Invalid, Output, Packet, share, some};

/// Holds a share of packets back until `gap` later ones have passed: their reordering extent (RFC 4737, section 4.2).
/// A super-packet counts as one packet. Input port 0, output port 0.
pub struct Reorder<T> {
    share: f64,
    gap: u32,
    longest: Nanos,
    stream: Stream,
    held: VecDeque<Held<T>>,
    passing: Option<Packet<T>>,
}

struct Held<T> {
    packet: Packet<T>,
    /// Packets that still have to pass.
    gap: u32,
    /// Release time, if fewer packets pass.
    due: Instant,
}

impl<T> Reorder<T> {
    /// Holds each packet back with probability `chance` until `gap` others have passed or `longest` is over, so that
    /// none is held for ever.
    pub fn new(chance: f64, gap: u32, longest: Nanos, stream: Stream) -> Result<Self, Invalid> {
        let share = share("the probability of being overtaken", chance)?;
        some("the number of packets that overtake", gap.into())?;
        some("the longest time to be overtaken", longest.0)?;
        Ok(Self { share, gap, longest, stream, held: VecDeque::new(), passing: None })
    }
}

impl<T> Element<T> for Reorder<T> {
    fn step(&mut self, now: Instant, input: Input<T>, _: &mut Counters) -> Output<T> {
        if let Input::Packet { packet, .. } = input {
            if self.stream.unit() < self.share {
                self.held.push_back(Held { packet, gap: self.gap, due: now + self.longest });
            } else {
                for held in &mut self.held {
                    held.gap = held.gap.saturating_sub(1);
                }
                self.passing = Some(packet);
            }
        }
        // The packet held first has the fewest left to wait for and the earliest release time.
        let passing = self.passing.take().or_else(|| {
            let next = self.held.front()?;
            let goes = next.gap == 0 || next.due <= now;
            goes.then(|| self.held.pop_front())?.map(|held| held.packet)
        });
        match passing {
            Some(packet) => Output::Packet { port: 0, packet },
            None => Output::wait(self.held.front().map(|held| held.due)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;
    use crate::packet::Length;

    /// Numbers and times of packets that arrive 10 ns apart.
    fn passed(share: f64, gap: u32, seed: u64) -> Vec<(u32, u64)> {
        let mut net = Net::new();
        let stream = Stream::new(seed, "reorder");
        let reorder = net.add(Reorder::new(share, gap, Nanos(1000), stream).unwrap());
        for i in 0..200 {
            let at = Instant(10 * u64::from(i));
            net.arrive(at, (reorder, 0), Packet::new(i, Length::packet(100)));
        }
        std::iter::from_fn(|| net.next(Instant(10_000)))
            .map(|departure| (departure.packet.payload, departure.at.0))
            .collect()
    }

    #[test]
    fn a_held_packet_is_overtaken_by_the_gap() {
        let passed = passed(0.02, 3, 1);
        let late: Vec<u32> = passed
            .iter()
            .zip(0..)
            .filter(|&(&(number, _), place)| number < place)
            .map(|(&(number, _), place)| place - number)
            .collect();
        assert!(!late.is_empty() && late.iter().all(|&extent| extent == 3), "{late:?}");
        assert_eq!(passed.len(), 200);
    }

    #[test]
    fn without_a_share_order_is_kept() {
        assert!(passed(0.0, 3, 1).iter().map(|&(number, _)| number).eq(0..200));
    }

    #[test]
    fn what_nobody_overtakes_goes_when_its_time_is_over() {
        let times: Vec<u64> = passed(1.0, 3, 1).iter().map(|&(_, at)| at).collect();
        assert_eq!(times, (0..200).map(|i| 1000 + 10 * i).collect::<Vec<u64>>());
    }
}
