//! Segmentation of super-packets: the bytes of each piece.
//!
//! A net ([`fabricmark_link::Net`]) moves a super-packet as a whole, and cuts it where segments are lost or marked;
//! it knows only lengths. Here each piece gets the headers that it would have if the kernel had segmented it:
//! lengths, IP identification, TCP sequence numbers and flags, checksums.

use std::ops::Range;

use fabricmark_header::checksum::Internet;
use fabricmark_link::{Ecn, Length, Packet};

use crate::offload::{Offload, Transport};

/// Upper bound for the headers of a packet: 40 bytes of IPv6, 60 of TCP, and extension headers.
pub(crate) const HEADERS_MAX: usize = 256;

/// TCP flags FIN and PSH: only the last segment keeps them.
const FIN_PSH: u8 = 0x09;
/// TCP flag CWR: only the first segment keeps it (RFC 3168, section 6.1.2).
const CWR: u8 = 0x80;

/// The bytes of a piece: rewritten headers, and its part of the payload.
#[derive(Debug)]
pub(crate) struct Piece {
    headers: [u8; Offload::BYTES + HEADERS_MAX],
    header_bytes: usize,
    /// Range in the bytes of the whole super-packet.
    pub(crate) payload: Range<usize>,
}

impl Piece {
    /// The [`Offload`] header and those that follow it, rewritten.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers[..self.header_bytes]
    }
}

/// Length of the packet that follows an [`Offload`] header.
pub(crate) fn length(whole: &[u8]) -> Length {
    let packet_bytes = whole.len().saturating_sub(Offload::BYTES) as u32;
    match headers(whole) {
        Some((offload, header_bytes)) => Length::train(
            header_bytes as u16,
            packet_bytes - header_bytes as u32,
            offload.segment_bytes,
        ),
        None => Length::packet(packet_bytes),
    }
}

/// The [`Offload`] header of a super-packet, and the length of its IP and transport headers; `None` if it is no
/// super-packet, or if its headers are not where they should be.
fn headers(whole: &[u8]) -> Option<(Offload, usize)> {
    let offload = Offload::read(whole)?;
    let packet = &whole[Offload::BYTES..];
    let transport = offload.transport()?;
    let start = usize::from(offload.checksum_start);
    let header_bytes = start
        + match transport {
            Transport::Udp => 8,
            Transport::Tcp => usize::from(packet.get(start + 12)? >> 4) * 4,
        };
    let smallest = start + if transport == Transport::Tcp { 20 } else { 8 };
    let internet = if packet.first()? >> 4 == 4 { 20 } else { 40 };
    let fits = internet <= start && smallest <= header_bytes && header_bytes <= HEADERS_MAX;
    let is_checksum_inside = start + usize::from(offload.checksum_offset) + 2 <= header_bytes;
    (fits && is_checksum_inside && header_bytes < packet.len()).then_some((offload, header_bytes))
}

/// ECN codepoint of the IP packet that follows an [`Offload`] header.
pub(crate) fn ecn(whole: &[u8]) -> Ecn {
    let bits = match whole.get(Offload::BYTES..) {
        Some([first, second, ..]) if first >> 4 == 4 => second & 3,
        Some([first, second, ..]) if first >> 4 == 6 => second >> 4 & 3,
        _ => 0,
    };
    match bits {
        0 => Ecn::NotCapable,
        1 => Ecn::Capable1,
        2 => Ecn::Capable0,
        _ => Ecn::Congested,
    }
}

/// The piece to be written instead of `whole` for a packet that left a net; `None` if the packet is unchanged.
pub(crate) fn piece<T>(whole: &[u8], packet: &Packet<T>) -> Option<Piece> {
    let is_marked = packet.ecn == Ecn::Congested && ecn(whole) != Ecn::Congested;
    let is_cut = packet.length != length(whole);
    if whole.len() < Offload::BYTES || !is_marked && !is_cut {
        return None;
    }
    let mut headers = [0; Offload::BYTES + HEADERS_MAX];
    let (header_bytes, payload) = match self::headers(whole) {
        Some((offload, header_bytes)) if is_cut => {
            let (before, packet_headers) = headers.split_at_mut(Offload::BYTES);
            let packet_headers = &mut packet_headers[..header_bytes];
            let end = Offload::BYTES + header_bytes;
            packet_headers.copy_from_slice(&whole[Offload::BYTES..end]);
            let length = packet.length;
            cut(packet_headers, offload, length, whole.len());
            let offset = length.offset_bytes();
            let offload = offload.of_piece(length.segments(), offset == 0, header_bytes as u16);
            before.copy_from_slice(&offload.to_bytes());
            let from = (end + offset as usize).min(whole.len());
            (end, from..(from + payload_bytes(length) as usize).min(whole.len()))
        }
        _ => {
            let end = (Offload::BYTES + 20).min(whole.len());
            headers[..end].copy_from_slice(&whole[..end]);
            (end, end..whole.len())
        }
    };
    let mut piece = Piece { headers, header_bytes, payload };
    if is_marked {
        mark(&mut piece.headers[Offload::BYTES..header_bytes]);
    }
    Some(piece)
}

