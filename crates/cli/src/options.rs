//! The commands and their options: the one definition behind parsing, help, man page and shell
//! completions.

pub mod ceiling;
pub mod lab;
pub mod lfn;
pub mod simulate;
pub mod stack;
pub mod wire;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fabricmark_interop::Network;
use fabricmark_plan::{Amount, Factor};
use fabricmark_report::Requirement;
use fabricmark_units::{BitRate, Bytes, Nanos, Percent};
use fabricmark_wire::Link;

use crate::levels::Levels;

/// Which way of moving these bytes is better here, by how much, is the difference real, and how far
/// is it from what the wire allows?
#[derive(Debug, Parser)]
#[command(name = "fabricmark", version, max_term_width = 100)]
pub struct Options {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a plan: measure its points, keep the records, show tables and charts
    Run(Run),
    /// Measure one setting now, or a few of them against the first
    Measure(Box<Measure>),
    /// Show an experiment of the store again: tables, and the report's files
    Report(Report),
    /// Print the records of an experiment
    Export(Export),
    /// Compare two experiments point by point
    Compare(Compare),
    /// Say what on this machine would spoil a measurement, and how to mend it
    Doctor(Doctor),
    /// Be the other end of measurements on this host, for coordinators that know its key
    Agent(Box<Agent>),
    /// Let two hosts know each other's keys: alone it waits and prints a code, with a host and that code
    /// it calls
    Pair(Pair),
    /// Networks of any shape on this machine that stay up between commands
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Measure round trips to a reflector of STAMP or TWAMP-Light
    Rtt(Rtt),
    /// Say what the wire allows: ceilings of rates and floors of latencies, without any traffic
    Ceiling(Box<ceiling::Ceiling>),
    /// Build packets, take those of a capture file apart, draw headers
    Wire(Box<wire::Wire>),
    /// Published figures of five papers, beside what the wire allows
    #[command(subcommand)]
    Papers(Papers),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Serve a coordinator (started by `run` and `agent`, not by people)
    #[command(hide = true)]
    Worker,
    /// Hold a lab (started by `lab up`, not by people)
    #[command(hide = true)]
    LabHolder,
    /// Give this network a user EID of SMC (started by the guest of `lab guest`, not by people)
    #[command(hide = true)]
    SmcEid {
        /// The name
        name: String,
    },
    /// Keep the kernel counting events and stamping packets (started by the guest of `lab guest`, not by people)
    #[command(hide = true)]
    KeepCounting,
}

/// Where records are and reports go.
#[derive(Args, Debug)]
pub struct Place {
    /// Folder for the store and the reports
    #[arg(long, value_name = "DIR", default_value = "fabricmark-results")]
    pub out: PathBuf,
    /// File of the store [default: store.sqlite in the folder of --out]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl Place {
    /// The store's file.
    pub fn store_file(&self) -> PathBuf {
        self.store.clone().unwrap_or_else(|| self.out.join("store.sqlite"))
    }
}

/// The key of this host.
#[derive(Args, Debug)]
pub struct Key {
    /// File of this host's key; the keys it trusts stand beside it [default:
    /// ~/.config/fabricmark/key.pem]
    #[arg(long, value_name = "FILE", env = "FABRICMARK_KEY_FILE", hide_env_values = true)]
    pub key_file: Option<PathBuf>,
}

/// How another host is reached.
#[derive(Args, Debug)]
pub struct Reach {
    /// Address of the host's agent, where orders take another way than data
    #[arg(long, value_name = "HOST[:PORT]")]
    pub control: Option<String>,
    /// Whose key is shown to the agent
    #[command(flatten)]
    pub key: Key,
}

/// The host of `--to`, whose node is the one that answers.
fn other_end(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        None | Some(("server" | "peer", _)) => {
            let host = text.split_once('=').map_or(text, |(_, host)| host);
            if host.is_empty() { Err("name a host".to_owned()) } else { Ok(host.to_owned()) }
        }
        Some((name, _)) => Err(format!(
            "there is no node `{name}` on another host: `server` answers, `client` is this host"
        )),
    }
}

