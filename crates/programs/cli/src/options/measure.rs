//! Options of `measure`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use fabricmark_plan::{Amount, Cpus, Factor};
use fabricmark_report::{RateUnit, Requirement};
use fabricmark_units::{Bytes, Nanos, Percent};
use fabricmark_wire::Link;

use super::{Ends, PeerKind, Reach};
use crate::levels::{Levels, words};

/// Options of `measure`.
#[derive(Args, Debug)]
pub struct Measure {
    /// Traffic pattern
    #[arg(value_parser = words(Factor::Pattern).try_map(|word| Factor::Pattern.level(&word)))]
    pub pattern: String,
    /// `loopback`; `lab:LINK` for two network namespaces on this machine, such as lab:veth or
    /// lab:ethernet:10G,mtu=9000; `lab:FILE.toml:CLIENT,SERVER` for two nodes of a topology file; or HOST[:PORT] of an
    /// agent, or with --peer iperf3 of an iperf3 server; several addresses of the host are separated by commas
    #[arg(required_unless_present = "ends")]
    pub target: Option<String>,
    /// Measure between two addresses of this machine, such as two ports joined by a cable, or Soft RoCE in `lab guest`
    #[arg(long, value_name = "ADDRESS,ADDRESS", value_parser = Ends::parse, conflicts_with_all = ["target", "peer"])]
    pub ends: Option<Ends>,
    /// Server that listens on the host
    #[arg(long, value_enum, default_value_t = PeerKind::Agent)]
    pub peer: PeerKind,
    /// User name for an iperf3 server with authentication; the password is read from IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key_path")]
    pub username: Option<String>,
    /// Public key of that iperf3 server, in PEM
    #[arg(long, value_name = "FILE", requires = "username")]
    pub rsa_public_key_path: Option<PathBuf>,
    /// Use PKCS#1 v1.5 padding for the password, for iperf3 servers before 3.17
    #[arg(long, requires = "username")]
    pub use_pkcs1_padding: bool,
    /// Link to the host, or between --ends, for ceilings [default: speed and MTU of this host's network device; none
    /// with --ends]
    #[arg(long, value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Option<Link>,
    /// How a host is reached
    #[command(flatten)]
    pub reach: Reach,
    /// Duration of a run; with --bytes or --count its upper limit [default: 2s; 1h with --bytes or --count; 120ms, the sum
    /// of its slices, if --vs compares in slices]
    #[arg(long, short = 't', visible_alias = "time", value_name = "TIME", value_parser = some_time)]
    pub duration: Option<Nanos>,
    /// End a run after sending SIZE bytes, responses not counted; with --bidir, per direction
    #[arg(long, short = 'n', value_name = "SIZE", value_parser = amount_of_bytes)]
    pub bytes: Option<Amount>,
    /// End a run after N payloads or requests
    #[arg(long, short = 'k', visible_alias = "blockcount", value_name = "N", value_parser = amount_of_payloads, conflicts_with = "bytes")]
    pub count: Option<Amount>,
    /// Omit the first TIME of each run from the results; the run lasts that much longer [default: the first 5 % of a
    /// stream]
    #[arg(long, short = 'O', value_name = "TIME", conflicts_with_all = ["bytes", "count"])]
    pub omit: Option<Nanos>,
    /// Count a run only if its rate rose or fell by at most SHARE of its mean, such as 5%, over the time that counts
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["bytes", "count"])]
    pub steady: Option<Percent>,
    /// Duration of a warm-up run before the first counted run; 0s for none
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub warm_up: Nanos,
    /// Runs of each setting [default: 1; with --vs 12 in slices, else 10]
    #[arg(long, visible_alias = "repeat", value_name = "N", value_parser = runs)]
    pub runs: Option<usize>,
    /// Report every TIME during a run, every 100ms if no TIME is given [default: every 1s for a single setting on a
    /// terminal, else never]
    #[arg(long, short = 'i', value_name = "TIME", num_args = 0..=1, default_missing_value = "100ms")]
    pub interval: Option<Nanos>,
    /// Setting to compare: levels that override the other options, such as path=gso. Repeat it; the first one is the
    /// baseline. FACTOR is the name of an option under Levels; --tcp-window is window=SIZE, and --rate is pace=fixed:RATE.
    /// Settings alternate in slices of 1 to 50 ms where possible, or in whole runs with -t
    #[arg(long, value_name = "FACTOR=LEVEL,..")]
    pub vs: Vec<String>,
    /// Threshold that every setting must meet, in quotes because of the shell: 'goodput>=9G', 'rtt-p99<=50us' or
    /// 'loss<=1%'; exit with 1 if one misses it, with 2 if its confidence interval contains the threshold
    #[arg(long, value_name = "THRESHOLD")]
    pub require: Vec<Requirement>,
    /// The server sends; same as --direction reverse
    #[arg(long, short = 'R', conflicts_with = "direction")]
    pub reverse: bool,
    /// Client and server send at once, in separate flows; same as --direction both
    #[arg(long, conflicts_with_all = ["direction", "reverse"])]
    pub bidir: bool,
    /// Size of the send and receive buffers at both ends [default: kernel autotuning; receive buffer of 4 MiB with udp
    /// and quic]
    #[arg(id = "buffers", long = "window", short = 'w', value_name = "SIZE", conflicts_with_all = ["receive_buffer", "send_buffer"],
        value_parser = |text: &str| Factor::ReceiveBuffer.level(text))]
    pub window: Option<String>,
    /// Target rate: 1G (bits per second) or 1000/s (payloads or requests per second); same as --pace fixed:RATE
    #[arg(long, short = 'b', visible_alias = "bitrate", value_name = "RATE", conflicts_with = "pace",
        value_parser = |text: &str| Factor::Pace.level(&format!("fixed:{text}")))]
    pub rate: Option<String>,
    /// CPUs of the client and the server, with --threads a list for each such as 0-1,2+4 [default: one for each load
    /// thread, first those on the NUMA node of the device]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpu: Option<[Cpus; 2]>,
    /// Port of the server for data; the port of an agent is part of TARGET [default: the kernel chooses; with --peer
    /// iperf3 5201]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub port: u16,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Send datagrams; same as --transport udp
    #[arg(long, short = 'u', conflicts_with = "transport")]
    pub udp: bool,
    /// Print records and figures as JSON instead of text
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Unit of rates: k, m, g or t for kbit/s to Tbit/s, K, M, G or T for KiB/s to TiB/s [default: m]
    #[arg(long, short = 'f', value_name = "UNIT", value_parser = RateUnit::parse, default_value = "m",
        hide_default_value = true, conflicts_with_all = ["json", "csv"])]
    pub format: RateUnit,
    /// Print the runs as CSV, a line each
    #[arg(long, conflicts_with_all = ["json", "interval"])]
    pub csv: bool,
    /// Levels of factors
    #[command(flatten)]
    pub levels: Levels,
}

