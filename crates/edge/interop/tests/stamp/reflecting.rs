//! The reflector's answers, octet by octet.

use std::net::{SocketAddr, UdpSocket};
use std::time::SystemTime;

use fabricmark_interop::Guard;
use fabricmark_interop::stamp::{Key, Reflector, Served};
use fabricmark_proto::stamp::{ReflectorPacket, SenderPacket, Timestamp};
use fabricmark_units::{BitRate, Nanos};

use crate::support::{ADDRESSES, Reflecting, own_ttl, receive, socket_to};

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_unix(Nanos::from(since))
}

fn packet(sequence: u32) -> SenderPacket {
    SenderPacket { sequence, sent: now(), error: 1, session: 9 }
}

#[test]
fn an_answer_lies_between_departure_and_return_and_knows_the_ttl() {
    for address in ADDRESSES {
        let reflecting = Reflecting::start(address, Reflector::stateless(None), Guard::default());
        let socket = socket_to(reflecting.address);
        let options = socket2::SockRef::from(&socket);
        if reflecting.address.is_ipv4() {
            options.set_ttl_v4(42).unwrap();
        } else {
            options.set_unicast_hops_v6(42).unwrap();
        }
        let asked = packet(3);
        socket.send(&asked.emit(None)).unwrap();
        let answer = ReflectorPacket::parse(&receive(&socket), None).unwrap();
        assert_eq!((answer.sequence, answer.session, answer.sender), (3, 9, asked));
        assert_eq!(answer.sender_ttl, 42, "{address}");
        assert!(answer.received.since_ns(asked.sent) >= 0);
        assert!(answer.turnaround_ns() >= 0);
        assert!(now().since_ns(answer.sent) >= 0);
        assert_eq!(reflecting.stop().answered, 1);
    }
}

#[test]
fn the_class_of_a_packet_is_seen_and_the_one_asked_for_is_that_of_the_answer() {
    for address in ADDRESSES {
        let reflecting = Reflecting::start(address, Reflector::stateless(None), Guard::default());
        let socket = socket_to(reflecting.address);
        let options = socket2::SockRef::from(&socket);
        // DSCP 46 and ECN 1.
        if reflecting.address.is_ipv4() {
            options.set_tos_v4(46 << 2 | 1).unwrap();
        } else {
            options.set_tclass_v6(46 << 2 | 1).unwrap();
        }
        let class = [0x80, 4, 0, 4, 18 << 2, 0, 0, 0];
        socket.send(&[&packet(0).emit(None)[..], &class].concat()).unwrap();
        let answer = receive(&socket);
        let expected = [0, 4, 0, 4, 18 << 2 | 46 >> 4, (46 & 15) << 4 | 1 << 2, 0, 0];
        assert_eq!(answer[44..], expected, "{address}");
        reflecting.stop();
    }
}

#[test]
fn a_short_packet_of_twamp_light_has_a_whole_answer_and_padding_comes_back() {
    for address in ADDRESSES {
        let reflecting = Reflecting::start(address, Reflector::stateless(None), Guard::default());
        let socket = socket_to(reflecting.address);
        let asked = packet(1).emit(None);
        for (asked, expected) in [
            (&asked[..13], None),
            (&asked[..14], Some(44)),
            (&asked[..41], Some(44)),
            (&[&asked[..], &[0; 1400]].concat(), Some(1444)),
        ] {
            socket.send(asked).unwrap();
            if let Some(bytes) = expected {
                assert_eq!(receive(&socket).len(), bytes);
            }
        }
        let served = reflecting.stop();
        assert_eq!((served.answered, served.short), (3, 1));
    }
}

#[test]
fn a_packet_of_another_key_or_of_none_has_no_answer() {
    let [ours, theirs] = [b"ours", b"else"].map(|key| Key::new(key).unwrap());
    let reflector = Reflector::stateless(Some(ours.clone()));
    let reflecting = Reflecting::start("127.0.0.1:0", reflector, Guard::default());
    let socket = socket_to(reflecting.address);
    socket.send(&packet(1).emit(Some(&theirs))).unwrap();
    socket.send(&packet(2).emit(None)).unwrap();
    let asked = packet(3);
    socket.send(&asked.emit(Some(&ours))).unwrap();
    let answer = ReflectorPacket::parse(&receive(&socket), Some(&ours)).unwrap();
    assert_eq!(answer.sender, asked, "the first answer is that to the third packet");
    let served = reflecting.stop();
    assert_eq!((served.answered, served.forged, served.short), (1, 1, 1));
}

#[test]
fn another_reflector_is_never_answered() {
    let reflecting = Reflecting::start("127.0.0.1:0", Reflector::stateless(None), Guard::default());
    // The same port at another address of this host.
    let other = SocketAddr::from(([127, 0, 0, 2], reflecting.address.port()));
    let other = UdpSocket::bind(other).unwrap();
    other.send_to(&packet(1).emit(None), reflecting.address).unwrap();
    let socket = socket_to(reflecting.address);
    socket.send(&packet(2).emit(None)).unwrap();
    receive(&socket);
    let served = reflecting.stop();
    assert_eq!((served.answered, served.strangers), (1, 1));
}

#[test]
fn a_client_gets_no_more_than_its_rate() {
    // One bit a second: only the initial content of the bucket can be used.
    let guard = Guard { rate_max: BitRate(1), ..Guard::default() };
    let reflecting = Reflecting::start("127.0.0.1:0", Reflector::stateless(None), guard);
    let socket = socket_to(reflecting.address);
    let long = [&packet(1).emit(None)[..], &[0; 59_956]].concat();
    socket.send(&long).unwrap();
    assert_eq!(receive(&socket).len(), 60_000);
    socket.send(&long).unwrap();
    socket.send(&packet(2).emit(None)).unwrap();
    assert_eq!(receive(&socket).len(), 44, "the second long one is beyond the rate");
    let served = reflecting.stop();
    assert_eq!((served.answered, served.over_limit), (2, 1));
}

#[test]
fn a_socket_of_both_families_answers_from_the_address_that_was_asked() {
    let guard = Guard::default();
    let reflecting = Reflecting::start("[::]:0", Reflector::stateless(None), guard);
    let port = reflecting.address.port();
    for address in ["127.0.0.1", "127.0.0.3", "::1"] {
        let target = SocketAddr::new(address.parse().unwrap(), port);
        // On a connected socket, answers from another address do not arrive.
        let socket = socket_to(target);
        socket.send(&packet(1).emit(None)).unwrap();
        let answer = ReflectorPacket::parse(&receive(&socket), None).unwrap();
        assert_eq!(answer.sender_ttl, own_ttl(target), "{address}");
    }
    reflecting.stop();
}

#[test]
fn a_reflector_that_is_stopped_ends() {
    let reflecting = Reflecting::start("127.0.0.1:0", Reflector::stateless(None), Guard::default());
    assert_eq!(reflecting.stop(), Served::default());
}