/// What listens on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerKind {
    /// `fabricmark agent`
    Agent,
    /// `iperf3 -s`
    Iperf3,
}

/// Options of `rtt`.
#[derive(Args, Debug)]
pub struct Rtt {
    /// The reflector
    #[arg(value_name = "HOST[:PORT]")]
    pub target: String,
    /// What it speaks
    #[arg(long, value_enum, default_value_t = Protocol::Stamp)]
    pub protocol: Protocol,
    /// Packets to send
    #[arg(long, short = 'c', value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Time from one packet to the next
    #[arg(long, short = 'i', value_name = "TIME", default_value = "10ms")]
    pub interval: Nanos,
    /// Time after which a packet without answer counts as lost
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub timeout: Nanos,
    /// Octets of padding
    #[arg(long, value_name = "N", default_value = "0")]
    pub padding: u16,
    /// DSCP of the packets
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u8).range(0..64))]
    pub dscp: u8,
    /// DSCP that answers shall have, which also tells with which class packets arrived
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..64))]
    pub answer_dscp: Option<u8>,
    /// Session identifier
    #[arg(long, value_name = "N", default_value = "0")]
    pub identifier: u16,
    /// File whose octets are the key that both ends share, without the end of its last line
    #[arg(long, value_name = "FILE")]
    pub stamp_key: Option<PathBuf>,
    /// Print figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Protocols of round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// RFC 8762 and RFC 8972
    Stamp,
    /// RFC 5357, appendix I
    TwampLight,
}

/// Options of `agent`.
#[derive(Args, Debug)]
pub struct Agent {
    /// Make a key for this host, and nothing else
    #[arg(long)]
    pub new_key: bool,
    /// Address and port to listen at, once for each [default: every address, port 7477]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub listen: Vec<String>,
    /// One coordinator measures at a time, and the others wait for their turn
    #[arg(long, conflicts_with = "at_once")]
    pub exclusive: bool,
    /// Coordinators that measure at once; others wait for their turn
    #[arg(long, value_name = "N", default_value = "256")]
    pub at_once: usize,
    /// Connections of all coordinators
    #[arg(long, value_name = "N", default_value = "2048")]
    pub connections: usize,
    /// Most flows of a run
    #[arg(long, value_name = "N", default_value = "10000")]
    pub flows: u32,
    /// Highest rate of a run; runs must then state theirs
    #[arg(long, value_name = "RATE")]
    pub rate: Option<BitRate>,
    /// Longest run
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub duration: Nanos,
    /// Most memory for the payloads and buffers of a run
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: Bytes,
    /// Ports for data, such as 7500-7599 [default: the kernel chooses]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub ports: Option<(u16, u16)>,
    /// Serve clients of iperf3, too, at this port [default: 5201]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub iperf3: Option<u16>,
    /// Private key of users of iperf3, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["iperf3", "iperf3_users"])]
    pub iperf3_key: Option<PathBuf>,
    /// Users of iperf3, a line each: name,SHA-256 of {name}password
    #[arg(long, value_name = "FILE", requires_all = ["iperf3", "iperf3_key"])]
    pub iperf3_users: Option<PathBuf>,
    /// Serve clients of netperf, too, at this port [default: 12865]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "12865")]
    pub netperf: Option<u16>,
    /// Reflect packets of STAMP and TWAMP-Light, too, at this port [default: 862]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub stamp: Option<u16>,
    /// File whose octets are the key of STAMP, without the end of its last line
    #[arg(long, value_name = "FILE", requires = "stamp")]
    pub stamp_key: Option<PathBuf>,
    /// Network that may use these ports, once for each; without, only this host may
    #[arg(long, value_name = "CIDR")]
    pub allow: Vec<Network>,
    /// Whose key the agent shows
    #[command(flatten)]
    pub key: Key,
}

/// A range of ports.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err("use two ports such as 7500-7599, the lower one first".to_owned()),
    }
}

