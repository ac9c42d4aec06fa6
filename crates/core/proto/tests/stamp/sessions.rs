//! Whole sessions over a channel.

use std::collections::BTreeSet;

use fabricmark_proto::stamp::{
    Counts, ErrorEstimate, Ignored, Key, PacketError, Protocol, Reflector, ReflectorPacket, Sender,
    SenderPacket, Session, Timestamp, Wanted,
};
use fabricmark_units::{Instant, Nanos};
use proptest::prelude::*;

use crate::channel::{Channel, Clocks, run};

fn session() -> Session {
    Session {
        protocol: Protocol::Stamp,
        key: None,
        identifier: 77,
        wanted: Wanted::default(),
        packets: 100,
        interval: Nanos(1_000_000),
        timeout: Nanos::from_millis(100),
    }
}

/// Timestamps are truncated to a quarter of a nanosecond: a difference of two is up to 1 ns off.
fn near(found: i64, expected: i64) -> bool {
    (found - expected).abs() <= 1
}

#[test]
fn a_round_trip_leaves_out_the_time_at_the_reflector_and_its_clock() {
    let channel = Channel { delay: Nanos(1_500_000), ..Channel::CLEAN };
    let clocks = Clocks {
        reflector_ahead_ns: 7_000_000_000,
        turnaround: Nanos(40_000),
        ..Clocks::agreeing()
    };
    let key = Key::new(b"key");
    for key in [None, key] {
        let session = Session { key: key.clone(), ..session() };
        let (counts, returns) = run(session, &mut Reflector::stateless(key), channel, clocks);
        assert_eq!(counts, Counts { sent: 100, answered: 100, ..Counts::default() });
        for found in returns {
            assert!(near(found.rtt.unwrap().0.cast_signed(), 3_000_000), "{found:?}");
            let one_way = found.one_way.unwrap();
            assert!(near(one_way.forward_ns, 7_001_500_000), "{one_way:?}");
            assert!(near(one_way.backward_ns, -6_998_500_000), "{one_way:?}");
        }
    }
}

#[test]
fn one_way_differences_have_both_errors_and_are_withheld_where_no_clock_follows_utc() {
    let synchronised = ErrorEstimate::of(true, Nanos(1_000_000));
    let free = ErrorEstimate::of(false, Nanos(16_000_000_000));
    for (sender, reflector) in [(synchronised, free), (free, synchronised), (free, free)] {
        let clocks = Clocks { sender, reflector, ..Clocks::agreeing() };
        let (_, returns) = run(session(), &mut Reflector::stateless(None), Channel::CLEAN, clocks);
        let found = returns[0].one_way.map(|found| {
            let errors = sender.error() + reflector.error();
            assert_eq!(found.uncertainty, errors);
            (found.is_sender_synchronised, found.is_reflector_synchronised)
        });
        let expected = (sender, reflector) != (free, free);
        let expected = expected.then_some((sender.is_synchronised, reflector.is_synchronised));
        assert_eq!(found, expected);
        assert!(returns[0].rtt.is_some(), "a round trip needs none");
    }
}

#[test]
fn answers_of_both_extensions_and_padding_come_back_in_both_modes() {
    let wanted = Wanted { timestamp_information: true, answer_dscp: Some(46), padding_bytes: 1000 };
    for key in [None, Key::new(b"key")] {
        let session = Session { wanted, key: key.clone(), ..session() };
        let (_, returns) =
            run(session, &mut Reflector::stateful(key, 1), Channel::CLEAN, Clocks::agreeing());
        assert_eq!(returns.len(), 100);
        let information = returns[9].extensions.timestamp_information.unwrap();
        assert_eq!((information.source_in, information.method_in), (1, 2));
        let class = returns[9].extensions.class_of_service.unwrap();
        assert_eq!((class.wanted_dscp, class.dscp, class.is_refused), (46, 0, false));
        assert_eq!(returns[9].answer_sequence, 9);
    }
}

#[test]
fn a_session_of_twamp_light_is_answered_with_the_same_length() {
    let mut sender = Sender::new(
        Session {
            protocol: Protocol::TwampLight,
            key: Key::new(b"key"),
            wanted: Wanted { padding_bytes: 59, ..Wanted::default() },
            ..session()
        },
        Instant(0),
    );
    let error = ErrorEstimate::of(true, Nanos(1));
    let octets = sender.packet(Instant(0), Timestamp(9), error).unwrap();
    assert_eq!(octets.len(), 100);
    assert_eq!(octets[14..], [0; 86]);
    let answer = ReflectorPacket {
        sender: SenderPacket::parse(&octets, None).unwrap(),
        session: 0xffff,
        ..ReflectorPacket::default()
    };
    let found = sender.on_packet(Instant(1), &answer.emit(None)[..41], Timestamp(9));
    assert_eq!(found.unwrap().rtt, Some(Nanos(0)));
}