/// Whether the last segment of a super-packet is in this piece of it.
pub(crate) fn is_end<T>(whole: &[u8], packet: &Packet<T>) -> bool {
    let all = payload_bytes(length(whole));
    packet.length.offset_bytes() + payload_bytes(packet.length) >= all
}

/// Bytes of a piece after its headers.
fn payload_bytes(length: Length) -> u32 {
    let headers = u64::from(length.segments()) * u64::from(length.header_bytes());
    (length.bytes() - headers) as u32
}

/// Flips a bit, after computing the checksum if the sender left that to others, so that the receiver sees a wrong
/// checksum.
pub(crate) fn flip(bytes: &mut [u8], bit: u32) {
    let Some(offload) = Offload::read(bytes) else { return };
    let (before, packet) = bytes.split_at_mut(Offload::BYTES);
    if offload.needs_checksum() {
        let start = usize::from(offload.checksum_start);
        let at = start + usize::from(offload.checksum_offset);
        if at + 2 <= packet.len() {
            let sum = Internet::new().with(&packet[start..]).finish();
            // A UDP checksum of 0 means that there is none (RFC 768).
            let sum = if sum == 0 { 0xffff } else { sum };
            packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
    before.fill(0);
    if let Some(byte) = packet.get_mut(bit as usize / 8) {
        *byte ^= 0x80 >> (bit % 8);
    }
}

/// Changes the headers of a super-packet of `whole_bytes`, [`Offload`] header included, to those of its piece of
/// this length.
fn cut(headers: &mut [u8], offload: Offload, length: Length, whole_bytes: usize) {
    let (offset, payload_bytes) = (length.offset_bytes(), payload_bytes(length));
    let end = Offload::BYTES + headers.len() + (offset + payload_bytes) as usize;
    let start = usize::from(offload.checksum_start);
    let packet_bytes = headers.len() + payload_bytes as usize;
    let transport_bytes = packet_bytes - start;
    if headers[0] >> 4 == 4 {
        put(headers, 2, packet_bytes as u16);
        let segments_before = offset / u32::from(offload.segment_bytes);
        let identification = get(headers, 4).wrapping_add(segments_before as u16);
        put(headers, 4, identification);
        put(headers, 10, 0);
        let options_end = usize::from(headers[0] & 15) * 4;
        let internet = headers.get(..options_end).unwrap_or_default();
        let sum = Internet::new().with(internet).finish();
        put(headers, 10, sum);
    } else {
        put(headers, 4, (packet_bytes - 40) as u16);
    }
    // The checksum field holds the sum of the pseudo-header, which includes the length (RFC 1624).
    let at = start + usize::from(offload.checksum_offset);
    let whole_transport_bytes = whole_bytes - Offload::BYTES - start;
    let sum = add(get(headers, at), !(whole_transport_bytes as u16));
    put(headers, at, add(sum, transport_bytes as u16));
    match offload.transport() {
        Some(Transport::Tcp) => {
            if let Some(sequence) = headers[start + 4..].first_chunk_mut() {
                *sequence = u32::from_be_bytes(*sequence).wrapping_add(offset).to_be_bytes();
            }
            let flags = &mut headers[start + 13];
            if end < whole_bytes {
                *flags &= !FIN_PSH;
            }
            if offset > 0 {
                *flags &= !CWR;
            }
        }
        Some(Transport::Udp) => put(headers, start + 4, transport_bytes as u16),
        None => {}
    }
}

/// Sets CE in an IP header.
fn mark(headers: &mut [u8]) {
    match headers {
        [first, ..] if *first >> 4 == 4 && headers.len() >= 20 => {
            let before = get(headers, 0);
            headers[1] |= 3;
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
            let sum = add(add(!get(headers, 10), !before), get(headers, 0));
            put(headers, 10, !sum);
        }
        [_, second, ..] => *second |= 0x30,
        _ => {}
    }
}

/// Sum in ones' complement.
fn add(one: u16, two: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(two);
    sum + u16::from(carry)
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
pub(crate) mod tests;
