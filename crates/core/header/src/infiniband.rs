//! InfiniBand headers (IBTA, InfiniBand Architecture Specification, volume 1).
//!
//! This module declares the headers that route a packet, LRH and GRH. `transport` has the BTH and the extended
//! transport headers, [`opcode`] says which of them follow each BTH.

pub mod opcode;
mod transport;

pub use transport::{Aeth, AethView, AtomicAckEth, AtomicAckEthView, AtomicEth, AtomicEthView};
pub use transport::{Bth, BthView, Deth, DethView, Ieth, IethView, ImmDt, ImmDtView};
pub use transport::{Reth, RethView};

use std::net::Ipv6Addr;

use super::Format::{self, Decimal, Hex, Named};
use super::{Names, header};

/// LRH next header: a BTH follows (IBTA vol. 1, 7.7.5).
pub const LNH_BTH: u8 = 2;
/// LRH next header: a GRH follows (IBTA vol. 1, 7.7.5).
pub const LNH_GRH: u8 = 3;
/// GRH next header: a BTH follows (IBTA vol. 1, 8.3.5).
pub const NEXT_HEADER_BTH: u8 = 0x1b;

header! {
    /// Local route header of the link layer (P1, figure 3).
    Lrh, LrhView: 8, "LRH", "Local Route Header", "IBTA vol. 1, 7.7";
    /// Virtual lane; 15 is for management.
    vl: u8 = 0..4, "VL", Decimal, "7.7.1";
    /// Link version, 0.
    link_version: u8 = 4..8, "LVer", Decimal, "7.7.2";
    /// Service level.
    service_level: u8 = 8..12, "SL", Decimal, "7.7.3";
    reserved_12: u8 = 12..14, "Reserved", Hex, "7.7.4";
    /// Next header: [`LNH_BTH`] within a subnet, [`LNH_GRH`] between subnets.
    next_header: u8 = 14..16, "LNH", Named(LNH), "7.7.5";
    /// Destination local identifier.
    dlid: u16 = 16..32, "DLID", Hex, "7.7.6";
    reserved_32: u8 = 32..37, "Reserved", Hex, "7.7.7";
    /// Length in 32-bit words from the first byte of this header through the invariant CRC.
    packet_words: u16 = 37..48, "Packet Length", Decimal, "7.7.8";
    /// Source local identifier.
    slid: u16 = 48..64, "SLID", Hex, "7.7.9";
}

const LNH: Names = &[(0, "raw"), (1, "IPv6"), (2, "BTH"), (3, "GRH")];

header! {
    /// Global route header of the network layer, with the format of an IPv6 header (P1, figure 8).
    Grh, GrhView: 40, "GRH", "Global Route Header", "IBTA vol. 1, 8.3";
    /// Version, 6.
    version: u8 = 0..4, "IPVer", Decimal, "8.3.1";
    traffic_class: u8 = 4..12, "TClass", Hex, "8.3.2";
    /// Packets with the same flow label are delivered in order.
    flow_label: u32 = 12..32, "FlowLabel", Hex, "8.3.3";
    /// Length in bytes from the end of this header through the invariant CRC.
    payload_bytes: u16 = 32..48, "PayLen", Decimal, "8.3.4";
    /// Next header: [`NEXT_HEADER_BTH`].
    next_header: u8 = 48..56, "NxtHdr", Named(NEXT_HEADER), "8.3.5";
    /// Maximum number of further hops.
    hop_limit: u8 = 56..64, "HopLmt", Decimal, "8.3.6";
    /// Source global identifier.
    source: Ipv6Addr = 64..192, "SGID", Format::Ipv6, "8.3.7";
    /// Destination global identifier.
    destination: Ipv6Addr = 192..320, "DGID", Format::Ipv6, "8.3.8";
}

const NEXT_HEADER: Names = &[(NEXT_HEADER_BTH as u128, "BTH")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(an_lrh_survives_the_wire, Lrh, LrhView);
    round_trip!(a_grh_survives_the_wire, Grh, GrhView);

    #[test]
    fn the_packet_of_the_specification_is_read_header_by_header() {
        // RDMA WRITE Only of 14 bytes within a subnet (IBTA vol. 1, table 29).
        let packet = [
            0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, // LRH
            0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, // BTH
            0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00,
            0x00, 0x0e, // RETH
        ];
        let (lrh, rest) = LrhView::of(&packet).unwrap();
        assert_eq!((lrh.vl(), lrh.service_level(), lrh.next_header()), (7, 1, LNH_BTH));
        assert_eq!((lrh.dlid(), lrh.slid(), lrh.packet_words()), (0x375c, 0x17d2, 14));
        let (bth, rest) = BthView::of(rest).unwrap();
        assert_eq!((bth.opcode(), bth.pad()), (opcode::RC_WRITE_ONLY, 2));
        assert_eq!((bth.pkey(), bth.destination_qp()), (0x2487, 0x87_b1b3));
        assert_eq!((bth.acknowledge(), bth.psn()), (false, 0x0d_ec2a));
        let (reth, rest) = RethView::of(rest).unwrap();
        assert_eq!((reth.virtual_address(), reth.rkey()), (0x0171_0a1c_015d_4002, 0x38f2_7a05));
        assert_eq!((reth.dma_bytes(), rest.len()), (14, 0));
    }

    #[test]
    fn a_global_route_header_is_an_ipv6_header_with_ports_for_addresses() {
        let grh = Grh {
            version: 6,
            traffic_class: 0xb8,
            flow_label: 0x1_2345,
            payload_bytes: 48,
            next_header: NEXT_HEADER_BTH,
            hop_limit: 64,
            source: "fe80::2:c903:1:2346".parse().unwrap(),
            destination: "fe80::2:c903:5:4322".parse().unwrap(),
        };
        let bytes = [
            0x6b, 0x81, 0x23, 0x45, 0x00, 0x30, 0x1b, 0x40, // all but the GIDs
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 1, 0x23, 0x46, // source
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 5, 0x43, 0x22, // destination
        ];
        assert_eq!(grh.to_bytes(), bytes);
    }
}
