//! Data flows: opening messages, datagram headers, and sequence numbers.

use fabricmark_proto::{DatagramHeader, Opening, Reassembly, SequenceTracker};

/// Parsing and emitting an opening gives the same bytes.
pub fn opening(bytes: &[u8]) {
    if let Some(opening) = Opening::parse(bytes) {
        assert_eq!(opening.emit(), bytes);
        let acceptance = opening.acceptance();
        assert_eq!(Opening::parse(&acceptance.emit()), Some(acceptance));
    }
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
