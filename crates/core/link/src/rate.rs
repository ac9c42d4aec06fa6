//! A rate limit: a wire with a queue before it.

use fabricmark_units::Instant;

use crate::egress::Egress;
use crate::pause::BackPressure;
use crate::{Counters, Element, Input, Line, Marks, Output, Queue};

/// Sends packets from port 0 to port 0, one at a time. A packet leaves with its last bit, a super-packet with that of
/// its last segment.
///
/// With marks, port 1 sends pause requests: connect it to the control port, 1, of the previous rate. A pause that
/// arrives by any port stops this one.
#[derive(Debug)]
pub struct Rate<T> {
    egress: Egress<T>,
    pressure: Option<BackPressure>,
}

impl<T: Clone> Rate<T> {
    /// Sends over `line`; packets that arrive while it is busy wait in `queue`.
    pub fn new(line: Line, queue: Queue<T>) -> Self {
        Self { egress: Egress::new(line, queue), pressure: None }
    }

    /// Adds marks at which the queue pauses and resumes the previous sender.
    #[must_use]
    pub fn with_marks(self, marks: Marks) -> Self {
        Self { pressure: Some(BackPressure::new(marks)), ..self }
    }
}

impl<T: Clone> Element<T> for Rate<T> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        match input {
            Input::Packet { packet, .. } => self.egress.arrive(now, now, packet, counters),
            Input::Pause { time, .. } => self.egress.pause(now, time),
            Input::Wake => {}
        }
        if let Some(packet) = self.egress.depart(now, counters) {
            return Output::Packet { port: 0, packet };
        }
        let Some(pressure) = &mut self.pressure else { return Output::wait(self.egress.wake()) };
        match pressure.request(now, self.egress.queue.held().bytes) {
            Some(time) => Output::Pause { port: 1, time },
            None => Output::wait([self.egress.wake(), pressure.wake()].into_iter().flatten().min()),
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
        // The third frame started before the second pause, a gap after the second frame.
        assert_eq!(left(), Some(50_100 + 24_512));
        assert_eq!(left(), None);
    }

    /// Drops and last departure of 100 packets at once over 10 Gbit/s, then 1 Gbit/s with room for ten.
    fn slowed_down(marks: Option<Marks>) -> (u64, u64) {
        let fast = Line::new(BitRate(10_000_000_000), Framing::ethernet(0)).unwrap();
        let mut net = Net::new();
        let first = net.add(Rate::new(fast, Queue::drop_tail(Limit::Packets(1000))));
        let slow = gigabit(Limit::Bytes(15_000));
        let slow = net.add(match marks {
            Some(marks) => slow.with_marks(marks),
            None => slow,
        });
        net.chain(&[first, slow]);
        net.connect((slow, 1), (first, 1));
        for i in 0..100 {
            net.arrive(Instant(0), (first, 0), Packet::new(i, Length::packet(1500)));
        }
        let last = std::iter::from_fn(|| net.next(Instant(10_000_000))).last().unwrap();
        assert_eq!((net.deadline(), net.held().packets), (None, 0));
        (net.counters(slow).dropped_in_all().packets, last.at.0)
    }

    #[test]
    fn a_queue_that_stops_the_wire_before_drops_nothing_and_is_never_empty() {
        // While the 100 arrive in 123 us, 9 leave, one is being sent and 10 wait.
        assert_eq!(slowed_down(None).0, 80);
        // A pause of 20 us is shorter than the time to drain, so the request is repeated.
        for pause in [20_000, 1_000_000] {
            let marks = Marks::new(9_000, 3_000, Nanos(pause)).unwrap();
            // The first frame at 10 Gbit/s, 1526 bytes of 0.8 ns, then 100 of 1538 bytes at 1 Gbit/s less one gap.
            let last = 1_221 + 99 * 12_304 + 12_208;
            assert_eq!(slowed_down(Some(marks)), (0, last), "{pause}");
        }
    }
}
