//! Closed-loop senders over networks in both directions.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_link::{
    CoDel, Delay, Framing, Id, Length, Limit, Line, Net, Packet, Queue, Rate, Reason,
};
use fabricmark_units::{BitRate, Instant, Nanos};

/// A forward path with a rate, and a return path; the test is both ends.
struct Path {
    net: Net<u64>,
    there: Id,
    back: Id,
    arrival: Id,
}

impl Path {
    fn new(rate_bps: u64, one_way: Nanos, queue: Queue<u64>) -> Self {
        let mut net = Net::new();
        let line = Line::new(BitRate(rate_bps), Framing::NONE).unwrap();
        let there = net.add(Rate::new(line, queue));
        let arrival = net.add(Delay::fixed(one_way));
        net.chain(&[there, arrival]);
        let back = net.add(Delay::fixed(one_way));
        Self { net, there, back, arrival }
    }

    fn send(&mut self, at: Instant, number: u64) {
        self.net.arrive(at, (self.there, 0), Packet::new(number, Length::packet(1500)));
    }

    /// The next acknowledgement and its arrival time; each packet is acknowledged at once.
    fn acknowledged(&mut self, until: Instant) -> Option<(Instant, u64)> {
        loop {
            let departure = self.net.next(until)?;
            if departure.from.0 == self.back {
                return Some((departure.at, departure.packet.payload));
            }
            assert_eq!(departure.from.0, self.arrival);
            let answer = Packet::new(departure.packet.payload, Length::packet(40));
            self.net.arrive(departure.at, (self.back, 0), answer);
        }
    }
}

#[test]
fn a_window_of_packets_is_carried_once_a_round_trip() {
    // 12 us per packet at 1 Gbit/s; a round trip of 10 ms is 833 1/3 packets and one more.
    let round_trip = 10_012_000;
    for window in [1, 100, 834, 835, 2000] {
        let queue = Queue::drop_tail(Limit::Packets(10_000));
        let mut path = Path::new(1_000_000_000, Nanos::from_millis(5), queue);
        for number in 0..window {
            path.send(Instant(0), number);
        }
        let mut carried = 0;
        // All acknowledgements of 100 windows have arrived, none of the next.
        let end = Instant(101 * round_trip - 1);
        while let Some((at, number)) = path.acknowledged(end) {
            carried += 1;
            path.send(at, number + window);
        }
        // If the window fills the path, an acknowledgement arrives every 12 us after the first.
        let full = 1 + (end.0 - round_trip) / 12_000;
        assert_eq!(carried, full.min(100 * window), "{window}");
    }
}

/// An AIMD sender with unlimited data: mean queueing delay in ms and share of the rate in the last 100 of 160 s.
fn aimd(queue: Queue<u64>) -> (f64, f64) {
    // 1.2 ms per packet; a round trip holds 83 1/3 packets.
    let (one_way, packet_ns) = (Nanos::from_millis(50), 1_200_000);
    let mut path = Path::new(10_000_000, one_way, queue);
    let (mut sent, mut in_flight, mut window) = (0u64, 0f64, 300f64);
    let (mut expected, mut recover) = (0, 0);
    let mut sent_at = Vec::new();
    let (mut waits, mut carried) = (0.0, 0.0);
    let mut now = Instant(0);
    loop {
        while in_flight < window {
            sent_at.push(now);
            path.send(now, sent);
            sent += 1;
            in_flight += 1.0;
        }
        let Some((at, number)) = path.acknowledged(Instant(160_000_000_000)) else { break };
        now = at;
        in_flight -= 1.0;
        if number > expected {
            // Order is kept, so the packets between are lost; the window is halved at most once per window.
            in_flight -= (number - expected) as f64;
            if expected >= recover {
                window = (window / 2.0).max(2.0);
                recover = sent;
            }
        }
        expected = number + 1;
        window += 1.0 / window;
        if now >= Instant(60_000_000_000) {
            carried += 1.0;
            let wait = (now - sent_at[number as usize]).0 - 2 * one_way.0 - packet_ns;
            waits += wait as f64 / 1e6;
        }
    }
    let lost = path.net.counters(path.there);
    assert!(lost.dropped(Reason::Congestion).packets + lost.dropped(Reason::Overflow).packets > 0);
    (waits / carried, carried * packet_ns as f64 / 100e9)
}

#[test]
fn codel_takes_away_a_standing_queue_and_leaves_the_rate() {
    let codel = CoDel::new(CoDel::TARGET, CoDel::INTERVAL, false).unwrap();
    let (wait_ms, share) = aimd(Queue::codel(Limit::Packets(1000), codel));
    // RFC 8289, section 1: the delay of a managed queue stays near the target without loss of utilisation. One Reno
    // flow that halves its window at an RTT without queueing leaves some of the rate unused.
    assert!(wait_ms < 20.0 && share > 0.8, "{wait_ms} {share}");
    // Without AQM the same sender keeps a queue of 300 ms between a third full and full.
    let (wait_ms, share) = aimd(Queue::drop_tail(Limit::Packets(250)));
    assert!((150.0..250.0).contains(&wait_ms) && share > 0.99, "{wait_ms} {share}");
}
