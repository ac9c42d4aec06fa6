//! Testbed of labs on this machine: the lab of a plan's topology, or a lab with client and server for each link of
//! its points. Points over loopback use the loopback device.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fabricmark_host::allow_files;
use fabricmark_lab::{Backend, Lab, Traffic, Way, Wiring};
use fabricmark_link::{HostBus, LinkOptions};
use fabricmark_plan::{Plan, Point, RELAY, Role};
use fabricmark_units::{Nanos, Stream};
use fabricmark_wire::{self as wire, Link};

use super::local::Loopback;
use super::paths::{Ways, parse, ways};
use super::{PathTraffic, Testbed, on_one_machine};
use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;
use crate::relay::RelayPlace;

/// Largest number of links of a plan, an arbitrary choice: each has two namespaces.
const LINKS_MAX: usize = 256;

/// The labs of a plan.
pub(super) struct InLab {
    plan: Plan,
    networks: Vec<Network>,
    emulator_cpu: Option<u32>,
}

/// A lab, and the paths between its nodes.
struct Network {
    /// The link that the lab consists of; `None` for the topology of a plan.
    wiring: Option<Wiring>,
    lab: Lab,
    ways: Ways,
}

impl InLab {
    /// `runs_before` are those of earlier processes: links do not repeat the losses and delays that these have met.
    pub(super) fn build(
        plan: &Plan,
        emulator_cpu: Option<u32>,
        runs_before: usize,
    ) -> Result<Self, PlanError> {
        allow_files();
        let mut topologies = Vec::new();
        if let Some(named) = &plan.topology {
            topologies.push((None, parse(&named.text, plan)?));
        } else {
            let mut wirings: Vec<Wiring> = Vec::new();
            for point in plan.points.iter().filter(|point| point.link != Link::Loopback) {
                let wiring = Wiring::of(point);
                if !wirings.contains(&wiring) {
                    wirings.push(wiring);
                }
            }
            if wirings.len() > LINKS_MAX {
                return Err(PlanError::Input(format!(
                    "the plan has {} links, but a lab has at most {LINKS_MAX}",
                    wirings.len()
                )));
            }
            for (number, wiring) in wirings.into_iter().enumerate() {
                let mut topology = wiring.topology(&format!("link{number}"))?;
                for options in topology.links.iter_mut().flat_map(|wire| &mut wire.options) {
                    set_traces(options, plan);
                }
                topologies.push((Some(wiring), topology));
            }
        }
        let seed = match runs_before {
            0 => plan.seed,
            runs => Stream::new(plan.seed, &format!("links after {runs} runs")).next_u64(),
        };
        let build = |(wiring, topology)| {
            let ways = ways(plan, &topology)?;
            let lab = Lab::build(topology, seed, emulator_cpu)?;
            Ok(Network { wiring, lab, ways })
        };
        let networks = topologies.into_iter().map(build).collect::<Result<_, PlanError>>()?;
        Ok(Self { plan: plan.clone(), networks, emulator_cpu })
    }

    /// Index of the network with the link of a point; `None` for loopback.
    fn place(&self, point: &Point) -> Option<usize> {
        let wiring = Wiring::of(point);
        self.networks.iter().position(|network| {
            network.wiring.as_ref().is_none_or(|of_network| *of_network == wiring)
        })
    }

    fn network(&self, point: &Point) -> Option<&Network> {
        self.place(point).map(|place| &self.networks[place])
    }

    fn name(&self, role: Role, point: &Point) -> &str {
        self.plan.nodes(point)[role as usize]
    }

    fn way<'a>(&self, network: &'a Network, point: &Point) -> &'a Way {
        &network.ways[&self.plan.path_spec(point)]
    }

    /// The links on the path of a point from one end, each with the end at which packets enter it.
    fn links(&self, network: &Network, from: Role, point: &Point) -> Vec<(usize, usize)> {
        let links = self.way(network, point).links.iter();
        match from {
            Role::Client => links.copied().collect(),
            Role::Server => links.rev().map(|&(link, end)| (link, 1 - end)).collect(),
        }
    }
}

/// Gives link options that name traces their texts, which were checked when they were read.
fn set_traces(options: &mut LinkOptions, plan: &Plan) {
    let read = |file: &str| plan.link_traces.get(file).cloned().ok_or_else(String::new);
    let _ = options.read_files(read);
}

/// Whether two addresses of a lab are in one network.
fn are_neighbours(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.segments()[..7] == other.segments()[..7],
        _ => false,
    }
}

impl Network {
    fn has(&self, is_it: impl Fn(Backend) -> bool) -> bool {
        self.lab.topology().links.iter().any(|link| is_it(link.backend))
    }
}

impl Testbed for InLab {
    fn network(&self, point: &Point) -> usize {
        self.place(point).map_or(0, |place| place + 1)
    }

