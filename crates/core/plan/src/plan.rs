//! A resolved plan: nothing left to default, nothing left to check.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fabricmark_stats::StopRule;
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::Link;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Offload, Pattern};
use crate::factor::{Factor, Point};
use crate::invalid::Invalid;
use crate::level::Level;
use crate::pace::{Pace, Trace};
use crate::part::Role;
use crate::presentation::Presentation;
use crate::problem::Contradiction;
use crate::resolve::check_link;
use crate::transport::Network;
use crate::window::Window;

/// Shortest interval of a run: ending one takes some microseconds, 1 % of this.
pub const INTERVAL_MIN: Nanos = Nanos::from_millis(1);

/// Most intervals of one run: an hour of 100 ms, some 25 MB of its record.
pub const INTERVALS_MAX: u64 = 36_000;

/// An experiment with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where the points are carried out.
    pub testbed: Testbed,
    /// The topology in which the ends are nodes, where the plan names a file or has wires of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Whether client and server are two addresses of a guest kernel, unless who runs the plan says where they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_guest: bool,
    /// Wires between nodes, where the plan names some; the topology is made of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wires: Vec<Wire>,
    /// Groups of flows that run at once, in the order of the plan; without any, all flows are between client and server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// The other host, as it was named, where there is one; `NODE=HOST NODE=HOST` where nodes other than the server are on
    /// others, `ends=A,B` for two addresses of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Length of one run.
    pub duration_ns: Nanos,
    /// What a run does before that and does not count; 0 for what each pattern leaves out by itself.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub omit_ns: Nanos,
    /// What ends a run before its length does, in each direction that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// Length of the warm-up run that each point gets once; 0 for none.
    pub warm_up_ns: Nanos,
    /// Length of the intervals that a run is recorded in; none are without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<Nanos>,
    /// Whether what is compared takes turns in slices, where its levels allow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slices: bool,
    /// When a comparison group has been run often enough.
    pub stop: StopRule,
    /// The time after which nothing more is begun; a later run of the plan goes on from there, so that it is no part of the
    /// digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<Nanos>,
    /// Port that the receiving end binds; 0 lets the kernel choose.
    pub port: u16,
    /// CPUs of the client and the server; absent, the first two that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<(u32, u32)>,
    /// The matrix. Where there are groups, each combination of levels is a point for each group, in their order, and these run
    /// at once.
    pub points: Vec<Point>,
    /// Points that are run in the same blocks and stop together, as indexes into `points`.
    /// Every point is in exactly one group.
    pub comparison_groups: Vec<Vec<usize>>,
    /// Which levels are compared.
    pub compare: Vec<Compare>,
    /// What the files of traces list, by the names that paces give them. A plan file does not hold
    /// them: who runs the plan reads them (see [`Plan::trace_files`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, Trace>,
    /// What to show; it does not change what is run.
    #[serde(skip)]
    pub presentation: Presentation,
}

/// What the name of two addresses of this machine begins with.
const OWN: &str = "ends=";

fn is_nothing(Nanos(ns): &Nanos) -> bool {
    *ns == 0
}

/// How much a run sends at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// So many application bytes, of requests where there are some.
    Bytes(u64),
    /// So many payloads or requests.
    Payloads(u64),
}

impl Amount {
    /// In bytes, where payloads are so long.
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
}

/// A topology and the nodes in it at which the ends of runs are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The file, as the plan names it; empty where the topology is that of the plan's own wires.
    pub file: String,
    /// The node of the client.
    pub client: String,
    /// The node of the server.
    pub server: String,
    /// What stands in the file; empty until it is read.
    pub text: String,
}

impl Topology {
    /// What stands behind `lab:`: a file whose name ends in `.toml`, and two of its nodes; without these `client` and
    /// `server`. `None` where it names no file.
    pub fn named(text: &str) -> Option<Self> {
        let (file, (client, server)) = match text.rsplit_once(':') {
            Some((file, nodes)) => (file, nodes.split_once(',')?),
            None => (text, ("client", "server")),
        };
        let [file, client, server] = [file, client, server].map(str::to_owned);
        file.ends_with(".toml").then_some(Self { file, client, server, text: String::new() })
    }
}

