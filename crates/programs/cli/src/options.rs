//! The commands and their options: the single definition of parsing, help, man page and shell completions.

pub mod ceiling;
pub mod hosts;
pub mod lab;
pub mod lfn;
pub mod measure;
pub mod relay;
pub mod rtt;
pub mod shop;
pub mod simulate;
pub mod stack;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fabricmark_interop::Network;
use fabricmark_plan::{Factor, Plan, Point, RELAY, Role, Testbed};
use fabricmark_units::{BitRate, Bytes, Nanos, Percent};
use fabricmark_wire::Link;

/// Measures network transports, compares them with confidence intervals, and shows how close each
/// result is to what the wire allows
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
    /// Measure one setting now, or compare several
    Measure(Box<measure::Measure>),
    /// Show the report of a stored experiment
    Report(Report),
    /// Print the records of an experiment as CSV or JSON
    Export(Export),
    /// Compare two experiments point by point
    Compare(Compare),
    /// Check this machine for settings and load that disturb measurements, and show how to fix them
    Doctor(Doctor),
    /// Show the network interfaces of a host, or restore settings that a killed run left changed
    #[command(subcommand)]
    Hosts(hosts::Hosts),
    /// Run one end of measurements for other hosts that this host trusts
    Agent(Box<Agent>),
    /// Exchange keys with another host: without arguments, print a code and wait; with HOST and CODE,
    /// connect to the host that waits
    Pair(Pair),
    /// Create, change and remove emulated networks on this machine
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Relay TCP connections or UDP flows to another address, and time them
    Relay(Box<relay::Relay>),
    /// Measure RTTs to a STAMP or TWAMP-Light reflector, an NTP server, or an agent with --apdu
    Rtt(rtt::Rtt),
    /// Compute the highest goodput and the lowest latency of a link, without traffic
    Ceiling(Box<ceiling::Ceiling>),
    /// Build packets, dissect capture files, draw headers
    #[command(subcommand)]
    Wire(Box<wire::Wire>),
    /// Show, check and repeat the published results of five papers
    #[command(subcommand)]
    Papers(Papers),
    /// A bookstore with web server, application server and database in a lab, and emulated browsers
    #[command(subcommand)]
    Shop(shop::Shop),
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
    /// Prepare the kernel of a guest (started by the guest of `lab guest`, not by people)
    #[command(hide = true)]
    PrepareGuest,
}

/// Where records are and reports go.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// Folder for the store and the reports
    #[arg(long, value_name = "DIR", default_value = "fabricmark-results")]
    pub out: PathBuf,
    /// File of the store [default: store.sqlite in the folder of --out]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl Place {
    /// Path of the store's file.
    pub fn store_file(&self) -> PathBuf {
        self.store.clone().unwrap_or_else(|| self.out.join("store.sqlite"))
    }
}

/// The key of this host.
#[derive(Args, Clone, Debug)]
pub struct Key {
    /// File of this host's key; the file `trusted` in the same folder lists the hosts it trusts
    /// [default: ~/.config/fabricmark/key.pem]
    #[arg(long, value_name = "FILE", env = "FABRICMARK_KEY_FILE", hide_env_values = true)]
    pub key_file: Option<PathBuf>,
}

/// How another host is reached.
#[derive(Args, Clone, Debug)]
pub struct Reach {
    /// Address of the agent for the control connection [default: the address for data]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub control: Option<String>,
    /// Whose key is shown to the agent
    #[command(flatten)]
    pub key: Key,
}

/// A node of a plan that runs on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct To {
    /// Name of the node.
    pub node: String,
    /// The host as the user named it.
    pub host: String,
}

impl To {
    /// `NODE=HOST`, or `HOST` for the server. A node may have a link, whose options have equals signs: `db@LINK=HOST`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (node, host) = text.rsplit_once('=').unwrap_or((SERVER, text));
        let (name, link) = node.split_once('@').map_or((node, None), |(n, link)| (n, Some(link)));
        let name = if name == "peer" { SERVER } else { name };
        if name.is_empty() || host.is_empty() {
            return Err("use HOST or NODE=HOST".to_owned());
        }
        let node = match link {
            Some(link) => {
                let link: Link = link.parse().map_err(|error| format!("{link}: {error}"))?;
                format!("{name}@{link}")
            }
            None => name.to_owned(),
        };
        Ok(Self { node, host: host.to_owned() })
    }

    /// The host of each node, and its addresses over links, as `NODE@LINK`. `networks` are the factor whose levels are the
    /// links of a node, and these levels.
    ///
    /// # Errors
    ///
    /// Those of `networks`, if a link is no level, if a name comes twice, or if a node has a link but no host.
    pub fn by_node(
        to: &[Self],
        networks: impl Fn(&str) -> Result<(Factor, BTreeSet<String>), String>,
    ) -> Result<BTreeMap<&str, &str>, String> {
        let mut hosts = BTreeMap::new();
        for Self { node, host } in to {
            let (name, link) =
                node.split_once('@').map_or((&**node, None), |(n, link)| (n, Some(link)));
            let (factor, links) = networks(name)?;
            if let Some(link) = link.filter(|link| !links.contains(*link)) {
                let known = Vec::from_iter(links).join(", ");
                return Err(format!("no level of {factor} is {link}; use one of {known}"));
            }
            if hosts.insert(node.as_str(), host.as_str()).is_some() {
                return Err(format!("--to names the host of {node} twice; give it once"));
            }
        }
        let has_host =
            |node: &&str| node.split_once('@').is_none_or(|(name, _)| hosts.contains_key(name));
        if let Some(node) = hosts.keys().find(|node| !has_host(node)) {
            return Err(format!(
                "--to {node}: the host of this node is missing; add --to NODE=HOST, without a link"
            ));
        }
        Ok(hosts)
    }
}