fn share(text: &str) -> Result<Percent, String> {
    match text.parse() {
        Ok(Percent(share)) if share > 0.0 && share < 1.0 => Ok(Percent(share)),
        _ => Err("use a share such as 5%, more than 0% and below 100%".to_owned()),
    }
}

/// An amount in bytes, at least 1.
fn amount_of_bytes(text: &str) -> Result<Amount, String> {
    match text.parse() {
        Ok(Bytes(bytes)) if bytes > 0 => Ok(Amount::Bytes(bytes)),
        Ok(_) => Err("use at least 1 byte".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// An amount in payloads, at least 1.
fn amount_of_payloads(text: &str) -> Result<Amount, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(Amount::Payloads(count)),
        _ => Err("use a number of at least 1".to_owned()),
    }
}

/// A duration above 0.
fn some_time(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    if time == Nanos(0) { Err("use a duration above 0".to_owned()) } else { Ok(time) }
}

/// A number of runs, 1 to 10000.
fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs @ 1..=10_000) => Ok(runs),
        _ => Err("use a number from 1 to 10000".to_owned()),
    }
}

/// CPUs of client and server; a single list applies to both.
fn cpus(text: &str) -> Result<[Cpus; 2], String> {
    let (client, server) = text.split_once(',').unwrap_or((text, text));
    match (client.parse(), server.parse()) {
        (Ok(client), Ok(server)) => Ok([client, server]),
        _ => Err("use two CPU numbers, such as 0,1, or lists of them, such as 0-1,2+4".to_owned()),
    }
}
