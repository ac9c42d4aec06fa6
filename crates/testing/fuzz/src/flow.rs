//! Data flows: opening messages, datagram headers, and sequence numbers.

use fabricmark_proto::stamp::Timestamp;
use fabricmark_proto::{
    APDU_PADDED_BYTES, Apdu, DatagramHeader, NtpAnswer, Opening, Peer, ProxyHeader, Reassembly,
    SequenceTracker,
};

/// Parsing and emitting an opening gives the same bytes.
pub fn opening(bytes: &[u8]) {
    if let Some(opening) = Opening::parse(bytes) {
        assert_eq!(opening.emit(), bytes);
        let acceptance = opening.acceptance();
        assert_eq!(Opening::parse(&acceptance.emit()), Some(acceptance));
    }
}

/// Parsing and emitting an APDU gives the same bytes, but for the padding, and no APDU makes a table grow beyond its
/// bound.
pub fn apdu(bytes: &[u8]) {
    let mut peer = Peer::new();
    // The first byte of each message is its length; 255 stands for a padded one.
    let mut rest = bytes;
    while let Some((&length, more)) = rest.split_first() {
        let length = if length == 255 { APDU_PADDED_BYTES } else { usize::from(length) };
        let (message, after) = more.split_at(length.min(more.len()));
        rest = after;
        let now_ns = peer.counts().received * 1_000 + 1;
        peer.send(now_ns);
        let Ok(apdu) = Apdu::parse(message) else { continue };
        let emitted = apdu.emit(message.len() == APDU_PADDED_BYTES);
        assert_eq!(emitted.len(), message.len());
        assert_eq!(emitted[..message.len().min(25)], message[..message.len().min(25)]);
        let rtt_ns = peer.on_apdu(&apdu, now_ns + 500);
        assert!(rtt_ns.is_none_or(|ns| (0.0..=now_ns as f64 + 500.0).contains(&ns)));
    }
    let counts = peer.counts();
    assert!(counts.answered + counts.implausible + counts.unknown <= counts.received);
}

/// Whatever is said to answer a request, with the times of departure and arrival first, has a stratum and finite errors.
pub fn ntp(bytes: &[u8]) {
    let Some((times, packet)) = bytes.split_first_chunk::<16>() else { return };
    let [departed, arrived] = [&times[..8], &times[8..]]
        .map(|time| Timestamp(time.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))));
    let Ok(answer) = NtpAnswer::parse(packet, departed, arrived) else { return };
    assert!((1..16).contains(&answer.stratum));
    assert!(answer.precision_ns > 0.0 && answer.root_distance_ns >= 0.0);
}

/// A PROXY header lies within the bytes, and emitting it and parsing that gives the same header.
pub fn proxy(bytes: &[u8]) {
    let Ok(Some((header, length))) = ProxyHeader::parse(bytes) else { return };
    assert!(length <= bytes.len());
    let Some(header) = header else { return };
    let emitted = header.emit();
    assert_eq!(ProxyHeader::parse(&emitted), Ok(Some((Some(header), emitted.len()))));
}

/// Parsing and emitting a header gives the same bytes.
pub fn datagram_header(bytes: &[u8]) {
    let Some(header) = DatagramHeader::parse(bytes) else {
        assert_eq!(DatagramHeader::sequence_bits(bytes.len()), 0);
        return;
    };
    let mut written = bytes.to_vec();
    header.emit(&mut written);
    assert_eq!(written, bytes);
}

/// Every arrival counts either as unique or as a duplicate.
pub fn sequence(bytes: &[u8]) {
    let Some((&bits, bytes)) = bytes.split_first() else { return };
    let mut tracker = SequenceTracker::new(if bits & 1 == 0 { 32 } else { 64 });
    let mut arrivals = 0;
    for number in numbers(bytes) {
        tracker.arrive(number);
        arrivals += 1;
        let counts = tracker.counts();
        assert_eq!(counts.unique + counts.duplicates, arrivals);
        assert!(counts.reordered <= counts.unique);
    }
}

/// A request is complete only after as many arrivals as it has payloads, and returns its last payload's number.
pub fn reassembly(bytes: &[u8]) {
    let Some((&payloads, bytes)) = bytes.split_first() else { return };
    let payloads = u64::from(payloads) + 1;
    let mut reassembly = Reassembly::new(payloads as u32);
    let mut arrivals = 0;
    for number in numbers(bytes) {
        arrivals += 1;
        let Some(last) = reassembly.arrive(number) else { continue };
        assert!(arrivals >= payloads, "a request was whole before its payloads were there");
        assert!(payloads == 1 || (last + 1) % payloads == 0, "{last} is no last payload");
        arrivals = 0;
    }
}

/// Sequence numbers of arrivals: each byte is a signed step from the previous number; the byte 128 is followed by an
/// absolute number of eight bytes.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut number = 0u64;
    let mut rest = bytes;
    while let Some((&step, behind)) = rest.split_first() {
        rest = behind;
        match (step, behind.split_first_chunk()) {
            (128, Some((whole, behind))) => {
                number = u64::from_be_bytes(*whole);
                rest = behind;
            }
            _ => number = number.wrapping_add_signed(i64::from(step.cast_signed())),
        }
        found.push(number);
    }
    found
}
