//! Both ends of a datagram flow's handshake, joined in virtual time by a channel that loses, duplicates and delays.

use std::convert::Infallible;
use std::net::SocketAddr;

use fabricmark_proto::{Admission, Heard, OPENING_BYTES, Opened, Opener, Opening, OpeningKind};
use fabricmark_units::{Instant, Nanos};
use proptest::prelude::*;

const WITHIN: Nanos = Nanos::from_secs(60);
const COOKIE: u64 = 0x1234;

fn opening() -> Opening {
    Opening::new(7, 3, [5; 16])
}

fn at(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 5000))
}

/// Reply of an admission to a datagram.
fn say(
    admission: &mut Admission,
    from: SocketAddr,
    datagram: &[u8],
    cookie: u64,
) -> (Option<[u8; OPENING_BYTES]>, Option<Opened>) {
    admission.on_datagram(from, datagram, || Ok::<_, Infallible>(cookie)).unwrap()
}

/// Fate of a datagram: delays of its copies in milliseconds.
type Fate = Vec<u64>;

struct World {
    now: Instant,
    opener: Opener,
    admission: Admission,
    /// The server's flow, once it is open.
    answering: Option<Opened>,
    /// Datagrams in flight: arrival time, whether to the server, and content.
    under_way: Vec<(Instant, bool, [u8; OPENING_BYTES])>,
    fates: std::vec::IntoIter<Fate>,
    /// Bytes that the server has sent and received before its flow was open.
    sent_received: (usize, usize),
}

impl World {
    fn new(fates: Vec<Fate>) -> Self {
        Self {
            now: Instant(1),
            opener: Opener::new(Instant(1), opening(), WITHIN, false),
            admission: Admission::new(opening()),
            answering: None,
            under_way: Vec::new(),
            fates: fates.into_iter(),
            sent_received: (0, 0),
        }
    }

    /// A datagram without a given fate arrives after a millisecond.
    fn send(&mut self, does_answer: bool, datagram: [u8; OPENING_BYTES]) {
        for delay in self.fates.next().unwrap_or_else(|| vec![1]) {
            let arrives = self.now + Nanos::from_millis(delay);
            self.under_way.push((arrives, does_answer, datagram));
        }
    }

    fn arrive(&mut self, does_answer: bool, datagram: &[u8]) {
        if !does_answer {
            assert_eq!(self.opener.on_datagram(self.now, datagram), Heard::Taken);
            return;
        }
        let answer = match self.answering {
            Some(opened) => opened.answer(datagram),
            None => {
                let (answer, opened) = say(&mut self.admission, at(1), datagram, COOKIE);
                self.answering = opened;
                self.sent_received.0 += answer.map_or(0, |answer| answer.len());
                self.sent_received.1 += datagram.len();
                answer
            }
        };
        if let Some(answer) = answer {
            self.send(false, answer);
        }
    }

    /// Runs until nothing more happens by itself, or the client gives up.
    fn drive(&mut self) {
        loop {
            while let Some(datagram) = self.opener.poll_output(self.now) {
                self.send(true, datagram);
            }
            let arrival = self.under_way.iter().map(|&(arrives, ..)| arrives).min();
            let next = arrival.into_iter().chain(self.opener.deadline()).min();
            let Some(next) = next.filter(|_| !self.opener.is_over(self.now)) else { return };
            self.now = self.now.max(next);
            self.opener.on_timeout(self.now);
            let place = self.under_way.iter().position(|&(arrives, ..)| arrives <= self.now);
            if let Some(place) = place {
                let (_, does_answer, datagram) = self.under_way.swap_remove(place);
                self.arrive(does_answer, &datagram);
                let (sent, received) = self.sent_received;
                assert!(sent <= received, "{sent} bytes sent for {received}");
            }
        }
    }
}

proptest! {
    #[test]
    fn messages_that_are_lost_repeated_or_late_leave_both_ends_open(
        fates in prop::collection::vec(prop::collection::vec(0u64..3_000, 0..3), 0..20),
    ) {
        let mut world = World::new(fates);
        world.drive();
        let opened = world.opener.opened();
        prop_assert!(opened.is_some(), "the client is not open at {:?}", world.now);
        prop_assert_eq!(opened, world.answering);
    }

    #[test]
    fn no_datagrams_open_a_flow_without_the_cookie(
        datagrams in prop::collection::vec((any::<u16>(), any::<u64>()), 0..50),
    ) {
        let mut admission = Admission::new(opening());
        for (kind, cookie) in datagrams {
            prop_assume!(cookie != COOKIE);
            let mut datagram = Opening { cookie, ..opening() }.emit();
            datagram[6..8].copy_from_slice(&(kind % 6).to_be_bytes());
            let (_, opened) = say(&mut admission, at(1), &datagram, COOKIE);
            prop_assert_eq!(opened, None);
        }
    }
}

