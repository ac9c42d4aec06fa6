//! Sender and reflector of STAMP.

use std::net::SocketAddr;

use fabricmark_proto::stamp::{
    AUTHENTICATED_BYTES, Arrival, Dropped, ErrorEstimate, Key, PACKET_BYTES, PacketError, Protocol,
    Reflector, ReflectorPacket, Sender, SenderPacket, Session, Timestamp, Wanted,
};
use fabricmark_units::{Instant, Nanos};

const SENT: Timestamp = Timestamp(0xee00_0000_8000_0000);
const LATER: Timestamp = Timestamp(0xee00_0001_0000_0000);

fn key(how: u8) -> Option<Key> {
    Key::new(b"a key that the bytes cannot know").filter(|_| how & 1 == 1)
}

fn error() -> ErrorEstimate {
    ErrorEstimate::of(true, Nanos(1_000))
}

/// A reflector's answer is as long as its packet, or as the shortest answer. The first byte selects whether there is a
/// key; packets are then signed, so that their extensions are reached.
pub fn stamp_reflector(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let key = key(how);
    let octets = match (&key, SenderPacket::parse(bytes, None)) {
        (Some(_), Ok(packet)) => {
            let rest = bytes.get(PACKET_BYTES..).unwrap_or_default();
            [&packet.emit(key.as_ref()), rest].concat()
        }
        _ => bytes.to_vec(),
    };
    let least = if key.is_some() { AUTHENTICATED_BYTES } else { PACKET_BYTES };
    let mut reflector =
        if how & 2 == 2 { Reflector::stateful(key, 1) } else { Reflector::stateless(key) };
    let arrival = Arrival {
        source: SocketAddr::from(([192, 0, 2, 1], 5000)),
        received: SENT,
        now: Instant(0),
        ttl: (how & 4 == 4).then_some(64),
        traffic_class: how,
    };
    match reflector.answer(&octets, &arrival, LATER, error(), |_| true) {
        Ok(answer) => {
            assert_eq!(answer.octets.len(), octets.len().max(least));
            assert!(answer.dscp < 64);
        }
        Err(Dropped::Packet(PacketError::Short(_))) => assert!(octets.len() < least),
        Err(other) => panic!("{other}"),
    }
}

/// A sender counts each arrival once. The first byte selects whether there is a key, whether the peer speaks
/// TWAMP-Light, and which fields are corrected, so that later checks are reached.
pub fn stamp_sender(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let key = key(how);
    let protocol = if how & 2 == 2 { Protocol::TwampLight } else { Protocol::Stamp };
    let session = Session {
        protocol,
        key: key.clone(),
        identifier: 7,
        wanted: Wanted::default(),
        packets: 2,
        interval: Nanos(0),
        timeout: Nanos(1_000),
    };
    let mut sender = Sender::new(session, Instant(0));
    while sender.packet(Instant(0), SENT, error()).is_some() {}
    let mut arrivals = 0;
    for piece in bytes.chunks(256) {
        let mut octets = piece.to_vec();
        if let (4, Ok(mut answer)) = (how & 4, ReflectorPacket::parse(piece, None)) {
            let sender =
                SenderPacket { sequence: answer.sender.sequence % 2, sent: SENT, ..answer.sender };
            answer = ReflectorPacket { sender, session: 7, ..answer };
            let key = key.as_ref().filter(|_| protocol == Protocol::Stamp);
            let rest = piece.get(PACKET_BYTES..).unwrap_or_default();
            octets = [&answer.emit(key), rest].concat();
        }
        arrivals += 1;
        let at = if how & 8 == 8 { Instant(arrivals * 400) } else { Instant(1) };
        let _ = sender.on_packet(at, &octets, LATER);
        let counts = sender.counts();
        let counted = counts.answered + counts.late + counts.duplicates + counts.ignored;
        assert_eq!(counted, arrivals);
        assert!(counts.answered + counts.lost <= counts.sent && counts.sent == 2);
    }
}
