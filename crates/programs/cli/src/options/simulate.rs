//! Options of `lab simulate`: one TCP connection in virtual time.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fabricmark_link::LinkOptions;
use fabricmark_tcpsim::HyStart;
use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::Family;

use super::lfn::{Metres, distance};
use super::stack::family;

/// Options of `lab simulate`.
#[derive(Args, Debug)]
pub struct Simulate {
    /// Link options, such as rtt=400ms link=ethernet:100G,mtu=9000
    #[arg(value_name = "OPTION=VALUE", required_unless_present = "against")]
    pub link_options: Vec<String>,
    /// Link options of the reverse direction, which add to those of the forward direction or override them, such as
    /// "rate=10M loss=none"
    #[arg(long, alias = "back", value_name = "OPTIONS", value_parser = |text: &str| text.parse::<LinkOptions>())]
    pub reverse: Option<LinkOptions>,
    /// Rates that override that of the link, separated by commas; each is simulated
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    pub rate: Vec<BitRate>,
    /// Congestion control; several are simulated one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cubic")]
    pub congestion: Vec<Law>,
    /// Duration of the transfer
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub duration: Nanos,
    /// Length of an interval [default: the smallest whole number of RTTs that lasts at least 1s]
    #[arg(long, value_name = "TIME")]
    pub interval: Option<Nanos>,
    /// Receive window: a size, or `unlimited`, which no real TCP supports [default: TCP's largest,
    /// 1073725440 bytes]
    #[arg(long, value_name = "SIZE", value_parser = window)]
    pub window: Option<Window>,
    /// Rate at which the sender paces its packets
    #[arg(long, value_name = "RATE")]
    pub pacing: Option<BitRate>,
    /// Initial window of slow start in segments (10: RFC 6928)
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..))]
    pub initial_window: u16,
    /// How CUBIC leaves slow start before a loss
    #[arg(long, value_enum, default_value_t = Exit::Linux)]
    pub hystart: Exit,
    /// Use ECN; the link needs discipline=codel or discipline=red, and ecn
    #[arg(long)]
    pub ecn: bool,
    /// IP version
    #[arg(long, value_name = "4|6", default_value = "4", value_parser = family)]
    pub family: Family,
    /// Length of the path one way, for its land speed, such as 15461km [default: what light in
    /// fibre travels in half an RTT]
    #[arg(long, value_name = "KM", value_parser = distance)]
    pub distance: Option<Metres>,
    /// Random seed: the same seed drops the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare the model with an experiment over emulated links; DIR is the folder of its
    /// results
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "link_options", "rate", "congestion", "duration", "interval", "pacing", "family", "distance", "plot",
    ])]
    pub against: Option<PathBuf>,
    /// Name of that experiment
    #[arg(long, value_name = "NAME", default_value = "latest", requires = "against")]
    pub experiment: String,
    /// Draw goodput over time into this file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Congestion controls that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Law {
    /// RFC 5681
    Reno,
    /// RFC 9438
    Cubic,
}

impl Law {
    /// Name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// How slow start of CUBIC ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exit {
    /// HyStart of Linux: if the RTT grows, or if ACKs arrive without a gap for half an RTT
    Linux,
    /// HyStart of Linux on busy hosts: only if the RTT grows
    Delay,
    /// HyStart++: if the RTT grows
    #[value(name = "rfc9406")]
    PlusPlus,
    /// Only at a loss, or at the receiver's window
    None,
}

impl From<Exit> for Option<HyStart> {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Linux => Some(HyStart::Linux),
            Exit::Delay => Some(HyStart::LinuxDelay),
            Exit::PlusPlus => Some(HyStart::PlusPlus),
            Exit::None => None,
        }
    }
}

/// Maximum window of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// In bytes. It may be larger than TCP can advertise, because no real packets are sent.
    Bytes(Bytes),
    /// No limit.
    Unlimited,
}

fn window(text: &str) -> Result<Window, String> {
    match text.parse() {
        _ if text == "unlimited" => Ok(Window::Unlimited),
        Ok(Bytes(0)) => Err("use at least 1 byte".to_owned()),
        Ok(bytes) => Ok(Window::Bytes(bytes)),
        Err(error) => Err(format!("{error} or unlimited")),
    }
}
