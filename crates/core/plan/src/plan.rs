//! A resolved plan: all defaults are filled in and all values are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fabricmark_stats::StopRule;
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::Link;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Offload, Pattern};
use crate::cpus::Cpus;
use crate::factor::{Factor, Point};
use crate::invalid::Invalid;
use crate::level::Level;
use crate::pace::{Pace, Trace};
use crate::pair::{Pair, sorted};
use crate::part::Role;
use crate::presentation::Presentation;
use crate::problem::Contradiction;
use crate::resolve::check_link;
use crate::transport::Network;
use crate::window::Window;

/// Shortest interval of a run: ending an interval takes some microseconds, 1 % of this.
pub const INTERVAL_MIN: Nanos = Nanos::from_millis(1);

/// Largest number of intervals of a run: an hour in steps of 100 ms, some 25 MB in its record.
pub const INTERVALS_MAX: u64 = 36_000;

/// Fewest intervals by which a steady state is judged, an arbitrary choice: a line fitted to fewer says little.
pub const STEADY_INTERVALS_MIN: u64 = 5;

/// An experiment with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where the points are run.
    pub testbed: Testbed,
    /// Topology that contains the ends; `None` if the plan names no topology file and has no wires of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Whether client and server are two addresses of a guest kernel, unless the caller places them elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_guest: bool,
    /// Wires between nodes; the topology is made of them. Empty: the plan names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wires: Vec<Wire>,
    /// Groups of flows that run at once, in the order of the plan. Empty: all flows are between client and server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Whether each group also runs alone (`[interference]`). A combination of levels is then one point for each group
    /// alone, followed by one for each group together with the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_interference: bool,
    /// The other host as the user named it, if there is one; `NODE=HOST NODE=HOST` if nodes other than the server
    /// are on other hosts, `NODE@LINK=ADDRESS` for the address of a node over a link, `ends=A,B` for two addresses of this
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Command that starts the ranks of MPI jobs, up to their number, such as `mpirun --hostfile hosts`; `None`: the
    /// launcher of the library, on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Length of a run, without `omit_ns`.
    pub duration_ns: Nanos,
    /// Ramp: time at the start of a run, before `duration_ns`, that does not count. 0: the default of each pattern.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub omit_ns: Nanos,
    /// Largest share of its mean by which the rate of a run may rise or fall over the time that counts; `None`: not
    /// checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<f64>,
    /// Amount of data that ends a run early, in each of its directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// Length of the warm-up run of each point; 0: none.
    pub warm_up_ns: Nanos,
    /// Length of the intervals that a run records; `None`: no intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<Nanos>,
    /// Whether compared points take turns in slices, if their levels allow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slices: bool,
    /// When a comparison group has enough runs.
    pub stop: StopRule,
    /// Time after which no block starts. A later run of the plan continues from there, so the digest does not cover it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<Nanos>,
    /// Port of the server; 0: chosen by the kernel.
    pub port: u16,
    /// CPUs of the load threads of client and server; `None`: chosen from the available ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<[Cpus; 2]>,
    /// The matrix. With groups, each combination of levels is one point for each group, in their order, and these
    /// run at once.
    pub points: Vec<Point>,
    /// Points that run in the same blocks and stop together, as indexes into `points`. Every point is in exactly
    /// one of these groups.
    pub comparison_groups: Vec<Vec<usize>>,
    /// Points that are compared with each other and have the same deciding figure, sorted by the index of the baseline.
    /// Both points of a pair are in the same comparison group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Which levels are compared.
    pub compare: Vec<Compare>,
    /// Departures of trace files, by the names that paces use. A plan file does not contain them: the caller reads
    /// the files (see [`Plan::trace_files`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, Trace>,
    /// Texts of the link traces that `emulate` names, by file name, read by the caller, too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub link_traces: BTreeMap<String, String>,
    /// What reports show; it does not affect what is run.
    #[serde(skip)]
    pub presentation: Presentation,
}

/// Ramp of a stream without `omit_ns`, as a divisor of its duration. Without it, a bucket of 64 KiB in front of a 1 Gbit/s
/// link adds 0.5 % to a run of 0.1 s; with it, 0.03 %.
pub const RAMP_SHARE: u64 = 20;

/// Prefix of `peer` if it is two addresses of this machine.
const OWN: &str = "ends=";

fn is_nothing(Nanos(ns): &Nanos) -> bool {
    *ns == 0
}

