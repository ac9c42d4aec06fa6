//! Payload verification: each payload has contents of its own, so that one that is changed, missing, mixed with
//! another or misplaced is detected.

use std::io;
use std::ops::Range;

use fabricmark_rdma::Region;

/// Spreads neighbouring numbers over all bits: 2^64 divided by the golden ratio, odd (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

const WORD: usize = size_of::<u64>();

/// Bytes that are filled or verified at once: a payload may have 1 GiB.
const PIECE: usize = 64 << 10;

/// Fills and verifies payloads.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    expected: Vec<u8>,
    found: Vec<u8>,
}

/// Bytes of payload `number` from byte `from` on: words of 8 bytes, each determined by the payload's number and the
/// word's position.
fn fill(bytes: &mut [u8], number: u64, from: usize) {
    let mixed = number.wrapping_add(1).wrapping_mul(GOLDEN);
    for (place, word) in bytes.chunks_mut(WORD).enumerate() {
        let place = (from / WORD + place) as u64;
        let value = mixed.rotate_left(32) ^ place.wrapping_mul(GOLDEN);
        word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
    }
}

/// Byte ranges of the pieces of a payload.
fn pieces(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    (0..bytes).step_by(PIECE).map(move |from| from..bytes.min(from + PIECE))
}

impl Verifier {
    /// Fills a part of a region with payload `number`.
    pub(super) fn fill(&mut self, region: &mut Region, part: Range<usize>, number: u64) {
        for piece in pieces(part.len()) {
            self.expected.resize(piece.len(), 0);
            fill(&mut self.expected, number, piece.start);
            region.write(part.start + piece.start, &self.expected);
        }
    }

    /// Fails if a part of a region does not contain payload `number`.
    pub(super) fn check(
        &mut self,
        region: &Region,
        part: Range<usize>,
        number: u64,
    ) -> io::Result<()> {
        for piece in pieces(part.len()) {
            self.expected.resize(piece.len(), 0);
            fill(&mut self.expected, number, piece.start);
            self.found.resize(piece.len(), 0);
            region.read(part.start + piece.start, &mut self.found);
            compare(&self.expected, &self.found, number, piece.start)?;
        }
        Ok(())
    }
}

/// Compares a piece that starts at byte `from` of a payload.
fn compare(expected: &[u8], found: &[u8], number: u64, from: usize) -> io::Result<()> {
    match expected.iter().zip(found).position(|(one, other)| one != other) {
        None => Ok(()),
        Some(place) => {
            let message = format!(
                "payload {number} is corrupted: byte {} is {:#04x}, expected {:#04x}",
                from + place,
                found[place],
                expected[place]
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(number: u64, bytes: usize) -> Vec<u8> {
        let mut payload = vec![0; bytes];
        for piece in pieces(bytes) {
            fill(&mut payload[piece.clone()], number, piece.start);
        }
        payload
    }

    #[test]
    fn a_payload_differs_from_its_neighbours_in_each_word() {
        for bytes in [1, 8, 64, 4099] {
            for number in 0..300 {
                let (one, next) = (payload(number, bytes), payload(number + 1, bytes));
                assert!(compare(&one, &one, number, 0).is_ok());
                let words = one.chunks(8).zip(next.chunks(8));
                assert!(words.clone().all(|(one, next)| one != next), "{number} {bytes}");
            }
        }
    }

    #[test]
    fn a_payload_of_several_pieces_is_as_one_of_a_single_one() {
        let bytes = 2 * PIECE + 5;
        let mut whole = vec![0; bytes];
        fill(&mut whole, 3, 0);
        assert_eq!(payload(3, bytes), whole);
        assert_eq!(pieces(bytes).map(|piece| piece.len()).sum::<usize>(), bytes);
    }

    #[test]
    fn a_changed_byte_and_words_in_another_order_are_found() {
        let sent = payload(7, 100);
        for place in 0..100 {
            let mut arrived = sent.clone();
            arrived[place] ^= 1;
            let error = compare(&sent, &arrived, 7, 0).unwrap_err().to_string();
            assert!(error.contains(&format!("payload 7 is corrupted: byte {place} ")), "{error}");
        }
        let mut arrived = sent.clone();
        arrived[..16].rotate_left(8);
        assert!(compare(&sent, &arrived, 7, 0).is_err());
    }
}
