//! Options of `wire`: packets as bytes.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use fabricmark_units::Bytes;
use fabricmark_wire::{Family, Link, Operation as WireOperation, diagram};

/// Options of `wire`.
#[derive(Args, Debug)]
pub struct Wire {
    /// What to do with packets
    #[command(subcommand)]
    pub what: What,
}

/// What is done with packets.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Build the packets that carry one message over a link; print what is in them, or write a capture
    Build(Build),
    /// Take the packets of a capture file apart: pcap or pcapng of Ethernet or InfiniBand
    Show(Show),
    /// Draw a header, or the sequence of headers of an IPoIB packet
    Diagram(Diagram),
}

/// Options of `wire build`.
#[derive(Args, Debug)]
pub struct Build {
    /// A link such as ethernet:25G,mtu=9000, ipoib:4X-FDR, ib:4X-HDR or rocev2:100G
    #[arg(long, value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Link,
    /// What carries the payload
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    pub transport: Transport,
    /// IP version; with rc and ud that of RoCEv2
    #[arg(long, value_name = "4|6", default_value = "4", value_parser = family)]
    pub family: Family,
    /// Bytes of the message
    #[arg(long, value_name = "BYTES", default_value = "64")]
    pub payload: Bytes,
    /// What a message of rc does
    #[arg(long, value_enum, default_value_t = Operation::Send)]
    pub operation: Operation,
    /// Messages of rc or ud carry 4 bytes of immediate data
    #[arg(long)]
    pub immediate: bool,
    /// Each segment of TCP carries time stamps
    #[arg(long)]
    pub timestamps: bool,
    /// Instead of a message, the five that set up and end a connection of IPoIB in connected mode
    #[arg(long, conflicts_with_all = ["transport", "family", "payload", "operation", "immediate", "timestamps"])]
    pub handshake: bool,
    /// Write a capture for tshark and its like instead of text; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub pcap: Option<PathBuf>,
    /// How that capture holds InfiniBand packets
    #[arg(long, value_enum, default_value_t = InfinibandForm::Erf, requires = "pcap")]
    pub link_type: InfinibandForm,
    /// Print every field as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// How a capture holds InfiniBand packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InfinibandForm {
    /// Link type 197, each in a record: what Wireshark opens
    Erf,
    /// Link type 247, as they are: what tcpdump.org lists
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
    /// A header; or connected or datagram, a packet of IPoIB in that mode
    #[arg(value_parser = PossibleValuesParser::new(
        diagram::PACKETS.iter().map(|(name, _)| *name).chain(diagram::HEADERS.iter().map(|(name, _)| *name))
    ))]
    pub name: String,
    /// The packet in a fabric of several subnets, with a global route header
    #[arg(long)]
    pub grh: bool,
}

/// What carries a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Datagrams over IP
    Udp,
    /// A stream over IP
    Tcp,
    /// Verbs, reliable connection
    Rc,
    /// Verbs, unreliable datagrams
    Ud,
}

/// Operations of a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// Into a buffer that the receiver posted
    Send,
    /// Into the receiver's memory
    Write,
    /// Out of the other end's memory
    Read,
}

impl From<Operation> for WireOperation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Send => Self::Send,
            Operation::Write => Self::Write,
            Operation::Read => Self::Read,
        }
    }
}

/// An IP version.
fn family(text: &str) -> Result<Family, String> {
    let version = text.parse::<u8>().ok().and_then(|version| Family::try_from(version).ok());
    version.ok_or_else(|| "write 4 or 6".to_owned())
}