    fn start_pair(&mut self, point: &Point, program: &Path) -> Result<Pair, PlanError> {
        let Some(network) = self.network(point) else {
            return Loopback.start_pair(point, program);
        };
        Pair::start(self.plan.nodes(point), program, |role| {
            network.lab.namespace(self.name(role, point))
        })
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        let Some(network) = self.network(point) else { return Loopback.attach(role, point) };
        let (link, end) = self.links(network, role, point)[0];
        let topology = network.lab.topology();
        let device = topology.links[link].name.clone();
        Ok(Attachment { device, address: topology.address(link, end, point.family), scope_id: 0 })
    }

    fn relay(&self, point: &Point) -> Result<RelayPlace, PlanError> {
        let Some(network) = self.network(point) else { return Loopback.relay(point) };
        let topology = network.lab.topology();
        let own = topology.ends(RELAY).map(|(link, end)| topology.address(link, end, point.family));
        let sources: Vec<IpAddr> = own.collect();
        let client = self.attach(Role::Client, point)?.address;
        let nearest = sources.iter().find(|&&own| are_neighbours(own, client)).or(sources.first());
        let Some(&address) = nearest else {
            return Ok(RelayPlace::at(self.attach(Role::Server, point)?.address));
        };
        Ok(RelayPlace { address, sources })
    }

    fn start_relay(&mut self, point: &Point, program: &Path) -> Result<Node, PlanError> {
        let Some(network) = self.network(point) else { return Node::start(RELAY, program, None) };
        let is_node = network.lab.topology().nodes.contains_key(RELAY);
        let node = if is_node { RELAY } else { self.name(Role::Server, point) };
        Node::start(RELAY, program, network.lab.namespace(node))
    }

    fn facts(&self, role: Role, point: &Point, _: Option<&Node>) -> NodeFacts {
        NodeFacts::here(self.network(point).map(|_| self.name(role, point).to_owned()))
    }

    /// The ends do not use the CPU of an emulator between them.
    fn cpus(&self, point: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        let network = self.network(point);
        let is_emulated =
            network.is_some_and(|network| network.has(|backend| backend == Backend::Emulator));
        let is_free = |cpu: &u32| !is_emulated || Some(*cpu) != self.emulator_cpu;
        let free: Vec<u32> = here.iter().copied().filter(is_free).collect();
        on_one_machine(point, &free, place)
    }

    fn imitates(&self, point: &Point) -> bool {
        self.network(point).is_some_and(|network| network.has(|backend| backend != Backend::Veth))
    }

    fn path(&self, point: &Point) -> Option<wire::Path> {
        let network = self.network(point).filter(|network| network.wiring.is_none())?;
        self.way(network, point).path.clone()
    }

    fn bus(&self, point: &Point) -> Option<(Role, HostBus)> {
        let topology = self.network(point)?.lab.topology();
        let bus = |role| Some((role, topology.nodes.get(self.name(role, point))?.bus?));
        let buses = [Role::Client, Role::Server].into_iter().filter_map(bus);
        buses.min_by_key(|(_, bus)| bus.bps())
    }

    /// Sum of the delays of the links; 0 with jitter, which may reduce them.
    fn least_rtt(&self, point: &Point) -> Option<Nanos> {
        let way = self.network(point).map(|network| self.way(network, point));
        Some(way.filter(|way| !way.has_jitter).map_or(Nanos(0), |way| way.rtt))
    }

    fn drops(&self, point: &Point, traffic: &PathTraffic) -> Result<u64, PlanError> {
        let Some(network) = self.network(point) else { return Ok(0) };
        let ends = [Role::Client, Role::Server].map(|role| self.name(role, point));
        // What left the links and found no room before the bus of a host.
        let buses = network.lab.shared_traffic()?.into_iter();
        let buses = buses.filter(|shared| ends.contains(&shared.name.as_str()));
        let links = traffic.iter().flatten().map(Traffic::lost_packets);
        Ok(links.chain(buses.map(|traffic| traffic.lost_packets())).sum())
    }

    fn traffic(&self, point: &Point) -> Result<Option<PathTraffic>, PlanError> {
        let Some(network) = self.network(point) else { return Ok(None) };
        let traffic = network.lab.traffic()?;
        let of_link = |(link, end): (usize, usize)| traffic[2 * link + end].clone();
        let of_way = |from| self.links(network, from, point).into_iter().map(of_link).collect();
        Ok(Some([Role::Client, Role::Server].map(of_way)))
    }

    fn settle(&self, from: Role, point: &Point, within: Duration) -> Result<(), PlanError> {
        let Some(network) = self.network(point) else { return Ok(()) };
        let within = within + Duration::from_nanos(2 * point.rtt.unwrap_or_default().0);
        for (link, end) in self.links(network, from, point) {
            network.lab.settle(link, end, within)?;
        }
        Ok(())
    }
}
