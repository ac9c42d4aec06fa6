//! Extensible Record Format: a header with the type of each packet (Endace, ERF types reference; link type 197).
//!
//! InfiniBand packets are written in this format because Wireshark opens no other format of them.

use super::LinkType;

/// Length of the record header in bytes.
const HEADER: usize = 16;
/// Record type: an InfiniBand packet from the LRH through the variant CRC.
const INFINIBAND: u8 = 21;
/// Record type: an Ethernet frame, preceded by two bytes of padding.
const ETHERNET: u8 = 2;
/// Type bit: an 8-byte extension header follows. The first bit of an extension header says the same.
const EXTENDED: u8 = 0x80;
/// Flag: records vary in length.
const VARYING: u8 = 0x04;

/// Encodes the record of an InfiniBand packet captured `seconds` after the start of 1970.
pub(super) fn record(seconds: u32, packet: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let time = u64::from(seconds) << 32;
    [
        &time.to_le_bytes()[..],
        &[INFINIBAND, VARYING],
        &length(HEADER + packet.len()),
        &[0, 0],
        &length(packet.len()),
        packet,
    ]
    .concat()
}

/// The packet in a record, and its link type. `None` if truncated or neither Ethernet nor InfiniBand.
pub(super) fn packet(record: &[u8]) -> Option<(LinkType, &[u8])> {
    let (header, mut rest) = record.split_first_chunk::<HEADER>()?;
    let [_, _, _, _, _, _, _, _, kind, _, _, _, _, _, wire @ ..] = *header;
    let mut more = kind & EXTENDED != 0;
    while more {
        let (extension, behind) = rest.split_first_chunk::<8>()?;
        (more, rest) = (extension[0] & EXTENDED != 0, behind);
    }
    let (link_type, rest) = match kind & !EXTENDED {
        INFINIBAND => (LinkType::Infiniband, rest),
        ETHERNET => (LinkType::Ethernet, rest.get(2..)?),
        _ => return None,
    };
    let bytes = usize::from(u16::from_be_bytes(wire));
    Some((link_type, &rest[..bytes.min(rest.len())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_found_in_its_record_behind_extensions() {
        let plain = record(1, &[1, 2, 3]);
        assert_eq!(plain[..16], [0, 0, 0, 0, 1, 0, 0, 0, 21, 4, 0, 19, 0, 0, 0, 3]);
        assert_eq!(packet(&plain), Some((LinkType::Infiniband, &[1, 2, 3][..])));
        let mut extended = plain.clone();
        extended[8] |= EXTENDED;
        extended.splice(16..16, [0x80, 0, 0, 0, 0, 0, 0, 0, 0x05, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packet(&extended), Some((LinkType::Infiniband, &[1, 2, 3][..])));
        let mut ethernet = plain.clone();
        ethernet[8] = ETHERNET;
        assert_eq!(packet(&ethernet), Some((LinkType::Ethernet, &[3][..])));
        let mut other = plain;
        other[8] = 1;
        assert_eq!(packet(&other), None);
    }

    proptest! {
        #[test]
        fn any_packet_survives_its_record(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let record = record(0, &bytes);
            prop_assert_eq!(packet(&record), Some((LinkType::Infiniband, &bytes[..])));
            if let Some((_, found)) = packet(&bytes) {
                prop_assert!(found.len() < bytes.len());
            }
        }
    }
}
