//! Options of `wire`: packets as bytes.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use fabricmark_packet::diagram;
use fabricmark_units::Bytes;
use fabricmark_wire::{Family, Link};

use super::stack::{StackOptions, family};

/// What is done with packets.
#[derive(Debug, Subcommand)]
pub enum Wire {
    /// Build the packets that carry one message over a link; print their headers, or write a capture
    Build(Build),
    /// Dissect a capture file: pcap or pcapng of Ethernet or InfiniBand
    Show(Show),
    /// Draw a header, or the sequence of headers of an IPoIB packet
    Diagram(Diagram),
}

/// Options of `wire build`.
#[derive(Args, Debug)]
pub struct Build {
    /// Link such as ethernet:25G,mtu=9000, ipoib:4X-FDR, ib:4X-HDR or rocev2:100G
    #[arg(long, value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Link,
    #[command(flatten)]
    pub stack: StackOptions,
    /// IP version; for rc and ud that of RoCEv2
    #[arg(long, value_name = "4|6", default_value = "4", value_parser = family)]
    pub family: Family,
    /// Bytes of the message
    #[arg(long, value_name = "BYTES", default_value = "64")]
    pub payload: Bytes,
    /// Build the five messages that set up and end a connection of IPoIB in connected mode instead
    #[arg(long, conflicts_with_all = ["transport", "family", "payload", "operation", "immediate", "timestamps"])]
    pub handshake: bool,
    /// Write a capture for tshark or Wireshark instead of text; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub pcap: Option<PathBuf>,
    /// Link type of InfiniBand packets in the capture
    #[arg(long, value_enum, default_value_t = InfinibandForm::Erf, requires = "pcap")]
    pub link_type: InfinibandForm,
    /// Print every field as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// How a capture holds InfiniBand packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InfinibandForm {
    /// 197, packets in ERF records, which Wireshark opens
    Erf,
    /// 247, plain InfiniBand packets, as listed by tcpdump.org
    Infiniband,
}

/// Options of `wire show`.
#[derive(Args, Debug)]
pub struct Show {
    /// The capture file; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print every field as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `wire diagram`.
#[derive(Args, Debug)]
pub struct Diagram {
    /// Header to draw; `connected` or `datagram` draws the IPoIB packet of that mode
    #[arg(value_parser = PossibleValuesParser::new(
        diagram::PACKETS.iter().map(|(name, _)| *name).chain(diagram::HEADERS.iter().map(|(name, _)| *name))
    ))]
    pub name: String,
    /// Draw the packet with a global route header, as in a fabric of several subnets
    #[arg(long)]
    pub grh: bool,
}
