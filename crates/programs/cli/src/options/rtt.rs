//! Options of `rtt`.

use std::path::PathBuf;

use clap::Args;
use fabricmark_interop::apdu::Transport;
use fabricmark_interop::stamp::Protocol;
use fabricmark_units::Nanos;

use super::choice;

/// Options of `rtt`.
#[derive(Args, Debug)]
pub struct Rtt {
    /// Host of the reflector, or a multicast group with --protocol apdu [default port: 862; 7479 with apdu, 123 with ntp]
    #[arg(value_name = "HOST[:PORT]")]
    pub target: String,
    /// Protocol of the reflector
    #[arg(long, default_value = "stamp", value_parser = choice(&PROTOCOLS))]
    pub protocol: RttProtocol,
    /// What carries the packets; TCP with --protocol apdu only
    #[arg(long, default_value = "udp", value_parser = choice(&APDU_TRANSPORTS))]
    pub transport: Transport,
    /// Network device that sends the packets to a multicast group [default: by the routing table]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Packets to send [default: 100, or 8 with ntp]
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// Time from one packet to the next [default: 10ms, or 2s with ntp, which public servers expect]
    #[arg(long, short = 'i', value_name = "TIME")]
    pub interval: Option<Nanos>,
    /// Time after which a packet without a reply counts as lost
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub timeout: Nanos,
    /// Padding of each packet in octets; 0 or 999 with --protocol apdu
    #[arg(long, value_name = "N", default_value = "0")]
    pub padding: u16,
    /// DSCP of the packets
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u8).range(0..64))]
    pub dscp: u8,
    /// DSCP to request for replies; the reflector then also reports the DSCP and ECN that it received (RFC 8972)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..64))]
    pub answer_dscp: Option<u8>,
    /// STAMP session identifier (SSID)
    #[arg(long, value_name = "N", default_value = "0")]
    pub identifier: u16,
    /// File with the shared key of authenticated packets; a trailing newline is not part of the key
    #[arg(long, value_name = "FILE")]
    pub stamp_key: Option<PathBuf>,
    /// Write every RTT to this file: time since the first one, host, RTT
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw the RTTs over time into this file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Protocol of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RttProtocol {
    /// STAMP or TWAMP Light.
    Stamp(Protocol),
    /// Paper P5's.
    Apdu,
    /// The client's side of NTP.
    Ntp,
}

/// Protocols of `rtt`.
const PROTOCOLS: [(&str, RttProtocol, &str); 4] = [
    ("stamp", RttProtocol::Stamp(Protocol::Stamp), "RFC 8762 and RFC 8972"),
    ("twamp-light", RttProtocol::Stamp(Protocol::TwampLight), "RFC 5357, appendix I"),
    ("apdu", RttProtocol::Apdu, "paper P5: 25 or 1024 bytes, over UDP, multicast and TCP"),
    (
        "ntp",
        RttProtocol::Ntp,
        "RFC 5905: one request at a time to an NTP server; also shows the offset of its clock",
    ),
];

const APDU_TRANSPORTS: [(&str, Transport, &str); 2] =
    [("udp", Transport::Udp, "datagrams"), ("tcp", Transport::Tcp, "one connection")];
