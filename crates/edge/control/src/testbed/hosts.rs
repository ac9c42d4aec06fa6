//! Testbed of hosts with agents; nodes without an agent are on this host.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_plan::{Plan, Point, RELAY, Role};
use fabricmark_proto::{SessionId, Welcome};
use fabricmark_record::Carrier;
use fabricmark_units::Nanos;
use fabricmark_wire::{self as wire, Family};

use super::paths::{Ways, parse, ways};
use super::{Testbed, in_turn, near, on_one_machine};
use crate::attachment::{Attachment, NodeFacts};
use crate::carrier::{self, AgentError};
use crate::error::PlanError;
use crate::host::AgentHost;
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::AgentAccess;
use crate::relay::RelayPlace;

/// How long reconnecting to a lost agent is tried: long enough to replug a cable or to restart the daemon.
pub const RECONNECTS_FOR: Duration = Duration::from_secs(30);

/// Pause between attempts.
const CALL_EVERY: Duration = Duration::from_millis(500);

/// The hosts of a plan's nodes.
pub(super) struct Hosts {
    plan: Plan,
    /// Agents by the name of their node; nodes on this host have none.
    agents: BTreeMap<String, Remote>,
    /// Paths between the nodes, as far as the plan defines their wires.
    ways: Ways,
    /// Whether relays run at a node of their own.
    has_relay: bool,
}

impl Hosts {
    /// Connects to the agents.
    pub(super) fn call(
        plan: &Plan,
        nodes: &BTreeMap<String, AgentAccess>,
    ) -> Result<Self, PlanError> {
        let mut has_relay = nodes.contains_key(RELAY);
        let ways = match &plan.topology {
            Some(named) => {
                let topology = parse(&named.text, plan)?;
                has_relay |= topology.nodes.contains_key(RELAY);
                ways(plan, &topology)?
            }
            None => Ways::new(),
        };
        let mut agents = BTreeMap::new();
        let is_over_link = |node: &String| node.contains('@');
        for (node, access) in nodes.iter().filter(|(node, _)| !is_over_link(node)) {
            // Nodes on one host are those of one coordinator: a run must not wait for its own other end.
            let is_same = |known: &&Remote| known.access.host.control == access.host.control;
            let session = agents.values().find(is_same).map(|known: &Remote| known.session);
            let mut remote = Remote::call(access, session)?;
            let over_link = |(name, access): (&String, &AgentAccess)| {
                let link = name.strip_prefix(node)?.strip_prefix('@')?;
                Some((link.to_owned(), access.host.clone()))
            };
            remote.over_links = nodes.iter().filter_map(over_link).collect();
            agents.insert(node.clone(), remote);
        }
        Ok(Self { plan: plan.clone(), agents, ways, has_relay })
    }

    /// The node of relays.
    fn relay_node(&self, point: &Point) -> &str {
        let [_, server] = self.plan.nodes(point);
        if self.has_relay { RELAY } else { server }
    }

    /// The host that an end on this host talks to: that of the relay, if there is one, or of the other end.
    fn neighbour(&self, role: Role, point: &Point) -> Option<&Remote> {
        let relay = point.relay.and_then(|_| self.agents.get(self.relay_node(point)));
        relay.or_else(|| self.remote(role.other(), point))
    }

    /// The agents of client and server; `None` for this host.
    fn ends(&self, point: &Point) -> [Option<&Remote>; 2] {
        self.plan.nodes(point).map(|node| self.agents.get(node))
    }

    /// The agent at an end; `None` for this host.
    fn remote(&self, role: Role, point: &Point) -> Option<&Remote> {
        self.ends(point)[role as usize]
    }
}

/// An agent to which a connection was made.
struct Remote {
    access: AgentAccess,
    /// Its addresses over links, by the link.
    over_links: BTreeMap<String, AgentHost>,
    session: SessionId,
    welcome: Welcome,
    /// A worker that is not in use yet.
    spare: Option<Node>,
}

impl Remote {
    /// Connects to an agent, in a new session unless it has one.
    fn call(access: &AgentAccess, session: Option<SessionId>) -> Result<Self, PlanError> {
        let session = session.map_or_else(carrier::new_session, Ok)?;
        let (access, welcome) = (access.clone(), Welcome::default());
        let over_links = BTreeMap::new();
        let mut remote = Self { access, over_links, session, welcome, spare: None };
        remote.spare = Some(remote.connect()?);
        Ok(remote)
    }

    fn connect(&mut self) -> Result<Node, PlanError> {
        let AgentAccess { host, tls } = &self.access;
        let (carrier, socket) =
            carrier::Carrier::call(&host.name, &host.control, tls, self.session)?;
        self.welcome = carrier.welcome.clone();
        Node::behind(carrier, socket)
    }

    /// The spare worker, or a new one.
    fn worker(&mut self) -> Result<Node, PlanError> {
        self.spare.take().map_or_else(|| self.connect(), Ok)
    }