/// Addresses of client and server in a guest (`inside.sh` of the crate `guest`).
pub const GUEST: Ends =
    Ends([IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2))]);

/// The node of `--to HOST`.
const SERVER: &str = Role::Server.name();

/// What listens on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerKind {
    /// `fabricmark agent`
    Agent,
    /// `iperf3 -s`
    Iperf3,
}

/// Names of values, the values, and their help.
pub type Choices<T> = [(&'static str, T, &'static str)];

/// A parser of the names in `all`.
fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static Choices<T>,
) -> impl TypedValueParser<Value = T> {
    let words = all.iter().map(|&(word, _, about)| PossibleValue::new(word).help(about));
    PossibleValuesParser::new(words).try_map(|word| {
        let found = all.iter().find(|(known, ..)| *known == word);
        found.map(|&(_, meant, _)| meant).ok_or("unknown value")
    })
}

/// Options of `agent`.
#[derive(Args, Debug)]
pub struct Agent {
    /// Create a key for this host and exit
    #[arg(long)]
    pub new_key: bool,
    /// Address and port to listen on; may be repeated [default: all addresses, port 7477]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub listen: Vec<String>,
    /// Let one coordinator measure at a time; others wait for their turn
    #[arg(long, conflicts_with = "at_once")]
    pub exclusive: bool,
    /// Number of coordinators that may measure at once; others wait for their turn. One host has at most half of them
    #[arg(long, value_name = "N", default_value = "256")]
    pub at_once: usize,
    /// Maximum number of connections, over all coordinators; one host has at most half of them, or 8
    #[arg(long, value_name = "N", default_value = "2048")]
    pub connections: usize,
    /// Maximum number of flows of a run
    #[arg(long, value_name = "N", default_value = "10000")]
    pub flows: u32,
    /// Maximum rate of a run; runs without a rate are then refused, and iperf3 and netperf clients limited to it
    #[arg(long, value_name = "RATE")]
    pub rate: Option<BitRate>,
    /// Maximum duration of a run; tests of iperf3, netperf and STAMP clients last at most 1h
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub duration: Nanos,
    /// Maximum memory for the payloads and buffers of a run
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: Bytes,
    /// Maximum memory for the payloads and buffers of all runs in progress [default: half of the free memory]
    #[arg(long, value_name = "SIZE")]
    pub memory_total: Option<Bytes>,
    /// Ports for data, such as 7500-7599 [default: the kernel chooses]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub ports: Option<(u16, u16)>,
    /// Let coordinators run clients here, which connect to other hosts; needed for `run --to client=HOST`
    #[arg(long)]
    pub allow_client: bool,
    /// Let coordinators run relays here, which connect to other hosts for their clients; needed for `run --to relay=HOST` and
    /// `measure ... HOST --relay`
    #[arg(long)]
    pub allow_relay: bool,
    /// Let coordinators run tiers of the bookstore here, which connect to each other and have a database below /var/tmp;
    /// needed for `--to web=HOST`, `--to app=HOST` and `--to db=HOST`
    #[arg(long)]
    pub allow_shop: bool,
    /// Let coordinators change settings of this host during runs (host_settings); each is put back after the run
    #[arg(long)]
    pub allow_settings: bool,
    /// Also serve iperf3 clients on this port, 5201 if none is given
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub iperf3: Option<u16>,
    /// RSA private key for iperf3 authentication, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["iperf3", "iperf3_users"])]
    pub iperf3_key: Option<PathBuf>,
    /// File of iperf3 users, one per line: name,SHA-256 of {name}password
    #[arg(long, value_name = "FILE", requires_all = ["iperf3", "iperf3_key"])]
    pub iperf3_users: Option<PathBuf>,
    /// Also serve netperf clients on this port, 12865 if none is given
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "12865")]
    pub netperf: Option<u16>,
    /// Also reflect STAMP and TWAMP-Light packets on this port, 862 if none is given, which needs
    /// CAP_NET_BIND_SERVICE
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub stamp: Option<u16>,
    /// File with the shared key of STAMP; a trailing newline is not part of the key
    #[arg(long, value_name = "FILE", requires = "stamp")]
    pub stamp_key: Option<PathBuf>,
    /// Also answer paper P5's APDUs on this UDP and TCP port, 7479 if none is given
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7479")]
    pub apdu: Option<u16>,
    /// Multicast group in which to answer APDUs; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "apdu")]
    pub apdu_group: Vec<IpAddr>,
    /// Network that may use the ports of iperf3, netperf, STAMP and APDUs; may be repeated [default: only this host]
    #[arg(long, value_name = "CIDR")]
    pub allow: Vec<Network>,
    /// Whose key the agent shows
    #[command(flatten)]
    pub key: Key,
}

