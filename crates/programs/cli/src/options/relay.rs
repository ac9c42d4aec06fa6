//! Options of `relay`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fabricmark_plan::Pace;
use fabricmark_relay::{Burst, Path, Protocol};
use fabricmark_units::{BitRate, Bytes, Nanos};

use super::choice;

/// Options of `relay`.
#[derive(Args, Debug)]
pub struct Relay {
    /// Address and port to listen at; [::] includes IPv4
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: String,
    /// Where to connect to for each client
    #[arg(long, value_name = "HOST:PORT")]
    pub forward: String,
    /// What to relay
    #[arg(long, default_value = "tcp", value_parser = choice(&PROTOCOLS))]
    pub transport: Protocol,
    /// How the bytes pass through the relay
    #[arg(long, default_value = "copy", value_parser = paths())]
    pub path: Path,
    /// Maximum bytes per receive, and size of the pipes of splice
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub buffer: Bytes,
    /// Departure schedule of each direction of a connection: model-1, model-2 or model-100 of paper P5, or
    /// burst:BYTES/PERIOD [default: bytes pass as soon as they can]
    #[arg(long, value_name = "PACE", value_parser = burst)]
    pub pace: Option<Burst>,
    /// Number of threads, each with its own listening socket and connections
    #[arg(long, value_name = "N", default_value = "1")]
    pub threads: usize,
    /// Maximum number of open connections; others wait until one ends [default: 10000, or what the limit of open files
    /// allows]
    #[arg(long, value_name = "N")]
    pub connections: Option<usize>,
    /// Time for the connection to the target; a client whose target does not answer is reset
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub connect_timeout: Nanos,
    /// Reset connections without traffic for this time [default: never; UDP flows end after 2 minutes]
    #[arg(long, value_name = "TIME")]
    pub idle_timeout: Option<Nanos>,
    /// Time that open connections get to end after SIGTERM or Ctrl-C; a second one ends them at once
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub drain_timeout: Nanos,
    /// Begin each connection to the target with a PROXY header, version 2, that names the client
    #[arg(long)]
    pub send_proxy: bool,
    /// Expect such a header from each client; only for clients that are relays themselves
    #[arg(long)]
    pub accept_proxy: bool,
    /// Print a line for each connection that has ended
    #[arg(long)]
    pub log: bool,
    /// Line rate of the link: --log then also shows the switching speed divided by it
    #[arg(long, value_name = "RATE", requires = "log")]
    pub line: Option<BitRate>,
    /// Leave the first bytes of each direction out of the times of --log
    #[arg(long, value_name = "SIZE", default_value = "0B", hide = true)]
    pub untimed: Bytes,
    /// Print JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

/// A parser of the paths of a relay.
fn paths() -> impl TypedValueParser<Value = Path> {
    let words = Path::CHOICES.iter().map(|one| PossibleValue::new(one.word).help(one.about));
    PossibleValuesParser::new(words).try_map(|word| Path::named(&word).ok_or("unknown value"))
}

fn burst(text: &str) -> Result<Burst, String> {
    match text.parse() {
        Ok(Pace::Burst { bytes, period }) => Ok(Burst {
            bytes: usize::try_from(bytes.0).unwrap_or(usize::MAX),
            period: period.into(),
        }),
        Ok(_) => Err("use model-1, model-2, model-100 or burst:BYTES/PERIOD".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

const PROTOCOLS: [(&str, Protocol, &str); 2] = [
    ("tcp", Protocol::Tcp, "connections"),
    (
        "udp",
        Protocol::Udp,
        "datagrams; those of one client address and port to one address of the relay are a flow",
    ),
];
