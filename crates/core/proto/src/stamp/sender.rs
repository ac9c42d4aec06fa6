//! The sender's side: when to send the next packet, and what the replies say.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::extension::{Extensions, Wanted};
use super::key::Key;
use super::packet::{PacketError, ReflectorPacket, SenderPacket, base_bytes};
use super::time::{ErrorEstimate, Timestamp};

/// Protocol of the reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 8762 and RFC 8972.
    #[default]
    Stamp,
    /// TWAMP Light: no key, no session identifier, and padding in place of extensions.
    TwampLight,
}

/// Parameters of a session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Protocol of the reflector. [`Protocol::TwampLight`] ignores key, identifier and all extensions but padding.
    pub protocol: Protocol,
    /// Key shared with the reflector; `None`: unauthenticated.
    pub key: Option<Key>,
    /// Session identifier, by which reflectors and people distinguish sessions; 0: none.
    pub identifier: u16,
    /// Extensions requested in each packet.
    pub wanted: Wanted,
    /// Number of packets.
    pub packets: u32,
    /// Time between packets.
    pub interval: Nanos,
    /// How long to wait for a reply before the packet counts as lost.
    pub timeout: Nanos,
}

/// Counts of a session. A packet is in `answered` if its reply came in time, else in `lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets whose reply came in time.
    pub answered: u64,
    /// Packets without a reply in time, or dropped from the window by 1,048,576 later ones.
    pub lost: u64,
    /// Replies to packets that were already lost, and stay so.
    pub late: u64,
    /// Further replies to answered packets that have not timed out.
    pub duplicates: u64,
    /// Packets that were answered after one that was sent later (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Replies in time whose timestamps contradict each other, since a clock was set or they are false; no RTT.
    pub implausible: u64,
    /// Packets from elsewhere, damaged ones, and replies to packets that were not sent.
    pub ignored: u64,
}

/// One-way clock differences in both directions. Their sum is the RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// Arrival at the reflector minus departure here, in nanoseconds.
    pub forward_ns: i64,
    /// Arrival here minus departure at the reflector, in nanoseconds.
    pub backward_ns: i64,
    /// Largest error of both, of opposite sign: the sum of the error estimates of both ends.
    pub uncertainty: Nanos,
    /// S bit of the sender: its clock follows UTC.
    pub is_sender_synchronised: bool,
    /// S bit of the reflector.
    pub is_reflector_synchronised: bool,
}

/// Result of a reply in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Sequence number of the packet.
    pub sequence: u32,
    /// Sequence number of the reply.
    pub answer_sequence: u32,
    /// RTT without the time at the reflector, `(T4 - T1) - (T3 - T2)`, which is independent of clock offsets;
    /// `None` if either of the two would be negative.
    pub rtt: Option<Nanos>,
    /// Clock differences; `None` if neither clock follows UTC, if an end has no error estimate, or if the reflector
    /// uses PTP timestamps, which do not say whether leap seconds count (RFC 8186).
    pub one_way: Option<OneWay>,
    /// Z bit of the reflector: its timestamps are in PTP format.
    pub is_ptp: bool,
    /// TTL or hop limit of the packet at the reflector; 255: unknown.
    pub ttl: u8,
    /// Extensions of the reply.
    pub extensions: Extensions,
}

/// Why a received packet is not a reply in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// Not a packet of a reflector, or its HMAC is wrong.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Not a reply to a packet of this session.
    #[error("the packet matches no request")]
    Foreign,
    /// A further reply to a packet.
    #[error("duplicate reply")]
    Duplicate,
    /// A reply to a packet that was already lost.
    #[error("late reply")]
    Late,
}

/// State of a session.
#[derive(Debug)]
pub struct Sender {
    session: Session,
    begin: Instant,
    window: Window,
    counts: Counts,
    /// Highest sequence number that was answered.
    highest: Option<u32>,
}

