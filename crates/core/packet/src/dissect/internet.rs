//! Dissects Ethernet, ARP, IPv4, IPv6, UDP and TCP.

use fabricmark_header::arp::{Arp, IpoibArp};
use fabricmark_header::checksum::Internet;
use fabricmark_header::ethernet::{Ethernet, EthernetView, Vlan, VlanView, ether_type};
use fabricmark_header::ip::{
    Addresses, Ipv4, Ipv4View, Ipv6, Ipv6Fragment, Ipv6FragmentView, Ipv6View, protocol,
};
use fabricmark_header::transport::{
    ROCE_V2_PORT, Tcp, TcpOption, TcpOptions, TcpView, Udp, UdpView, sack_edges,
};

use super::{Trouble, Verdict, Walk};

/// Smallest EtherType; lower values are a length (IEEE 802.3, 3.2.6).
const TYPE_MIN: u16 = 1536;

/// IPv6 extension headers whose second byte is their length in units of 8 bytes, not counting the first 8 bytes (RFC
/// 8200, 4; RFC 6275; RFC 7401; RFC 5533).
const EXTENSIONS: [(u8, &str); 6] = [
    (0, "hop-by-hop options"),
    (43, "routing header"),
    (60, "destination options"),
    (135, "mobility header"),
    (139, "host identity header"),
    (140, "shim6 header"),
];
/// Authentication header: its second byte is its length in units of 4 bytes minus 2 (RFC 4302, 2.2).
const AUTHENTICATION: u8 = 51;

/// How much of an IP packet is present.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it, according to its length fields.
    Whole,
    /// Only the beginning, for this reason; its length fields exceed the bytes present.
    Beginning(&'static str),
}

impl Extent {
    /// The same extent, reduced to a beginning.
    fn beginning(self) -> Self {
        match self {
            Self::Whole => Self::Beginning("the rest is not in this packet"),
            Self::Beginning(_) => self,
        }
    }
}

/// The IP packet below a transport header: its offset, addresses and extent.
#[derive(Clone, Copy)]
struct Below {
    ip_at: usize,
    addresses: Addresses,
    extent: Extent,
}

