//! A sender and a reflector joined by a channel, all in virtual time.

use std::net::SocketAddr;

use fabricmark_proto::stamp::{
    Arrival, Counts, ErrorEstimate, Reflector, Return, Sender, Session, Timestamp,
};
use fabricmark_units::{Instant, Nanos, Stream};

/// What the channel does to each packet, in both directions.
#[derive(Clone, Copy)]
pub struct Channel {
    pub seed: u64,
    /// Probabilities per packet, 0 to 1.
    pub loss: f64,
    pub duplication: f64,
    /// Shortest delay in one direction, and the most by which it is exceeded.
    pub delay: Nanos,
    pub jitter: Nanos,
}

impl Channel {
    pub const CLEAN: Self =
        Self { seed: 1, loss: 0.0, duplication: 0.0, delay: Nanos(1_000_000), jitter: Nanos(0) };
}

/// Clocks of both ends: their error estimates and their offsets from true time.
#[derive(Clone, Copy)]
pub struct Clocks {
    pub sender: ErrorEstimate,
    pub reflector: ErrorEstimate,
    pub reflector_ahead_ns: u64,
    /// Time from arrival to departure at the reflector.
    pub turnaround: Nanos,
}

impl Clocks {
    pub fn agreeing() -> Self {
        let error = ErrorEstimate::of(true, Nanos(1_000));
        Self { sender: error, reflector: error, reflector_ahead_ns: 0, turnaround: Nanos(0) }
    }
}

/// Start time, since the Unix epoch: in 2026.
const BEGIN: Nanos = Nanos(1_780_000_000_000_000_000);

fn clock(at: Instant, ahead_ns: u64) -> Timestamp {
    Timestamp::from_unix(BEGIN + Nanos(at.0 + ahead_ns))
}

/// A packet in flight: arrival time, destination and octets.
struct Passing {
    at: Instant,
    number: u64,
    at_reflector: bool,
    octets: Vec<u8>,
}

struct Way {
    channel: Channel,
    chance: Stream,
    passing: Vec<Passing>,
    passed: u64,
}

impl Way {
    fn send(&mut self, now: Instant, at_reflector: bool, octets: &[u8]) {
        if self.chance.unit() < self.channel.loss {
            return;
        }
        let copies = if self.chance.unit() < self.channel.duplication { 2 } else { 1 };
        for _ in 0..copies {
            let jitter = Nanos(self.chance.below(self.channel.jitter.0 + 1));
            let at = now + self.channel.delay + jitter;
            self.passed += 1;
            let octets = octets.to_vec();
            self.passing.push(Passing { at, number: self.passed, at_reflector, octets });
        }
    }

    fn next(&self) -> Option<usize> {
        let by_time = |&at: &usize| (self.passing[at].at, self.passing[at].number);
        (0..self.passing.len()).min_by_key(by_time)
    }
}

/// Runs a session to its end.
pub fn run(
    session: Session,
    reflector: &mut Reflector,
    channel: Channel,
    clocks: Clocks,
) -> (Counts, Vec<Return>) {
    let mut sender = Sender::new(session, Instant(0));
    let chance = Stream::new(channel.seed, "channel");
    let mut way = Way { channel, chance, passing: Vec::new(), passed: 0 };
    let mut returns = Vec::new();
    while let Some(deadline) = sender.deadline() {
        let arrived = way.next().filter(|&at| way.passing[at].at <= deadline);
        let Some(arrived) = arrived else {
            sender.on_time(deadline);
            while let Some(octets) = sender.packet(deadline, clock(deadline, 0), clocks.sender) {
                way.send(deadline, true, &octets);
            }
            continue;
        };
        let Passing { at: now, at_reflector, octets, .. } = way.passing.swap_remove(arrived);
        if at_reflector {
            let received = clock(now, clocks.reflector_ahead_ns);
            let source = SocketAddr::from(([192, 0, 2, 1], 5000));
            let arrival = Arrival { source, received, now, ttl: Some(64), traffic_class: 0 };
            let departs = now + clocks.turnaround;
            let sent = clock(departs, clocks.reflector_ahead_ns);
            let answer = reflector.answer(&octets, &arrival, sent, clocks.reflector, |_| true);
            if let Ok(answer) = answer {
                way.send(departs, false, answer.octets);
            }
        } else if let Ok(found) = sender.on_packet(now, &octets, clock(now, 0)) {
            returns.push(found);
        }
    }
    (sender.counts(), returns)
}
