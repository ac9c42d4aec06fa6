//! What a reflector with state remembers: how many answers each session had.

use std::collections::HashMap;
use std::net::SocketAddr;

use fabricmark_units::{Instant, Nanos};

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
pub(super) struct Sessions {
    most: usize,
    by_name: HashMap<Name, Session>,
}

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        Self { most, by_name: HashMap::new() }
    }

    /// The number of the next answer in a session, from 0; nothing for a new session where there is no
    /// room.
    pub(super) fn number(&mut self, name: Name, now: Instant) -> Option<u32> {
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
