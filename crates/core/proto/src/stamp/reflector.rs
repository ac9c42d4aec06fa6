//! The end that answers.

use std::collections::HashMap;
use std::net::SocketAddr;

use fabricmark_units::{Instant, Nanos};

use super::extension::{self, Known, Signing, TimestampInformation};
use super::key::Key;
use super::packet::{PacketError, ReflectorPacket, SenderPacket, base_bytes};
use super::time::{ErrorEstimate, Timestamp};

/// TTL of a packet whose TTL nobody could tell (RFC 5357, section 4.2.1).
const UNKNOWN_TTL: u8 = 255;

/// What is known of a packet beside its octets.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: SocketAddr,
    /// When it came, by the clock that answers are stamped with.
    pub received: Timestamp,
    /// The same by a clock that is never set, to tell sessions that have ended.
    pub now: Instant,
    /// TTL or hop limit, where it is known.
    pub ttl: Option<u8>,
    /// DSCP and ECN as the octet of the IP header has them; 0 where they are not known.
    pub traffic_class: u8,
}

/// What goes back to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The packet: as long as the one that it answers, or one without extensions where that was shorter.
    pub octets: &'a [u8],
    /// DSCP that it shall have: the one that its sender asks for, or else the one that arrived.
    pub dscp: u8,
}

/// Why a packet has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// It is none, or none of whoever has the key.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// It would begin a session, and there are as many as there may be.
    #[error("there are too many sessions")]
    Crowded,
}

/// Answers packets of STAMP and TWAMP-Light; with a key those of its holders alone, which are of STAMP.
#[derive(Debug)]
pub struct Reflector {
    key: Option<Key>,
    sessions: Option<Sessions>,
    answer: Vec<u8>,
}

impl Reflector {
    /// Without state: answers have the numbers of the packets that they answer.
    pub fn stateless(key: Option<Key>) -> Self {
        Self { key, sessions: None, answer: Vec::new() }
    }

    /// With state: the answers of a session are numbered from 0, so that its sender can tell loss on the
    /// way to the reflector from loss on the way back. Remembers so many sessions at most; one that was
    /// silent for two minutes makes room.
    pub fn stateful(key: Option<Key>, sessions_max: usize) -> Self {
        Self { key, sessions: Some(Sessions::new(sessions_max)), answer: Vec::new() }
    }

    /// The answer to a packet. `sent` is the time at which it departs, read just before, and `error`
    /// how uncertain this time and that of the arrival are.
    pub fn answer(
        &mut self,
        octets: &[u8],
        arrival: &Arrival,
        sent: Timestamp,
        error: ErrorEstimate,
    ) -> Result<Answer<'_>, Dropped> {
        let key = self.key.as_ref();
        let packet = SenderPacket::parse(octets, key)?;
        let number = match &mut self.sessions {
            None => Some(packet.sequence),
            Some(sessions) => sessions.number((arrival.source, packet.session), arrival.now),
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

/// A session that was silent for so long may be given up for a new one: senders send at least once a
/// minute.
const SILENCE: Nanos = Nanos::from_secs(120);

/// Which session a packet belongs to: its source, and the identifier in it (RFC 8972, section 3).
type Name = (SocketAddr, u16);

#[derive(Debug)]
struct Session {
    answers: u32,
    heard: Instant,
}

/// The sessions, of which there are never more than were allowed.
#[derive(Debug)]
struct Sessions {
    most: usize,
    by_name: HashMap<Name, Session>,
}

impl Sessions {
    fn new(most: usize) -> Self {
        Self { most, by_name: HashMap::new() }
    }

    /// The number of the next answer in a session, from 0; nothing for a new session where there is no
    /// room.
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
