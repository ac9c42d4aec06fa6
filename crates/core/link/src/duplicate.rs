//! Duplicated packets.

use fabricmark_units::{Instant, Stream};

use crate::{Counters, Element, Input, Invalid, Output, Packet, share};

/// Duplicates a share of packets, super-packets as a whole; the copy follows its packet. Input port 0, output port 0.
pub struct Duplicate<T> {
    share: f64,
    stream: Stream,
    copy: Option<Packet<T>>,
}

impl<T> Duplicate<T> {
    /// Duplicates each packet with `probability`, drawn from `stream`.
    pub fn new(probability: f64, stream: Stream) -> Result<Self, Invalid> {
        let share = share("the probability of a copy", probability)?;
        Ok(Self { share, stream, copy: None })
    }
}

impl<T: Clone> Element<T> for Duplicate<T> {
    fn step(&mut self, _: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        let packet = match input {
            Input::Packet { packet, .. } => {
                if self.stream.unit() < self.share {
                    counters.duplicated += packet.length.into();
                    self.copy = Some(packet.clone());
                }
                Some(packet)
            }
            Input::Pause { .. } | Input::Wake => self.copy.take(),
        };
        packet.map_or(Output::Idle, |packet| Output::Packet { port: 0, packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;
    use crate::packet::Length;

    fn passed(share: f64, packets: u32) -> Vec<u32> {
        let mut net = Net::new();
        let copy = net.add(Duplicate::new(share, Stream::new(1, "duplicate")).unwrap());
        for i in 0..packets {
            net.arrive(Instant(0), (copy, 0), Packet::new(i, Length::packet(100)));
        }
        std::iter::from_fn(|| net.next(Instant(0))).map(|d| d.packet.payload).collect()
    }

    #[test]
    fn a_copy_follows_its_packet() {
        assert_eq!(passed(1.0, 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(passed(0.0, 3), [0, 1, 2]);
    }

    #[test]
    fn copies_have_their_share() {
        // Five standard errors of 0.25.
        let copies = passed(0.25, 10_000).len() - 10_000;
        assert!(copies.abs_diff(2500) < 217, "{copies}");
    }
}
