//! UDP and TCP headers.

mod option;

pub use option::{BadOption, OptionsTooLong, TcpOption, TcpOptions, sack_edges};

use super::Format::{Decimal, Flag, Hex};
use super::header;
use super::ip::{Addresses, protocol};

/// UDP destination port of RoCEv2: a BTH follows (IBTA vol. 1, annex A17).
pub const ROCE_V2_PORT: u16 = 4791;

header! {
    /// UDP header.
    Udp, UdpView: 8, "UDP", "User Datagram Protocol", "RFC 768";
    /// Source port; 0 if no reply is expected.
    source_port: u16 = 0..16, "Source Port", Decimal, "Fields";
    destination_port: u16 = 16..32, "Destination Port", Decimal, "Fields";
    /// Length in bytes of header and payload.
    bytes: u16 = 32..48, "Length", Decimal, "Fields";
    /// Internet checksum with pseudo header; 0 if not used.
    checksum: u16 = 48..64, "Checksum", Hex, "Fields";
}

header! {
    /// TCP header without options, which [`TcpView::split`] splits off.
    Tcp, TcpView: 20, "TCP", "Transmission Control Protocol", "RFC 9293, 3.1";
    source_port: u16 = 0..16, "Source Port", Decimal, "RFC 9293, 3.1";
    destination_port: u16 = 16..32, "Destination Port", Decimal, "RFC 9293, 3.1";
    /// Sequence number of the first payload byte, or of the SYN.
    sequence: u32 = 32..64, "Sequence Number", Decimal, "RFC 9293, 3.1";
    /// Sequence number of the next byte expected from the peer.
    acknowledgement: u32 = 64..96, "Acknowledgment Number", Decimal, "RFC 9293, 3.1";
    /// Length of header and options in 32-bit words, 5 to 15.
    header_words: u8 = 96..100, "Data Offset", Decimal, "RFC 9293, 3.1";
    reserved_100: u8 = 100..104, "Reserved", Hex, "RFC 9293, 3.1";
    /// Congestion window reduced.
    cwr: bool = 104..105, "CWR", Flag, "RFC 3168, 6.1";
    /// ECN-Echo.
    ece: bool = 105..106, "ECE", Flag, "RFC 3168, 6.1";
    /// The urgent pointer is valid.
    urg: bool = 106..107, "URG", Flag, "RFC 9293, 3.1";
    /// The acknowledgement number is valid.
    ack: bool = 107..108, "ACK", Flag, "RFC 9293, 3.1";
    /// Push: deliver to the application without delay.
    psh: bool = 108..109, "PSH", Flag, "RFC 9293, 3.1";
    /// Reset the connection.
    rst: bool = 109..110, "RST", Flag, "RFC 9293, 3.1";
    /// Synchronize sequence numbers: opens a connection.
    syn: bool = 110..111, "SYN", Flag, "RFC 9293, 3.1";
    /// The sender has no more data.
    fin: bool = 111..112, "FIN", Flag, "RFC 9293, 3.1";
    /// Receive window before scaling.
    window: u16 = 112..128, "Window", Decimal, "RFC 9293, 3.1";
    /// Internet checksum with pseudo header.
    checksum: u16 = 128..144, "Checksum", Hex, "RFC 9293, 3.1";
    /// Offset of the end of urgent data.
    urgent: u16 = 144..160, "Urgent Pointer", Decimal, "RFC 9293, 3.1";
}

impl UdpView<'_> {
    /// Splits the bytes after the header into payload and trailer. `None` if the length is below 8 or exceeds `rest`.
    #[inline]
    pub fn split(self, rest: &[u8]) -> Option<(&[u8], &[u8])> {
        rest.split_at_checked(usize::from(self.bytes()).checked_sub(Udp::BYTES)?)
    }
}

impl Udp {
    /// Returns the header with its checksum computed over pseudo header, header and `payload`.
    ///
    /// A checksum of 0 is sent as all ones, because 0 means no checksum (RFC 768).
    #[must_use]
    pub fn with_checksum(self, addresses: Addresses, payload: &[u8]) -> Self {
        let zero = Self { checksum: 0, ..self };
        let sum = addresses.checksum(protocol::UDP, &[&zero.to_bytes(), payload]);
        Self { checksum: if sum == 0 { u16::MAX } else { sum }, ..self }
    }
}

