//! IP packets: a UDP datagram and its fragments, and the segments of a write to a TCP connection.

use fabricmark_header::ethernet::ether_type;
use fabricmark_header::ip::{Addresses, Ipv4, Ipv6, Ipv6Fragment, protocol};
use fabricmark_header::transport::{Tcp, TcpOption, TcpOptions, Udp};
use fabricmark_wire::{Family, Link, fragments};

use super::{Host, Packet, ethernet, infiniband, tags};

/// Ephemeral ports, which are assigned to no service (RFC 6335, 6).
const SOURCE_PORT: u16 = 49_152;
const DESTINATION_PORT: u16 = 49_153;

/// TTL and hop limit; Linux's default.
const HOPS: u8 = 64;

/// Identification of a fragmented packet.
const IDENTIFICATION: u16 = 1;

/// Position of a fragment in the datagram.
#[derive(Clone, Copy)]
struct Fragment {
    offset: usize,
    more: bool,
}

/// Builds one datagram, fragmented as the MTU requires.
pub(super) fn datagram(link: Link, family: Family, data: &[u8]) -> Vec<Packet> {
    let udp = udp(Host::First, family, SOURCE_PORT, DESTINATION_PORT, data);
    let datagram = [&udp.to_bytes(), data].concat();
    let sizes = fragments(family, link.mtu(), data.len() as u64).unwrap_or_default();
    let header = family.header_bytes() as usize;
    let ip_packets = match sizes.as_slice() {
        [_] => vec![ip(Host::First, family, protocol::UDP, &datagram)],
        sizes => {
            let extension = if family == Family::V6 { Ipv6Fragment::BYTES } else { 0 };
            let mut rest = datagram.as_slice();
            let cut = sizes.iter().map(|&size| {
                let offset = datagram.len() - rest.len();
                let room = (size as usize).saturating_sub(header + extension);
                let (part, behind) = rest.split_at(room.min(rest.len()));
                rest = behind;
                fragment(family, part, Fragment { offset, more: !rest.is_empty() })
            });
            cut.collect()
        }
    };
    carried(link, family, &ip_packets)
}

/// Builds the TCP segments of one write.
pub(super) fn segments(link: Link, family: Family, option_bytes: u8, data: &[u8]) -> Vec<Packet> {
    let options = options(option_bytes.into());
    let headers = family.header_bytes() as usize + Tcp::BYTES + options.len();
    let mss = usize::from(link.mtu()).saturating_sub(headers).max(1);
    let mut sequence: u32 = 1;
    let count = data.len().div_ceil(mss);
    let segments = data.chunks(mss).enumerate().map(|(index, payload)| {
        let tcp = Tcp {
            source_port: SOURCE_PORT,
            destination_port: DESTINATION_PORT,
            sequence,
            acknowledgement: 1,
            header_words: ((Tcp::BYTES + options.len()) / 4) as u8,
            ack: true,
            psh: index + 1 == count,
            window: u16::MAX,
            ..Tcp::default()
        };
        let tcp = tcp.with_checksum(addresses(Host::First, family), &options, payload);
        sequence = sequence.wrapping_add(payload.len() as u32);
        let segment = [&tcp.to_bytes(), options.as_slice(), payload].concat();
        ip(Host::First, family, protocol::TCP, &segment)
    });
    carried(link, family, &segments.collect::<Vec<_>>())
}

/// TCP options of `bytes` bytes: timestamps if they fit, preceded by padding.
fn options(bytes: usize) -> Vec<u8> {
    let stamps = TcpOption::Timestamps { value: 1, echo: 1 };
    let stamps_bytes = 10;
    let mut options = vec![TcpOption::NoOperation; bytes];
    if bytes > stamps_bytes {
        options.truncate(bytes - stamps_bytes);
        options.push(stamps);
    }
    // Options that do not fit have been rejected before.
    TcpOptions::write(&options).unwrap_or_default()
}

/// Encapsulates IP packets for the link.
fn carried(link: Link, family: Family, ip_packets: &[Vec<u8>]) -> Vec<Packet> {
    let kind = ether_type_of(family);
    if let Link::Ipoib(ipoib) = link {
        return infiniband::ipoib(ipoib, kind, ip_packets);
    }
    let from = Host::First;
    let frame = |ip_packet: &Vec<u8>| ethernet(from, tags(link), kind, &[ip_packet]);
    ip_packets.iter().map(|packet| Packet { from, bytes: frame(packet) }).collect()
}

/// EtherType of an IP version.
pub(super) fn ether_type_of(family: Family) -> u16 {
    match family {
        Family::V4 => ether_type::IPV4,
        Family::V6 => ether_type::IPV6,
    }
}

fn addresses(from: Host, family: Family) -> Addresses {
    let to = from.other();
    match family {
        Family::V4 => Addresses::V4 { source: from.ipv4(), destination: to.ipv4() },
        Family::V6 => Addresses::V6 { source: from.ipv6(), destination: to.ipv6() },
    }
}

/// UDP header of a datagram that carries `data`.
pub(super) fn udp(from: Host, family: Family, source: u16, destination: u16, data: &[u8]) -> Udp {
    let bytes = (Udp::BYTES + data.len()) as u16;
    let udp = Udp { source_port: source, destination_port: destination, bytes, checksum: 0 };
    udp.with_checksum(addresses(from, family), data)
}

/// An unfragmented IP packet.
pub(super) fn ip(from: Host, family: Family, next: u8, payload: &[u8]) -> Vec<u8> {
    let whole = Fragment { offset: 0, more: false };
    match family {
        Family::V4 => [&ipv4(from, next, payload, whole).to_bytes(), payload].concat(),
        Family::V6 => {
            let header = Ipv6 {
                version: 6,
                payload_bytes: payload.len() as u16,
                next_header: next,
                hop_limit: HOPS,
                source: from.ipv6(),
                destination: from.other().ipv6(),
                ..Ipv6::default()
            };
            [&header.to_bytes(), payload].concat()
        }
    }
}

/// A fragment of a UDP datagram.
fn fragment(family: Family, payload: &[u8], place: Fragment) -> Vec<u8> {
    let from = Host::First;
    match family {
        Family::V4 => [&ipv4(from, protocol::UDP, payload, place).to_bytes(), payload].concat(),
        Family::V6 => {
            let extension = Ipv6Fragment {
                next_header: protocol::UDP,
                fragment_offset: (place.offset / 8) as u16,
                more_fragments: place.more,
                identification: IDENTIFICATION.into(),
                ..Ipv6Fragment::default()
            };
            let payload = [&extension.to_bytes(), payload].concat();
            ip(from, family, protocol::IPV6_FRAGMENT, &payload)
        }
    }
}

fn ipv4(from: Host, next: u8, payload: &[u8], place: Fragment) -> Ipv4 {
    let is_whole = place.offset == 0 && !place.more;
    let header = Ipv4 {
        version: 4,
        header_words: (Ipv4::BYTES / 4) as u8,
        total_bytes: (Ipv4::BYTES + payload.len()) as u16,
        identification: if is_whole { 0 } else { IDENTIFICATION },
        // An atomic packet needs no identification (RFC 6864, 4.1).
        dont_fragment: is_whole,
        more_fragments: place.more,
        fragment_offset: (place.offset / 8) as u16,
        ttl: HOPS,
        protocol: next,
        source: from.ipv4(),
        destination: from.other().ipv4(),
        ..Ipv4::default()
    };
    header.with_checksum(&[])
}