    /// Tries to reconnect to the agent, for at most [`RECONNECTS_FOR`].
    fn reconnect(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<(), PlanError> {
        let until = Instant::now() + RECONNECTS_FOR;
        loop {
            match self.connect() {
                Ok(node) => {
                    self.spare = Some(node);
                    return Ok(());
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) if is_interrupted() => return Err(PlanError::Interrupted),
                Err(_) => thread::sleep(CALL_EVERY),
            }
        }
    }

    /// Whether the agent runs on this machine, so that both ends share its CPUs.
    fn is_this_machine(&self) -> bool {
        let boot = fabricmark_host::boot();
        !boot.is_empty() && self.welcome.boot == boot
    }

    fn fail(&self, why: String) -> AgentError {
        AgentError { host: self.access.host.name.clone(), why }
    }

    /// The host as it is named for a point, its address for data, and the device of that address as far as it is known.
    fn data(&self, point: &Point) -> (&AgentHost, Option<SocketAddr>, &str) {
        // What the agent reported are addresses of another link.
        let (host, known, device) = match self.over_links.get(&point.link.to_string()) {
            Some(host) => (host, &[][..], ""),
            None => (&self.access.host, &*self.welcome.addresses, &*self.welcome.device),
        };
        (host, host.data_address(point.family, known), device)
    }

    /// Attachment of the agent for data of a point.
    fn attach(&self, point: &Point) -> Result<Attachment, AgentError> {
        let (host, at, device) = self.data(point);
        let at = at.ok_or_else(|| {
            let word = if point.family == Family::V4 { "IPv4" } else { "IPv6" };
            let name = &host.name;
            self.fail(format!(
                "has no known {word} address: add it to the name in --to, as in {name},ADDRESS"
            ))
        })?;
        Ok(Attachment { device: device.to_owned(), address: at.ip(), scope_id: 0 })
    }

    /// Attachment of this host for data to the agent.
    fn attach_here(&self, point: &Point) -> Result<Attachment, AgentError> {
        let (_, Some(at), _) = self.data(point) else { return self.attach(point) };
        Attachment::towards(at)
            .map_err(|error| self.fail(format!("cannot be reached at {}: {error}", at.ip())))
    }
}

impl Testbed for Hosts {
    fn start_pair(&mut self, point: &Point, program: &Path) -> Result<Pair, PlanError> {
        let nodes = self.plan.nodes(point).map(str::to_owned);
        let mut worker = |node: &String| match self.agents.get_mut(node) {
            Some(remote) => remote.worker(),
            None => Node::start(node, program, None),
        };
        let [client, server] = &nodes;
        let server = worker(server)?;
        Ok(Pair([worker(client)?, server]))
    }

    /// It may connect from the addresses of its host in `--to`, and from those of its agent's device.
    fn relay(&self, point: &Point) -> Result<RelayPlace, PlanError> {
        if let Some(agent) = self.agents.get(self.relay_node(point)) {
            let address = agent.attach(point)?.address;
            let named = agent.access.host.data.iter().map(SocketAddr::ip);
            let sources = agent.welcome.addresses.iter().copied().chain(named).chain([address]);
            let sources = sources.collect();
            return Ok(RelayPlace { address, sources });
        }
        let [client, server] = [Role::Client, Role::Server].map(|role| self.remote(role, point));
        match client.or(server).filter(|_| self.has_relay) {
            // Its sources lead to the server, and it is reached by the client.
            Some(client) => {
                let address = client.attach_here(point)?.address;
                let towards = server.map(|server| server.attach_here(point)).transpose()?;
                let sources = towards.map(|here| here.address).into_iter().chain([address]);
                Ok(RelayPlace { address, sources: sources.collect() })
            }
            None => Ok(RelayPlace::at(self.attach(Role::Server, point)?.address)),
        }
    }

    fn start_relay(&mut self, point: &Point, program: &Path) -> Result<Node, PlanError> {
        let node = self.relay_node(point).to_owned();
        match self.agents.get_mut(&node) {
            Some(remote) => remote.worker(),
            None => Node::start(RELAY, program, None),
        }
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        Ok(match (self.remote(role, point), self.neighbour(role, point)) {
            (Some(remote), _) => remote.attach(point)?,
            (None, Some(other)) => other.attach_here(point)?,
            (None, None) => {
                let [client, server] = self.plan.nodes(point);
                return Err(PlanError::Input(format!(
                    "the flows from `{client}` to `{server}` have both ends on this host: give the \
                     host of one with --to {server}=HOST"
                )));
            }
        })
    }

    fn facts(&self, role: Role, point: &Point, worker: Option<&Node>) -> NodeFacts {
        let Some(remote) = self.remote(role, point) else { return NodeFacts::here(None) };
        let carrier = worker.and_then(Node::carrier);
        NodeFacts {
            carrier: Carrier::Agent,
            namespace: None,
            host: Some(remote.welcome.host.clone()),
            boot: (!remote.is_this_machine()).then(|| remote.welcome.boot.clone()),
            clock_offset: carrier.and_then(|carrier| carrier.facts().clock),
        }
    }

    fn cpus(&self, point: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        let ends = self.ends(point);
        let own = [Role::Client, Role::Server].map(|role| match ends[role as usize] {
            Some(agent) => agent.welcome.cpus.clone(),
            None => near(self.attach(role, point), here),
        });
        let [client, server] = &own;
        let is_shared = match ends {
            [Some(client), Some(server)] => client.welcome.boot == server.welcome.boot,
            [Some(agent), None] | [None, Some(agent)] => agent.is_this_machine(),
            [None, None] => true,
        };
        if is_shared {
            return on_one_machine(point, client, place);
        }
        [in_turn(client, place), in_turn(server, place)]
    }

    fn path(&self, point: &Point) -> Option<wire::Path> {
        self.ways.get(&self.plan.path_spec(point))?.path.clone()
    }

    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        None
    }

    fn reconnect(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<(), PlanError> {
        self.agents.values_mut().try_for_each(|agent| agent.reconnect(is_interrupted))
    }
}
