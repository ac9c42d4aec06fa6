use fabricmark_link::{Loss, Losses, Net};
use fabricmark_units::Instant;
use proptest::prelude::*;

use super::*;

/// A super-packet as Linux hands it over: the checksum field holds the sum of the pseudo-header.
pub(crate) fn train(
    transport: Transport,
    v6: bool,
    segment: u16,
    payload: &[u8],
    flags: u8,
) -> Vec<u8> {
    let internet = if v6 { 40 } else { 20 };
    // 12 bytes of options: timestamps.
    let behind = if transport == Transport::Tcp { 32 } else { 8 };
    let mut packet = vec![0; internet + behind];
    packet.extend_from_slice(payload);
    let (all, transport_bytes) = (packet.len() as u16, (behind + payload.len()) as u16);
    let protocol = if transport == Transport::Tcp { 6 } else { 17 };
    if v6 {
        packet[0] = 0x60;
        packet[1] = 0x20; // ECT(0)
        put(&mut packet, 4, all - 40);
        packet[6] = protocol;
        packet[8..40].copy_from_slice(&[0xfd; 32]);
    } else {
        (packet[0], packet[1], packet[9]) = (0x45, 2, protocol);
        put(&mut packet, 2, all);
        put(&mut packet, 4, 0xfffe);
        packet[12..20].copy_from_slice(&[10, 71, 0, 1, 10, 71, 0, 2]);
        let sum = Internet::new().with(&packet[..20]).finish();
        put(&mut packet, 10, sum);
    }
    match transport {
        Transport::Tcp => {
            packet[internet + 4..internet + 8].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
            packet[internet + 12] = 8 << 4;
            packet[internet + 13] = flags;
        }
        Transport::Udp => put(&mut packet, internet + 4, transport_bytes),
    }
    let offload = Offload::train(transport, v6, segment, internet as u16);
    let at = internet + usize::from(offload.checksum_offset);
    let sum = !pseudo(&packet, internet).finish();
    put(&mut packet, at, sum);
    [&offload.to_bytes()[..], &packet].concat()
}

/// The sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
fn pseudo(packet: &[u8], internet: usize) -> Internet {
    let transport_bytes = (packet.len() - internet) as u16;
    let (addresses, protocol) =
        if internet == 40 { (&packet[8..40], packet[6]) } else { (&packet[12..20], packet[9]) };
    Internet::new().with(addresses).with(&[0, protocol]).with(&transport_bytes.to_be_bytes())
}

/// The bytes that are written for a packet that left a net.
fn written(whole: &[u8], packet: &Packet<()>) -> Vec<u8> {
    piece(whole, packet).map_or_else(
        || whole.to_vec(),
        |piece| [piece.headers(), &whole[piece.payload.clone()]].concat(),
    )
}

/// The IP packet with its checksum computed, after checks that hold for every packet.
fn finished(bytes: &[u8]) -> Vec<u8> {
    let offload = Offload::read(bytes).unwrap();
    let mut packet = bytes[Offload::BYTES..].to_vec();
    let v6 = packet[0] >> 4 == 6;
    if v6 {
        assert_eq!(usize::from(get(&packet, 4)) + 40, packet.len());
    } else {
        assert_eq!(usize::from(get(&packet, 2)), packet.len());
        assert_eq!(Internet::new().with(&packet[..20]).finish(), 0, "header checksum");
    }
    let start = usize::from(offload.checksum_start);
    let at = start + usize::from(offload.checksum_offset);
    let sum = Internet::new().with(&packet[start..]).finish();
    put(&mut packet, at, sum);
    let all = pseudo(&packet, start).with(&packet[start..]).finish();
    assert_eq!(all, 0, "transport checksum");
    packet
}

/// Each segment alone, from a net that loses all others.
fn singles(whole: &[u8]) -> Vec<Vec<u8>> {
    let length = length(whole);
    (0..length.segments()).flat_map(|i| survivors(whole, |other| other != i)).collect()
}