/// Limit of the data that a run sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// Application bytes; for patterns with requests, those of the requests.
    Bytes(u64),
    /// Number of payloads or requests.
    Payloads(u64),
}

impl Amount {
    /// The amount in bytes, for payloads of this length.
    pub fn of(self, payload: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => Bytes(bytes),
            Self::Payloads(count) => Bytes(count.saturating_mul(payload.0)),
        }
    }
}

/// Where the points of a plan are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Testbed {
    /// Networks on this machine.
    Lab,
    /// The network between this host and another.
    Hosts,
    /// Ranks that an MPI launcher starts.
    Mpi,
    /// The tiers of a bookstore.
    Tiers,
}

/// A topology, and which of its nodes are the ends of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Name of the file in the plan; empty if the topology is made of the plan's own wires.
    pub file: String,
    /// Node of the client.
    pub client: String,
    /// Node of the server.
    pub server: String,
    /// Contents of the file; empty until it is read.
    pub text: String,
    /// Whether the links of all paths let levels take turns in slices, as far as they were read.
    #[serde(skip, default = "takes_turns")]
    pub takes_turns: bool,
}

fn takes_turns() -> bool {
    true
}

/// What a plan takes from a path of its topology.
#[derive(Clone, Copy, Debug)]
pub struct TopologyPath {
    /// Smallest MTU.
    pub mtu: u16,
    /// RTT of an empty path.
    pub rtt: Nanos,
    /// Where super-packets are segmented.
    pub offload: Offload,
    /// Whether its links let levels take turns in slices.
    pub takes_turns: bool,
}

impl Topology {
    /// Parses the text after `lab:`: the name of a file that ends in `.toml` and two of its nodes, by default
    /// `client` and `server`. `None` if it names no such file.
    pub fn named(text: &str) -> Option<Self> {
        let (file, (client, server)) = match text.rsplit_once(':') {
            Some((file, nodes)) => (file, nodes.split_once(',')?),
            None => (text, ("client", "server")),
        };
        let [file, client, server] = [file, client, server].map(str::to_owned);
        let (text, takes_turns) = (String::new(), true);
        file.ends_with(".toml").then_some(Self { file, client, server, text, takes_turns })
    }
}

/// A wire between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    /// Name of the wire and of the network devices at its ends.
    pub name: String,
    /// Names of the two nodes.
    pub between: [String; 2],
    /// Technology of the wire.
    pub link: Link,
    /// Options of the emulated link besides its technology, such as `rtt=4ms queue=100p`.
    pub options: String,
}

/// A group of flows between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Name, unique in a plan.
    pub name: String,
    /// Node of the client.
    pub from: String,
    /// Node of the server.
    pub to: String,
    /// Link of the client's node by which the flows leave it; `None`: the shortest path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// When its senders start, after those of the groups that start first.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub start_ns: Nanos,
}

/// The path of a point's flows through a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathSpec {
    /// Node of the client.
    pub from: String,
    /// Node of the server.
    pub to: String,
    /// First link; `None`: that of the shortest path.
    pub via: Option<String>,
    /// Whether the flows pass through a relay.
    pub is_relayed: bool,
}

/// Two levels of one factor to be compared. All other levels are equal, or depend on these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compare {
    /// The factor.
    pub factor: Factor,
    /// What is compared against.
    pub baseline: Level,
    /// What is judged.
    pub candidate: Level,
}

/// The first level of a point that needs an emulated link, as `factor = level`; `None` without one.
fn emulated(point: &Point) -> Option<String> {
    let has_rtt = point.rtt.is_some_and(|Nanos(rtt_ns)| rtt_ns > 0);
    let has_products = matches!(point.window, Some(Window::Bdp(_)));
    let asked = [
        (Factor::Rtt, has_rtt),
        (Factor::Emulate, point.emulate.is_some()),
        (Factor::Bus, point.bus.is_some()),
        (Factor::Window, has_products),
    ];
    let (factor, _) = asked.into_iter().find(|(_, is_asked)| *is_asked)?;
    Some(format!("{factor} = {}", point.level(factor)))
}

/// The error for something that only a lab emulates.
fn not_between_hosts(what: &str) -> Invalid {
    Invalid(format!(
        "{what} is not supported between hosts; leave it out, or run the plan in a lab"
    ))
}

/// Number of points of a combination of levels, with this many groups.
pub(crate) fn points_each(groups: usize, has_interference: bool) -> usize {
    groups.max(1) * if has_interference { 2 } else { 1 }
}

