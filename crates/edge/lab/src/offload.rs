//! The header with which Linux hands over packets whose checksums and segments are not made yet.

/// `struct virtio_net_hdr` in the byte order of this machine, as TUN devices with IFF_VNET_HDR put it
/// before each packet (`linux/virtio_net.h`, `drivers/net/tun.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    flags: u8,
    /// VIRTIO_NET_HDR_GSO_*: how to segment the packet.
    kind: u8,
    /// Bytes of IP and transport headers: a hint for the kernel's memory.
    header_bytes: u16,
    /// Payload bytes of each segment but the last.
    pub(crate) segment_bytes: u16,
    /// Start of the bytes that the checksum covers: the transport header.
    pub(crate) checksum_start: u16,
    /// Offset of the checksum field from there.
    pub(crate) checksum_offset: u16,
}

/// Flag: the checksum field holds only the sum of the pseudo-header.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Flag of the kind: only the first segment keeps CWR.
const GSO_ECN: u8 = 0x80;

/// The transport of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Offload {
    pub(crate) const BYTES: usize = 10;

    /// Reads the header at the beginning of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let &[flags, kind, ref words @ ..] = bytes.first_chunk::<{ Self::BYTES }>()?;
        let word = |i: usize| u16::from_ne_bytes([words[2 * i], words[2 * i + 1]]);
        Some(Self {
            flags,
            kind,
            header_bytes: word(0),
            segment_bytes: word(1),
            checksum_start: word(2),
            checksum_offset: word(3),
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.flags, self.kind);
        let words =
            [self.header_bytes, self.segment_bytes, self.checksum_start, self.checksum_offset];
        for (to, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Whether the checksum is not computed yet.
    pub(crate) fn needs_checksum(self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }

    /// Transport of the segments; `None` for a packet that is not to be segmented.
    pub(crate) fn transport(self) -> Option<Transport> {
        if self.segment_bytes == 0 || !self.needs_checksum() {
            return None;
        }
        match self.kind & !GSO_ECN {
            GSO_TCP4 | GSO_TCP6 => Some(Transport::Tcp),
            GSO_UDP => Some(Transport::Udp),
            _ => None,
        }
    }

    /// The header for a piece of this packet that has `segments` segments.
    pub(crate) fn of_piece(self, segments: u32, is_first: bool, header_bytes: u16) -> Self {
        let mut piece = Self { header_bytes, ..self };
        if segments < 2 {
            (piece.kind, piece.segment_bytes) = (GSO_NONE, 0);
        } else if !is_first {
            piece.kind &= !GSO_ECN;
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Offload {
        /// A super-packet with segments of `segment_bytes`, whose transport header begins at `start`.
        pub(crate) fn train(
            transport: Transport,
            v6: bool,
            segment_bytes: u16,
            start: u16,
        ) -> Self {
            let (kind, checksum_offset) = match (transport, v6) {
                (Transport::Tcp, false) => (GSO_TCP4, 16),
                (Transport::Tcp, true) => (GSO_TCP6, 16),
                (Transport::Udp, _) => (GSO_UDP, 6),
            };
            let header_bytes = 0;
            let checksum_start = start;
            let flags = NEEDS_CHECKSUM;
            Self { flags, kind, header_bytes, segment_bytes, checksum_start, checksum_offset }
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let header = Offload::train(Transport::Tcp, true, 1428, 40);
        assert_eq!(Offload::read(&header.to_bytes()), Some(header));
        assert_eq!(Offload::read(&[0; 9]), None);
    }

    #[test]
    fn a_piece_of_one_segment_is_not_to_be_cut_again() {
        let train = Offload::train(Transport::Tcp, false, 1448, 20);
        let one = train.of_piece(1, false, 52);
        assert_eq!((one.transport(), one.needs_checksum()), (None, true));
        assert_eq!(train.of_piece(2, true, 52).transport(), Some(Transport::Tcp));
    }
}