#[test]
fn a_sound_channel_opens_a_flow_with_two_messages_from_each_end() {
    let mut world = World::new(vec![vec![300], vec![300], vec![300], vec![300]]);
    world.opener = Opener::new(world.now, opening(), WITHIN, false);
    world.drive();
    assert_eq!(world.opener.opened(), world.answering);
    assert!(world.answering.is_some());
    let mut quick = World::new(Vec::new());
    quick.drive();
    assert_eq!(quick.now, Instant(1) + Nanos::from_millis(4));
    assert_eq!(quick.opener.rtt(), Nanos::from_millis(2));
    assert_eq!(quick.sent_received, (2 * OPENING_BYTES, 2 * OPENING_BYTES));
}

#[test]
fn a_starting_end_that_hears_nothing_gives_up_in_time() {
    let mut world = World::new(vec![Vec::new(); 1_000]);
    world.drive();
    assert_eq!((world.opener.opened(), world.now), (None, Instant(1) + WITHIN));
    assert_eq!(world.answering, None);
    // Retransmissions after 50, 100, ... 800 ms, then every second.
    assert_eq!(1_000 - world.fates.len(), 64);
}

#[test]
fn the_cookie_of_one_address_opens_no_flow_to_another() {
    let mut admission = Admission::new(opening());
    let (accept, _) = say(&mut admission, at(1), &opening().emit(), 11);
    let accept = Opening::parse(&accept.unwrap()).unwrap();
    assert_eq!((accept.kind, accept.cookie), (OpeningKind::Accept, 11));
    let confirm = Opening { kind: OpeningKind::Confirm, ..accept }.emit();
    assert_eq!(say(&mut admission, at(2), &confirm, 22), (None, None));
    // Nor if that address has a cookie of its own.
    assert!(say(&mut admission, at(2), &opening().emit(), 22).0.is_some());
    assert_eq!(say(&mut admission, at(2), &confirm, 22), (None, None));
    assert!(say(&mut admission, at(1), &confirm, 11).1.is_some());
}

#[test]
fn more_addresses_than_are_remembered_only_make_the_oldest_open_again() {
    let mut admission = Admission::new(opening());
    for host in 1..=17 {
        say(&mut admission, at(host), &opening().emit(), host.into());
    }
    let confirm = |cookie| Opening { kind: OpeningKind::Confirm, cookie, ..opening() }.emit();
    assert_eq!(say(&mut admission, at(1), &confirm(1), 0), (None, None));
    assert!(say(&mut admission, at(2), &confirm(2), 0).1.is_some());
}

#[test]
fn what_is_no_opening_of_this_flow_is_not_answered() {
    let mut admission = Admission::new(opening());
    for stranger in [
        Opening { token: [6; 16], ..opening() },
        Opening { run: 8, ..opening() },
        Opening { flow: 2, ..opening() },
        opening().acceptance(),
    ] {
        assert_eq!(say(&mut admission, at(1), &stranger.emit(), COOKIE), (None, None));
    }
    assert_eq!(say(&mut admission, at(1), b"GET / HTTP/1.1", COOKIE), (None, None));
}

#[test]
fn the_first_payload_of_an_end_that_does_not_listen_confirms_what_was_lost() {
    for hears_first in [true, false] {
        let mut opener = Opener::new(Instant(0), opening(), WITHIN, hears_first);
        let accept = Opening { cookie: COOKIE, ..opening().acceptance() }.emit();
        // Nothing is confirmed before the cookie has arrived.
        assert_eq!(opener.on_datagram(Instant(1), &[0; 64]), Heard::Taken);
        assert_eq!(opener.opened(), None);
        assert_eq!(opener.on_datagram(Instant(2), &accept), Heard::Taken);
        let heard = opener.on_datagram(Instant(3), &[0; 64]);
        assert_eq!(heard, if hears_first { Heard::Payload } else { Heard::Taken });
        assert_eq!(opener.opened().is_some(), hears_first);
    }
}

#[test]
fn an_open_flow_knows_the_messages_of_its_opening_by_their_beginnings() {
    let mut world = World::new(Vec::new());
    world.drive();
    let opened = world.answering.unwrap();
    let message = |kind| Opening { kind, cookie: COOKIE, ..opening() }.emit();
    for kind in
        [OpeningKind::Open, OpeningKind::Accept, OpeningKind::Confirm, OpeningKind::Confirmed]
    {
        for bytes in [9, 16, 17, OPENING_BYTES] {
            assert!(opened.is_message(&message(kind)[..bytes]), "{kind:?} {bytes}");
            let answer = (kind == OpeningKind::Confirm).then(|| message(OpeningKind::Confirmed));
            assert_eq!(opened.answer(&message(kind)[..bytes]), answer, "{kind:?} {bytes}");
        }
    }
    assert!(!opened.is_message(&[0; OPENING_BYTES]));
    assert!(!opened.is_message(b""));
    assert!(!opened.is_message(&Opening { token: [6; 16], ..opening() }.emit()));
}
