//! The sender against our reflector, and against a reflector that supports only TWAMP-Light.

use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;

use fabricmark_interop::Guard;
use fabricmark_interop::stamp::{
    Key, MeasureError, Measured, Protocol, Reflector, Session, Settings, Wanted, measure,
};
use fabricmark_proto::stamp::{ReflectorPacket, SenderPacket};
use fabricmark_units::Nanos;

use crate::support::{ADDRESSES, Reflecting, own_ttl, settings};

fn go() -> AtomicBool {
    AtomicBool::new(false)
}

fn measure_all(settings: &Settings) -> Result<Measured, MeasureError> {
    measure(settings, &go(), &mut |_| {})
}

#[test]
fn a_session_in_either_mode_finds_round_trips_ttl_and_classes_both_ways() {
    for address in ADDRESSES {
        for key in [None, Key::new(b"a key of both")] {
            let reflector = Reflector::stateful(key.clone(), 4);
            let reflecting = Reflecting::start(address, reflector, Guard::default());
            let target = reflecting.address;
            let settings = settings(target);
            let wanted =
                Wanted { timestamp_information: true, answer_dscp: Some(10), padding_bytes: 100 };
            let session = Session { key, wanted, ..settings.session };
            let settings = Settings { session, dscp: 46, ..settings };
            let mut rtts_ns = Vec::new();
            let measured = measure(&settings, &go(), &mut |ns| rtts_ns.push(ns)).unwrap();
            let counts = measured.counts;
            assert_eq!((counts.sent, counts.answered, counts.lost), (20, 20, 0), "{address}");
            assert_eq!(rtts_ns.len() as u64 + counts.implausible, 20);
            assert_eq!(measured.forward.ttl, [own_ttl(target)].into());
            assert_eq!(measured.forward.traffic_class, [46 << 2].into());
            assert_eq!(measured.backward.ttl, [own_ttl(target)].into());
            assert_eq!(measured.backward.traffic_class, [10 << 2].into());
            let information = measured.timestamp_information.unwrap();
            assert_eq!((information.method_in, information.method_out), (2, 2));
            assert_eq!(reflecting.stop().answered, 20);
        }
    }
}

#[test]
fn one_way_differences_are_there_exactly_where_the_clock_of_this_host_follows_utc() {
    let reflecting = Reflecting::start("127.0.0.1:0", Reflector::stateless(None), Guard::default());
    let settings = settings(reflecting.address);
    let wanted = Wanted { timestamp_information: true, ..Wanted::default() };
    let session = Session { wanted, ..settings.session };
    let measured = measure_all(&Settings { session, ..settings }).unwrap();
    // 1 is NTP, 5 a free-running clock: what the reflector detected.
    let follows_utc = measured.timestamp_information.unwrap().source_in == 1;
    assert_eq!(measured.one_way.is_some(), follows_utc);
    if let Some(one_way) = measured.one_way {
        assert!(one_way.is_sender_synchronised && one_way.is_reflector_synchronised);
        assert!(one_way.uncertainty > Nanos(0));
    }
    reflecting.stop();
}

#[test]
fn a_wrong_key_is_loss() {
    let reflector = Reflector::stateless(Key::new(b"ours"));
    let reflecting = Reflecting::start("127.0.0.1:0", reflector, Guard::default());
    let settings = settings(reflecting.address);
    let session = Session {
        key: Key::new(b"else"),
        packets: 3,
        timeout: Nanos::from_millis(1),
        ..settings.session
    };
    let mut rtts_ns = Vec::new();
    let settings = Settings { session, ..settings };
    let measured = measure(&settings, &go(), &mut |ns| rtts_ns.push(ns)).unwrap();
    assert_eq!((measured.counts.lost, measured.counts.answered), (3, 0));
    assert!(rtts_ns.is_empty() && measured.one_way.is_none());
    reflecting.stop();
}

#[test]
fn a_reflector_of_twamp_light_is_measured() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    // Answers as in RFC 5357: 41 octets, then the packet's padding without its first 27.
    let twamp = std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        for number in 0..20 {
            let (bytes, source) = socket.recv_from(&mut buffer).unwrap();
            let sender = SenderPacket::parse(&buffer[..bytes], None).unwrap();
            let (sent, error) = (sender.sent, sender.error);
            let answer = ReflectorPacket {
                sequence: number,
                sent,
                error,
                received: sent,
                sender,
                sender_ttl: 63,
                ..ReflectorPacket::default()
            };
            let mut octets = answer.emit(None);
            octets.resize(41, 0);
            octets.resize(bytes, 0xee);
            socket.send_to(&octets, source).unwrap();
        }
    });
    let settings = settings(target);
    let wanted = Wanted { padding_bytes: 59, ..Wanted::default() };
    let session = Session { protocol: Protocol::TwampLight, wanted, ..settings.session };
    let measured = measure_all(&Settings { session, ..settings }).unwrap();
    assert_eq!((measured.counts.answered, measured.counts.lost), (20, 0));
    assert_eq!(measured.forward.ttl, [63].into());
    twamp.join().unwrap();
}

#[test]
fn a_closed_port_is_named_with_the_remedy() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    drop(socket);
    let error = measure_all(&settings(target)).unwrap_err();
    assert!(matches!(error, MeasureError::Closed(closed) if closed == target));
    let text = format!(
        "nothing answers at UDP port {} of 127.0.0.1: start a reflector there",
        target.port()
    );
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_measurement_that_is_stopped_ends_with_what_it_has() {
    let settings = settings("127.0.0.1:9".parse().unwrap());
    let measured = measure(&settings, &AtomicBool::new(true), &mut |_| {}).unwrap();
    assert_eq!(measured.counts.sent, 0);
}
