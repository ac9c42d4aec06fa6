//! Options of `ceiling lfn`: what a long path requires of TCP.

use clap::Args;
use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::lfn::{Acks, Fit, Law, WINDOW_MAX};
use fabricmark_wire::{Family, Link};

use super::choice;
use super::stack::family;

/// Options of `ceiling lfn`.
#[derive(Args, Debug)]
pub struct Lfn {
    /// Goodput that the path allows, such as 100G
    #[arg(long, value_name = "RATE", required_unless_present = "link")]
    pub rate: Option<BitRate>,
    /// Bottleneck link instead of a rate, such as ethernet:10G,mtu=9000: its framing overhead counts
    #[arg(long, value_name = "LINK", conflicts_with = "rate", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Option<Link>,
    /// RTT [default: that of light in fibre over --distance]
    #[arg(long, value_name = "TIME", required_unless_present = "distance")]
    pub rtt: Option<Nanos>,
    /// Length of the path one way, such as 15461 or 15461km
    #[arg(long, value_name = "KM", value_parser = distance)]
    pub distance: Option<Metres>,
    /// Loss events per segment, such as 1e-6 or 0.01%
    #[arg(long, value_name = "P", value_parser = loss)]
    pub loss: Option<f64>,
    /// Response function of the congestion control: window by loss rate
    #[arg(long, default_value = "cubic", value_parser = choice(&LAWS))]
    pub law: Law,
    /// Payload of a full segment in bytes [default: that of --link, or 1460]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub mss: Option<u16>,
    /// Maximum window [default: TCP's largest, 1073725440 bytes]
    #[arg(long, value_name = "SIZE", value_parser = window)]
    pub window: Option<Bytes>,
    /// Target goodput, for which the tolerated loss rate and the required window are computed [default:
    /// the limit of path and window]
    #[arg(long, value_name = "RATE")]
    pub goodput: Option<BitRate>,
    /// Initial window of slow start in segments (10: RFC 6928)
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..))]
    pub initial_window: u16,
    /// Segments per ACK; `each` for stacks with byte counting (RFC 3465), such as Linux
    #[arg(long, default_value = "each", value_parser = choice(&ACKS))]
    pub acks: Acks,
    /// Constant of Reno's square-root law: periodic losses (1.22), random losses (1.31), or the 1.2
    /// of RFC 3649
    #[arg(long, default_value = "periodic", value_parser = choice(&FITS))]
    pub fit: Fit,
    /// Retransmission timeout, for PFTK [default: four RTTs]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Nanos>,
    /// IP version on --link
    #[arg(long, value_name = "4|6", default_value = "4", conflicts_with = "rate", value_parser = family)]
    pub family: Family,
    /// TCP timestamps in each segment on --link (RFC 7323)
    #[arg(long, conflicts_with = "rate")]
    pub timestamps: bool,
    /// Print figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// A length in metres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metres(pub u64);

/// Throughput models of congestion control.
pub const LAWS: [(&str, Law, &str); 6] = [
    ("reno", Law::Reno, "The square-root law of Mathis et al"),
    ("pftk-short", Law::PftkShort, "Padhye et al., approximate model"),
    ("pftk", Law::Pftk, "Padhye et al., full model"),
    ("tfrc", Law::Tfrc, "RFC 5348"),
    ("cubic", Law::Cubic, "RFC 9438"),
    ("highspeed", Law::HighSpeed, "RFC 3649"),
];

/// Segments per ACK.
const ACKS: [(&str, Acks, &str); 2] =
    [("each", Acks::Each, "One"), ("delayed", Acks::Delayed, "Two")];

/// Constants of the square-root law.
const FITS: [(&str, Fit, &str); 3] = [
    ("periodic", Fit::Periodic, "Periodic losses"),
    ("random", Fit::Random, "Random losses, as measured by Mathis et al"),
    ("rounded", Fit::Rounded, "The 1.2 of RFC 3649 and of the tables of RFC 9438"),
];

/// Maximum distance in km: the RTT in fibre is more than three years.
const KM_MAX: f64 = 1e13;

/// Parses a distance in kilometres, or in metres with the suffix `m`.
pub(super) fn distance(text: &str) -> Result<Metres, String> {
    let (number, metres) = match text.strip_suffix("km") {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('m').map_or((text, 1e3), |number| (number, 1.0)),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * metres <= KM_MAX * 1e3 => {
            Ok(Metres((number * metres).round() as u64))
        }
        _ => Err("use a distance such as 15461, 15461km or 100m".to_owned()),
    }
}

/// A loss rate from 0 to below 1, or in percent with the suffix `%`.
fn loss(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(loss) if (0.0..1.0).contains(&loss) => Ok(loss),
        _ => Err("use a share from 0 to below 1, such as 1e-6 or 0.01%".to_owned()),
    }
}

/// A TCP window in bytes, from 1 to the maximum that window scaling allows.
fn window(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(Bytes(1..=WINDOW_MAX)) => text.parse().map_err(|error| format!("{error}")),
        Ok(Bytes(0)) => Err("use at least 1 byte".to_owned()),
        Ok(_) => Err(format!("the largest TCP window is {WINDOW_MAX} bytes (RFC 7323)")),
        Err(error) => Err(format!("{error}")),
    }
}
