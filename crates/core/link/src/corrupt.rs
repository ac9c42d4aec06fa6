//! Packets with a flipped bit.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Stream};

use crate::{Counters, Element, Input, Invalid, Output, Packet, share};

/// Chooses a bit to flip in a share of packets; the driver flips it. A corrupted segment leaves its super-packet.
/// Input port 0, output port 0.
pub struct Corrupt<T> {
    share: f64,
    stream: Stream,
    /// Pieces that leave now, and whether to corrupt them.
    passing: VecDeque<(Packet<T>, bool)>,
}

impl<T> Corrupt<T> {
    /// Corrupts each packet with `probability`, drawn from `stream`.
    pub fn new(probability: f64, stream: Stream) -> Result<Self, Invalid> {
        let share = share("the probability of a wrong bit", probability)?;
        Ok(Self { share, stream, passing: VecDeque::new() })
    }
}

impl<T: Clone> Element<T> for Corrupt<T> {
    fn step(&mut self, _: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        let Self { share, stream, passing } = self;
        if let Input::Packet { packet, .. } = input {
            packet.cut(|| stream.unit() < *share, |piece, hit| passing.push_back((piece, hit)));
        }
        let Some((mut packet, hit)) = passing.pop_front() else { return Output::Idle };
        let bits = 8 * packet.length.bytes();
        // A packet gets at most one flipped bit.
        if hit && packet.flipped_bit.is_none() && bits > 0 {
            packet.flipped_bit = u32::try_from(stream.below(bits)).ok();
            counters.corrupted += packet.length.into();
        }
        Output::Packet { port: 0, packet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;
    use crate::packet::Length;

    fn passed(share: f64, length: Length, packets: u32) -> Vec<Packet<u32>> {
        let mut net = Net::new();
        let corrupt = net.add(Corrupt::new(share, Stream::new(1, "corrupt")).unwrap());
        for i in 0..packets {
            net.arrive(Instant(0), (corrupt, 0), Packet::new(i, length));
        }
        std::iter::from_fn(|| net.next(Instant(0))).map(|departure| departure.packet).collect()
    }

    #[test]
    fn each_bit_of_a_packet_may_flip() {
        let mut flipped = [0; 16];
        for packet in passed(1.0, Length::packet(2), 1600) {
            flipped[packet.flipped_bit.unwrap() as usize] += 1;
        }
        // Five standard errors of 100: 5 * sqrt(1600 * 15 / 256).
        assert!(flipped.iter().all(|&n: &i32| n.abs_diff(100) < 49), "{flipped:?}");
    }

    #[test]
    fn wrong_packets_have_their_share() {
        let passed = passed(0.25, Length::packet(100), 10_000);
        let wrong = passed.iter().filter(|packet| packet.flipped_bit.is_some()).count();
        assert!(passed.len() == 10_000 && wrong.abs_diff(2500) < 217, "{wrong}");
    }

    #[test]
    fn a_wrong_segment_leaves_its_super_packet() {
        for packet in passed(0.3, Length::train(40, 10_000, 1000), 100) {
            let segments = packet.length.segments();
            assert!(packet.flipped_bit.is_none_or(|bit| segments == 1 && bit < 8 * 1040));
        }
    }
}
