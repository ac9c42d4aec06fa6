//! A packet in a link: an opaque payload, and the fields that elements need.

/// ECN codepoint of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: the transport does not support ECN, so congestion is signalled by drops.
    #[default]
    NotCapable,
    /// ECT(0): mark instead of drop.
    Capable0,
    /// ECT(1): requests L4S marking (RFC 9331).
    Capable1,
    /// CE: a queue on the path was congested.
    Congested,
}

impl Ecn {
    /// Whether a queue may mark instead of drop.
    pub fn is_capable(self) -> bool {
        self != Self::NotCapable
    }
}

/// A packet, or a super-packet: segments that share headers until segmentation offload cuts them (up to 64 KiB).
///
/// A super-packet moves through a network as one unit and takes the wire time of its segments; loss and full queues
/// split it. `T` lets the driver find the bytes. It is cloned when a packet is split or copied and dropped with the
/// packet, so it should be reference-counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Driver data that the link never reads.
    pub payload: T,
    /// Length of the packet or of all segments.
    pub length: Length,
    /// ECN codepoint: the driver reads it from the packet and writes marks back.
    pub ecn: Ecn,
    /// Destination: an index into the route table of a switch.
    pub destination: u16,
    /// Bit to flip, counted from the first bit of the IP header; the driver flips it. Only single segments have one.
    pub flipped_bit: Option<u32>,
}

/// Length of a packet or a super-packet, in bytes of IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Length {
    header_bytes: u16,
    /// 0 if the packet was never a super-packet.
    segment_bytes: u16,
    payload_bytes: u32,
    offset_bytes: u32,
}

impl<T> Packet<T> {
    /// A Not-ECT packet to destination 0.
    pub fn new(payload: T, length: Length) -> Self {
        Self { payload, length, ecn: Ecn::default(), destination: 0, flipped_bit: None }
    }
}

impl<T: Clone> Packet<T> {
    /// Splits off the first `segments`, which must be fewer than all.
    pub(crate) fn take_first(&mut self, segments: u32) -> Self {
        let (first, rest) = self.length.split(segments);
        self.length = rest;
        Self { length: first, ..self.clone() }
    }

    /// Calls `each` with every segment, in order.
    pub fn segment(self, each: impl FnMut(Self)) {
        let mut each = each;
        self.cut(|| true, |segment, _| each(segment));
    }

    /// Calls `chosen` once per segment and `piece` once per piece, in order: each chosen segment alone with `true`,
    /// the runs between them with `false`.
    pub(crate) fn cut(
        mut self,
        mut chosen: impl FnMut() -> bool,
        mut piece: impl FnMut(Self, bool),
    ) {
        let mut spared = 0;
        for left in (0..self.length.segments()).rev() {
            if !chosen() {
                spared += 1;
                continue;
            }
            if spared > 0 {
                piece(self.take_first(spared), false);
                spared = 0;
            }
            if left == 0 {
                return piece(self, true);
            }
            piece(self.take_first(1), true);
        }
        piece(self, false);
    }
}

impl Length {
    /// One packet of `bytes`, from the first of the IP header to the last of its payload.
    pub const fn packet(bytes: u32) -> Self {
        Self { header_bytes: 0, segment_bytes: 0, payload_bytes: bytes, offset_bytes: 0 }
    }

    /// A super-packet: `payload_bytes` in segments of `segment_bytes`, each with its own `header_bytes` of IP and
    /// transport headers. With `segment_bytes` 0 it is a single packet.
    pub const fn train(header_bytes: u16, payload_bytes: u32, segment_bytes: u16) -> Self {
        if segment_bytes == 0 || payload_bytes <= segment_bytes as u32 {
            return Self::packet(payload_bytes.saturating_add(header_bytes as u32));
        }
        Self { header_bytes, segment_bytes, payload_bytes, offset_bytes: 0 }
    }

    /// Number of packets on the wire; at least 1.
    pub fn segments(self) -> u32 {
        match self.segment_bytes {
            0 => 1,
            segment => self.payload_bytes.div_ceil(u32::from(segment)),
        }
    }

    /// Bytes of all IP packets, headers included.
    pub fn bytes(self) -> u64 {
        u64::from(self.payload_bytes) + u64::from(self.segments()) * u64::from(self.header_bytes)
    }

    /// Bytes of the first IP packet, headers included; no other is longer.
    pub fn first_bytes(self) -> u32 {
        match self.segment_bytes {
            0 => self.payload_bytes,
            segment => u32::from(self.header_bytes) + self.payload_bytes.min(segment.into()),
        }
    }

    /// Bytes of the last IP packet, headers included; all before it are as long as the first.
    pub fn last_bytes(self) -> u32 {
        match self.segment_bytes {
            0 => self.payload_bytes,
            segment => {
                let before = (self.segments() - 1) * u32::from(segment);
                u32::from(self.header_bytes) + self.payload_bytes - before
            }
        }
    }