/// A wire between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    /// The nodes.
    pub between: [String; 2],
    /// Its technology.
    pub link: Link,
    /// What the lab emulates of it beside that, as words of a link.
    pub words: String,
}

/// A group of flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The node of the client.
    pub from: String,
    /// The node of the server.
    pub to: String,
}

/// Two levels of one factor to be compared, all other factors being equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compare {
    /// The factor.
    pub factor: Factor,
    /// What is compared against.
    pub baseline: Level,
    /// What is judged.
    pub candidate: Level,
}

/// The level of a point that means nothing without an emulated link, as `factor = level`.
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

/// A network between hosts is what it is.
fn not_between_hosts(what: &str) -> Invalid {
    Invalid(format!(
        "the plan has {what}, and a network between hosts is what it is: leave it out, or run the plan in the \
         lab of this machine"
    ))
}

impl Plan {
    /// Both addresses, where both ends are on this machine at addresses of their own.
    pub fn own_ends(&self) -> Option<(&str, &str)> {
        self.peer.as_deref()?.strip_prefix(OWN)?.split_once(',')
    }

    /// What the ends are called where both are addresses of this machine, given as `A,B`.
    pub fn own_name(ends: &str) -> String {
        format!("{OWN}{ends}")
    }

    /// The nodes that are on other hosts, each with the name of its host; none where that is the server alone.
    pub fn hosts_of_nodes(&self) -> Vec<(&str, &str)> {
        let peer = self.peer.as_deref().filter(|_| self.own_ends().is_none());
        peer.into_iter()
            .flat_map(|peer| peer.split(' '))
            .filter_map(|one| one.split_once('='))
            .collect()
    }

    /// The nodes of a point's client and server.
    pub fn nodes(&self, point: &Point) -> [&str; 2] {
        let is_its = |group: &&Group| Some(&group.name) == point.group.as_ref();
        if let Some(Group { from, to, .. }) = self.groups.iter().find(is_its) {
            return [from, to];
        }
        match &self.topology {
            Some(Topology { client, server, .. }) => [client, server],
            None => [Role::Client.name(), Role::Server.name()],
        }
    }

    /// Which of the nodes `client` and `server` an end of a point is at, where there are no others.
    pub fn side(&self, role: Role, point: &Point) -> Role {
        let [client, _] = self.nodes(point);
        if client == Role::Server.name() { role.other() } else { role }
    }

    /// The points that run at once with a point, itself included: one for each group.
    pub fn at_once(&self, point: usize) -> Range<usize> {
        let groups = self.groups.len().max(1);
        let first = point - point % groups;
        first..first + groups
    }

