//! A wire of some rate with a queue before it.

use fabricmark_units::Instant;

use crate::counters::Counters;
use crate::egress::Egress;
use crate::element::{Element, Input, Output};
use crate::line::Line;
use crate::queue::Queue;

/// Sends what comes in by port 0 out by port 0, one packet at a time. A packet leaves when its last
/// bit does; a super-packet when that of its last segment does.
#[derive(Debug)]
pub struct Rate<T>(Egress<T>);

impl<T: Clone> Rate<T> {
    /// A line that sends, and the queue for what comes while it does.
    pub fn new(line: Line, queue: Queue<T>) -> Self {
        Self(Egress::new(line, queue))
    }
}

impl<T: Clone> Element<T> for Rate<T> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        match input {
            Input::Packet { packet, .. } => self.0.arrive(now, now, packet, counters),
            Input::Pause { time, .. } => self.0.pause(now, time),
            Input::Wake => {}
        }
        match self.0.depart(now, counters) {
            Some(packet) => Output::Packet { port: 0, packet },
            None => Output::wait(self.0.wake()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::net::Net;
    use crate::packet::{Length, Packet};
    use crate::queue::Limit;
    use fabricmark_units::{BitRate, Nanos};

    fn gigabit(limit: Limit) -> Rate<u32> {
        let line = Line::new(BitRate(1_000_000_000), Framing::ethernet(0)).unwrap();
        Rate::new(line, Queue::drop_tail(limit))
    }

    #[test]
    fn packets_leave_one_after_another_at_the_exact_time() {
        let mut net = Net::new();
        let rate = net.add(gigabit(Limit::Packets(10)));
        for i in 0..3 {
            net.arrive(Instant(5), (rate, 0), Packet::new(i, Length::packet(1500)));
        }
        let times: Vec<_> =
            std::iter::from_fn(|| net.next(Instant(1_000_000))).map(|d| d.at.0).collect();
        // (1526 + n * 1538) * 8 ns.
        assert_eq!(times, [5 + 12_208, 5 + 24_512, 5 + 36_816]);
        assert_eq!(net.deadline(), None);
    }

    #[test]
    fn the_packet_being_sent_takes_no_room_in_the_queue() {
        let mut net = Net::new();
        let rate = net.add(gigabit(Limit::Packets(1)));
        for i in 0..3 {
            net.arrive(Instant(0), (rate, 0), Packet::new(i, Length::packet(1500)));
        }
        let left: Vec<_> =
            std::iter::from_fn(|| net.next(Instant(1_000_000))).map(|d| d.packet.payload).collect();
        assert_eq!(left, [0, 1]);
        assert_eq!(net.counters(rate).dropped_in_all().packets, 1);
    }

    #[test]
    fn a_paused_wire_ends_its_frame_and_waits() {
        let mut net = Net::new();
        let rate = net.add(gigabit(Limit::Packets(10)));
        for i in 0..3 {
            net.arrive(Instant(0), (rate, 0), Packet::new(i, Length::packet(1500)));
        }
        net.pause(Instant(100), (rate, 0), Nanos(50_000));
        let mut left = || net.next(Instant(1_000_000)).map(|departure| departure.at.0);
        assert_eq!(left(), Some(12_208));
        assert_eq!(left(), Some(50_100 + 12_208));
        net.pause(Instant(70_000), (rate, 0), Nanos(500_000));
        net.pause(Instant(80_000), (rate, 0), Nanos(0));
        let mut left = || net.next(Instant(1_000_000)).map(|departure| departure.at.0);
        // The third began before the second pause, a gap after the second frame.
        assert_eq!(left(), Some(50_100 + 24_512));
        assert_eq!(left(), None);
    }
}
