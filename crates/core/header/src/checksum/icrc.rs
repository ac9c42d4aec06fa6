//! InfiniBand's invariant CRC (ICRC), which holds from end to end.
//!
//! Fields that switches or routers may change are masked with ones: the reserved byte of the BTH always; LRH.VL
//! within a subnet; the whole LRH, and traffic class, flow label and hop limit of the GRH, between subnets (IBTA vol.
//! 1, 7.8.1). RoCE has no LRH; 8 bytes of ones take its place.

use crc::{Digest, Table};

use super::CRC_32;
use crate::infiniband::{Bth, BthView, Grh, GrhView, LNH_BTH, LNH_GRH, Lrh, LrhView};
use crate::ip::{Ipv4, Ipv4View, Ipv6, Ipv6View, protocol};
use crate::transport::{Udp, UdpView};

/// Invariant CRC of an InfiniBand packet, from the LRH through the padding of the payload.
///
/// `None` if the packet ends before the end of its BTH, or is a raw packet.
pub fn icrc(packet: &[u8]) -> Option<[u8; 4]> {
    let (lrh, rest) = LrhView::of(packet)?;
    match lrh.next_header() {
        LNH_BTH => {
            let mut sum = CRC_32.digest();
            sum.update(&Lrh { vl: u8::MAX, ..lrh.value() }.to_bytes());
            from_bth(sum, rest)
        }
        LNH_GRH => icrc_roce_v1(rest),
        _ => None,
    }
}

/// Invariant CRC of a RoCEv1 packet, from the GRH through the padding of the payload (IBTA vol. 1, annex A16).
///
/// `None` if the packet ends before the end of its BTH.
pub fn icrc_roce_v1(packet: &[u8]) -> Option<[u8; 4]> {
    let (grh, rest) = GrhView::of(packet)?;
    let masked =
        Grh { traffic_class: u8::MAX, flow_label: u32::MAX, hop_limit: u8::MAX, ..grh.value() };
    let mut sum = without_lrh();
    sum.update(&masked.to_bytes());
    from_bth(sum, rest)
}

/// Invariant CRC of a RoCEv2 packet, from the IP header through the padding of the payload (IBTA vol. 1, annex A17).
///
/// The mutable fields of the IP header and the UDP checksum are masked with ones. `None` if the packet ends before
/// the end of its BTH, or has IPv4 options or IPv6 extension headers.
pub fn icrc_roce_v2(packet: &[u8]) -> Option<[u8; 4]> {
    let mut sum = without_lrh();
    let rest = match packet.first()? >> 4 {
        4 => {
            let (ip, rest) = Ipv4View::of(packet).filter(|(ip, _)| ip.header_words() == 5)?;
            let masked = Ipv4 {
                dscp: u8::MAX,
                ecn: u8::MAX,
                ttl: u8::MAX,
                checksum: u16::MAX,
                ..ip.value()
            };
            sum.update(&masked.to_bytes());
            rest
        }
        6 => {
            let (ip, rest) =
                Ipv6View::of(packet).filter(|(ip, _)| ip.next_header() == protocol::UDP)?;
            let masked = Ipv6 {
                dscp: u8::MAX,
                ecn: u8::MAX,
                flow_label: u32::MAX,
                hop_limit: u8::MAX,
                ..ip.value()
            };
            sum.update(&masked.to_bytes());
            rest
        }
        _ => return None,
    };
    let (udp, rest) = UdpView::of(rest)?;
    sum.update(&Udp { checksum: u16::MAX, ..udp.value() }.to_bytes());
    from_bth(sum, rest)
}

type Sum = Digest<'static, u32, Table<1>>;

fn without_lrh() -> Sum {
    let mut sum = CRC_32.digest();
    sum.update(&[u8::MAX; Lrh::BYTES]);
    sum
}

fn from_bth(mut sum: Sum, packet: &[u8]) -> Option<[u8; 4]> {
    let (bth, rest) = BthView::of(packet)?;
    sum.update(&Bth { reserved_32: u8::MAX, ..bth.value() }.to_bytes());
    sum.update(rest);
    Some(sum.finalize().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::vcrc;
    use proptest::prelude::*;

    /// RDMA WRITE Only of 14 bytes within a subnet (IBTA vol. 1, table 29), from the LRH through the padding.
    const LOCAL: [u8; 52] = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, // LRH
        0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, // BTH
        0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00,
        0x0e, // RETH
        0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e,
        0xd4, // data
        0x00, 0x00, // padding
    ];

    #[test]
    fn the_packet_of_the_specification_has_the_sum_of_its_table() {
        assert_eq!(icrc(&LOCAL), Some([0x96, 0x25, 0xb7, 0x5a]));
        let whole = [&LOCAL[..], &[0x96, 0x25, 0xb7, 0x5a]].concat();
        assert_eq!(vcrc(&whole), [0x45, 0xfa]);
    }

    #[test]
    fn a_notification_of_an_adapter_has_the_sum_that_it_sent() {
        // CNP captured at a ConnectX-4 Lx; from scapy's tests, test/contrib/roce.uts.
        let packet = [
            0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00,
            0x11, 0x01, 0x0a, 0x00, 0x12, 0x01, // IPv4
            0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, // UDP
            0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, // BTH
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // reserved
        ];
        assert_eq!(icrc_roce_v2(&packet), Some([0x82, 0xfd, 0x00, 0x2a]));
    }

    #[test]
    fn a_datagram_over_ipv6_has_the_sum_that_scapy_computes() {
        let packet = [
            0x60, 0x21, 0x23, 0x45, 0x00, 0x1c, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            2, // IPv6
            0xc0, 0x00, 0x12, 0xb7, 0x00, 0x1c, 0x77, 0x3b, // UDP
            0x24, 0x40, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0x00, 0x00, 0x07, // BTH
            b'a', b'b', b'c', b'd',
        ];
        assert_eq!(icrc_roce_v2(&packet), Some([0xa7, 0xd1, 0xc8, 0x9b]));
    }

    #[test]
    fn only_what_routers_change_leaves_the_sum_of_a_global_packet_alone() {
        let lrh = Lrh { next_header: LNH_GRH, ..LrhView::of(&LOCAL).unwrap().0.value() };
        let blank = GrhView(&[0; Grh::BYTES]).value();
        let sum =
            |grh: Grh| icrc(&[&lrh.to_bytes()[..], &grh.to_bytes(), &LOCAL[Lrh::BYTES..]].concat());
        assert_eq!(sum(blank), sum(Grh { traffic_class: 1, ..blank }));
        assert_eq!(sum(blank), sum(Grh { flow_label: 1, ..blank }));
        assert_eq!(sum(blank), sum(Grh { hop_limit: 1, ..blank }));
        assert_ne!(sum(blank), sum(Grh { payload_bytes: 1, ..blank }));
        assert_ne!(sum(blank), sum(Grh { next_header: 1, ..blank }));
        let other = Lrh { slid: 9, service_level: 9, ..lrh };
        let with = |lrh: Lrh| {
            icrc(&[&lrh.to_bytes()[..], &blank.to_bytes(), &LOCAL[Lrh::BYTES..]].concat())
        };
        assert_eq!(with(lrh), with(other));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_sum_or_none(bytes: Vec<u8>) {
            prop_assert!(bytes.len() >= 20 || icrc(&bytes).is_none());
            prop_assert_eq!(icrc_roce_v1(&bytes).is_some(), bytes.len() >= 52);
            prop_assert!(bytes.len() >= 40 || icrc_roce_v2(&bytes).is_none());
        }
    }
}