/// A range of ports, `FIRST-LAST` or a single port.
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
    /// Host on which `fabricmark pair` waits
    #[arg(requires = "code", value_name = "HOST[:PORT]")]
    pub host: Option<String>,
    /// Code that it printed
    pub code: Option<String>,
    /// Address and port to listen on [default: all addresses, port 7478]
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
    /// Use the plan's [quick] settings: a shorter experiment with wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Start a new experiment even if one of the same plan could be resumed
    #[arg(long)]
    pub fresh: bool,
    /// Start no new block after this time; overrides the plan's budget. The same command continues from there
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Nanos>,
    /// Run the server on HOST, through its agent, instead of in a lab; NODE=HOST sets the host of another node, such as
    /// client=HOST; may be repeated. Other nodes run on this host. Separate several addresses of one host by commas.
    /// NODE@LINK=ADDRESS is its address in runs with that level of link, such as server@ipoib:4X-QDR=node2-ib. Tiers of
    /// the bookstore are web, app and db
    #[arg(long, group = "other_end", value_name = "[NODE=]HOST", value_parser = To::parse)]
    pub to: Vec<To>,
    /// Run between two addresses of this machine instead of in a lab, such as two ports joined by a
    /// cable, or Soft RoCE in `lab guest`
    #[arg(long, group = "other_end", value_name = "ADDRESS,ADDRESS", value_parser = Ends::parse)]
    pub ends: Option<Ends>,
    /// Inside the guest kernel of a plan
    #[arg(long, hide = true, group = "other_end")]
    pub in_guest: bool,
    /// Link between the ends of --to or --ends, such as ethernet:10G,mtu=9000, for ceilings and floors;
    /// required if the plan has several links, unless --to has the address over each [default: that of the plan]
    #[arg(long, requires = "other_end", value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    pub link: Option<Link>,
    /// Command that starts the ranks of MPI jobs, up to their number, such as "mpirun --hostfile FILE" or "srun -N 2";
    /// by default the library's own launcher, on this host
    #[arg(long, value_name = "COMMAND", conflicts_with = "other_end")]
    pub launcher: Option<String>,
    /// How the host of --to is reached
    #[command(flatten)]
    pub reach: Reach,
    /// Check the plan file, print what would run, and exit
    #[arg(long)]
    pub check: bool,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Where records are kept and reports written
    #[command(flatten)]
    pub place: Place,
}

/// Addresses of both ends: client, server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends(pub [IpAddr; 2]);

impl Ends {
    /// Two addresses, separated by a comma.
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
    /// Name of the remote end if the plan does not run in a lab, and the options that select it.
    pub fn other_end(&self) -> Option<(String, String)> {
        if self.in_guest {
            return Some((Plan::own_name(&GUEST.to_string()), String::new()));
        }
        if let Some(ends) = self.ends {
            return Some((Plan::own_name(&ends.to_string()), format!("--ends {ends}")));
        }
        match self.to.as_slice() {
            [] => None,
            [To { node, host }] if node == SERVER => Some((host.clone(), format!("--to {host}"))),
            hosts => {
                let mut hosts: Vec<&To> = hosts.iter().collect();
                hosts.sort_by_key(|to| (to.node == SERVER, &to.node));
                let names = hosts.iter().map(|To { node, host }| format!("{node}={host}"));
                let names: Vec<String> = names.collect();
                Some((names.join(" "), format!("--to {}", names.join(" --to "))))
            }
        }
    }

