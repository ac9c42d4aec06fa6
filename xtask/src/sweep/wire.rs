//! Capacity of a wire, from header sizes alone; independent of the program's code.

/// Preamble 8, Ethernet header 14, FCS 4, interframe gap 12 (IEEE 802.3).
const AROUND: f64 = 38.0;
/// Minimum frame of 64 bytes with preamble and gap.
const SMALLEST: f64 = 84.0;
/// 802.1Q tag.
const TAG: f64 = 4.0;
/// TCP header without options (RFC 9293).
const TCP: f64 = 20.0;
/// UDP header (RFC 768).
const UDP: f64 = 8.0;
/// Maximum datagram that quinn sends without MTU discovery beyond Ethernet's.
const QUIC_MAX: f64 = 1452.0;
/// Minimum overhead of a short-header QUIC packet: first byte, packet number, STREAM frame type, and AES-GCM tag of 16
/// (RFC 9000, RFC 9001).
const QUIC: f64 = 19.0;
/// SCTP common header 12 and DATA chunk header 16 (RFC 9260).
const SCTP: f64 = 28.0;
/// Maximum payload of a TLS record, and its overhead: header 5, type 1, tag 16 (RFC 8446). Each write starts a new
/// record.
const TLS: (f64, f64) = (16_384.0, 22.0);

/// An Ethernet link with one IP version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Line rate in bit/s.
    pub rate_bps: f64,
    /// MTU: largest IP packet in bytes.
    pub mtu: f64,
    /// Number of 802.1Q tags per frame.
    pub tags: f64,
    /// IP header in bytes.
    pub ip: f64,
}

impl Wire {
    /// The wire of a link such as `ethernet:1G,mtu=9000,vlan=1`; `None` if it is not Ethernet.
    pub fn of(link: &str, family: u64) -> Option<Self> {
        let mut words = link.strip_prefix("ethernet:")?.split(',');
        let rate_bps = rate_bps(words.next()?)?;
        let ip = if family == 6 { 40.0 } else { 20.0 };
        let mut wire = Self { rate_bps, mtu: 1500.0, tags: 0.0, ip };
        for word in words {
            match word.split_once('=')? {
                ("mtu", bytes) => wire.mtu = bytes.parse().ok()?,
                ("vlan", tags) => wire.tags = tags.parse().ok()?,
                _ => return None,
            }
        }
        Some(wire)
    }

    /// Bytes on the wire of an IP packet.
    pub fn frame(&self, packet: f64) -> f64 {
        (packet + AROUND + TAG * self.tags).max(SMALLEST)
    }

    /// Maximum payload of a packet with `headers` bytes of transport headers.
    pub fn room(&self, headers: f64) -> f64 {
        self.mtu - self.ip - headers
    }

    /// Maximum payload of a packet of this transport.
    pub fn segment(&self, transport: &str) -> f64 {
        match transport {
            "udp" => self.room(0.0),
            "quic" => QUIC_MAX.min(self.room(UDP)) - QUIC,
            "sctp" => self.room(SCTP),
            _ => self.room(TCP),
        }
    }

    /// Number of IP packets of one datagram.
    pub fn fragments(&self, payload: f64) -> f64 {
        let whole = payload + UDP;
        if self.ip + whole <= self.mtu { 1.0 } else { (whole / self.fragment()).ceil() }
    }

    /// Bytes of a datagram per fragment.
    fn fragment(&self) -> f64 {
        // IPv6 has a fragment header of 8; all fragments but the last carry a multiple of 8 (RFC 791, RFC 8200).
        ((self.mtu - self.ip - self.extra()) / 8.0).floor() * 8.0
    }

    fn extra(&self) -> f64 {
        if self.ip > 20.0 { 8.0 } else { 0.0 }
    }

    /// Bytes on the wire of one datagram.
    pub fn datagram(&self, payload: f64) -> f64 {
        let whole = payload + UDP;
        let count = self.fragments(payload);
        if count <= 1.0 {
            return self.frame(self.ip + whole);
        }
        let (headers, full) = (self.ip + self.extra(), self.fragment());
        let last = whole - (count - 1.0) * full;
        (count - 1.0) * self.frame(headers + full) + self.frame(headers + last)
    }

