//! Both ends of a connection and the path between them in virtual time, and the outcome.

use fabricmark_link::{Counters, Departure, Ecn, Invalid, Length, Packet, some};
use fabricmark_units::{Instant, Nanos};

use crate::Settings;
use crate::path::{Ack, Path, Segment};
use crate::receiver::{Arrival, Receiver};
use crate::sender::Sender;

/// Outcome of a simulation, by interval and in total.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Consecutive intervals without gaps.
    pub intervals: Vec<Interval>,
    /// Time until slow start first ended: by a loss, by HyStart, or at the receive window. `None` if it did not end.
    pub ramp: Option<Nanos>,
    /// Segments delivered in order.
    pub delivered_segments: u64,
    /// Segments that arrived, duplicates included.
    pub received_segments: u64,
    /// Segments that arrived with a flipped bit.
    pub corrupted_segments: u64,
    /// Segments sent, retransmissions included.
    pub sent_segments: u64,
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
    /// Window reductions for a loss or a mark, without timeouts.
    pub reductions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Counters of the elements of the forward path, in their order; packets still held are in flight.
    pub there: Vec<Counters>,
    /// Counters of the elements of the return path.
    pub back: Vec<Counters>,
}

/// One sampling interval of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Start.
    pub start: Instant,
    /// Duration.
    pub length: Nanos,
    /// Payload delivered in order, in bytes.
    pub delivered_bytes: u64,
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
    /// Congestion window at the end, in segments.
    pub cwnd_segments: f64,
    /// Segments in flight at the end.
    pub in_flight_segments: u64,
    /// Smoothed RTT at the end; 0 before the first sample.
    pub rtt: Nanos,
}

impl Interval {
    /// Payload delivered in order, in bit/s.
    pub fn goodput_bps(&self) -> f64 {
        self.delivered_bytes as f64 * 8.0 / self.length.as_secs_f64()
    }
}

/// Simulates one connection over `path` for `duration` from instant 0, sampling its state at the end of each
/// `interval`. The last interval may be shorter.
///
/// Fails if a setting is 0 that must not be.
pub fn simulate(
    settings: &Settings,
    mut path: Path,
    duration: Nanos,
    interval: Nanos,
) -> Result<Outcome, Invalid> {
    settings.check()?;
    some("the length of an interval", interval.0)?;
    let start = Instant(0);
    let mut ends = Ends {
        settings,
        sender: Sender::new(settings),
        receiver: Receiver::new(settings.acks),
        corrupted: 0,
    };
    let end = start + duration;
    let mut intervals = Vec::new();
    let (mut noted, mut delivered, mut retransmitted) = (start, 0, 0);
    while noted < end {
        let until = (noted + interval).min(end);
        ends.run(&mut path, noted, until);
        let Ends { sender, receiver, .. } = &ends;
        intervals.push(Interval {
            start: noted,
            length: until - noted,
            delivered_bytes: (receiver.expected - delivered) * u64::from(settings.mss_bytes),
            retransmitted_segments: sender.tally.retransmitted - retransmitted,
            cwnd_segments: sender.window.segments,
            in_flight_segments: sender.board.in_flight,
            rtt: sender.timeout.round_trip(),
        });
        (noted, delivered, retransmitted) = (until, receiver.expected, sender.tally.retransmitted);
    }
    let Ends { sender, receiver, corrupted, .. } = ends;
    let [there, back] = path.counters();
    Ok(Outcome {
        intervals,
        ramp: sender.tally.open.map(|at| at - start),
        delivered_segments: receiver.expected,
        received_segments: receiver.received,
        corrupted_segments: corrupted,
        sent_segments: sender.board.next_transmission,
        retransmitted_segments: sender.tally.retransmitted,
        reductions: sender.tally.reductions,
        timeouts: sender.tally.timeouts,
        there,
        back,
    })
}

struct Ends<'s> {
    settings: &'s Settings,
    sender: Sender,
    receiver: Receiver,
    corrupted: u64,
}

impl Ends<'_> {
    /// Processes all events from `now` to `until`, inclusive.
    fn run(&mut self, path: &mut Path, mut now: Instant, until: Instant) {
        loop {
            while let Some(departure) = path.net.next(now) {
                self.arrive(path, now, &departure);
            }
            self.sender.wake(now);
            if let Some(ack) = self.receiver.wake(now) {
                self.answer(path, now, ack);
            }
            self.send(path, now);
            let due = [path.net.deadline(), self.sender.due(now), self.receiver.due()];
            match due.into_iter().flatten().min() {
                Some(due) if due <= until => now = due,
                _ => return,
            }
        }
    }

    fn arrive(&mut self, path: &mut Path, now: Instant, departure: &Departure<Segment>) {
        let Packet { payload, length, ecn, flipped_bit, .. } = departure.packet;
        let count = u64::from(length.segments());
        match payload {
            // Discarded: the checksum is wrong.
            Segment::Data { .. } if flipped_bit.is_some() => self.corrupted += count,
            Segment::Ack(_) if flipped_bit.is_some() => {}
            Segment::Data { transmission, first } => {
                let offset = u64::from(length.offset_bytes() / u32::from(self.settings.mss_bytes));
                let arrival = Arrival {
                    transmission: transmission + offset,
                    first: first + offset,
                    count,
                    congested: ecn == Ecn::Congested,
                };
                if let Some(ack) = self.receiver.receive(now, arrival) {
                    self.answer(path, now, ack);
                }
            }
            Segment::Ack(ack) => {
                self.sender.acknowledge(now, ack);
                self.send(path, now);
            }
        }
    }

    fn send(&mut self, path: &mut Path, now: Instant) {
        while let Some(packet) = self.sender.send(now) {
            path.net.arrive(now, (path.there[0], 0), packet);
        }
    }

    fn answer(&self, path: &mut Path, now: Instant, ack: Ack) {
        let length = Length::packet(self.settings.header_bytes.into());
        path.net.arrive(now, (path.back[0], 0), Packet::new(Segment::Ack(ack), length));
    }
}
