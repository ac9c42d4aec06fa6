//! The reflector's side.

use std::collections::HashMap;
use std::net::SocketAddr;

use fabricmark_units::{Instant, Nanos};

use super::extension::{self, Known, Signing, TimestampInformation};
use super::key::Key;
use super::packet::{PACKET_BYTES, PacketError, ReflectorPacket, SenderPacket, base_bytes};
use super::time::{ErrorEstimate, Timestamp};

/// TTL to report if it is unknown (RFC 5357, section 4.2.1).
const UNKNOWN_TTL: u8 = 255;

/// Metadata of a received packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Source address.
    pub source: SocketAddr,
    /// Arrival time, by the clock that timestamps replies.
    pub received: Timestamp,
    /// Arrival time by a monotonic clock, to expire sessions.
    pub now: Instant,
    /// TTL or hop limit; `None`: unknown.
    pub ttl: Option<u8>,
    /// Traffic class octet of the IP header (DSCP and ECN); 0 if unknown.
    pub traffic_class: u8,
}

/// Reply to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The packet: as long as the one received, but not shorter than one without extensions.
    pub octets: &'a [u8],
    /// DSCP of the reply: the one that the sender requests, else the one that arrived.
    pub dscp: u8,
}

/// Why a packet gets no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// It is invalid, or its HMAC is wrong.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// It would start a session beyond the limit.
    #[error("too many sessions")]
    Crowded,
    /// Its sender gets no further reply at the moment.
    #[error("too many packets")]
    OverLimit,
}

/// Answers STAMP and TWAMP Light packets; with a key only authenticated STAMP packets.
#[derive(Debug)]
pub struct Reflector {
    key: Option<Key>,
    sessions: Option<Sessions>,
    answer: Vec<u8>,
}

impl Reflector {
    /// A stateless reflector: replies repeat the sequence numbers of the packets.
    pub fn stateless(key: Option<Key>) -> Self {
        Self { key, sessions: None, answer: Vec::new() }
    }

    /// A stateful reflector: the replies of a session are numbered from 0, so that its sender can distinguish
    /// forward loss from backward loss. Keeps at most `sessions_max` sessions; one that was silent for two minutes
    /// may be replaced.
    pub fn stateful(key: Option<Key>, sessions_max: usize) -> Self {
        Self { key, sessions: Some(Sessions::new(sessions_max)), answer: Vec::new() }
    }

    /// The reply to a packet. `sent` is its departure time, read just before, and `error` the error of both times.
    /// `allows` says whether its sender may get a reply of so many octets: one that is not sent has no number.
    pub fn answer(
        &mut self,
        octets: &[u8],
        arrival: &Arrival,
        sent: Timestamp,
        error: ErrorEstimate,
        allows: impl FnOnce(usize) -> bool,
    ) -> Result<Answer<'_>, Dropped> {
        let key = self.key.as_ref();
        let packet = SenderPacket::parse(octets, key)?;
        if !allows(octets.len().max(base_bytes(key))) {
            return Err(Dropped::OverLimit);
        }
        let number = match &mut self.sessions {
            None => Some(packet.sequence),
            Some(sessions) => {
                // The padding of TWAMP-Light, which may be random, stands in the place of STAMP's identifier and zeros.
                let zeros = octets.get(SESSION_END..PACKET_BYTES);
                let is_stamp =
                    key.is_some() || zeros.is_some_and(|zeros| zeros.iter().all(|&z| z == 0));
                let session = if is_stamp { packet.session } else { 0 };
                sessions.number((arrival.source, session), arrival.now)
            }
        };
        let sequence = number.ok_or(Dropped::Crowded)?;
        let answer = ReflectorPacket {
            sequence,
            sent,
            error: error.emit(),
            session: packet.session,
            received: arrival.received,
            sender: packet,
            sender_ttl: arrival.ttl.unwrap_or(UNKNOWN_TTL),
        };
        self.answer.clear();
        self.answer.extend(answer.emit(key));
        let base = base_bytes(key);
        self.answer.extend(octets.get(base..).unwrap_or_default());

        let (dscp, ecn) = (arrival.traffic_class >> 2, arrival.traffic_class & 3);
        let timestamp_information = TimestampInformation::of_software(error.is_synchronised);
        let known = Known { timestamp_information, dscp, ecn };
        let signing = key.map(|key| Signing { key, asked: packet.sequence, answered: sequence });
        let wanted = extension::answer(&mut self.answer[base..], &known, signing);
        Ok(Answer { octets: &self.answer, dscp: wanted.unwrap_or(dscp) })
    }
}

/// Length of a packet of STAMP up to its session identifier; zeros follow (RFC 8972, section 3).
const SESSION_END: usize = 16;

/// Silence after which a session may be replaced by a new one: senders send at least once a minute.
const SILENCE: Nanos = Nanos::from_secs(120);

/// Identity of a session: source address and session identifier (RFC 8972, section 3).
type Name = (SocketAddr, u16);

#[derive(Debug)]
struct Session {
    answers: u32,
    heard: Instant,
}

/// Sessions, at most `most`.
#[derive(Debug)]
struct Sessions {
    most: usize,
    by_name: HashMap<Name, Session>,
}

impl Sessions {
    fn new(most: usize) -> Self {
        Self { most, by_name: HashMap::new() }
    }

    /// Sequence number of the next reply in a session, from 0; `None` for a new session beyond the limit.
    fn number(&mut self, name: Name, now: Instant) -> Option<u32> {
        if !self.by_name.contains_key(&name) && self.by_name.len() >= self.most {
            self.by_name.retain(|_, session| now - session.heard < SILENCE);
            if self.by_name.len() >= self.most {
                return None;
            }
        }
        let session = self.by_name.entry(name).or_insert(Session { answers: 0, heard: now });
        session.heard = now;
        let number = session.answers;
        session.answers = number.wrapping_add(1);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_apart_and_a_silent_one_makes_room() {
        let mut sessions = Sessions::new(2);
        let source: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        let at = |s: u64| Instant(0) + Nanos::from_secs(s);
        assert_eq!(sessions.number((source, 1), at(0)), Some(0));
        assert_eq!(sessions.number((source, 1), at(60)), Some(1));
        assert_eq!(sessions.number((source, 2), at(60)), Some(0));
        assert_eq!(sessions.number((source, 3), at(100)), None, "two is all there may be");
        assert_eq!(sessions.number((source, 2), at(150)), Some(1));
        assert_eq!(
            sessions.number((source, 3), at(180)),
            Some(0),
            "the first was silent for 120 s"
        );
        assert_eq!(sessions.number((source, 2), at(180)), Some(2));
    }
}