    /// Maximum goodput of one direction in bit/s.
    pub fn goodput_bps(&self, transport: &str, payload: f64) -> f64 {
        let share = match transport {
            "udp" => payload / self.datagram(payload),
            "tls" => self.share(TCP) * payload / (payload + TLS.1 * (payload / TLS.0).ceil()),
            "quic" => {
                let datagram = QUIC_MAX.min(self.room(UDP));
                (datagram - QUIC) / self.frame(self.ip + UDP + datagram)
            }
            "sctp" => self.share(SCTP),
            _ => self.share(TCP),
        };
        self.rate_bps * share
    }

    fn share(&self, headers: f64) -> f64 {
        self.room(headers) / self.frame(self.mtu)
    }

    /// Serialization time of a message in ns: all its bytes at the line rate, without the interframe gap after the last
    /// packet.
    pub fn message_ns(&self, transport: &str, payload: f64) -> f64 {
        let bytes = match transport {
            "udp" => self.datagram(payload),
            "tcp" | "tls" | "mptcp" => {
                // A partial segment may share a packet with adjacent data.
                let full = (payload / self.room(TCP)).floor();
                full * self.frame(self.mtu) + payload - full * self.room(TCP)
            }
            _ => payload,
        };
        8e9 * (bytes - 12.0).max(0.0) / self.rate_bps
    }

    /// Burst of the kernel's token bucket, which limits a wire without an emulator: 524 us at the rate, at least two
    /// packets, at most 256 KiB (docs/lab.md).
    pub fn bucket_bytes(&self) -> f64 {
        let worth = self.rate_bps * 524_288e-9 / 8.0;
        worth.min(262_144.0).max(2.0 * (self.mtu + 100.0))
    }
}

/// A rate such as `1370K` in bit/s.
pub fn rate_bps(text: &str) -> Option<f64> {
    let scale = match text.chars().last()? {
        'K' => 1e3,
        'M' => 1e6,
        'G' => 1e9,
        'T' => 1e12,
        _ => 1.0,
    };
    text.trim_end_matches(['K', 'M', 'G', 'T']).parse::<f64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_segments_and_datagrams_have_the_shares_of_their_headers() {
        let wire = Wire::of("ethernet:100M", 4).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b, "{a} {b}");
        // RFC 5180 appendix A: 1538 bytes on the wire for an IP packet of 1500.
        close(wire.goodput_bps("tcp", 1.0), 1e8 * 1460.0 / 1538.0);
        close(wire.goodput_bps("tls", 64.0), 1e8 * 1460.0 / 1538.0 * 64.0 / 86.0);
        close(wire.goodput_bps("udp", 1472.0), 1e8 * 1472.0 / 1538.0);
        close(wire.goodput_bps("udp", 1.0), 1e8 / 84.0);
        // Two fragments: 1480 of 1481 bytes, and one byte in a minimum frame.
        close(wire.goodput_bps("udp", 1473.0), 1e8 * 1473.0 / (1538.0 + 84.0));
        let tagged = Wire::of("ethernet:1G,mtu=9000,vlan=1", 6).unwrap();
        close(tagged.goodput_bps("tcp", 1.0), 1e9 * 8940.0 / 9042.0);
        // 1448 = 8 x 181 bytes after 48 of headers, and the rest.
        let six = Wire::of("ethernet:1G", 6).unwrap();
        close(six.datagram(2000.0), 1534.0 + (2008.0 - 1448.0 + 48.0 + 38.0));
        assert_eq!(Wire::of("veth", 4), None);
        assert_eq!(rate_bps("1370K"), Some(1_370_000.0));
    }

    #[test]
    fn a_message_takes_its_bytes_at_the_line_rate() {
        let wire = Wire::of("ethernet:10M", 4).unwrap();
        // 100 bytes of payload are 166 on the wire, of which the gap does not count: 123.2 us.
        assert!((wire.message_ns("udp", 100.0) - 123_200.0).abs() < 1.0);
        assert!(wire.message_ns("tcp", 1460.0) <= 8e9 * 1526.0 / 1e7);
        assert!(wire.message_ns("tcp", 1.0) < wire.message_ns("udp", 1.0));
    }
}