#[test]
fn what_was_not_asked_is_no_answer() {
    let mut sender = Sender::new(session(), Instant(0));
    let error = ErrorEstimate::of(true, Nanos(1));
    let octets = sender.packet(Instant(0), Timestamp(9), error).unwrap();
    let asked = SenderPacket::parse(&octets, None).unwrap();
    let right = ReflectorPacket { sender: asked, session: 77, ..ReflectorPacket::default() };
    let foreign = [
        ReflectorPacket { session: 78, ..right },
        ReflectorPacket { sender: SenderPacket { sequence: 1, ..asked }, ..right },
        ReflectorPacket { sender: SenderPacket { sent: Timestamp(8), ..asked }, ..right },
    ];
    for answer in foreign {
        let found = sender.on_packet(Instant(1), &answer.emit(None), Timestamp(9));
        assert_eq!(found, Err(Ignored::Foreign), "{answer:?}");
    }
    let short = sender.on_packet(Instant(1), &octets[..40], Timestamp(9));
    assert_eq!(short, Err(Ignored::Packet(PacketError::Short(40))));
    assert!(sender.on_packet(Instant(1), &right.emit(None), Timestamp(9)).is_ok());
    let expected = Counts { sent: 1, answered: 1, ignored: 4, ..Counts::default() };
    assert_eq!(sender.counts(), expected);
}

#[test]
fn an_answer_of_contradicting_times_has_no_round_trip() {
    let mut sender = Sender::new(session(), Instant(0));
    let error = ErrorEstimate::of(true, Nanos(1));
    let octets = sender.packet(Instant(0), Timestamp(9), error).unwrap();
    let answer = ReflectorPacket {
        sender: SenderPacket::parse(&octets, None).unwrap(),
        session: 77,
        received: Timestamp(1 << 40),
        ..ReflectorPacket::default()
    };
    let found = sender.on_packet(Instant(1), &answer.emit(None), Timestamp(9)).unwrap();
    assert_eq!(found.rtt, None);
    assert_eq!(sender.counts().implausible, 1);
}

#[test]
fn stamps_of_ptp_give_round_trips_and_no_one_way_differences() {
    let mut sender = Sender::new(session(), Instant(0));
    let error = ErrorEstimate::of(true, Nanos(1));
    let octets = sender.packet(Instant(0), Timestamp(0), error).unwrap();
    let answer = ReflectorPacket {
        sender: SenderPacket::parse(&octets, None).unwrap(),
        session: 77,
        error: ErrorEstimate { is_ptp: true, ..error }.emit(),
        received: Timestamp(5 << 32 | 999_000_000),
        sent: Timestamp(6 << 32),
        ..ReflectorPacket::default()
    };
    let received = Timestamp(1 << 30);
    let found = sender.on_packet(Instant(1), &answer.emit(None), received).unwrap();
    assert_eq!(found.rtt, Some(Nanos(249_000_000)), "a quarter of a second less a millisecond");
    assert!(found.is_ptp && found.one_way.is_none());
}

#[test]
fn answers_after_their_time_are_late_and_their_packets_stay_lost() {
    let channel = Channel { delay: Nanos::from_millis(60), ..Channel::CLEAN };
    let (counts, returns) =
        run(session(), &mut Reflector::stateless(None), channel, Clocks::agreeing());
    assert_eq!((counts.answered, counts.lost, returns.len()), (0, 100, 0));
    assert!(counts.late > 0 && counts.late <= 100, "{counts:?}");
}

#[test]
fn a_session_that_is_stopped_sends_nothing_more() {
    let mut sender = Sender::new(session(), Instant(0));
    let error = ErrorEstimate::of(true, Nanos(1));
    assert!(sender.packet(Instant(0), Timestamp(9), error).is_some());
    sender.stop();
    assert_eq!(sender.packet(Instant(1 << 40), Timestamp(9), error), None);
    assert_eq!(sender.deadline(), None);
    assert_eq!(sender.counts(), Counts { sent: 1, lost: 1, ..Counts::default() });
}

proptest! {
    #[test]
    fn every_packet_is_answered_once_or_lost_whatever_the_channel_does(
        seed: u64, loss in 0.0..0.6, duplication in 0.0..0.5, jitter in 0u64..80_000_000
    ) {
        let channel = Channel { seed, loss, duplication, jitter: Nanos(jitter), ..Channel::CLEAN };
        let (counts, returns) =
            run(session(), &mut Reflector::stateless(None), channel, Clocks::agreeing());
        prop_assert_eq!(counts.sent, 100);
        prop_assert_eq!(counts.answered + counts.lost, 100);
        prop_assert_eq!(counts.answered, returns.len() as u64);
        let distinct: BTreeSet<u32> = returns.iter().map(|found| found.sequence).collect();
        prop_assert_eq!(distinct.len(), returns.len());
        let overtaken = returns.iter().enumerate().filter(|(at, found)| {
            returns[..*at].iter().any(|earlier| earlier.sequence > found.sequence)
        });
        prop_assert_eq!(counts.reordered, overtaken.count() as u64);
        prop_assert_eq!((counts.ignored, counts.implausible), (0, 0));
        for found in returns {
            let rtt = found.rtt.unwrap().0;
            prop_assert!((1_999_999..=2_000_001 + 2 * jitter).contains(&rtt), "{}", rtt);
        }
    }
}
