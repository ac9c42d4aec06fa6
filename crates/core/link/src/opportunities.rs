//! Delivery opportunities: bytes that may leave at given times, by mahimahi traces or the departure schedules of P5.

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Element, Input, Invalid, Output, Packet, Queue, Trace, some};

/// Lets bytes leave at given times. Input port 0, output port 0.
///
/// Packets that fit share an opportunity; a packet that does not fit uses several and leaves with its last byte.
#[derive(Debug)]
pub struct Opportunities<T> {
    calendar: Calendar,
    queue: Queue<T>,
    /// The packet that is being sent, and its bytes that have not left yet.
    leaving: Option<(u64, Packet<T>)>,
    /// Unused bytes of the last opportunity.
    credit_bytes: u64,
}

/// Times of the opportunities.
#[derive(Debug)]
struct Calendar {
    /// Offsets within a period, in order.
    stamps_ms: Vec<u32>,
    period: Nanos,
    /// Bytes of each opportunity.
    bytes: u64,
    /// Whether unused bytes stay available until the next opportunity.
    stay: bool,
    /// Start of the period of the next opportunity, and its index in the period.
    base: Instant,
    place: usize,
}

impl Calendar {
    fn next(&self) -> Instant {
        self.base + Nanos::from_millis(self.stamps_ms[self.place].into())
    }

    fn go_to(&mut self, place: usize) {
        self.place = place;
        if self.place == self.stamps_ms.len() {
            self.base = self.base + self.period;
            self.place = 0;
        }
    }

    /// Moves past all opportunities at or before `now`.
    fn skip(&mut self, now: Instant) {
        let passed = (now - self.base).0;
        self.base = self.base + Nanos(passed / self.period.0 * self.period.0);
        let ms = passed % self.period.0 / 1_000_000;
        self.go_to(self.stamps_ms.partition_point(|&stamp| u64::from(stamp) <= ms));
    }
}

impl<T: Clone> Opportunities<T> {
    /// At each time of a trace that starts at instant 0, up to 1500 bytes of what waits then may leave.
    pub fn trace(trace: Trace, queue: Queue<T>) -> Self {
        let period = Nanos::from_millis(trace.period_ms());
        Self::new(trace.stamps_ms, period, Trace::BYTES, false, queue)
    }

    /// A departure schedule: up to `bytes` leave in each period, as soon as they arrive (P5, figure 8). The first
    /// period starts at instant 0. Model 1 of P5 is 15,582 bytes each 5947 us.
    pub fn schedule(bytes: u64, period: Nanos, queue: Queue<T>) -> Result<Self, Invalid> {
        some("the number of bytes in a period", bytes)?;
        some("the period of departures", period.0)?;
        Ok(Self::new(vec![0], period, bytes, true, queue))
    }

    fn new(stamps_ms: Vec<u32>, period: Nanos, bytes: u64, stay: bool, queue: Queue<T>) -> Self {
        let calendar = Calendar { stamps_ms, period, bytes, stay, base: Instant(0), place: 0 };
        Self { calendar, queue, leaving: None, credit_bytes: 0 }
    }

    fn is_idle(&self) -> bool {
        self.leaving.is_none() && self.queue.is_empty()
    }

    /// A packet whose last byte may leave now.
    fn depart(&mut self, now: Instant, counters: &mut Counters) -> Option<Packet<T>> {
        loop {
            if self.leaving.is_none() {
                let next = self.queue.pop(now, counters);
                self.leaving = next.map(|(_, packet)| (packet.length.bytes(), packet));
            }
            let Some((left, _)) = &mut self.leaving else {
                self.credit_bytes *= u64::from(self.calendar.stay);
                return None;
            };
            let bytes = self.credit_bytes.min(*left);
            self.credit_bytes -= bytes;
            *left -= bytes;
            if *left == 0 {
                return self.leaving.take().map(|(_, packet)| packet);
            }
            if self.calendar.next() > now {
                return None;
            }
            self.calendar.go_to(self.calendar.place + 1);
            self.credit_bytes = self.calendar.bytes;
        }
    }
}