    /// The host of each node that runs on another host.
    ///
    /// # Errors
    ///
    /// If no flow of the plan ends at a node, or if a node is named twice.
    pub fn hosts(&self, plan: &Plan) -> Result<BTreeMap<&str, &str>, String> {
        if plan.testbed == Testbed::Tiers {
            return shop::hosts_of_tiers(&self.to, &plan.points);
        }
        let is_relayed = plan.points.iter().any(|point| point.relay.is_some());
        let ends = plan.points.iter().flat_map(|point| plan.nodes(point));
        let known: BTreeSet<&str> = ends.chain(is_relayed.then_some(RELAY)).collect();
        let hosts = To::by_node(&self.to, |node| {
            if !known.contains(node) {
                let known: Vec<String> = known.iter().map(|name| format!("{name}=HOST")).collect();
                return Err(format!(
                    "node `{node}` is neither an end of a flow nor a relay; use {}",
                    known.join(", ")
                ));
            }
            let of_node =
                plan.points.iter().filter(|point| nodes_of(plan, point).any(|n| n == node));
            Ok((Factor::Link, of_node.map(|point| point.link.to_string()).collect()))
        })?;
        for point in &plan.points {
            let over_link = |node: &str| format!("{node}@{}", point.link);
            let (with, without): (Vec<&str>, Vec<&str>) = nodes_of(plan, point)
                .filter(|node| hosts.contains_key(node))
                .partition(|node| hosts.contains_key(over_link(node).as_str()));
            if let ([one, ..], [other, ..]) = (with.as_slice(), without.as_slice()) {
                return Err(format!(
                    "--to has the address of {one} over {}, but not that of {other}: add --to {}=ADDRESS",
                    point.link,
                    over_link(other)
                ));
            }
        }
        if self.reach.control.is_some() && !hosts.contains_key(SERVER) {
            return Err("--control needs the host of the server, --to HOST".to_owned());
        }
        Ok(hosts)
    }
}

/// The nodes at which the flows of a point end, or that relay them.
fn nodes_of<'a>(plan: &'a Plan, point: &Point) -> impl Iterator<Item = &'a str> {
    plan.nodes(point).into_iter().chain(point.relay.map(|_| RELAY))
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
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub format: Format,
    /// Where records are kept
    #[command(flatten)]
    pub place: Place,
}

/// Forms of exported records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One row per run, for spreadsheets
    Csv,
    /// One complete record per line, as described in docs/record.schema.json
    Json,
}

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct Compare {
    /// Name of the experiment to compare against
    pub baseline: String,
    /// Name of the experiment to compare with it
    pub candidate: String,
    /// Exit with 1 only if a point is worse by more than this, such as 2%, and with 2 if the runs cannot rule that out
    /// [default: with 1 if any point is significantly worse]
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
    /// Show this instead of the findings: `rdma`, the RDMA adapters of this machine
    #[arg(value_name = "PART", value_parser = ["rdma"])]
    pub part: Option<String>,
    /// Also show checks that are fine, and the evidence of checks that are not observable
    #[arg(long)]
    pub all: bool,
    /// Print the findings as JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// What `papers` does.
#[derive(Debug, Subcommand)]
pub enum Papers {
    /// List the papers, their tables and their contradictions
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a paper's numbers as printed, each beside its ceiling or floor
    Show(ShowPaper),
    /// Judge the claims of the papers by their printed numbers, or by the results of an experiment
    Verify(VerifyPapers),
    /// Run a paper's plan, show the results beside the published ones, and judge the paper's claims on them
    Run(RunPaper),
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
    /// Print the numbers as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `papers verify`.
#[derive(Args, Debug)]
pub struct VerifyPapers {
    /// Short names of papers, such as P1 [default: all]
    #[arg(value_name = "PAPER")]
    pub papers: Vec<String>,
    /// Judge the results of this experiment instead of the published numbers; repeat it to combine experiments
    #[arg(long, value_name = "NAME")]
    pub run: Vec<String>,
    /// Print the verdicts as JSON
    #[arg(long)]
    pub json: bool,
    /// Where the experiment is
    #[command(flatten)]
    pub place: Place,
}

/// Options of `papers run`.
#[derive(Args, Debug)]
pub struct RunPaper {
    /// What to run: P1 (tables IV to VII over 10GbE), P1-modes (IPoIB in datagram and connected mode), P1-speeds
    /// (figures 10 and 11), P1-IPoIB (tables IV to VII over IPoIB), P2 (figures 1 to 5: 10GigE and IPoIB), P2-together
    /// (figure 6: both at once), P2-shop (figures 8 and 9: a bookstore), P2-verbs (verbs, rsockets and TCP; needs --ends or
    /// --to), P3 (one TCP stream over long RTTs; more than an hour), P4 (MPI over Soft RoCE and TCP, in a guest kernel),
    /// P4-verbs (Soft RoCE and TCP without MPI), P5 (tables 1 and 2: a relay by its buffer), P5-models (table 3: departure
    /// schedules through a relay)
    #[arg(value_name = "EXPERIMENT")]
    pub paper: String,
    /// How its plan is run
    #[command(flatten)]
    pub how: How,
}