/// Node at which relays run, if a plan or a topology has it.
pub const RELAY: &str = "relay";

impl Plan {
    /// The two addresses, if both ends are on this machine at addresses of their own.
    pub fn own_ends(&self) -> Option<(&str, &str)> {
        self.peer.as_deref()?.strip_prefix(OWN)?.split_once(',')
    }

    /// The `peer` for two addresses of this machine, given as `A,B`.
    pub fn own_name(ends: &str) -> String {
        format!("{OWN}{ends}")
    }

    /// The nodes on other hosts, each with the name of its host; empty if only the server is on one.
    pub fn hosts_of_nodes(&self) -> Vec<(&str, &str)> {
        let peer = self.peer.as_deref().filter(|_| self.own_ends().is_none());
        peer.into_iter()
            .flat_map(|peer| peer.split(' '))
            .filter_map(|one| one.rsplit_once('='))
            .collect()
    }

    /// The nodes of a point's client and server.
    pub fn nodes(&self, point: &Point) -> [&str; 2] {
        if let Some(Group { from, to, .. }) = self.group(point) {
            return [from, to];
        }
        match &self.topology {
            Some(Topology { client, server, .. }) => [client, server],
            None => [Role::Client.name(), Role::Server.name()],
        }
    }

    /// The group of a point.
    fn group(&self, point: &Point) -> Option<&Group> {
        self.groups.iter().find(|group| Some(&group.name) == point.group.as_ref())
    }

    /// When the senders of a point start, after those of the groups that start first.
    pub fn start(&self, point: &Point) -> Nanos {
        self.group(point).map_or(Nanos(0), |group| group.start_ns)
    }

    /// The path of a point's flows.
    pub fn path_spec(&self, point: &Point) -> PathSpec {
        let [from, to] = self.nodes(point).map(str::to_owned);
        let via = self.group(point).and_then(|group| group.via.clone());
        PathSpec { from, to, via, is_relayed: point.relay.is_some() }
    }

    /// Which of the nodes `client` and `server` an end of a point is at, in a plan without other nodes.
    pub fn side(&self, role: Role, point: &Point) -> Role {
        let [client, _] = self.nodes(point);
        if client == Role::Server.name() { role.other() } else { role }
    }

    /// Number of points of a combination of levels.
    pub(crate) fn points_each(&self) -> usize {
        points_each(self.groups.len(), self.has_interference)
    }

    /// The points that run at once with `point`, itself included: one for each group.
    pub fn at_once(&self, point: usize) -> Range<usize> {
        let (groups, place) = (self.groups.len().max(1), point % self.points_each());
        if self.has_interference && place < groups {
            return point..point + 1;
        }
        let first = point - place % groups;
        first..first + groups
    }

    /// Whether the record of this point is the first one of each of its runs. A run has a record for each group of flows
    /// or web interaction.
    pub fn is_first_of_run(&self, point: usize) -> bool {
        let Some(of) = self.points.get(point).filter(|_| self.testbed == Testbed::Tiers) else {
            return self.at_once(point).start == point;
        };
        self.points.iter().position(|other| other.shares_shop_run(of)) == Some(point)
    }