impl Walk<'_> {
    pub(super) fn ethernet(&mut self) {
        let end = self.bytes.len();
        let ethernet = self.read(Ethernet::LAYOUT, EthernetView::of, 0, end);
        let Some((ethernet, mut at)) = ethernet else { return };
        let mut kind = ethernet.ether_type();
        while matches!(kind, ether_type::VLAN | ether_type::SERVICE_VLAN) {
            let Some((tag, next)) = self.read(Vlan::LAYOUT, VlanView::of, at, end) else { return };
            (kind, at) = (tag.ether_type(), next);
        }
        match kind {
            ether_type::ROCE_V1 => self.roce_v1(at, end),
            ..TYPE_MIN => self.data("IEEE 802.2 frame", at, end),
            _ => self.network(kind, at, end, Extent::Whole),
        }
    }

    /// Dissects the payload of Ethernet or IPoIB by its EtherType.
    pub(super) fn network(&mut self, kind: u16, at: usize, end: usize, extent: Extent) {
        match kind {
            ether_type::IPV4 => self.ipv4(at, end, extent),
            ether_type::IPV6 => self.ipv6(at, end, extent),
            ether_type::ARP | ether_type::RARP => self.arp(at, end),
            _ => self.data("payload", at, end),
        }
    }

    /// The lengths of the addresses select the ARP format.
    fn arp(&mut self, at: usize, end: usize) {
        let layout = match self.rest(at, end) {
            [_, _, _, _, 20, 4, ..] => IpoibArp::LAYOUT,
            [_, _, _, _, 6, 4, ..] => Arp::LAYOUT,
            bytes if bytes.len() < 6 => Arp::LAYOUT,
            _ => return self.data("ARP between other addresses", at, end),
        };
        if let Some(next) = self.header(layout, at, end) {
            self.data("trailer", next, end);
        }
    }

    fn ipv4(&mut self, at: usize, end: usize, extent: Extent) {
        let Some((ip, after)) = self.read(Ipv4::LAYOUT, Ipv4View::of, at, end) else { return };
        let (there, header) = (end - at, 4 * usize::from(ip.header_words()));
        if ip.version() != 4 {
            self.version("IPv4", at, ip.version(), 4);
            return self.data("data", after, end);
        }
        if header < Ipv4::BYTES || header > there {
            self.trouble(at, Trouble::Length { header: "IPv4", says: header, there });
            return self.data("data", after, end);
        }
        let right = Internet::new()
            .with(&Ipv4 { checksum: 0, ..ip.value() }.to_bytes())
            .with(self.rest(after, at + header))
            .finish();
        let stored = Some(ip.checksum().to_be_bytes());
        self.sum("IPv4 checksum", at + 10, 2, Verdict::of(stored, Some(right.to_be_bytes())));
        self.ipv4_options(after, at + header);

        let says = usize::from(ip.total_bytes());
        let packet_end = match says {
            _ if says < header || (says > there && extent == Extent::Whole) => {
                self.trouble(at + 2, Trouble::Length { header: "IPv4", says, there });
                end
            }
            _ => (at + says).min(end),
        };
        let is_beginning = ip.more_fragments() || says > there;
        let extent = if is_beginning { extent.beginning() } else { extent };
        if ip.fragment_offset() > 0 {
            self.data("fragment", at + header, packet_end);
        } else {
            let below = Below { ip_at: at, addresses: ip.into(), extent };
            self.transport(ip.protocol(), at + header, packet_end, below);
        }
        self.data("trailer", packet_end, end);
    }

    fn version(&mut self, header: &'static str, at: usize, version: u8, right: u32) {
        let (field, value) = ("Version", u32::from(version));
        self.trouble(at, Trouble::Contradiction { header, field, value, right });
    }

    /// IPv4 options by kind (RFC 791, 3.1; RFC 2113).
    fn ipv4_options(&mut self, mut at: usize, end: usize) {
        while let [kind, rest @ ..] = self.rest(at, end) {
            let (name, text, bytes) = match kind {
                0 => ("end of options", String::new(), end - at),
                1 => ("no operation", String::new(), 1),
                kind => {
                    let bytes = rest.first().copied().map_or(0, usize::from);
                    if bytes < 2 || bytes > end - at {
                        return self.trouble(at, Trouble::Option { header: "IPv4", kind: *kind });
                    }
                    let name = match kind {
                        7 => "record route",
                        68 => "timestamp",
                        130 => "security",
                        131 => "loose source route",
                        137 => "strict source route",
                        148 => "router alert",
                        _ => "option",
                    };
                    (name, format!("kind {kind}, {bytes} bytes"), bytes)
                }
            };
            self.option(name, text, at, bytes);
            at += bytes;
        }
    }

    fn option(&mut self, name: &'static str, text: String, at: usize, bytes: usize) {
        self.parts.push(super::Part::Option { name, text, at, bytes });
    }

    fn ipv6(&mut self, at: usize, end: usize, extent: Extent) {
        let Some((ip, after)) = self.read(Ipv6::LAYOUT, Ipv6View::of, at, end) else { return };
        if ip.version() != 6 {
            self.version("IPv6", at, ip.version(), 6);
            return self.data("data", after, end);
        }
        let (says, there) = (usize::from(ip.payload_bytes()), end - after);
        let (packet_end, extent) = match extent {
            _ if says <= there => (after + says, extent),
            Extent::Beginning(_) => (end, extent),
            Extent::Whole => {
                self.trouble(at + 4, Trouble::Length { header: "IPv6", says, there });
                (end, extent.beginning())
            }
        };
        let below = Below { ip_at: at, addresses: ip.into(), extent };
        self.ipv6_next(ip.next_header(), after, packet_end, below);
        self.data("trailer", packet_end, end);
    }

    /// Dissects IPv6 extension headers, then the upper-layer header.
    fn ipv6_next(&mut self, mut next: u8, mut at: usize, end: usize, mut below: Below) {
        loop {
            let bytes = self.rest(at, end);
            let length = bytes.get(1).copied().map_or(0, usize::from);
            let (name, length) = match next {
                protocol::IPV6_FRAGMENT => {
                    let of = Ipv6FragmentView::of;
                    let read = self.read(Ipv6Fragment::LAYOUT, of, at, end);
                    let Some((fragment, after)) = read else { return };
                    if fragment.fragment_offset() > 0 {
                        return self.data("fragment", after, end);
                    }
                    if fragment.more_fragments() {
                        below.extent = below.extent.beginning();
                    }
                    (next, at) = (fragment.next_header(), after);
                    continue;
                }
                AUTHENTICATION => ("authentication header", 4 * (length + 2)),
                _ => match EXTENSIONS.iter().find(|(kind, _)| *kind == next) {
                    Some((_, name)) => (*name, 8 * (length + 1)),
                    None => return self.transport(next, at, end, below),
                },
            };
            if bytes.len() < length {
                let there = bytes.len();
                self.trouble(at, Trouble::CutShort { header: name, needs: length, there });
                return self.data("data", at, end);
            }
            self.data(name, at, at + length);
            (next, at) = (bytes.first().copied().unwrap_or_default(), at + length);
        }
    }

    fn transport(&mut self, kind: u8, at: usize, end: usize, below: Below) {
        match kind {
            protocol::UDP => self.udp(at, end, below),
            protocol::TCP => self.tcp(at, end, below),
            _ => self.data("payload", at, end),
        }
    }

    fn udp(&mut self, at: usize, end: usize, below: Below) {
        let Some((udp, after)) = self.read(Udp::LAYOUT, UdpView::of, at, end) else { return };
        let (says, there) = (usize::from(udp.bytes()), end - at);
        let is_wrong = says < Udp::BYTES || (says > there && below.extent == Extent::Whole);
        let udp_end = if is_wrong { end } else { (at + says).min(end) };
        if is_wrong {
            self.trouble(at + 4, Trouble::Length { header: "UDP", says, there });
        }
        let verdict = match below.extent {
            _ if udp.checksum() == 0 => Verdict::Absent,
            _ if is_wrong => Verdict::Unchecked("its length is invalid"),
            // A datagram may end before the message or fragment that is cut off.
            Extent::Beginning(why) if says > there => Verdict::Unchecked(why),
            _ => {
                let payload = self.rest(after, udp_end);
                let right = udp.value().with_checksum(below.addresses, payload).checksum;
                Verdict::of(Some(udp.checksum().to_be_bytes()), Some(right.to_be_bytes()))
            }
        };
        self.sum("UDP checksum", at + 6, 2, verdict);
        if udp.destination_port() == ROCE_V2_PORT {
            self.roce_v2(below.ip_at, after, udp_end, below.extent);
        } else {
            self.data("payload", after, udp_end);
        }
        self.data("trailer", udp_end, end);
    }

    fn tcp(&mut self, at: usize, end: usize, below: Below) {
        let Some((tcp, after)) = self.read(Tcp::LAYOUT, TcpView::of, at, end) else { return };
        let (says, there) = (4 * usize::from(tcp.header_words()), end - at);
        let verdict = match below.extent {
            Extent::Beginning(why) => Verdict::Unchecked(why),
            Extent::Whole => {
                let rest = self.rest(after, end);
                let right = tcp.value().with_checksum(below.addresses, &[], rest).checksum;
                Verdict::of(Some(tcp.checksum().to_be_bytes()), Some(right.to_be_bytes()))
            }
        };
        self.sum("TCP checksum", at + 16, 2, verdict);
        if says < Tcp::BYTES || says > there {
            self.trouble(at + 12, Trouble::Length { header: "TCP", says, there });
            return self.data("data", after, end);
        }
        self.tcp_options(after, at + says);
        self.data("payload", at + says, end);
    }

    fn tcp_options(&mut self, mut at: usize, end: usize) {
        for option in TcpOptions::of(self.rest(at, end)) {
            let (name, text) = match option {
                Err(bad) => {
                    return self.trouble(at, Trouble::Option { header: "TCP", kind: bad.kind });
                }
                Ok(TcpOption::EndOfList) => ("end of options", String::new()),
                Ok(TcpOption::NoOperation) => ("no operation", String::new()),
                Ok(TcpOption::MaximumSegmentSize(size)) => {
                    ("maximum segment size", size.to_string())
                }
                Ok(TcpOption::WindowScale(shift)) => ("window scale", shift.to_string()),
                Ok(TcpOption::SackPermitted) => ("SACK permitted", String::new()),
                Ok(TcpOption::Sack(blocks)) => {
                    let edges = blocks.iter().map(|block| {
                        let (left, right) = sack_edges(block);
                        format!("{left}-{right}")
                    });
                    ("SACK", edges.collect::<Vec<_>>().join(" "))
                }
                Ok(TcpOption::Timestamps { value, echo }) => {
                    ("timestamps", format!("value {value}, echo {echo}"))
                }
                Ok(TcpOption::Unknown { kind, data }) => {
                    ("option", format!("kind {kind}, {} bytes", data.len() + 2))
                }
            };
            let bytes = match (option, self.rest(at, end)) {
                (Ok(TcpOption::EndOfList), rest) => rest.len(),
                (Ok(TcpOption::NoOperation), _) => 1,
                (_, rest) => rest.get(1).copied().map_or(1, usize::from),
            };
            self.option(name, text, at, bytes);
            at += bytes;
        }
    }
}