impl TcpView<'_> {
    /// Splits the bytes after the fixed header into options and payload.
    ///
    /// `None` if the data offset is below 5 or exceeds the bytes available.
    #[inline]
    pub fn split(self, rest: &[u8]) -> Option<(&[u8], &[u8])> {
        rest.split_at_checked((4 * usize::from(self.header_words())).checked_sub(Tcp::BYTES)?)
    }
}

impl Tcp {
    /// Returns the header with its checksum computed over pseudo header, header, `options` and `payload`.
    #[must_use]
    pub fn with_checksum(self, addresses: Addresses, options: &[u8], payload: &[u8]) -> Self {
        let zero = Self { checksum: 0, ..self };
        let checksum = addresses.checksum(protocol::TCP, &[&zero.to_bytes(), options, payload]);
        Self { checksum, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{Ipv4Packet, Ipv6Packet};
    use crate::laws::round_trip;

    round_trip!(a_udp_header_survives_the_wire, Udp, UdpView);
    round_trip!(a_tcp_header_survives_the_wire, Tcp, TcpView);

    /// A SYN that Linux 6 sent on its loopback device, with the checksum that Linux leaves to offload filled in.
    const SYN: [u8; 60] = [
        0x45, 0x00, 0x00, 0x3c, 0xf7, 0xf0, 0x40, 0x00, 0x40, 0x06, 0x44, 0xc9, 0x7f, 0x00, 0x00,
        0x01, 0x7f, 0x00, 0x00, 0x01, 0xca, 0xc6, 0x8f, 0xbb, 0xf9, 0xad, 0xc0, 0x73, 0x00, 0x00,
        0x00, 0x00, 0xa0, 0x02, 0xff, 0xd7, 0x0a, 0xf8, 0x00, 0x00, 0x02, 0x04, 0xff, 0xd7, 0x04,
        0x02, 0x08, 0x0a, 0x24, 0xb9, 0x0b, 0xaa, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
    ];

    #[test]
    fn a_syn_is_read_and_its_checksum_found_again() {
        let packet = Ipv4Packet::of(&SYN).unwrap();
        let addresses = Addresses::from(packet.header);
        assert_eq!(addresses.checksum(protocol::TCP, &[packet.payload]), 0);
        let (tcp, rest) = TcpView::of(packet.payload).unwrap();
        assert!(tcp.syn() && !tcp.ack() && !tcp.fin());
        assert_eq!((tcp.source_port(), tcp.window()), (51_910, 0xffd7));
        let (options, payload) = tcp.split(rest).unwrap();
        assert_eq!((options.len(), payload.len()), (20, 0));
        let value = tcp.value();
        let blank = Tcp { checksum: 0, ..value };
        assert_eq!(blank.with_checksum(addresses, options, payload), value);
    }

    #[test]
    fn a_datagram_over_ipv6_is_read_and_its_checksum_found_again() {
        let bytes = [
            0x60, 0x01, 0x23, 0x45, 0x00, 0x0d, 0x11, 0x40, // IPv6
            0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // 2001:db8::1
            0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, // 2001:db8::2
            0x9c, 0x40, 0x00, 0x07, 0x00, 0x0d, 0xc4, 0x45, // UDP
            b'h', b'e', b'l', b'l', b'o',
        ];
        let packet = Ipv6Packet::of(&bytes).unwrap();
        let addresses = Addresses::from(packet.header);
        let (udp, rest) = UdpView::of(packet.payload).unwrap();
        assert_eq!((udp.source_port(), udp.destination_port()), (40_000, 7));
        let (payload, trailer) = udp.split(rest).unwrap();
        assert_eq!((payload, trailer), (&b"hello"[..], &[][..]));
        let blank = Udp { checksum: 0, ..udp.value() };
        assert_eq!(blank.with_checksum(addresses, payload), udp.value());
    }

    #[test]
    fn a_length_that_lies_leaves_nothing_to_read() {
        let udp = |bytes| Udp { bytes, ..UdpView(&[0; 8]).value() }.to_bytes();
        let split = |bytes| UdpView(&udp(bytes)).split(&[1, 2, 3]).map(|(payload, _)| payload);
        assert_eq!((split(7), split(12)), (None, None));
        assert_eq!((split(8), split(11)), (Some(&[][..]), Some(&[1, 2, 3][..])));
        let tcp = |header_words| Tcp { header_words, ..TcpView(&[0; 20]).value() }.to_bytes();
        assert!(TcpView(&tcp(4)).split(&[0; 60]).is_none());
        assert!(TcpView(&tcp(15)).split(&[0; 39]).is_none());
        assert!(TcpView(&tcp(15)).split(&[0; 40]).is_some());
    }
}
