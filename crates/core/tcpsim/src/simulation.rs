//! Two ends and the path between them, in virtual time.

use fabricmark_link::{Departure, Ecn, Invalid, Length, Packet, some};
use fabricmark_units::{Instant, Nanos};

use crate::Settings;
use crate::outcome::{Interval, Outcome};
use crate::path::{Path, Segment};
use crate::receiver::{Arrival, Receiver};
use crate::sender::{Ack, Sender};

/// Lets one connection send over `path` for `duration`, from instant 0 on. Its state is noted at the end of each `interval`; what is left of the duration is an interval, too.
///
/// An error where a setting is 0 that must not be.
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
    let (mut intervals, mut noted) =
        (Vec::new(), Noted { at: start, delivered: 0, retransmitted: 0 });
    let end = start + duration;
    while noted.at < end {
        let until = (noted.at + interval).min(end);
        ends.run(&mut path, noted.at, until);
        intervals.push(ends.note(&mut noted, until));
    }
    let Ends { sender, receiver, corrupted, .. } = ends;
    let [there, back] = path.counters();
    Ok(Outcome {
        intervals,
        ramp: sender.tally.open.map(|at| at - start),
        delivered_segments: receiver.delivered(),
        received_segments: receiver.received(),
        corrupted_segments: corrupted,
        sent_segments: sender.sent(),
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

/// Where the last interval ended.
struct Noted {
    at: Instant,
    delivered: u64,
    retransmitted: u64,
}

impl Ends<'_> {
    /// Everything that happens from `now` on until and at `until`.
    fn run(&mut self, path: &mut Path, mut now: Instant, until: Instant) {
        loop {
            while let Some(departure) = path.next(now) {
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
            // The checksum is wrong.
            Segment::Data { .. } if flipped_bit.is_some() => self.corrupted += count,
            Segment::Ack { .. } if flipped_bit.is_some() => {}
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
            Segment::Ack { from, until, expected, congested } => {
                self.sender.acknowledge(now, Ack { from, until, expected, congested });
                self.send(path, now);
            }
        }
    }

    fn send(&mut self, path: &mut Path, now: Instant) {
        while let Some(packet) = self.sender.send(now) {
            path.send(now, packet);
        }
    }

    fn answer(&self, path: &mut Path, now: Instant, ack: Segment) {
        path.answer(now, Packet::new(ack, Length::packet(self.settings.header_bytes.into())));
    }

    fn note(&self, noted: &mut Noted, until: Instant) -> Interval {
        let now = Noted {
            at: until,
            delivered: self.receiver.delivered(),
            retransmitted: self.sender.tally.retransmitted,
        };
        let delivered = now.delivered - noted.delivered;
        let interval = Interval {
            start: noted.at,
            length: until - noted.at,
            delivered_bytes: delivered * u64::from(self.settings.mss_bytes),
            retransmitted_segments: now.retransmitted - noted.retransmitted,
            cwnd_segments: self.sender.cwnd_segments(),
            in_flight_segments: self.sender.in_flight(),
            rtt: self.sender.round_trip(),
        };
        *noted = now;
        interval
    }
}
