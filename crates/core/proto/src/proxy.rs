//! PROXY protocol, version 2: a header before the bytes of a relayed connection that names its client
//! (doc/proxy-protocol.txt of HAProxy, section 2.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and protocol, and the length of the rest.
const FIXED_BYTES: usize = 16;

/// Longest header that is accepted, with its additional fields (TLVs). Their certificates and names fit in 4 KiB.
pub const PROXY_BYTES_MAX: usize = 4096;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
const ADDRESSES_V4_BYTES: usize = 12;
const ADDRESSES_V6_BYTES: usize = 36;

/// The connection that a relay accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address that the client connected to.
    pub destination: SocketAddr,
}

/// The bytes are no PROXY header of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a PROXY header of version 2")]
pub struct NotProxy;

impl ProxyHeader {
    /// Serializes the header. If the families differ, both addresses are written as IPv6, IPv4 ones mapped.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        let (family, length, addresses) = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => (
                TCP_OVER_IPV4,
                ADDRESSES_V4_BYTES,
                [source.octets(), destination.octets()].concat(),
            ),
            (source, destination) => {
                let octets = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                (TCP_OVER_IPV6, ADDRESSES_V6_BYTES, [octets(source), octets(destination)].concat())
            }
        };
        bytes.extend([PROXY, family]);
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend(addresses);
        bytes.extend(self.source.port().to_be_bytes());
        bytes.extend(self.destination.port().to_be_bytes());
        bytes
    }

    /// Parses a header at the start of `bytes`; returns it and its length, or `None` if more bytes are needed. There is
    /// no header value for connections of the sender itself (LOCAL), and for families other than TCP over IP.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Option<Self>, usize)>, NotProxy> {
        let known = bytes.len().min(SIGNATURE.len());
        if bytes[..known] != SIGNATURE[..known] {
            return Err(NotProxy);
        }
        let Some(&[command, family, high, low]) = bytes.get(SIGNATURE.len()..FIXED_BYTES) else {
            return Ok(None);
        };
        let length = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if !matches!(command, LOCAL | PROXY) || length > PROXY_BYTES_MAX {
            return Err(NotProxy);
        }
        let Some(rest) = bytes.get(FIXED_BYTES..length) else { return Ok(None) };
        let header = match (command, family) {
            (PROXY, TCP_OVER_IPV4) => {
                let addresses = rest.first_chunk::<ADDRESSES_V4_BYTES>().ok_or(NotProxy)?;
                let address = |at: usize| {
                    Ipv4Addr::from([0, 1, 2, 3].map(|octet| addresses[at + octet])).into()
                };
                Some(Self::of(address(0), address(4), &addresses[8..]))
            }
            (PROXY, TCP_OVER_IPV6) => {
                let addresses = rest.first_chunk::<ADDRESSES_V6_BYTES>().ok_or(NotProxy)?;
                let address = |at: usize| {
                    let octets: [u8; 16] = std::array::from_fn(|octet| addresses[at + octet]);
                    Ipv6Addr::from(octets).into()
                };
                Some(Self::of(address(0), address(16), &addresses[32..]))
            }
            _ => None,
        };
        Ok(Some((header, length)))
    }

    fn of(source: IpAddr, destination: IpAddr, ports: &[u8]) -> Self {
        let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
        Self {
            source: SocketAddr::new(source, port(0)),
            destination: SocketAddr::new(destination, port(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(source: &str, destination: &str) -> ProxyHeader {
        ProxyHeader { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn a_header_of_ipv4_has_the_bytes_of_the_specification() {
        let bytes = header("192.0.2.1:51234", "198.51.100.2:9000").emit();
        let expected = [
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x21, 0x11, 0,
            12, 192, 0, 2, 1, 198, 51, 100, 2, 0xc8, 0x22, 0x23, 0x28,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_header_parses_to_itself_and_every_shorter_one_needs_more_bytes() {
        for header in [
            header("192.0.2.1:51234", "198.51.100.2:9000"),
            header("[2001:db8::1]:1", "[2001:db8::2]:65535"),
        ] {
            let bytes = header.emit();
            let followed = [&bytes[..], b"payload"].concat();
            assert_eq!(ProxyHeader::parse(&followed), Ok(Some((Some(header), bytes.len()))));
            for length in 0..bytes.len() {
                assert_eq!(ProxyHeader::parse(&bytes[..length]), Ok(None), "{length}");
            }
        }
    }

    #[test]
    fn addresses_of_different_families_are_both_written_as_ipv6() {
        let bytes = header("192.0.2.1:1", "[2001:db8::2]:2").emit();
        let expected = header("[::ffff:192.0.2.1]:1", "[2001:db8::2]:2");
        assert_eq!(ProxyHeader::parse(&bytes), Ok(Some((Some(expected), 52))));
    }

    #[test]
    fn a_local_connection_has_no_addresses_and_additional_fields_are_skipped() {
        let mut local = SIGNATURE.to_vec();
        local.extend([0x20, 0, 0, 3, 1, 2, 3]);
        assert_eq!(ProxyHeader::parse(&local), Ok(Some((None, 19))));
        let mut longer = header("192.0.2.1:1", "192.0.2.2:2").emit();
        longer[15] += 4;
        longer.extend([3, 0, 1, 0]);
        let (parsed, length) = ProxyHeader::parse(&longer).unwrap().unwrap();
        assert_eq!((parsed.unwrap().source.port(), length), (1, 32));
    }

    #[test]
    fn other_bytes_versions_and_lengths_are_refused() {
        let bytes = header("192.0.2.1:1", "192.0.2.2:2").emit();
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            bytes
        };
        assert_eq!(ProxyHeader::parse(b"GET / HTTP/1.1"), Err(NotProxy));
        assert_eq!(ProxyHeader::parse(&with(12, 0x11)), Err(NotProxy), "version 1");
        assert_eq!(ProxyHeader::parse(&with(12, 0x22)), Err(NotProxy), "unknown command");
        assert_eq!(ProxyHeader::parse(&with(14, 0xff)), Err(NotProxy), "longer than the maximum");
        assert_eq!(ProxyHeader::parse(&with(15, 11)), Err(NotProxy), "shorter than its addresses");
    }
}
