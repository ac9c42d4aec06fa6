//! IP packets, split into header, options and payload by the length fields of the header.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Ipv4, Ipv4View, Ipv6, Ipv6View};
use crate::checksum::Internet;

/// Why bytes are not a valid IP packet.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPacket {
    #[error("{there} bytes are too short for a header of {needed}")]
    Short { there: usize, needed: usize },
    #[error("unsupported IP version {0}")]
    Version(u8),
    #[error("a header length of {0} words is below 5")]
    HeaderLength(u8),
    #[error("the length field says {told} bytes, but {there} are present")]
    Length { told: usize, there: usize },
}

/// An IPv4 packet, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Packet<'a> {
    /// Header without options.
    pub header: Ipv4View<'a>,
    /// Options, 0 to 40 bytes.
    pub options: &'a [u8],
    /// Payload.
    pub payload: &'a [u8],
    /// Bytes beyond the total length: padding of a short Ethernet frame, or its FCS.
    pub trailer: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Parses the packet at the start of `bytes`.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Result<Self, BadPacket> {
        let there = bytes.len();
        let (header, rest) =
            Ipv4View::of(bytes).ok_or(BadPacket::Short { there, needed: Ipv4::BYTES })?;
        let (words, told) = (header.header_words(), usize::from(header.total_bytes()));
        let needed = 4 * usize::from(words);
        if header.version() != 4 {
            return Err(BadPacket::Version(header.version()));
        }
        let Some(option_bytes) = needed.checked_sub(Ipv4::BYTES) else {
            return Err(BadPacket::HeaderLength(words));
        };
        let length = BadPacket::Length { told, there };
        let payload_bytes = told.checked_sub(needed).ok_or(length)?;
        let short = BadPacket::Short { there, needed };
        let (options, rest) = rest.split_at_checked(option_bytes).ok_or(short)?;
        let (payload, trailer) = rest.split_at_checked(payload_bytes).ok_or(length)?;
        Ok(Self { header, options, payload, trailer })
    }
}

impl Ipv4 {
    /// Returns the header with its checksum computed over header and `options`.
    #[must_use]
    pub fn with_checksum(self, options: &[u8]) -> Self {
        let zero = Self { checksum: 0, ..self };
        let checksum = Internet::new().with(&zero.to_bytes()).with(options).finish();
        Self { checksum, ..self }
    }
}

/// An IPv6 packet, read in place. Extension headers are part of the payload.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Packet<'a> {
    /// Fixed header.
    pub header: Ipv6View<'a>,
    /// Everything after the fixed header.
    pub payload: &'a [u8],
    /// Bytes beyond the payload length: padding of a short Ethernet frame, or its FCS.
    pub trailer: &'a [u8],
}

impl<'a> Ipv6Packet<'a> {
    /// Parses the packet at the start of `bytes`.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Result<Self, BadPacket> {
        let there = bytes.len();
        let (header, rest) =
            Ipv6View::of(bytes).ok_or(BadPacket::Short { there, needed: Ipv6::BYTES })?;
        if header.version() != 6 {
            return Err(BadPacket::Version(header.version()));
        }
        let told = usize::from(header.payload_bytes());
        let length = BadPacket::Length { told, there: rest.len() };
        let (payload, trailer) = rest.split_at_checked(told).ok_or(length)?;
        Ok(Self { header, payload, trailer })
    }
}

/// Source and destination address, which are part of the UDP and TCP pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source.
        source: Ipv4Addr,
        /// Destination.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source.
        source: Ipv6Addr,
        /// Destination.
        destination: Ipv6Addr,
    },
}

impl From<Ipv4View<'_>> for Addresses {
    fn from(header: Ipv4View) -> Self {
        Self::V4 { source: header.source(), destination: header.destination() }
    }
}

impl From<Ipv6View<'_>> for Addresses {
    fn from(header: Ipv6View) -> Self {
        Self::V6 { source: header.source(), destination: header.destination() }
    }
}