/// Options of `pair`.
#[derive(Args, Debug)]
pub struct Pair {
    /// The host that waits
    #[arg(requires = "code", value_name = "HOST[:PORT]")]
    pub host: Option<String>,
    /// The code that it printed
    pub code: Option<String>,
    /// Where to wait
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with = "host")]
    pub listen: Option<String>,
    /// Whose key is shown
    #[command(flatten)]
    pub key: Key,
}

/// Options of `run`.
#[derive(Args, Debug)]
pub struct Run {
    /// The plan file
    pub plan: PathBuf,
    /// How it is run
    #[command(flatten)]
    pub how: How,
}

/// How a plan is run.
#[derive(Args, Debug)]
pub struct How {
    /// Lay the plan's [quick] table over it: a look in minutes instead of an answer in an hour
    #[arg(long)]
    pub quick: bool,
    /// Begin anew, even where records of the same plan could be continued
    #[arg(long)]
    pub fresh: bool,
    /// The other end is the agent on this host instead of a lab; `server=HOST` or `peer=HOST` says the
    /// same. Several addresses of one host are parted by commas
    #[arg(long, group = "other_end", value_name = "[NAME=]HOST", value_parser = other_end)]
    pub to: Option<String>,
    /// Both ends are on this machine, each with one of these two addresses, instead of in a lab: ports that a
    /// cable joins, or Soft RoCE in `lab guest`
    #[arg(long, group = "other_end", value_name = "ADDRESS,ADDRESS", value_parser = Ends::parse)]
    pub ends: Option<Ends>,
    /// What network leads to the other end of --to or --ends, such as ethernet:10G,mtu=9000; needed where
    /// the plan has several links
    #[arg(long, requires = "other_end", value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Option<Link>,
    /// How the host of --to is reached
    #[command(flatten)]
    pub reach: Reach,
    /// Only check the plan file and say what would be run
    #[arg(long)]
    pub check: bool,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Where records are kept and reports written
    #[command(flatten)]
    pub place: Place,
}

/// Addresses of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends(pub [IpAddr; 2]);

impl Ends {
    /// Two addresses with a comma between them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let help = "two addresses of this machine, such as 10.9.0.1,10.9.0.2";
        let (one, other) = text.split_once(',').ok_or(help)?;
        let [one, other] = [one, other].map(|address| address.trim().parse::<IpAddr>());
        let (Ok(one), Ok(other)) = (one, other) else { return Err(help.to_owned()) };
        Ok(Self([one, other]))
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([one, other]) = self;
        write!(f, "{one},{other}")
    }
}

impl How {
    /// What the other end is called, where the plan is not for a lab, and the option that says so.
    pub fn other_end(&self) -> Option<(&'static str, String)> {
        let to = self.to.as_ref().map(|host| ("--to", host.clone()));
        to.or_else(|| self.ends.map(|ends| ("--ends", ends.to_string())))
    }
}