    /// The same plan to another host. A network between hosts cannot be chosen as one of the lab: `link`
    /// says what it is, and points that differed by their link alone become one. What asks nothing of an
    /// emulator (`rtt = "0ms"`, `offload`) is dropped with it.
    pub fn to_host(mut self, peer: &str, link: Option<Link>) -> Result<Self, Invalid> {
        self.testbed = Testbed::Hosts;
        self.peer = Some(peer.to_owned());
        if let Some(Topology { file, .. }) =
            self.topology.as_ref().filter(|_| self.wires.is_empty())
        {
            return Err(not_between_hosts(&format!("testbed = lab:{file}")));
        }
        if !self.wires.is_empty() && (link.is_some() || self.own_ends().is_some()) {
            let message = "the plan has a [[wire]]: leave out --link, and name hosts with --to instead of \
                           --ends or a guest";
            return Err(Invalid(message.to_owned()));
        }
        if let Some(wire) = self.wires.iter().find(|wire| !wire.words.is_empty()) {
            let [one, other] = &wire.between;
            return Err(not_between_hosts(&format!("{} between {one} and {other}", wire.words)));
        }
        let mut links: Vec<Link> = Vec::new();
        for point in &self.points {
            if !links.contains(&point.link) {
                links.push(point.link);
            }
            if matches!(point.transport.traits().network, Network::Machine | Network::Nothing) {
                let message = format!(
                    "the transport {} does not leave the machine: leave it out",
                    point.transport
                );
                return Err(Invalid(message));
            }
        }
        let link = match (link, links.as_slice()) {
            (Some(link), _) => link,
            (None, [Link::Loopback]) => {
                let message =
                    "the plan is about loopback: say with --link what network leads to the host";
                return Err(Invalid(message.to_owned()));
            }
            (None, [link]) => *link,
            (None, _) => {
                let words: Vec<String> = links.iter().map(Link::to_string).collect();
                return Err(Invalid(format!(
                    "the plan has the links {}, and the network to a host is one of them at most: say with --link \
                     which it is",
                    words.join(", ")
                )));
            }
        };
        let mut points: Vec<Point> = Vec::new();
        let mut places = Vec::new();
        for point in self.points {
            check_link(link, point.transport, point.family).map_err(
                |Contradiction { message, help, .. }| Invalid(format!("{message}: {help}")),
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
        self.points = points;
        Ok(self)
    }

    /// The same over a topology of this text. `way` gives MTU and RTT of the way from one node to another, which points take
    /// for those of their link.
    ///
    /// # Errors
    ///
    /// As `way` says.
    pub fn over<E>(
        &mut self,
        text: String,
        way: impl Fn(&str, &str) -> Result<(u16, Nanos), E>,
    ) -> Result<(), E> {
        let Some(topology) = &mut self.topology else { return Ok(()) };
        topology.text = text;
        for place in 0..self.points.len() {
            let [from, to] = self.nodes(&self.points[place]);
            let (mtu, rtt) = way(from, to)?;
            let point = &mut self.points[place];
            point.link = Link::Veth { mtu };
            point.rtt = Some(rtt);
            point.offload = Some(Offload::On);
        }
        Ok(())
    }

    /// What a run of a point takes at least: where it is probed, the probe runs alone first.
    pub fn run_takes(&self, point: &Point, is_warm_up: bool) -> Nanos {
        let each = match (is_warm_up, self.amount) {
            (true, _) => self.warm_up_ns,
            (false, None) => self.duration_ns,
            // Nobody knows how fast it will be.
            (false, Some(_)) => Nanos(0),
        };
        let each = Nanos(each.0 + self.omitted(point).0);
        if point.probe.is_some() { Nanos(2 * each.0) } else { each }
    }

    /// What a run of a point does at first and does not count: what the plan leaves out, and at least TCP's
    /// slow start over an emulated round trip.
    pub fn omitted(&self, point: &Point) -> Nanos {
        let ramp = |point: &Point| {
            let is_stream = point.pattern == Pattern::Stream && point.transport.has_tcp();
            if is_stream { point.ramp() } else { Nanos(0) }
        };
        // What runs at once is counted at once.
        let others = self.points.iter().filter(|_| !self.groups.is_empty());
        others.map(ramp).fold(self.omit_ns.max(ramp(point)), Nanos::max)
    }

    /// The files of traces that the points name, each once.
    pub fn trace_files(&self) -> BTreeSet<&str> {
        let paces = self.points.iter().map(|point| &point.pace);
        paces
            .filter_map(|pace| match pace {
                Pace::Trace(file) => Some(file.as_str()),
                _ => None,
            })
            .collect()
    }

    /// A lower bound of the time that all runs take: each group stops as early as its rule allows.
    pub fn shortest(&self) -> Nanos {
        let runs = self.stop.runs_min as u64;
        let each = |point: &Point| {
            let (run, warm_up) = (self.run_takes(point, false), self.run_takes(point, true));
            runs * run.0 + warm_up.0
        };
        Nanos(self.points.iter().step_by(self.groups.len().max(1)).map(each).sum())
    }
}
