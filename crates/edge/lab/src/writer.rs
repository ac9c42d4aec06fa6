//! Writes packets to a device. Consecutive segments of a super-packet are joined, as an adapter with GRO does; those of a
//! fast link are held for a short time, as an adapter with interrupt coalescing does.

use std::io;

use fabricmark_link::{Departure, Length, Packet};
use fabricmark_units::{Instant, Nanos};

use crate::emulator::clock;
use crate::path::Traffic;
use crate::pool::Slice;
use crate::segment;
use crate::tun::Tun;

/// A segment is held if the next one follows within this time, an arbitrary choice: the time of 1,538 bytes at 3.1 Gbit/s.
const GAP: Nanos = Nanos(4_000);

/// Longest time for which a segment is held, as with `rx-usecs` of ethtool(8): a super-packet of 64 KiB takes 54 us at 10
/// Gbit/s. With 20 us the rate was the same as without (docs/notebook/measured.md).
const HOLD: Nanos = Nanos(60_000);

/// What is to be written to one device.
#[derive(Default)]
pub(crate) struct Writer {
    /// A packet that the next one may continue.
    waiting: Option<Departure<Slice>>,
    /// When each segment that was joined to it was due.
    joined: Vec<Instant>,
    /// Buffer for packets with a flipped bit.
    scratch: Vec<u8>,
}

impl Writer {
    /// Writes a packet, or lets it wait for its continuation until [`Self::flush`] at the latest.
    pub(crate) fn write(&mut self, departure: Departure<Slice>, to: &Tun, traffic: &mut Traffic) {
        if let Some(waiting) = &mut self.waiting
            && let Some(length) = joined_length(&waiting.packet, &departure.packet)
        {
            waiting.packet.length = length;
            self.joined.push(departure.at);
            return;
        }
        self.flush(to, traffic);
        let may_continue = departure.packet.length.header_bytes() > 0;
        self.waiting = Some(departure);
        if !may_continue {
            self.flush(to, traffic);
        }
    }

    /// Until when the packet that waits may be held for its continuation.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        Some(self.waiting.as_ref()?.at + HOLD)
    }

    /// Whether the packet that waits is held at `now` for a continuation that leaves at `next`, the next departure.
    pub(crate) fn holds(&self, now: Instant, next: Option<Instant>) -> bool {
        let Some(Departure { at, packet, .. }) = &self.waiting else { return false };
        let is_in_time = |next: Instant| next <= now + GAP && next <= *at + HOLD;
        now < *at + HOLD
            && next.is_some_and(is_in_time)
            && !packet.payload.with(|whole| segment::is_end(whole, packet))
    }

    /// Writes the packet that waits, and counts the result.
    pub(crate) fn flush(&mut self, to: &Tun, traffic: &mut Traffic) {
        let Some(Departure { at, packet, .. }) = self.waiting.take() else { return };
        // The write includes what the kernel of the receiving host does with the packet, which takes longer if it wakes a
        // CPU.
        let now = clock();
        match self.write_now(&packet, to, &mut traffic.pieces) {
            Ok(()) => traffic.departed += packet.length.into(),
            Err(_) => traffic.refused += packet.length.into(),
        }
        for due in self.joined.drain(..).chain([at]) {
            traffic.lateness.record((now - due).0);
        }
    }

    fn write_now(&mut self, packet: &Packet<Slice>, to: &Tun, pieces: &mut u64) -> io::Result<()> {
        packet.payload.with(|whole| {
            let piece = segment::piece(whole, packet);
            *pieces += u64::from(piece.is_some());
            let (headers, payload) = match &piece {
                Some(piece) => (piece.headers(), &whole[piece.payload.clone()]),
                None => (whole, &[][..]),
            };
            let Some(bit) = packet.flipped_bit else { return to.write(headers, payload) };
            self.scratch.clear();
            self.scratch.extend_from_slice(headers);
            self.scratch.extend_from_slice(payload);
            segment::flip(&mut self.scratch, bit);
            to.write(&self.scratch, &[])
        })
    }
}

/// Length of a packet and the next one if an adapter would join them: they are consecutive segments of a super-packet,
/// with the same marks.
fn joined_length(packet: &Packet<Slice>, next: &Packet<Slice>) -> Option<Length> {
    let is_alike = packet.payload.is(&next.payload)
        && packet.ecn == next.ecn
        && [packet, next].iter().all(|packet| packet.flipped_bit.is_none());
    packet.length.joined(next.length).filter(|_| is_alike)
}

#[cfg(test)]
mod tests {
    use std::iter::from_fn;

    use fabricmark_link::{Ecn, LinkOptions};

    use super::*;
    use crate::offload::Transport;
    use crate::path::Path;
    use crate::path::tests::train;
    use crate::pool::Pool;

    #[test]
    fn segments_are_joined_that_follow_each_other_with_the_same_marks_and_right_bits() {
        let mut segments = Vec::new();
        train().segment(|segment| segments.push(segment));
        let [one, two, three] = &segments[..] else { panic!("{segments:?}") };
        let segments_of = |one: &Packet<Slice>, two: &Packet<Slice>| {
            joined_length(one, two).map(Length::segments)
        };
        assert_eq!([segments_of(one, two), segments_of(one, three)], [Some(2), None]);
        let marked = |packet: &Packet<Slice>| Packet { ecn: Ecn::Congested, ..packet.clone() };
        assert_eq!(segments_of(&marked(one), two), None);
        assert_eq!(segments_of(&marked(one), &marked(two)), Some(2));
        assert_eq!(segments_of(one, &Packet { flipped_bit: Some(9), ..two.clone() }), None);
        let other = train();
        assert_eq!(segments_of(one, &Packet { payload: other.payload, ..two.clone() }), None);
    }

    #[test]
    fn a_segment_is_held_while_its_continuation_follows_at_once_and_for_a_short_time() {
        let whole = segment::tests::train(Transport::Tcp, false, 1460, &[0; 4000], 0);
        let read = |bytes: &mut [u8]| {
            bytes[..whole.len()].copy_from_slice(&whole);
            Ok(Some(whole.len()))
        };
        let slice = Pool::default().fill(read).unwrap().unwrap();
        let at = Instant(1_000);
        let mut path = Path::new("p".to_owned(), LinkOptions::default(), None, 1, true).unwrap();
        path.arrive(at, slice);
        let segments: Vec<_> = from_fn(|| path.next(at)).collect();
        assert_eq!(segments.len(), 3);
        let waiting = |segment: usize| Writer {
            waiting: Some(segments[segment].clone()),
            ..Writer::default()
        };
        let soon = Some(at + GAP);
        assert!(waiting(0).holds(at, soon));
        assert!(!waiting(0).holds(at, None), "nothing follows");
        assert!(!waiting(0).holds(at, Some(at + GAP + Nanos(1))), "it follows later");
        assert!(waiting(0).holds(at + GAP, Some(at + GAP + GAP)));
        assert!(!waiting(0).holds(at + HOLD, Some(at + HOLD)), "it has waited long enough");
        assert!(!waiting(2).holds(at, soon), "it is the last one");
        assert_eq!(waiting(0).held_until(), Some(at + HOLD));
        assert!(!Writer::default().holds(at, soon));
    }
}