impl Addresses {
    /// Computes the Internet checksum over the pseudo header and `parts`, the pieces of the upper-layer packet.
    ///
    /// The result is the checksum if the checksum field in `parts` is 0, and 0 if the field is correct. All parts but
    /// the last must have an even length. Pseudo headers: RFC 768 and RFC 9293 3.1 (IPv4), RFC 8200 8.1 (IPv6).
    #[inline]
    pub fn checksum(self, protocol: u8, parts: &[&[u8]]) -> u16 {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        let pseudo = match self {
            Self::V4 { source, destination } => {
                Internet::new().with(&source.octets()).with(&destination.octets())
            }
            Self::V6 { source, destination } => {
                Internet::new().with(&source.octets()).with(&destination.octets())
            }
        };
        let pseudo = pseudo.with(&bytes.to_be_bytes()).with(&[0, protocol]);
        parts.iter().fold(pseudo, |sum, part| sum.with(part)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// IPv4 with a Record Route option, a TCP segment, and two bytes of padding.
    const WITH_OPTIONS: [u8; 55] = [
        0x47, 0x00, 0x00, 0x35, 0x00, 0x01, 0x00, 0x00, 0x40, 0x06, 0x59, 0xb9, // header
        10, 0, 0, 1, 10, 0, 0, 2, // addresses
        0x07, 0x07, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, // options
        0x00, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x04, 0x60, 0x12, 0x00,
        0x05, 0x0c, 0x04, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4,
        0x78, // TCP with MSS option, 'x'
        0x00, 0x00,
    ];

    #[test]
    fn options_payload_and_padding_are_told_apart() {
        let packet = Ipv4Packet::of(&WITH_OPTIONS).unwrap();
        assert_eq!(packet.options, &WITH_OPTIONS[20..28]);
        assert_eq!(packet.payload, &WITH_OPTIONS[28..53]);
        assert_eq!(packet.trailer, &[0, 0]);
        assert_eq!(Internet::new().with(packet.header.0).with(packet.options).finish(), 0);
        assert_eq!(Addresses::from(packet.header).checksum(6, &[packet.payload]), 0);
        let value = packet.header.value();
        let blank = Ipv4 { checksum: 0, ..value };
        assert_eq!(blank.with_checksum(packet.options), value);
    }

    #[test]
    fn what_is_wrong_with_a_packet_is_told() {
        let with = |at: usize, byte: u8| {
            let mut bytes = WITH_OPTIONS;
            bytes[at] = byte;
            Ipv4Packet::of(&bytes).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(with(0, 0x67), Err("unsupported IP version 6".to_owned()));
        assert_eq!(with(0, 0x44), Err("a header length of 4 words is below 5".to_owned()));
        assert_eq!(
            with(3, 56),
            Err("the length field says 56 bytes, but 55 are present".to_owned())
        );
        assert_eq!(
            with(3, 27),
            Err("the length field says 27 bytes, but 55 are present".to_owned())
        );
        assert_eq!(with(3, 28), Ok(()));
        let short = Ipv4Packet::of(&WITH_OPTIONS[..27]).unwrap_err();
        assert_eq!(short, BadPacket::Short { there: 27, needed: 28 });
    }

    proptest! {
        #[test]
        fn the_parts_of_any_packet_are_all_of_its_bytes(bytes: Vec<u8>, like_ip: Option<bool>) {
            let mut bytes = bytes;
            // Make the version and length fields plausible in some cases.
            if let ([first, _, high, low, payload_high, payload_low, ..], Some(four)) =
                (bytes.as_mut_slice(), like_ip)
            {
                *first = if four { 0x45 | *first & 3 } else { 0x60 };
                (*high, *payload_high) = (0, 0);
                (*low, *payload_low) = (*low / 2, *payload_low / 4);
            }
            if let Ok(packet) = Ipv4Packet::of(&bytes) {
                let parts = [packet.header.0, packet.options, packet.payload, packet.trailer];
                prop_assert_eq!(parts.concat(), bytes.clone());
            }
            if let Ok(packet) = Ipv6Packet::of(&bytes) {
                let parts = [packet.header.0, packet.payload, packet.trailer];
                prop_assert_eq!(parts.concat(), bytes);
            }
        }
    }
}