impl Sender {
    /// Starts a session whose first packet departs at `begin`.
    pub fn new(session: Session, begin: Instant) -> Self {
        let session = match session.protocol {
            Protocol::Stamp => session,
            Protocol::TwampLight => Session { key: None, identifier: 0, ..session },
        };
        let timeout = session.timeout;
        let window = Window { timeout, first: 0, packets: VecDeque::new(), open: 0 };
        Self { session, begin, window, counts: Counts::default(), highest: None }
    }

    /// When to call [`Self::on_time`] and [`Self::packet`]; `None` when the session has ended, with all packets
    /// sent and each answered or lost.
    pub fn deadline(&self) -> Option<Instant> {
        let given_up = self.window.deadline().filter(|_| self.window.open > 0);
        self.next_departure().into_iter().chain(given_up).min()
    }

    fn next_departure(&self) -> Option<Instant> {
        let next = self.window.next();
        let after = Nanos(self.session.interval.0.saturating_mul(next));
        (next < u64::from(self.session.packets)).then(|| self.begin + after)
    }

    /// Counts packets that have timed out as lost. Call it at the deadline, before [`Self::packet`].
    pub fn on_time(&mut self, now: Instant) {
        self.counts.lost += self.window.give_up(now);
    }

    /// The next packet, if it is due. `sent` is its departure time, read just before, and `error` the uncertainty
    /// of that. Call it until it returns `None`: a sender that was delayed catches up.
    pub fn packet(
        &mut self,
        now: Instant,
        sent: Timestamp,
        error: ErrorEstimate,
    ) -> Option<Vec<u8>> {
        if self.next_departure()? > now {
            return None;
        }
        let (sequence, given_up) = self.window.send(now, sent, error);
        self.counts.sent += 1;
        self.counts.lost += u64::from(given_up);
        let Session { identifier, key, wanted, protocol, .. } = &self.session;
        let packet = SenderPacket { sequence, sent, error: error.emit(), session: *identifier };
        let mut octets = packet.emit(key.as_ref());
        match protocol {
            Protocol::Stamp => octets.extend(wanted.emit(sequence, key.as_ref())),
            Protocol::TwampLight => {
                let bytes = ReflectorPacket::LEAST_BYTES + usize::from(wanted.padding_bytes);
                octets.resize(bytes, 0);
            }
        }
        Some(octets)
    }

    /// Handles a received packet; `received` is its arrival time, by the clock that timestamps packets.
    pub fn on_packet(
        &mut self,
        now: Instant,
        octets: &[u8],
        received: Timestamp,
    ) -> Result<Return, Ignored> {
        self.on_time(now);
        let found = self.judge(octets, received);
        let counts = &mut self.counts;
        match &found {
            Ok(found) => {
                counts.answered += 1;
                counts.implausible += u64::from(found.rtt.is_none());
                let is_reordered = self.highest.is_some_and(|highest| found.sequence < highest);
                counts.reordered += u64::from(is_reordered);
                self.highest = self.highest.max(Some(found.sequence));
            }
            Err(Ignored::Late) => counts.late += 1,
            Err(Ignored::Duplicate) => counts.duplicates += 1,
            Err(Ignored::Packet(_) | Ignored::Foreign) => counts.ignored += 1,
        }
        found
    }

    /// Counts so far; packets in flight are only in `sent`.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Ends the session early: packets in flight count as lost, and no more are sent.
    pub fn stop(&mut self) {
        self.session.packets = 0;
        self.counts.lost += self.window.clear();
    }

    fn judge(&mut self, octets: &[u8], received: Timestamp) -> Result<Return, Ignored> {
        let key = self.session.key.as_ref();
        let answer = ReflectorPacket::parse(octets, key)?;
        // Reflectors without identifiers return 0 (RFC 8972, section 3); those of TWAMP Light return anything.
        let is_ours = answer.session == self.session.identifier
            || answer.session == 0
            || self.session.protocol == Protocol::TwampLight;
        if !is_ours {
            return Err(Ignored::Foreign);
        }
        let sent = self.window.answer(answer.sender.sequence, answer.sender.sent)?;
        let extensions = match self.session.protocol {
            Protocol::Stamp => {
                let rest = octets.get(base_bytes(key)..).unwrap_or_default();
                Extensions::parse(rest, answer.sequence, key)
            }
            Protocol::TwampLight => Extensions::default(),
        };
        Ok(Return {
            sequence: answer.sender.sequence,
            answer_sequence: answer.sequence,
            rtt: rtt(&answer, sent.0, received),
            one_way: one_way(&answer, sent, received),
            is_ptp: ErrorEstimate::is_ptp_in(answer.error),
            ttl: answer.sender_ttl,
            extensions,
        })
    }
}

