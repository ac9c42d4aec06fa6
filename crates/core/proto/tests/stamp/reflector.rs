//! Replies of a reflector to single packets.

use std::net::SocketAddr;

use fabricmark_proto::stamp::{
    Arrival, Dropped, ErrorEstimate, Key, PacketError, Reflector, ReflectorPacket, SenderPacket,
    Timestamp,
};
use fabricmark_units::{Instant, Nanos};
use proptest::prelude::*;

const RECEIVED: Timestamp = Timestamp(1 << 32);
const SENT: Timestamp = Timestamp(2 << 32);
const ASKED: SenderPacket =
    SenderPacket { sequence: 7, sent: Timestamp(5), error: 0x8101, session: 3 };

fn error() -> ErrorEstimate {
    ErrorEstimate::of(true, Nanos(1_000_000))
}

fn arrival() -> Arrival {
    Arrival {
        source: SocketAddr::from(([192, 0, 2, 1], 5000)),
        received: RECEIVED,
        now: Instant(0),
        ttl: Some(61),
        traffic_class: 46 << 2 | 1,
    }
}

fn answer(reflector: &mut Reflector, octets: &[u8]) -> Result<(Vec<u8>, u8), Dropped> {
    let answer = reflector.answer(octets, &arrival(), SENT, error(), |_| true)?;
    Ok((answer.octets.to_vec(), answer.dscp))
}

#[test]
fn an_answer_holds_what_arrived_and_four_facts_of_the_reflector() {
    let key = Key::new(b"key").unwrap();
    for key in [None, Some(key)] {
        let mut reflector = Reflector::stateless(key.clone());
        let (octets, dscp) = answer(&mut reflector, &ASKED.emit(key.as_ref())).unwrap();
        let expected = ReflectorPacket {
            sequence: 7,
            sent: SENT,
            error: error().emit(),
            session: 3,
            received: RECEIVED,
            sender: ASKED,
            sender_ttl: 61,
        };
        assert_eq!(octets, expected.emit(key.as_ref()));
        assert_eq!(dscp, 46, "the DSCP that arrived");
    }
}

#[test]
fn a_ttl_that_nobody_could_tell_is_255() {
    let arrival = Arrival { ttl: None, ..arrival() };
    let mut reflector = Reflector::stateless(None);
    let answer = reflector.answer(&ASKED.emit(None), &arrival, SENT, error(), |_| true).unwrap();
    assert_eq!(answer.octets[40], 255);
}

#[test]
fn a_reflector_with_state_numbers_the_answers_of_each_session() {
    let mut reflector = Reflector::stateful(None, 2);
    let mut number = |session: u16| {
        let asked = SenderPacket { session, ..ASKED };
        answer(&mut reflector, &asked.emit(None))
            .map(|(octets, _)| ReflectorPacket::parse(&octets, None).unwrap().sequence)
    };
    assert_eq!([number(1), number(1), number(2), number(1)], [Ok(0), Ok(1), Ok(0), Ok(2)]);
    assert_eq!(number(3), Err(Dropped::Crowded));
}

/// A gap in the numbers says that answers were lost on the way back.
#[test]
fn an_answer_that_is_not_allowed_has_no_number() {
    let mut reflector = Reflector::stateful(None, 2);
    let octets = ASKED.emit(None);
    let mut number = |most: usize| {
        let answer = reflector.answer(&octets, &arrival(), SENT, error(), |octets| octets <= most);
        answer.map(|answer| ReflectorPacket::parse(answer.octets, None).unwrap().sequence)
    };
    let told = [number(44), number(43), number(44)];
    assert_eq!(told, [Ok(0), Err(Dropped::OverLimit), Ok(1)]);
}

#[test]
fn a_short_packet_has_a_whole_answer_and_a_shorter_one_none() {
    let mut reflector = Reflector::stateless(None);
    let asked = ASKED.emit(None);
    let (octets, _) = answer(&mut reflector, &asked[..14]).unwrap();
    assert_eq!(octets.len(), 44);
    let short = answer(&mut reflector, &asked[..13]);
    assert_eq!(short, Err(Dropped::Packet(PacketError::Short(13))));
}

#[test]
fn packets_of_another_key_and_without_one_have_no_answer() {
    let [ours, theirs] = [b"ours", b"else"].map(|key| Key::new(key).unwrap());
    let mut reflector = Reflector::stateless(Some(ours));
    let forged = Err(Dropped::Packet(PacketError::Forged));
    assert_eq!(answer(&mut reflector, &ASKED.emit(Some(&theirs))), forged);
    let short = Err(Dropped::Packet(PacketError::Short(44)));
    assert_eq!(answer(&mut reflector, &ASKED.emit(None)), short);
}

#[test]
fn padding_of_twamp_light_comes_back_in_its_length() {
    let asked = [&ASKED.emit(None)[..], &[0; 30]].concat();
    let (octets, _) = answer(&mut Reflector::stateless(None), &asked).unwrap();
    assert_eq!(octets.len(), 74);
}

#[test]
fn random_padding_of_twamp_light_begins_no_sessions() {
    let mut reflector = Reflector::stateful(None, 1);
    for number in 0..3 {
        let mut asked = ASKED.emit(None).to_vec();
        asked[14..].fill(0x5a + number);
        let (octets, _) = answer(&mut reflector, &asked).unwrap();
        assert_eq!(octets[..4], [0, 0, 0, number]);
    }
}

#[test]
fn the_class_that_is_asked_for_is_that_of_the_answer() {
    let class = [0x80, 4, 0, 4, 18 << 2, 0, 0, 0];
    let asked = [&ASKED.emit(None)[..], &class].concat();
    let (octets, dscp) = answer(&mut Reflector::stateless(None), &asked).unwrap();
    assert_eq!(dscp, 18);
    assert_eq!(octets[44..], [0, 4, 0, 4, 18 << 2 | 46 >> 4, (46 & 15) << 4 | 1 << 2, 0, 0]);
}

proptest! {
    #[test]
    fn an_answer_is_as_long_as_its_packet_or_as_one_without_extensions(
        octets in proptest::collection::vec(any::<u8>(), 0..300)
    ) {
        let mut reflector = Reflector::stateless(None);
        match answer(&mut reflector, &octets) {
            Ok((answer, _)) => prop_assert_eq!(answer.len(), octets.len().max(44)),
            Err(_) => prop_assert!(octets.len() < 14),
        }
    }
}