    /// Header bytes of each segment; 0 if the packet was never a super-packet.
    pub fn header_bytes(self) -> u16 {
        self.header_bytes
    }

    /// Offset of this piece's payload in the payload of the super-packet that entered the network.
    pub fn offset_bytes(self) -> u32 {
        self.offset_bytes
    }

    /// The length of this piece and the one that follows it in the same super-packet; `None` if `next` does not.
    pub fn joined(self, next: Self) -> Option<Self> {
        let is_alike =
            (self.header_bytes, self.segment_bytes) == (next.header_bytes, next.segment_bytes);
        let segment_bytes = u32::from(self.segment_bytes);
        let is_whole = segment_bytes > 0 && self.payload_bytes.is_multiple_of(segment_bytes);
        let follows = self.offset_bytes + self.payload_bytes == next.offset_bytes;
        (is_alike && is_whole && follows)
            .then(|| Self { payload_bytes: self.payload_bytes + next.payload_bytes, ..self })
    }

    /// The first `segments` and the rest, `0 < segments < self.segments()`. Both keep header size and offset, even if
    /// only one segment is left.
    fn split(self, segments: u32) -> (Self, Self) {
        let taken = segments * u32::from(self.segment_bytes);
        let first = Self { payload_bytes: taken, ..self };
        let rest = Self {
            payload_bytes: self.payload_bytes - taken,
            offset_bytes: self.offset_bytes + taken,
            ..self
        };
        (first, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_train_has_the_bytes_of_its_segments() {
        // 64,240 bytes of TCP payload in 44 segments of 1460 behind 40 bytes of headers.
        let length = Length::train(40, 64_240, 1460);
        assert_eq!((length.segments(), length.bytes()), (44, 66_000));
        assert_eq!((length.first_bytes(), length.last_bytes()), (1500, 1500));
        let length = Length::train(52, 3000, 1448);
        assert_eq!((length.segments(), length.bytes()), (3, 3156));
        assert_eq!((length.first_bytes(), length.last_bytes()), (1500, 156));
    }

    #[test]
    fn a_train_of_one_segment_is_a_packet() {
        assert_eq!(Length::train(40, 1460, 1460), Length::packet(1500));
        assert_eq!(Length::train(40, 9000, 0), Length::packet(9040));
        assert_eq!(Length::packet(0).segments(), 1);
    }

    #[test]
    fn a_cut_piece_knows_where_its_payload_begins() {
        let mut rest = Packet::new((), Length::train(40, 4000, 1460));
        let first = rest.take_first(2);
        assert_eq!((first.length.bytes(), first.length.offset_bytes()), (3000, 0));
        assert_eq!((rest.length.bytes(), rest.length.offset_bytes()), (1120, 2920));
        assert_eq!((rest.length.segments(), rest.length.header_bytes()), (1, 40));
    }

    #[test]
    fn chosen_segments_are_cut_out_one_by_one() {
        let pieces = |chosen: [u8; 5]| {
            let (mut pieces, mut asked) = (Vec::new(), chosen.iter());
            let packet = Packet::new((), Length::train(40, 5 * 1460, 1460));
            let chosen = || asked.next() == Some(&1);
            packet.cut(chosen, |piece, hit| pieces.push((piece.length.segments(), hit)));
            pieces
        };
        assert_eq!(pieces([0, 0, 0, 0, 0]), [(5, false)]);
        assert_eq!(pieces([0, 0, 1, 0, 0]), [(2, false), (1, true), (2, false)]);
        assert_eq!(pieces([1, 1, 0, 0, 1]), [(1, true), (1, true), (2, false), (1, true)]);
    }

    #[test]
    fn segments_are_joined_if_none_between_them_is_missing() {
        let whole = Length::train(40, 4000, 1460);
        let mut segments = Vec::new();
        Packet::new((), whole).segment(|segment| segments.push(segment.length));
        let [one, two, three] = segments[..] else { panic!("{segments:?}") };
        let both = one.joined(two).unwrap();
        assert_eq!((both.segments(), both.offset_bytes()), (2, 0));
        assert_eq!(both.joined(three), Some(whole));
        assert_eq!((one.joined(three), two.joined(one), three.joined(one)), (None, None, None));
        let packet = Length::packet(1500);
        assert_eq!(packet.joined(packet), None);
    }

    proptest! {
        #[test]
        fn cutting_loses_no_segment_and_no_byte(
            header in 0u16..100,
            payload in 1u32..70_000,
            segment in 1u16..9000,
            at in 0u32..u32::MAX,
        ) {
            let whole = Length::train(header, payload, segment);
            let segments = whole.segments();
            prop_assume!(segments > 1);
            let (first, rest) = whole.split(1 + at % (segments - 1));
            prop_assert_eq!(first.segments() + rest.segments(), segments);
            prop_assert_eq!(first.bytes() + rest.bytes(), whole.bytes());
            prop_assert_eq!(first.last_bytes(), whole.first_bytes());
            prop_assert_eq!(rest.last_bytes(), whole.last_bytes());
        }
    }
}
