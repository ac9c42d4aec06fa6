//! What a technology adds to an IP packet on the wire.
//!
//! Lengths are those of the crates header and wire.

use fabricmark_header::infiniband::{Bth, Deth, Grh, Lrh};
use fabricmark_header::ipoib::IpoibHeader;
use fabricmark_wire::frame::{
    ETHERNET_HEADER, FCS, FRAME_MIN, GAP, ICRC, PREAMBLE, VCRC, VLAN_TAG,
};
use fabricmark_wire::{Ipoib, IpoibMode, Link};

use crate::invalid::{Invalid, some};

/// The payload of an InfiniBand packet is a multiple of so many bytes (IBTA vol. 1, 9.2, PadCnt).
const IB_ALIGN: u64 = 4;

/// Bytes on the wire for an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Once for each IP packet, before it is cut and aligned.
    packet_bytes: u64,
    /// What each piece may carry; the whole packet where it is 0.
    piece_room: u64,
    /// For each piece.
    piece_bytes: u64,
    align: u64,
    least_bytes: u64,
    gap_bytes: u64,
}

impl Framing {
    /// Nothing is added: the rate is one of IP packets.
    pub const NONE: Self = Self {
        packet_bytes: 0,
        piece_room: 0,
        piece_bytes: 0,
        align: 1,
        least_bytes: 0,
        gap_bytes: 0,
    };

    /// That of a link which carries IP packets; `None` where there is no wire, no IP, or a value out
    /// of range.
    pub fn of(link: Link) -> Option<Self> {
        match link {
            Link::Ethernet { vlan, .. } | Link::RoceV2 { vlan, .. } => Some(Self::ethernet(vlan)),
            Link::Ipoib(Ipoib { mode: IpoibMode::Datagram, grh, .. }) => {
                Some(Self::ipoib_datagram(grh))
            }
            Link::Ipoib(Ipoib { mode: IpoibMode::Connected, ib_mtu, grh, .. }) => {
                Self::ipoib_connected(ib_mtu, grh).ok()
            }
            Link::Loopback | Link::Veth { .. } | Link::Ib(_) | Link::RoceV1 { .. } => None,
        }
    }

    /// Ethernet with `vlan` 802.1Q tags: preamble to check sequence, padded to 64 bytes, and the gap
    /// before the next frame.
    pub const fn ethernet(vlan: u8) -> Self {
        let packet_bytes = PREAMBLE + ETHERNET_HEADER + VLAN_TAG * vlan as u64 + FCS;
        let least_bytes = PREAMBLE + FRAME_MIN;
        Self { packet_bytes, least_bytes, gap_bytes: GAP, ..Self::NONE }
    }

    /// IP over InfiniBand in datagram mode (RFC 4391): one packet from LRH to VCRC.
    pub const fn ipoib_datagram(grh: bool) -> Self {
        Self {
            packet_bytes: IpoibHeader::BYTES as u64,
            piece_bytes: ib_bytes(grh) + Deth::BYTES as u64,
            align: IB_ALIGN,
            ..Self::NONE
        }
    }

    /// IP over InfiniBand in connected mode (RFC 4755): a message in packets of up to `ib_mtu` bytes,
    /// of which only the first has the IPoIB header.
    pub fn ipoib_connected(ib_mtu: u16, grh: bool) -> Result<Self, Invalid> {
        some("the IB MTU", ib_mtu.into())?;
        Ok(Self {
            packet_bytes: IpoibHeader::BYTES as u64,
            piece_room: ib_mtu.into(),
            piece_bytes: ib_bytes(grh),
            align: IB_ALIGN,
            ..Self::NONE
        })
    }

    /// A bus that moves pieces of up to `piece_room` bytes with `piece_bytes` of overhead each: PCI
    /// Express packets of 128 bytes have 20 to 28 bytes of it.
    pub fn pieces(piece_room: u16, piece_bytes: u16) -> Result<Self, Invalid> {
        some("the room of a piece", piece_room.into())?;
        Ok(Self { piece_room: piece_room.into(), piece_bytes: piece_bytes.into(), ..Self::NONE })
    }

    /// Bytes on the wire from the first to the last of a packet, the gap behind it left out.
    pub fn wire_bytes(self, ip_packet: u64) -> u64 {
        let inside = ip_packet + self.packet_bytes;
        let pieces = if self.piece_room == 0 { 1 } else { inside.div_ceil(self.piece_room).max(1) };
        let aligned = if self.align == 1 { inside } else { inside.next_multiple_of(self.align) };
        (aligned + pieces * self.piece_bytes).max(self.least_bytes)
    }

    /// Bytes of silence before the next packet may begin.
    pub fn gap_bytes(self) -> u64 {
        self.gap_bytes
    }
}

/// Headers and check sequences of every InfiniBand packet of a connection.
const fn ib_bytes(grh: bool) -> u64 {
    let route = Lrh::BYTES + if grh { Grh::BYTES } else { 0 };
    (route + Bth::BYTES) as u64 + ICRC + VCRC
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_wire::ethernet_wire_bytes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_ethernet_frame_and_its_gap_are_as_long_as_the_crate_wire_says(
            ip_packet in 0u64..70_000,
            vlan in 0u8..=2,
        ) {
            let framing = Framing::ethernet(vlan);
            let bytes = framing.wire_bytes(ip_packet) + framing.gap_bytes();
            prop_assert_eq!(bytes, ethernet_wire_bytes(ip_packet, vlan));
        }
    }

    #[test]
    fn an_ipoib_datagram_has_38_bytes_of_overhead_and_padding() {
        for (ip_packet, grh, bytes) in [(2044, false, 2082), (45, false, 86), (2044, true, 2122)] {
            assert_eq!(Framing::ipoib_datagram(grh).wire_bytes(ip_packet), bytes);
        }
    }

    #[test]
    fn only_the_first_packet_of_a_connected_message_has_the_ipoib_header() {
        let framing = Framing::ipoib_connected(2048, false).unwrap();
        // 65,524 bytes are 31 packets of 2048 and one of 2036.
        assert_eq!(framing.wire_bytes(65_520), 65_524 + 32 * 26);
        assert_eq!(framing.wire_bytes(2044), 2048 + 26);
        assert_eq!(framing.wire_bytes(2045), 2052 + 2 * 26);
        assert_eq!(Framing::ipoib_connected(0, false), Err(Invalid::Zero("the IB MTU")));
    }

    #[test]
    fn a_bus_pays_for_each_piece() {
        let framing = Framing::pieces(128, 20).unwrap();
        assert_eq!(framing.wire_bytes(1500), 1500 + 12 * 20);
        assert_eq!(Framing::NONE.wire_bytes(1500), 1500);
    }
}