impl<T: Clone> Element<T> for Opportunities<T> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        if let Input::Packet { packet, .. } = input {
            if self.is_idle() && self.calendar.next() <= now {
                self.calendar.skip(now);
                self.credit_bytes = self.calendar.bytes * u64::from(self.calendar.stay);
            }
            // A packet for which nothing has to leave first needs no room.
            let busy = !self.is_idle();
            self.queue.push(now, now, packet, busy, counters);
        }
        match self.depart(now, counters) {
            Some(packet) => Output::Packet { port: 0, packet },
            None => Output::wait((!self.is_idle()).then(|| self.calendar.next())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;
    use crate::packet::Length;
    use crate::queue::Limit;

    const US: u64 = 1000;
    const MS: u64 = 1000 * US;

    fn queue() -> Queue<()> {
        Queue::drop_tail(Limit::Packets(1000))
    }

    /// Departure times of packets given by arrival time and bytes.
    fn departures(element: Opportunities<()>, arrivals: &[(u64, u32)]) -> Vec<u64> {
        let mut net = Net::new();
        let element = net.add(element);
        for &(at, bytes) in arrivals {
            net.arrive(Instant(at), (element, 0), Packet::new((), Length::packet(bytes)));
        }
        std::iter::from_fn(|| net.next(Instant(1000 * MS)))
            .map(|departure| departure.at.0)
            .collect()
    }

    #[test]
    fn packets_leave_at_the_times_of_a_trace_which_repeats() {
        let trace = Trace::parse("1\n1\n4\n").unwrap();
        assert_eq!(trace.mean_rate_bps(), 9e6);
        let times = departures(Opportunities::trace(trace, queue()), &[(0, 1500); 7]);
        assert_eq!(times, [MS, MS, 4 * MS, 5 * MS, 5 * MS, 8 * MS, 9 * MS]);
    }

    #[test]
    fn what_an_opportunity_leaves_over_serves_who_waits_and_nobody_else() {
        let element = || Opportunities::trace(Trace::parse("1").unwrap(), queue());
        // Two packets share an opportunity; one uses two, and the next uses the rest.
        let times = departures(element(), &[(0, 700), (0, 800), (0, 1600), (0, 1400)]);
        assert_eq!(times, [MS, MS, 3 * MS, 3 * MS]);
        // The opportunities of 1 to 7 ms have expired; an arrival at 7 ms misses that of 7 ms.
        assert_eq!(departures(element(), &[(0, 100), (7 * MS, 100)]), [MS, 8 * MS]);
    }

    #[test]
    fn a_schedule_lets_so_many_bytes_pass_in_each_period() {
        let element = || Opportunities::schedule(3000, Nanos(100 * US), queue()).unwrap();
        let times = departures(element(), &[(0, 1500); 5]);
        assert_eq!(times, [0, 0, 100 * US, 100 * US, 200 * US]);
        // Within a period packets leave at once while bytes are left; the other 1000 bytes leave in the next period.
        let times = departures(element(), &[(30 * US, 2000), (90 * US, 2000), (450 * US, 10)]);
        assert_eq!(times, [30 * US, 100 * US, 450 * US]);
    }

    #[test]
    fn a_packet_longer_than_the_queue_passes_an_idle_schedule() {
        let short = Queue::drop_tail(Limit::Bytes(1042));
        let element = Opportunities::schedule(62_487, Nanos(5995 * US), short).unwrap();
        assert_eq!(departures(element, &[(0, 1500)]), [0]);
    }

    #[test]
    fn the_models_of_p5_send_a_file_in_the_time_that_they_plan() {
        // Model 1: 10 bursts of 15,582 bytes end when the tenth period starts.
        let element = Opportunities::schedule(15_582, Nanos(5947 * US), queue()).unwrap();
        let times = departures(element, &[(0, 7791); 20]);
        assert_eq!(times.last(), Some(&(9 * 5947 * US)));
    }
}
