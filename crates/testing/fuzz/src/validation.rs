//! Address validation when a flow of datagrams opens.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use fabricmark_proto::{Admission, Heard, OPENING_BYTES, Opened, Opener, Opening, OpeningKind};
use fabricmark_units::{Instant, Nanos};

const WITHIN: Nanos = Nanos::from_secs(10);

/// Both ends and an attacker on the path: messages arrive late, twice, changed, truncated, at the wrong end, and from
/// any address. The first byte selects whether the client receives first. Then one byte of each pair selects an event,
/// and the other its position or duration.
pub fn validation(bytes: &[u8]) {
    let Some((&how, events)) = bytes.split_first() else { return };
    let mut world = World::new(how & 1 == 1);
    for event in events.chunks_exact(2) {
        world.happen(event[0], event[1]);
    }
}

struct World {
    now: Instant,
    hears_first: bool,
    opener: Opener,
    admission: Admission,
    /// Number of cookies that the server has made, and the last one for each address.
    cookies: u64,
    given: BTreeMap<SocketAddr, u64>,
    /// The flow at the server, once open.
    opened: Option<Opened>,
    /// Last message of each end.
    said: [u8; OPENING_BYTES],
    answered: [u8; OPENING_BYTES],
}

impl World {
    fn new(hears_first: bool) -> Self {
        let opening = Opening::new(7, 3, [5; 16]);
        Self {
            now: Instant(0),
            hears_first,
            opener: Opener::new(Instant(0), opening, WITHIN, hears_first),
            admission: Admission::new(opening),
            cookies: 0,
            given: BTreeMap::new(),
            opened: None,
            said: opening.emit(),
            answered: opening.acceptance().emit(),
        }
    }

    fn happen(&mut self, what: u8, value: u8) {
        let place = usize::from(value) % OPENING_BYTES;
        let (said, answered) = (self.said, self.answered);
        match what % 8 {
            0 => self.pass(Nanos::from_millis(4 * u64::from(value))),
            1 => self.say(),
            2 => self.arrive(value, &said),
            3 => self.said[place] ^= what >> 3,
            4 => self.come_back(&answered),
            5 => self.answered[place] ^= what >> 3,
            6 if what & 8 == 8 => self.come_back(&said),
            6 => self.arrive(value, &answered),
            _ if what & 8 == 8 => self.come_back(&answered[..place]),
            _ => self.arrive(0, &said[..place]),
        }
    }

    fn pass(&mut self, time: Nanos) {
        self.now = self.now + time;
        self.opener.on_timeout(self.now);
        assert_eq!(self.opener.deadline().is_none(), self.opener.opened().is_some());
        let is_late = self.now >= Instant(0) + WITHIN;
        assert_eq!(self.opener.is_over(self.now), is_late && self.opener.opened().is_none());
    }

    /// The client sends what is due.
    fn say(&mut self) {
        if let Some(said) = self.opener.poll_output(self.now) {
            assert!(self.opener.opened().is_none(), "it says more after the flow is open");
            self.said = said;
        }
        assert_eq!(self.opener.poll_output(self.now), None);
    }

    /// A datagram arrives at the server. The answer must not be longer, and the flow must open only for an address
    /// that has received its cookie.
    fn arrive(&mut self, host: u8, datagram: &[u8]) {
        let from = SocketAddr::from(([192, 0, 2, host], 5000));
        let (cookies, given) = (&mut self.cookies, &mut self.given);
        let heard = self.admission.on_datagram(from, datagram, || {
            *cookies += 1;
            given.insert(from, *cookies);
            Ok::<_, Infallible>(*cookies)
        });
        let Ok((answer, opened)) = heard;
        if let Some(opened) = opened {
            let heard = Opening::parse(datagram);
            let cookie = heard.filter(|heard| heard.kind == OpeningKind::Confirm);
            assert_eq!(cookie.map(|heard| heard.cookie), self.given.get(&from).copied());
            assert!(answer.is_some() && opened.is_message(datagram));
            self.opened = Some(opened);
        }
        if let Some(answer) = answer {
            assert!(answer.len() <= datagram.len());
            self.answered = answer;
        }
        let again = self.opened.and_then(|opened| opened.answer(datagram));
        assert!(again.is_none() || self.opened.is_some_and(|opened| opened.is_message(datagram)));
    }

    /// A datagram arrives at the client. The flow must not open before it is accepted.
    fn come_back(&mut self, datagram: &[u8]) {
        let was_open = self.opener.opened().is_some();
        let heard = self.opener.on_datagram(self.now, datagram);
        let is_message = Opening::parse(datagram).is_some();
        assert!(heard == Heard::Taken || (self.hears_first && !is_message));
        let confirmed = |opened: Opened| opened.is_message(datagram);
        if let (false, Some(opened)) = (was_open, self.opener.opened()) {
            assert!(heard == Heard::Payload || confirmed(opened));
        }
        assert!(self.opener.rtt() <= self.now - Instant(0));
    }
}
