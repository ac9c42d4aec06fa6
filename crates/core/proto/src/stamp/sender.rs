//! The end that asks: when to send the next packet, and what the answers tell.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use super::extension::{Extensions, Wanted};
use super::key::Key;
use super::packet::{PacketError, ReflectorPacket, SenderPacket, base_bytes};
use super::time::{ErrorEstimate, Timestamp};

/// What the other end speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 8762 and RFC 8972.
    #[default]
    Stamp,
    /// TWAMP-Light: no key, no session identifier, and padding in place of extensions.
    TwampLight,
}

/// What a sender shall do.
#[derive(Clone, Debug)]
pub struct Session {
    /// What the other end speaks. To [`Protocol::TwampLight`] the key, the identifier and all that is
    /// wanted but padding do not matter.
    pub protocol: Protocol,
    /// The key that the reflector has, too.
    pub key: Option<Key>,
    /// Identifier, for reflectors and people to tell sessions apart; 0 for none.
    pub identifier: u16,
    /// What is asked of the reflector in each packet.
    pub wanted: Wanted,
    /// How many packets.
    pub packets: u32,
    /// Time from one packet to the next.
    pub interval: Nanos,
    /// How long an answer is waited for; its packet counts as lost then.
    pub timeout: Nanos,
}

/// What was counted. A packet whose answer came in time is in `answered`, another one in `lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets whose answer came in time.
    pub answered: u64,
    /// Packets without an answer in time, or given up because 1,048,576 later ones were under way.
    pub lost: u64,
    /// Answers that came when their packet had been given up: it stays lost.
    pub late: u64,
    /// Answers to packets that had been answered and were not given up yet.
    pub duplicates: u64,
    /// Packets that were answered after one that was sent later (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Answers in time whose times contradict each other: a clock was set meanwhile, or they are
    /// untrue. They have no round trip.
    pub implausible: u64,
    /// Packets of others, damaged ones, and answers to nothing that was asked.
    pub ignored: u64,
}

/// Differences of the clocks of both ends on the two ways. Their sum is the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// Arrival at the reflector less departure here, in nanoseconds.
    pub forward_ns: i64,
    /// Arrival here less departure at the reflector, in nanoseconds.
    pub backward_ns: i64,
    /// By how much both may be wrong, one as much too long as the other too short: the error estimates
    /// of both ends together.
    pub uncertainty: Nanos,
    /// S of the sender: whether its clock follows UTC.
    pub is_sender_synchronised: bool,
    /// S of the reflector.
    pub is_reflector_synchronised: bool,
}

/// What one answer in time told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Number of the packet.
    pub sequence: u32,
    /// Number that the reflector gave to the answer.
    pub answer_sequence: u32,
    /// Round trip without the time at the reflector, `(T4 - T1) - (T3 - T2)`, which needs no agreement of
    /// clocks; nothing where it would be negative, or the time at the reflector.
    pub rtt: Option<Nanos>,
    /// Differences of the clocks; nothing where neither follows UTC, where an end has no error estimate,
    /// and where the reflector stamps in PTP's form, which does not say whether leap seconds count
    /// (RFC 8186).
    pub one_way: Option<OneWay>,
    /// Z of the reflector: whether it stamps in PTP's form.
    pub is_ptp: bool,
    /// TTL or hop limit that the packet had at the reflector; 255 where it could not tell.
    pub ttl: u8,
    /// What the reflector said beside.
    pub extensions: Extensions,
}

/// Why an arrival is none of an answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// Not a packet of a reflector, or of none that has the key.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// It answers nothing that was asked in this session.
    #[error("the packet answers nothing that was asked")]
    Foreign,
    /// The packet was answered before.
    #[error("the packet was answered before")]
    Duplicate,
    /// The packet had been given up.
    #[error("the answer came too late")]
    Late,
}

/// One session.
#[derive(Debug)]
pub struct Sender {
    session: Session,
    begin: Instant,
    window: Window,
    counts: Counts,
    /// The highest number that was answered.
    highest: Option<u32>,
}