/// Options of `measure`.
#[derive(Args, Debug)]
pub struct Measure {
    /// How data moves
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Factor::Pattern.words()))]
    pub pattern: String,
    /// Where to: `loopback`; `lab:LINK` for two namespaces on this machine, such as lab:veth or
    /// lab:ethernet:10G,mtu=9000; or a host with an agent, several of its addresses parted by commas
    pub target: String,
    /// What listens on the host: an agent, or a server of iperf3
    #[arg(long, value_enum, default_value_t = PeerKind::Agent)]
    pub peer: PeerKind,
    /// User at a server of iperf3 that asks for one; the password is in IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "rsa_public_key_path")]
    pub username: Option<String>,
    /// Public key of such a server, in PEM
    #[arg(long, value_name = "FILE", requires = "username")]
    pub rsa_public_key_path: Option<PathBuf>,
    /// Pad as iperf3 did before 3.17
    #[arg(long, requires = "username")]
    pub use_pkcs1_padding: bool,
    /// What network leads to a host [default: what this host's device says of itself]
    #[arg(long, value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Option<Link>,
    /// How a host is reached
    #[command(flatten)]
    pub reach: Reach,
    /// Length of a run; the longest where --bytes or --count ends it [default: 2s, or 1h with those]
    #[arg(long, short = 't', value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// A run ends when it has sent so much, of requests where there are some; each way of a stream both
    /// ways
    #[arg(long, short = 'n', value_name = "SIZE", value_parser = amount_of_bytes)]
    pub bytes: Option<Amount>,
    /// A run ends after so many payloads or requests
    #[arg(long, short = 'k', value_name = "N", value_parser = amount_of_payloads, conflicts_with = "bytes")]
    pub count: Option<Amount>,
    /// A run does not count its first so long, which is added to its length
    #[arg(long, short = 'O', value_name = "TIME", conflicts_with_all = ["bytes", "count"])]
    pub omit: Option<Nanos>,
    /// Length of a run before the first that counts; 0s for none
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub warm_up: Nanos,
    /// Runs of each setting [default: 1, or 10 with --vs]
    #[arg(long, visible_alias = "repeat", value_name = "N", value_parser = runs)]
    pub runs: Option<usize>,
    /// Tell what each interval moved, while it runs; alone, of 100 ms. On a terminal a single setting is
    /// told each second unless another time is named
    #[arg(long, short = 'i', value_name = "TIME", num_args = 0..=1, default_missing_value = "100ms")]
    pub interval: Option<Nanos>,
    /// Levels to lay over the others, such as path=gso; several are run in turn and compared with the
    /// first
    #[arg(long, value_name = "FACTOR=LEVEL,..")]
    pub vs: Vec<String>,
    /// A threshold that every setting has to keep, such as goodput>=9G or rtt-p99<=50us
    #[arg(long, value_name = "FIGURE>=VALUE")]
    pub require: Vec<Requirement>,
    /// The other end sends: --direction reverse
    #[arg(long, short = 'R', conflicts_with = "direction")]
    pub reverse: bool,
    /// Both ends send at once, in flows of their own: --direction both
    #[arg(long, conflicts_with_all = ["direction", "reverse"])]
    pub bidir: bool,
    /// Socket buffers of both ends, each way
    #[arg(id = "buffers", long = "window", short = 'w', value_name = "SIZE", conflicts_with_all = ["receive_buffer", "send_buffer"],
        value_parser = |text: &str| Factor::ReceiveBuffer.level(text))]
    pub window: Option<String>,
    /// Payloads or requests depart at this rate: 1G is bits, 1000/s payloads; --pace fixed:RATE
    #[arg(long, short = 'b', value_name = "RATE", conflicts_with = "pace",
        value_parser = |text: &str| Factor::Pace.level(&format!("fixed:{text}")))]
    pub rate: Option<String>,
    /// CPUs of the client and the server [default: the first two]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpu: Option<(u32, u32)>,
    /// Port of the server [default: the kernel chooses]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub port: u16,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Print records and figures as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Levels of factors
    #[command(flatten)]
    pub levels: Levels,
}

impl Measure {
    /// What ends a run before its length does.
    pub fn amount(&self) -> Option<Amount> {
        self.bytes.or(self.count)
    }

    /// Length of a run, at most.
    pub fn duration(&self) -> Nanos {
        let unless_told = if self.amount().is_some() { LONGEST } else { USUAL };
        self.duration.unwrap_or(unless_told)
    }
}

/// Length of a run where nobody says.
const USUAL: Nanos = Nanos::from_secs(2);

/// Longest run where its end is an amount: an hour, in case that nothing moves.
const LONGEST: Nanos = Nanos::from_secs(3600);

/// An amount in bytes.
fn amount_of_bytes(text: &str) -> Result<Amount, String> {
    match text.parse() {
        Ok(Bytes(bytes)) if bytes > 0 => Ok(Amount::Bytes(bytes)),
        Ok(_) => Err("use at least 1 byte".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// An amount in payloads.
fn amount_of_payloads(text: &str) -> Result<Amount, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(Amount::Payloads(count)),
        _ => Err("use a number from 1".to_owned()),
    }
}

/// A number of runs.
fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs @ 1..=10_000) => Ok(runs),
        _ => Err("use a number from 1 to 10000".to_owned()),
    }
}

