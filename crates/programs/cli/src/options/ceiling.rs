//! Options of `ceiling`: the cost of a message on its links.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::{Acks, Bus, Family, Link, Switch, Switching};

use super::choice;
use super::lfn::{Lfn, Metres, distance};
use super::stack::{StackOptions, family};

/// Options of `ceiling`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Ceiling {
    /// What besides messages has a ceiling
    #[command(subcommand)]
    pub subject: Option<Subject>,
    /// Link such as ethernet:25G,mtu=9000, ipoib:4X-FDR, ib:4X-HDR or rocev2:100G; repeat it for several links, in the
    /// order of the path
    #[arg(long, value_name = "LINK", required = true, value_parser = |text: &str| text.parse::<Link>())]
    pub link: Vec<Link>,
    /// Switch between links: sf (store-and-forward) or ct (cut-through), then ,look=BYTES and
    /// ,delay=TIME. A single --switch applies between all links; with a single --link each --switch adds
    /// a switch and another link of the same kind
    /// [default: ct]
    #[arg(long, value_name = "MODE", value_parser = switch)]
    pub switch: Vec<Switch>,
    /// Propagation delay of the whole path, one way
    #[arg(long, value_name = "TIME")]
    pub propagation: Option<Nanos>,
    /// Length of fibre of the whole path, instead of --propagation: 35 (km) or 100m
    #[arg(long, value_name = "KM", value_parser = distance, conflicts_with = "propagation")]
    pub distance: Option<Metres>,
    #[command(flatten)]
    pub stack: StackOptions,
    /// IP version; 4,6 shows both
    #[arg(long, value_name = "4|6", default_value = "4", value_delimiter = ',', value_parser = family)]
    pub family: Vec<Family>,
    /// Bytes of a message: a size, a range such as 4..32768 (its powers of two), or a list separated by
    /// commas; required with udp and ud [default: a stream of tcp or rc]
    #[arg(long, value_name = "BYTES", value_parser = payloads)]
    pub payload: Option<Payloads>,
    /// Assume that each TCP write has segments of its own (conditional ceiling), instead of a stream of full segments
    #[arg(long, requires = "payload")]
    pub per_write: bool,
    /// ACKs that share a direction with payload: those of a stream in each direction, or of one stream with
    /// --half-duplex
    #[arg(long, default_value = "none", value_parser = choice(&ACKS))]
    pub acks: Acks,
    /// Half-duplex link: ACKs and payload share it
    #[arg(long)]
    pub half_duplex: bool,
    /// Bus between memory and adapter, such as pci-x:133 or pcie:3x8; its raw rate is a further limit
    #[arg(long, value_name = "BUS", value_parser = |text: &str| text.parse::<Bus>())]
    pub bus: Option<Bus>,
    /// Maximum number of rc messages in flight: not yet acknowledged, or for reads not yet answered
    #[arg(long, value_name = "N", requires = "payload", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: Option<u32>,
    /// RTT for --in-flight [default: the floor of the path]
    #[arg(long, value_name = "TIME", requires = "in_flight")]
    pub rtt: Option<Nanos>,
    /// Plot goodput against payload size into this file [default: named after transport and link]
    #[arg(long, value_name = "FILE.svg", num_args = 0..=1, requires = "payload")]
    pub plot: Option<Option<PathBuf>>,
    /// Print figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// What besides messages has a ceiling.
#[derive(Debug, Subcommand)]
pub enum Subject {
    /// Compute what TCP needs over a long fat network: window, loss rate, slow start and recovery
    Lfn(Box<Lfn>),
}

/// How often a receiver sends a pure ACK.
const ACKS: [(&str, Acks, &str); 3] = [
    ("none", Acks::Free, "Piggybacked, or not counted"),
    ("delayed", Acks::EveryOther, "One per two segments or messages"),
    ("each", Acks::Each, "One per segment or message"),
];

/// Message sizes in bytes, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payloads(pub Vec<u64>);

/// Parses message sizes: `1473`, `64KiB`, `4..32768`, `64,1473`.
fn payloads(text: &str) -> Result<Payloads, String> {
    let size = |text: &str| match text.trim().parse() {
        Ok(Bytes(bytes)) => Ok(bytes),
        Err(error) => Err(format!("{error}")),
    };
    let mut found = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => found.push(size(part)?),
            Some((first, last)) => {
                let range = size(first)?..=size(last)?;
                let powers = (0..u64::BITS).map(|power| 1 << power);
                let before = found.len();
                found.extend(powers.filter(|bytes| range.contains(bytes)));
                if found.len() == before {
                    return Err(format!("`{part}` contains no power of two"));
                }
            }
        }
    }
    Ok(Payloads(found))
}

/// Parses a switch: `sf`, `ct`, `ct,look=64,delay=300ns`.
fn switch(text: &str) -> Result<Switch, String> {
    let mut parts = text.split(',');
    let mode = match parts.next() {
        Some("sf") => Switching::StoreAndForward,
        Some("ct") => Switching::CutThrough,
        _ => return Err("write sf or ct, then ,look=BYTES and ,delay=TIME".to_owned()),
    };
    let mut switch = Switch { mode, ..Switch::default() };
    for part in parts {
        match part.split_once('=') {
            Some(("look", _)) if mode == Switching::StoreAndForward => {
                return Err("look=BYTES is supported only with ct".to_owned());
            }
            Some(("look", bytes)) => {
                let bytes: Bytes = bytes.parse().map_err(|error| format!("{error}"))?;
                switch.look_bytes = Some(bytes.0);
            }
            Some(("delay", time)) => {
                switch.delay_ns = time.parse().map_err(|error| format!("{error}"))?;
            }
            _ => {
                return Err(format!(
                    "`{part}` is not an option of a switch: use look=BYTES or delay=TIME"
                ));
            }
        }
    }
    Ok(switch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_sizes_ranges_of_powers_of_two_and_lists() {
        for (text, expected) in [
            ("1473", vec![1473]),
            ("64KiB", vec![65_536]),
            ("4..32", vec![4, 8, 16, 32]),
            ("3..17", vec![4, 8, 16]),
            ("64,1473,1..2", vec![64, 1473, 1, 2]),
        ] {
            assert_eq!(payloads(text), Ok(Payloads(expected)), "{text}");
        }
        for text in ["", "x", "9..15", "32..4", "4..", "1,,2"] {
            assert!(payloads(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_switch_is_a_mode_with_what_it_looks_at_and_how_long_it_takes() {
        let cut = Switch::default();
        for (text, expected) in [
            ("ct", cut),
            ("sf", Switch { mode: Switching::StoreAndForward, ..cut }),
            (
                "ct,look=64,delay=300ns",
                Switch { look_bytes: Some(64), delay_ns: Nanos(300), ..cut },
            ),
        ] {
            assert_eq!(switch(text), Ok(expected), "{text}");
        }
        for text in ["", "hub", "sf,look=14", "ct,look", "ct,delay=3", "ct,colour=red"] {
            assert!(switch(text).is_err(), "{text}");
        }
    }
}