fn rtt(answer: &ReflectorPacket, sent: Timestamp, received: Timestamp) -> Option<Nanos> {
    let turnaround_ns = u64::try_from(answer.turnaround_ns()).ok()?;
    let whole_ns = u64::try_from(received.since_ns(sent)).ok()?;
    whole_ns.checked_sub(turnaround_ns).map(Nanos)
}

fn one_way(answer: &ReflectorPacket, departed: Departed, received: Timestamp) -> Option<OneWay> {
    let (sent, ours) = departed;
    let theirs = ErrorEstimate::parse(answer.error).filter(|theirs| !theirs.is_ptp)?;
    (ours.is_synchronised || theirs.is_synchronised).then(|| OneWay {
        forward_ns: answer.received.since_ns(sent),
        backward_ns: received.since_ns(answer.sent),
        uncertainty: ours.error() + theirs.error(),
        is_sender_synchronised: ours.is_synchronised,
        is_reflector_synchronised: theirs.is_synchronised,
    })
}

/// Departure time of a packet, and its uncertainty.
type Departed = (Timestamp, ErrorEstimate);

/// Most packets kept, 24 octets each: a million packets a second with a time-out of a second.
const PACKETS_MAX: usize = 1 << 20;

#[derive(Debug)]
struct Packet {
    departed: Instant,
    sent: Timestamp,
    error: ErrorEstimate,
    is_answered: bool,
}

/// The latest packets of a session, by sequence number.
#[derive(Debug)]
struct Window {
    timeout: Nanos,
    /// Sequence number of the first packet kept.
    first: u64,
    packets: VecDeque<Packet>,
    /// Packets kept that have no reply yet.
    open: usize,
}

impl Window {
    /// Sequence number of the next packet.
    fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// When the oldest packet times out.
    fn deadline(&self) -> Option<Instant> {
        self.packets.front().map(|packet| packet.departed + self.timeout)
    }

    /// Drops packets that have timed out; returns how many of them had no reply.
    fn give_up(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            lost += u64::from(self.forget_first());
        }
        lost
    }

    /// Drops all packets; returns how many of them had no reply.
    fn clear(&mut self) -> u64 {
        self.first = self.next();
        self.packets.clear();
        std::mem::take(&mut self.open) as u64
    }

    /// Adds a packet; returns its sequence number, and whether an unanswered one was dropped to make room.
    fn send(&mut self, departed: Instant, sent: Timestamp, error: ErrorEstimate) -> (u32, bool) {
        let given_up = self.packets.len() >= PACKETS_MAX && self.forget_first();
        let number = self.next() as u32;
        self.open += 1;
        self.packets.push_back(Packet { departed, sent, error, is_answered: false });
        (number, given_up)
    }

    /// Marks the packet as answered whose sequence number and departure time the reflector returned; returns the
    /// recorded departure time.
    fn answer(&mut self, number: u32, sent: Timestamp) -> Result<Departed, Ignored> {
        let place = u64::from(number).checked_sub(self.first).ok_or(Ignored::Late)?;
        let packet = self.packets.get_mut(usize::try_from(place).unwrap_or(usize::MAX));
        let packet = packet.filter(|packet| packet.sent == sent).ok_or(Ignored::Foreign)?;
        if std::mem::replace(&mut packet.is_answered, true) {
            return Err(Ignored::Duplicate);
        }
        self.open -= 1;
        Ok((packet.sent, packet.error))
    }

    /// Drops the first packet; returns whether it had no reply.
    fn forget_first(&mut self) -> bool {
        let Some(packet) = self.packets.pop_front() else { return false };
        self.first += 1;
        self.open -= usize::from(!packet.is_answered);
        !packet.is_answered
    }
}
