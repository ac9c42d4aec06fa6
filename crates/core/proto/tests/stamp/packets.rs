//! Packets of both ends, in both modes.

use fabricmark_proto::stamp::{
    AUTHENTICATED_BYTES, Key, PACKET_BYTES, PacketError, ReflectorPacket, SenderPacket, Timestamp,
};
use proptest::prelude::*;

fn key() -> Key {
    Key::new(&[0x0b; 32]).unwrap()
}

const ASKED: SenderPacket = SenderPacket {
    sequence: 7,
    sent: Timestamp(0x83aa_7e80_8000_0000),
    error: 0x8101,
    session: 0x1234,
};

const ANSWERED: ReflectorPacket = ReflectorPacket {
    sequence: 9,
    sent: Timestamp(0x83aa_7e80_9000_0000),
    error: 0x0102,
    session: 0x1234,
    received: Timestamp(0x83aa_7e80_8800_0000),
    sender: ASKED,
    sender_ttl: 63,
};

/// Octets from hexadecimal digits; `.` is a zero octet.
fn octets(text: &str) -> Vec<u8> {
    let digits = text.replace('.', "00").replace(|c: char| c.is_whitespace(), "");
    let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect()
}

/// As in figures 1 to 4 of RFC 8972; the HMACs were computed by Python's `hmac`.
#[test]
fn packets_have_the_octets_of_the_rfc() {
    let asked = "...07 83aa7e80 80... 8101 1234 .... .... .... .... .... .... ....";
    assert_eq!(ASKED.emit(None), octets(asked));
    let answered = "...09 83aa7e80 90... 0102 1234  83aa7e80 88...
        ...07 83aa7e80 80... 8101 ..  3f ...";
    assert_eq!(ANSWERED.emit(None), octets(answered));
    let asked = "...07 .... .... .... 83aa7e80 80... 8101 1234
        .... .... .... .... .... .... .... .... .... .... .... .... .... .... .... .... ....
        ef1d64e5e0fc1306da6eab9fed6989e9";
    assert_eq!(ASKED.emit(Some(&key())), octets(asked));
    let answered = "...09 .... .... .... 83aa7e80 90... 0102 1234 ....
        83aa7e80 88... .... ....  ...07 .... .... .... 83aa7e80 80... 8101 .. ....
        3f... .... .... .... 5340569f1e6f152eaae5f68b9a4cef2e";
    assert_eq!(ANSWERED.emit(Some(&key())), octets(answered));
}

#[test]
fn what_is_emitted_is_parsed() {
    for key in [None, Some(&key())] {
        assert_eq!(SenderPacket::parse(&ASKED.emit(key), key), Ok(ASKED));
        assert_eq!(ReflectorPacket::parse(&ANSWERED.emit(key), key), Ok(ANSWERED));
    }
}

#[test]
fn missing_octets_are_zero_down_to_the_shortest_packets_of_twamp_light() {
    let asked = ASKED.emit(None);
    let without_session = SenderPacket { session: 0, ..ASKED };
    assert_eq!(SenderPacket::parse(&asked[..14], None), Ok(without_session));
    assert_eq!(SenderPacket::parse(&asked[..13], None), Err(PacketError::Short(13)));
    let answered = ANSWERED.emit(None);
    assert_eq!(ReflectorPacket::parse(&answered[..41], None), Ok(ANSWERED));
    assert_eq!(ReflectorPacket::parse(&answered[..40], None), Err(PacketError::Short(40)));
}

#[test]
fn a_packet_of_another_key_or_without_one_is_forged_and_half_of_one_is_short() {
    let other = Key::new(b"other").unwrap();
    let asked = ASKED.emit(Some(&other));
    assert_eq!(SenderPacket::parse(&asked, Some(&key())), Err(PacketError::Forged));
    let plain = [&ASKED.emit(None)[..], &[0; AUTHENTICATED_BYTES - PACKET_BYTES]].concat();
    assert_eq!(SenderPacket::parse(&plain, Some(&key())), Err(PacketError::Forged));
    assert_eq!(SenderPacket::parse(&asked[..111], Some(&other)), Err(PacketError::Short(111)));
}

#[test]
fn a_key_of_no_octets_is_none() {
    assert!(Key::new(&[]).is_none());
}

proptest! {
    #[test]
    fn one_wrong_bit_in_an_authenticated_packet_is_found(at in 0..AUTHENTICATED_BYTES, bit in 0u8..8) {
        let mut octets = ASKED.emit(Some(&key()));
        octets[at] ^= 1 << bit;
        prop_assert_eq!(SenderPacket::parse(&octets, Some(&key())), Err(PacketError::Forged));
    }

    #[test]
    fn no_octets_make_the_parsers_panic(octets: Vec<u8>) {
        for key in [None, Some(&key())] {
            let _ = SenderPacket::parse(&octets, key);
            if let Ok(answer) = ReflectorPacket::parse(&octets, key) {
                let _ = answer.turnaround_ns();
            }
        }
    }
}
