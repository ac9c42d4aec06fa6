//! IPv4 and IPv6 headers.

mod packet;

pub use packet::{Addresses, BadPacket, Ipv4Packet, Ipv6Packet};

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Format::{self, Decimal, Flag, Hex, Named};
use super::{Names, header};

header! {
    /// IPv4 header without options, which [`Ipv4Packet::of`] splits off.
    Ipv4, Ipv4View: 20, "IPv4", "Internet Protocol Version 4", "RFC 791, 3.1";
    /// Version, 4.
    version: u8 = 0..4, "Version", Decimal, "RFC 791, 3.1";
    /// Length of header and options in 32-bit words, 5 to 15.
    header_words: u8 = 4..8, "IHL", Decimal, "RFC 791, 3.1";
    /// Differentiated services code point.
    dscp: u8 = 8..14, "DSCP", Decimal, "RFC 2474, 3";
    /// Explicit congestion notification.
    ecn: u8 = 14..16, "ECN", Named(ECN), "RFC 3168, 5";
    /// Length in bytes of header, options and payload.
    total_bytes: u16 = 16..32, "Total Length", Decimal, "RFC 791, 3.1";
    /// Identical in all fragments of a packet.
    identification: u16 = 32..48, "Identification", Hex, "RFC 791, 3.1";
    reserved_48: bool = 48..49, "Reserved", Flag, "RFC 791, 3.1";
    /// Routers must not fragment the packet.
    dont_fragment: bool = 49..50, "DF", Flag, "RFC 791, 3.1";
    /// More fragments follow this one.
    more_fragments: bool = 50..51, "MF", Flag, "RFC 791, 3.1";
    /// Offset of this fragment in the original payload, in units of 8 bytes.
    fragment_offset: u16 = 51..64, "Fragment Offset", Decimal, "RFC 791, 3.1";
    /// Maximum number of further hops.
    ttl: u8 = 64..72, "Time to Live", Decimal, "RFC 791, 3.1";
    /// Protocol of the payload, one of [`protocol`].
    protocol: u8 = 72..80, "Protocol", Named(protocol::NAMES), "RFC 791, 3.1";
    /// Internet checksum of header and options.
    checksum: u16 = 80..96, "Header Checksum", Hex, "RFC 791, 3.1";
    source: Ipv4Addr = 96..128, "Source", Format::Ipv4, "RFC 791, 3.1";
    destination: Ipv4Addr = 128..160, "Destination", Format::Ipv4, "RFC 791, 3.1";
}

header! {
    /// IPv6 header.
    Ipv6, Ipv6View: 40, "IPv6", "Internet Protocol Version 6", "RFC 8200, 3";
    /// Version, 6.
    version: u8 = 0..4, "Version", Decimal, "RFC 8200, 3";
    /// Differentiated services code point.
    dscp: u8 = 4..10, "DSCP", Decimal, "RFC 2474, 3";
    /// Explicit congestion notification.
    ecn: u8 = 10..12, "ECN", Named(ECN), "RFC 3168, 5";
    /// Identical in all packets of a flow.
    flow_label: u32 = 12..32, "Flow Label", Hex, "RFC 6437, 2";
    /// Length in bytes of everything after this header.
    payload_bytes: u16 = 32..48, "Payload Length", Decimal, "RFC 8200, 3";
    /// Type of the next header, one of [`protocol`].
    next_header: u8 = 48..56, "Next Header", Named(protocol::NAMES), "RFC 8200, 3";
    /// Maximum number of further hops.
    hop_limit: u8 = 56..64, "Hop Limit", Decimal, "RFC 8200, 3";
    source: Ipv6Addr = 64..192, "Source", Format::Ipv6, "RFC 8200, 3";
    destination: Ipv6Addr = 192..320, "Destination", Format::Ipv6, "RFC 8200, 3";
}

header! {
    /// IPv6 fragment extension header.
    Ipv6Fragment, Ipv6FragmentView: 8, "Fragment", "IPv6 Fragment Header", "RFC 8200, 4.5";
    /// Type of the first header of the fragmented part, one of [`protocol`].
    next_header: u8 = 0..8, "Next Header", Named(protocol::NAMES), "RFC 8200, 4.5";
    reserved_8: u8 = 8..16, "Reserved", Hex, "RFC 8200, 4.5";
    /// Offset of this fragment in the fragmentable part, in units of 8 bytes.
    fragment_offset: u16 = 16..29, "Fragment Offset", Decimal, "RFC 8200, 4.5";
    reserved_29: u8 = 29..31, "Reserved", Hex, "RFC 8200, 4.5";
    /// More fragments follow this one.
    more_fragments: bool = 31..32, "M", Flag, "RFC 8200, 4.5";
    /// Identical in all fragments of a packet.
    identification: u32 = 32..64, "Identification", Hex, "RFC 8200, 4.5";
}

const ECN: Names = &[(0, "Not-ECT"), (1, "ECT(1)"), (2, "ECT(0)"), (3, "CE")];

/// Protocol numbers (IANA).
pub mod protocol {
    crate::named! {
        u8;
        /// ICMP (RFC 792).
        ICMP = 1, "ICMP";
        /// TCP (RFC 9293).
        TCP = 6, "TCP";
        /// UDP (RFC 768).
        UDP = 17, "UDP";
        /// IPv6 fragment header (RFC 8200).
        IPV6_FRAGMENT = 44, "IPv6 fragment";
        /// ICMPv6 (RFC 4443).
        ICMPV6 = 58, "ICMPv6";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(an_ipv4_header_survives_the_wire, Ipv4, Ipv4View);
    round_trip!(an_ipv6_header_survives_the_wire, Ipv6, Ipv6View);
    round_trip!(a_fragment_header_survives_the_wire, Ipv6Fragment, Ipv6FragmentView);

    #[test]
    fn the_last_fragment_is_told_by_its_offset_and_flag() {
        let bytes = [17, 0, 0x05, 0xa8, 0xde, 0xad, 0xbe, 0xef];
        let (fragment, _) = Ipv6FragmentView::of(&bytes).unwrap();
        assert_eq!((fragment.fragment_offset(), fragment.more_fragments()), (181, false));
        assert_eq!((fragment.next_header(), fragment.identification()), (17, 0xdead_beef));
    }
}