/// The pieces of a super-packet that remain after the loss of some segments.
fn survivors(whole: &[u8], lost: impl Fn(u32) -> bool) -> Vec<Vec<u8>> {
    let length = length(whole);
    let trace = (0..length.segments()).map(lost).collect();
    let mut net = Net::new();
    let medium =
        net.add(Loss::new(Losses::Trace(trace), fabricmark_units::Stream::new(0, "")).unwrap());
    net.arrive(Instant(0), (medium, 0), Packet { ecn: ecn(whole), ..Packet::new((), length) });
    std::iter::from_fn(|| net.next(Instant(0))).map(|out| written(whole, &out.packet)).collect()
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_train_that_is_cut_and_joined_again_is_what_it_was(
        transport in transport(),
        v6: bool,
        segment in 500u16..9000,
        payload in prop::collection::vec(any::<u8>(), 1..40_000),
    ) {
        let whole = train(transport, v6, segment, &payload, 0x99);
        let internet = if v6 { 40 } else { 20 };
        let headers = internet + if transport == Transport::Tcp { 32 } else { 8 };
        let (mut joined, mut sequence) = (Vec::new(), 0xffff_fff0u32);
        let singles = singles(&whole);
        prop_assert_eq!(singles.len(), payload.len().div_ceil(segment.into()));
        for (i, single) in singles.iter().enumerate() {
            let packet = finished(single);
            let is_last = i + 1 == singles.len();
            prop_assert!(Offload::read(single).unwrap().transport().is_none() || singles.len() == 1);
            prop_assert_eq!(packet.len() - headers == usize::from(segment), !is_last || payload.len() % usize::from(segment) == 0);
            if !v6 {
                prop_assert_eq!(get(&packet, 4), 0xfffeu16.wrapping_add(i as u16));
            }
            match transport {
                Transport::Tcp => {
                    prop_assert_eq!(&packet[internet + 4..internet + 8], &sequence.to_be_bytes());
                    let flags = 0x10 | if is_last { 0x09 } else { 0 } | if i == 0 { 0x80 } else { 0 };
                    prop_assert_eq!(packet[internet + 13], flags);
                }
                Transport::Udp => {
                    prop_assert_eq!(usize::from(get(&packet, internet + 4)), packet.len() - internet);
                }
            }
            sequence = sequence.wrapping_add((packet.len() - headers) as u32);
            joined.extend_from_slice(&packet[headers..]);
        }
        prop_assert_eq!(joined, payload);
    }

    #[test]
    fn a_piece_of_a_train_has_the_segments_that_the_train_had(
        transport in transport(),
        v6: bool,
        segment in 500u16..2000,
        payload in prop::collection::vec(any::<u8>(), 1..20_000),
        pattern in any::<u64>(),
    ) {
        let whole = train(transport, v6, segment, &payload, 0x99);
        let is_lost = |i: u32| pattern >> (i % 64) & 1 == 1;
        let all: Vec<_> = singles(&whole).iter().map(|single| finished(single)).collect();
        let kept: Vec<_> = survivors(&whole, is_lost)
            .iter()
            .flat_map(|piece| {
                finished(piece);
                singles(piece)
            })
            .map(|single| finished(&single))
            .collect();
        let expected: Vec<_> = all
            .into_iter()
            .enumerate()
            .filter(|&(i, _)| !is_lost(i as u32))
            .map(|(_, segment)| segment)
            .collect();
        prop_assert_eq!(kept, expected);
    }

    #[test]
    fn a_mark_changes_the_codepoint_and_no_more(transport in transport(), v6: bool) {
        let whole = train(transport, v6, 1000, &[7; 5000], 0x10);
        let length = length(&whole);
        prop_assert_eq!(ecn(&whole), Ecn::Capable0);
        let marked = written(&whole, &Packet { ecn: Ecn::Congested, ..Packet::new((), length) });
        prop_assert_eq!(ecn(&marked), Ecn::Congested);
        finished(&marked);
        let differs = |&i: &usize| marked[i] != whole[i];
        let places: Vec<_> = (0..whole.len()).filter(differs).map(|i| i - Offload::BYTES).collect();
        prop_assert!(places.iter().all(|&i| i == 1 || i == 10 || i == 11), "{:?}", places);
        prop_assert_eq!(marked.len(), whole.len());
    }

    #[test]
    fn bytes_that_are_no_packet_are_one(bytes: Vec<u8>) {
        let length = length(&bytes);
        prop_assert_eq!(length.segments() == 1 || Offload::read(&bytes).is_some(), true);
        let _ = ecn(&bytes);
        let _ = piece(&bytes, &Packet { ecn: Ecn::Congested, ..Packet::new((), length) });
    }
}

#[test]
fn a_train_knows_its_headers_and_its_segments() {
    let whole = train(Transport::Tcp, true, 1428, &[0; 5000], 0x10);
    assert_eq!(length(&whole), Length::train(72, 5000, 1428));
    let whole = train(Transport::Udp, false, 1472, &[0; 5000], 0);
    assert_eq!(length(&whole), Length::train(28, 5000, 1472));
    let alone = train(Transport::Tcp, false, 1448, &[0; 100], 0x10);
    assert_eq!(length(&alone), Length::packet(152));
}

#[test]
fn a_flipped_bit_is_seen_by_the_checksum() {
    let mut bytes = train(Transport::Tcp, false, 1448, &[0; 100], 0x10);
    let right = finished(&bytes);
    flip(&mut bytes, 8 * 60 + 7);
    assert_eq!(Offload::read(&bytes), Some(Offload::default()));
    let packet = &bytes[Offload::BYTES..];
    assert_eq!((packet[60], right[60]), (1, 0));
    assert_eq!(packet[36..38], right[36..38]);
    assert_ne!(pseudo(packet, 20).with(&packet[20..]).finish(), 0);
}