/// Two processors, or one for both ends.
fn cpus(text: &str) -> Result<(u32, u32), String> {
    let (start, answer) = text.split_once(',').unwrap_or((text, text));
    match (start.trim().parse(), answer.trim().parse()) {
        (Ok(start), Ok(answer)) => Ok((start, answer)),
        _ => Err("use two numbers of processors, such as 0,1".to_owned()),
    }
}

/// Options of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Name of the experiment
    #[arg(default_value = "latest")]
    pub experiment: String,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Where records are kept and reports written
    #[command(flatten)]
    pub place: Place,
}

/// Options of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// Name of the experiment
    #[arg(default_value = "latest")]
    pub experiment: String,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
    /// Where records are kept
    #[command(flatten)]
    pub place: Place,
}

/// Forms of exported records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One row a run, for spreadsheets
    Csv,
    /// One record a line, whole, as docs/record.schema.json says
    Json,
}

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct Compare {
    /// Name of the experiment to compare against
    pub baseline: String,
    /// Name of the experiment to judge
    pub candidate: String,
    /// Fail only when a point is worse by more than this, such as 2%
    #[arg(long, value_name = "SHARE")]
    pub gate: Option<Percent>,
    /// Print the comparison as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Where records are kept
    #[command(flatten)]
    pub place: Place,
}

/// Options of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// What to look at instead: `rdma`, the adapters of this machine
    #[arg(value_name = "PART", value_parser = ["rdma"])]
    pub part: Option<String>,
    /// Show what is fine, too, and the evidence for what is not observable
    #[arg(long)]
    pub all: bool,
    /// Print the findings as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// What `papers` does.
#[derive(Debug, Subcommand)]
pub enum Papers {
    /// List the papers, their tables, and where they contradict themselves
    List(ListPapers),
    /// Show a paper's figures as printed, each beside its ceiling or floor
    Show(ShowPaper),
    /// Judge what the papers claim: on what they print, or on the figures of an experiment
    Verify(VerifyPapers),
    /// Run a paper's plan, show its figures beside the published ones, and judge its claims on them
    Run(RunPaper),
}

/// Options of `papers list`.
#[derive(Args, Debug)]
pub struct ListPapers {
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `papers show`.
#[derive(Args, Debug)]
pub struct ShowPaper {
    /// Short name of the paper, such as P1
    pub paper: String,
    /// Only this table, such as IV
    #[arg(long, value_name = "TABLE", conflicts_with = "text")]
    pub table: Option<String>,
    /// Only the numbers stated in the text
    #[arg(long)]
    pub text: bool,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `papers verify`.
#[derive(Args, Debug)]
pub struct VerifyPapers {
    /// Short names of papers, such as P1 [default: all]
    #[arg(value_name = "PAPER")]
    pub papers: Vec<String>,
    /// Judge the figures of this experiment instead of the published ones; several are put side by side
    #[arg(long, value_name = "NAME")]
    pub run: Vec<String>,
    /// Print the answers as JSON
    #[arg(long)]
    pub json: bool,
    /// Where the experiment is
    #[command(flatten)]
    pub place: Place,
}

/// Options of `papers run`.
#[derive(Args, Debug)]
pub struct RunPaper {
    /// What to run: P1 (its 10GbE), P1-modes (IPoIB, datagram and connected), P1-speeds (figures 10
    /// and 11), P1-IPoIB (its tables IV to VII), P2 (verbs, rsockets and TCP, where there is RDMA), P3 (one TCP
    /// stream through long delays, more than an hour), P4 (Soft RoCE and TCP, where there is RDMA)
    #[arg(value_name = "EXPERIMENT")]
    pub paper: String,
    /// How its plan is run
    #[command(flatten)]
    pub how: How,
}