    /// The first of the points that run at once, for each run of a block.
    pub fn firsts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.points.len()).filter(|&point| self.at_once(point).start == point)
    }

    /// The links of the segments remain: they name the networks between the hosts. Congestion control is that of each
    /// host.
    fn on_hosts_of_tiers(mut self, link: Option<Link>) -> Result<Self, Invalid> {
        if self.own_ends().is_some() {
            return Err(Invalid("the tiers of a bookstore need --to, not --ends".to_owned()));
        }
        if link.is_some() {
            let message = "--link is not supported with a bookstore: the factors client_web, web_app and app_db name its links";
            return Err(Invalid(message.to_owned()));
        }
        for point in &mut self.points {
            let usual = Factor::Congestion.default(point);
            let level = point.congestion.take();
            if let Some(other) = level.filter(|level| Some(level) != usual.as_ref()) {
                return Err(not_between_hosts(&format!("congestion={other}")));
            }
        }
        Ok(self)
    }

    /// The same plan for the network between this host and `peer`, which `link` describes: a plan cannot choose it.
    /// It replaces a topology file. Points that differ only in their link become one, unless `peer` has an address over
    /// each of the links, as `NODE@LINK=HOST`. Levels that need no emulator (`rtt = "0ms"`, `offload`) are dropped.
    pub fn to_host(mut self, peer: &str, link: Option<Link>) -> Result<Self, Invalid> {
        self.peer = Some(peer.to_owned());
        if self.testbed == Testbed::Tiers {
            return self.on_hosts_of_tiers(link);
        }
        if self.testbed == Testbed::Mpi {
            if self.own_ends().is_none() {
                let message = "--to is not supported with MPI: its launcher places the ranks; use \
                               --launcher \"mpirun --hostfile FILE\"";
                return Err(Invalid(message.to_owned()));
            }
        } else {
            self.testbed = Testbed::Hosts;
        }
        if let Some(Topology { file, .. }) = self.topology.take_if(|_| self.wires.is_empty()) {
            if link.is_none() {
                return Err(Invalid(format!(
                    "testbed = lab:{file} is a lab; give the link between the hosts with --link"
                )));
            }
            for point in &mut self.points {
                (point.rtt, point.offload) = (None, None);
            }
        }
        if !self.wires.is_empty() && (link.is_some() || self.own_ends().is_some()) {
            let message = "a plan with a [[wire]] supports neither --link nor --ends nor a guest; \
                           use --to for the host of each node";
            return Err(Invalid(message.to_owned()));
        }
        if let Some(wire) = self.wires.iter().find(|wire| !wire.options.is_empty()) {
            let [one, other] = &wire.between;
            return Err(not_between_hosts(&format!("{} between {one} and {other}", wire.options)));
        }
        if let Some(group) = self.groups.iter().find(|group| group.via.is_some()) {
            let Group { name, via, .. } = group;
            let via = via.as_deref().unwrap_or_default();
            let message = format!("via = \"{via}\" of group {name} is not supported between hosts");
            let help = "give each address of a host a node of its own, and name it with --to";
            return Err(Invalid(format!("{message}; {help}")));
        }
        // Written by `Reader::wired`.
        let text = self.topology.as_ref().map_or("", |topology| &topology.text);
        if let Some(bus) = text.lines().find(|line| line.starts_with("bus = ")) {
            return Err(not_between_hosts(bus));
        }
        let mut links: Vec<Link> = Vec::new();
        for point in &self.points {
            if !links.contains(&point.link) {
                links.push(point.link);
            }
            if matches!(point.transport.traits().network, Network::Machine | Network::Nothing) {
                let message = format!(
                    "transport={} is not supported between hosts; leave it out",
                    point.transport
                );
                return Err(Invalid(message));
            }
        }
        // Links over which a host has an address of its own; one more may be that of the host's address without a link.
        let named: BTreeSet<String> = self
            .hosts_of_nodes()
            .iter()
            .filter_map(|(node, _)| Some(node.split_once('@')?.1.to_owned()))
            .collect();
        let unnamed: Vec<Link> =
            links.iter().copied().filter(|link| !named.contains(&link.to_string())).collect();
        let link = match (link, unnamed.as_slice()) {
            (Some(_), _) if !named.is_empty() => {
                let message = "use either --link or --to NODE@LINK=ADDRESS";
                return Err(Invalid(message.to_owned()));
            }
            (Some(link), _) => Some(link),
            (None, _)
                if links.contains(&Link::Loopback) && (links.len() == 1 || !named.is_empty()) =>
            {
                let message = "the plan has link=loopback; give the link to the host with --link";
                return Err(Invalid(message.to_owned()));
            }
            (None, [] | [_]) => None,
            (None, _) => {
                let words: Vec<String> = unnamed.iter().map(Link::to_string).collect();
                return Err(Invalid(format!(
                    "the plan has several links ({}); give the link to the host with --link, or its address \
                     over each with --to NODE@LINK=ADDRESS",
                    words.join(", ")
                )));
            }
        };
        let mut points: Vec<Point> = Vec::new();
        let mut places = Vec::new();
        for point in self.points {
            let link = link.unwrap_or(point.link);
            check_link(link, point.transport, point.family).map_err(
                |Contradiction { message, help, .. }| Invalid(format!("{message}; {help}")),
            )?;
            if let Some(level) = emulated(&point) {
                return Err(not_between_hosts(&level));
            }
            let point = Point { link, rtt: None, offload: None, ..point };
            let place = points.iter().position(|known| *known == point);
            places.push(place.unwrap_or_else(|| {
                points.push(point);
                points.len() - 1
            }));
        }
        let mut seen = BTreeSet::new();
        for group in &mut self.comparison_groups {
            let moved = group.iter().map(|&point| places[point]);
            *group = moved.filter(|&place| seen.insert(place)).collect();
        }
        self.comparison_groups.retain(|group| !group.is_empty());
        let moved = self.pairs.iter().map(|&pair| Pair {
            baseline: places[pair.baseline],
            candidate: places[pair.candidate],
            ..pair
        });
        self.pairs = sorted(moved.filter(|pair| pair.baseline != pair.candidate).collect());
        self.points = points;
        Ok(self)
    }

    /// Places the plan over a topology with this text. Points take what `way` returns of their path as that of their link.
    ///
    /// # Errors
    ///
    /// Those of `way`.
    pub fn over<E>(
        &mut self,
        text: String,
        way: impl Fn(&PathSpec) -> Result<TopologyPath, E>,
    ) -> Result<(), E> {
        let Some(topology) = &mut self.topology else { return Ok(()) };
        topology.text = text;
        let mut all_take_turns = true;
        for place in 0..self.points.len() {
            let path = way(&self.path_spec(&self.points[place]))?;
            let TopologyPath { mtu, rtt, offload, takes_turns } = path;
            let point = &mut self.points[place];
            point.link = Link::Veth { mtu };
            point.rtt = Some(rtt);
            point.offload = Some(offload);
            all_take_turns &= takes_turns;
        }
        if let Some(topology) = &mut self.topology {
            topology.takes_turns = all_take_turns;
        }
        Ok(())
    }

    /// Minimum duration of a run of a point. A probe doubles it, since it first runs alone.
    pub fn run_takes(&self, point: &Point, is_warm_up: bool) -> Nanos {
        if self.testbed == Testbed::Tiers {
            // A run measures all interactions; it has its warm-up at its start.
            let first = self.points.iter().find(|other| other.shares_shop_run(point));
            let is_counted = !is_warm_up && first == Some(point);
            let each = Nanos(self.warm_up_ns.0 + self.duration_ns.0);
            return if is_counted { each } else { Nanos(0) };
        }
        let each = match (is_warm_up, self.amount) {
            (true, _) => self.warm_up_ns,
            (false, None) => self.duration_ns,
            // The rate, hence the duration, is not known in advance.
            (false, Some(_)) => Nanos(0),
        };
        let each = each + self.start(point) + self.omitted(point);
        if point.probe.is_some() { Nanos(2 * each.0) } else { each }
    }

    /// The ramp of a run of a point, from its own start: `omit_ns`, and at least TCP's slow start over an emulated RTT.
    /// If groups start one after the other, the time until the last start is omitted, too, so that all count the same
    /// time.
    pub fn omitted(&self, point: &Point) -> Nanos {
        let ramp = |point: &Point| {
            let is_stream = point.pattern == Pattern::Stream && point.transport.has_tcp();
            if is_stream { point.ramp() } else { Nanos(0) }
        };
        // Groups that run at once have the same ramp.
        let others = self.points.iter().filter(|_| !self.groups.is_empty());
        let omitted = others.map(ramp).fold(self.omit_ns.max(ramp(point)), Nanos::max);
        let latest = self.groups.iter().map(|group| group.start_ns).max().unwrap_or_default();
        if latest == Nanos(0) {
            return omitted;
        }
        // The default ramp, a share of each group's own time, would end at different times.
        let default = Nanos(self.whole_run().0.div_ceil(RAMP_SHARE - 1));
        Nanos((latest + omitted.max(default)).0 - self.start(point).0)
    }

    /// The trace files that the points name, each once.
    pub fn trace_files(&self) -> BTreeSet<&str> {
        let paces = self.points.iter().map(|point| &point.pace);
        paces
            .filter_map(|pace| match pace {
                Pace::Trace(file) => Some(file.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Lower bound of the duration of all runs: each group stops as early as its rule allows.
    pub fn shortest(&self) -> Nanos {
        let runs = self.stop.runs_min as u64;
        let each = |point: &Point| {
            let (run, warm_up) = (self.run_takes(point, false), self.run_takes(point, true));
            runs.saturating_mul(run.0).saturating_add(warm_up.0)
        };
        let all = self.firsts().map(|point| each(&self.points[point]));
        Nanos(all.fold(0, u64::saturating_add))
    }
}