impl Sender {
    /// Begins a session whose first packet departs at `begin`.
    pub fn new(session: Session, begin: Instant) -> Self {
        let session = match session.protocol {
            Protocol::Stamp => session,
            Protocol::TwampLight => Session { key: None, identifier: 0, ..session },
        };
        let timeout = session.timeout;
        let window = Window { timeout, first: 0, packets: VecDeque::new(), open: 0 };
        Self { session, begin, window, counts: Counts::default(), highest: None }
    }

    /// When there is something to do again; nothing when the session has ended, because all packets were
    /// sent and each was answered or given up.
    pub fn deadline(&self) -> Option<Instant> {
        let given_up = self.window.deadline().filter(|_| self.window.open > 0);
        self.next_departure().into_iter().chain(given_up).min()
    }

    fn next_departure(&self) -> Option<Instant> {
        let next = self.window.next();
        let after = Nanos(self.session.interval.0.saturating_mul(next));
        (next < u64::from(self.session.packets)).then(|| self.begin + after)
    }

    /// Gives up what waited too long. To be called when the deadline has come, before [`Self::packet`].
    pub fn on_time(&mut self, now: Instant) {
        self.counts.lost += self.window.give_up(now);
    }

    /// The next packet, if it is due. `sent` is the time of its departure, read just before, and `error`
    /// how uncertain that is. To be called until there is none: a sender that was kept from sending
    /// catches up.
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

    /// Takes what arrived: `received` is its time, by the clock that packets are stamped with.
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

    /// What was counted so far; packets under way are sent, and neither answered nor lost.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Ends the session early: what is under way counts as lost, and nothing is sent any more.
    pub fn stop(&mut self) {
        self.session.packets = 0;
        self.counts.lost += self.window.clear();
    }

    fn judge(&mut self, octets: &[u8], received: Timestamp) -> Result<Return, Ignored> {
        let key = self.session.key.as_ref();
        let answer = ReflectorPacket::parse(octets, key)?;
        // A reflector that does not know identifiers leaves 0 (RFC 8972, section 3); one of TWAMP-Light
        // may have anything there.
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

/// When a packet departed, and how uncertain that is.
type Departed = (Timestamp, ErrorEstimate);

/// Packets remembered at most, 24 octets each: a million packets a second that wait for a second.
const PACKETS_MAX: usize = 1 << 20;

#[derive(Debug)]
struct Packet {
    departed: Instant,
    sent: Timestamp,
    error: ErrorEstimate,
    is_answered: bool,
}

/// The last packets of a session, in the order of their numbers.
#[derive(Debug)]
struct Window {
    timeout: Nanos,
    /// Number of the first that is remembered.
    first: u64,
    packets: VecDeque<Packet>,
    /// How many of them have no answer yet.
    open: usize,
}

impl Window {
    /// The number of the next packet.
    fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// When the oldest packet is given up.
    fn deadline(&self) -> Option<Instant> {
        self.packets.front().map(|packet| packet.departed + self.timeout)
    }

    /// Gives up all that departed a timeout ago, and tells how many of them had no answer.
    fn give_up(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            lost += u64::from(self.forget_first());
        }
        lost
    }

    /// The same for whatever is left.
    fn clear(&mut self) -> u64 {
        self.first = self.next();
        self.packets.clear();
        std::mem::take(&mut self.open) as u64
    }

    /// Notes a departure; gives the number of the packet, and whether one without an answer was given up
    /// for it.
    fn send(&mut self, departed: Instant, sent: Timestamp, error: ErrorEstimate) -> (u32, bool) {
        let given_up = self.packets.len() >= PACKETS_MAX && self.forget_first();
        let number = self.next() as u32;
        self.open += 1;
        self.packets.push_back(Packet { departed, sent, error, is_answered: false });
        (number, given_up)
    }

    /// Notes an answer to the packet of this number and departure, as the reflector gives them back; gives
    /// the departure as it was here.
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

    /// Whether the first packet had no answer.
    fn forget_first(&mut self) -> bool {
        let Some(packet) = self.packets.pop_front() else { return false };
        self.first += 1;
        self.open -= usize::from(!packet.is_answered);
        !packet.is_answered
    }
}
