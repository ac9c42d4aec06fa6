//! At nodes of a topology, whose links, routers, switches and hubs lie between them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::time::Duration;

use fabricmark_lab::{Fabric, Topology, Traffic, Way};
use fabricmark_plan::{Plan, Point, Role};
use fabricmark_units::Nanos;
use fabricmark_wire as wire;

use super::Testbed;
use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;

/// A lab of any shape.
pub(super) struct InTopology {
    fabric: Fabric,
    plan: Plan,
    /// The way from client to server of each group of flows.
    ways: Ways,
}

/// The way from one node to another.
pub(super) type Ways = BTreeMap<[String; 2], Way>;

pub(super) fn parse(text: &str) -> Result<Topology, PlanError> {
    Topology::parse(text).map_err(|error| PlanError::Input(error.to_string()))
}

/// The ways between the ends of a plan's points.
pub(super) fn ways(plan: &Plan, topology: &Topology) -> Result<Ways, PlanError> {
    let mut ways = Ways::new();
    for point in &plan.points {
        let [from, to] = plan.nodes(point);
        let nodes = [from, to].map(str::to_owned);
        if let Entry::Vacant(unknown) = ways.entry(nodes) {
            let none = || format!("no way leads from `{from}` to `{to}` in the topology");
            let way = topology.way(from, to).ok_or_else(|| PlanError::Internal(none()))?;
            unknown.insert(way);
        }
    }
    Ok(ways)
}

impl InTopology {
    /// Builds the lab of a plan's topology; none where it has none.
    pub(super) fn build(plan: &Plan, emulator_cpu: Option<u32>) -> Result<Option<Self>, PlanError> {
        let Some(named) = &plan.topology else { return Ok(None) };
        let topology = parse(&named.text)?;
        let ways = ways(plan, &topology)?;
        let fabric = Fabric::build(topology, plan.seed, emulator_cpu)?;
        Ok(Some(Self { fabric, plan: plan.clone(), ways }))
    }

    fn name(&self, role: Role, point: &Point) -> &str {
        self.plan.nodes(point)[role as usize]
    }

    fn way(&self, point: &Point) -> &Way {
        &self.ways[&self.plan.nodes(point).map(str::to_owned)]
    }

    /// The links of the way of a point from an end, each with the end at which packets enter it.
    fn links(&self, from: Role, point: &Point) -> Vec<(usize, usize)> {
        let links = self.way(point).links.iter();
        match from {
            Role::Client => links.copied().collect(),
            Role::Server => links.rev().map(|&(link, end)| (link, 1 - end)).collect(),
        }
    }
}

impl Testbed for InTopology {
    fn start_pair(&mut self, point: &Point, program: &Path) -> Result<Pair, PlanError> {
        Pair::start(self.plan.nodes(point), program, |role| {
            self.fabric.namespace(self.name(role, point))
        })
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        let (link, end) = self.links(role, point)[0];
        let topology = self.fabric.topology();
        let device = topology.links[link].name.clone();
        Ok(Attachment { device, address: topology.address(link, end, point.family), scope_id: 0 })
    }

    fn facts(&self, role: Role, point: &Point, _: Option<&Node>) -> NodeFacts {
        NodeFacts::here(Some(self.name(role, point).to_owned()))
    }

    fn imitates(&self, _: &Point) -> bool {
        true
    }

    fn path(&self, point: &Point) -> Option<wire::Path> {
        self.way(point).path.clone()
    }

    /// The delays of the links; jitter takes from them.
    fn least_rtt(&self, point: &Point) -> Option<Nanos> {
        let way = self.way(point);
        Some(if way.has_jitter { Nanos(0) } else { way.rtt })
    }

    fn drops(&self, point: &Point) -> Result<u64, PlanError> {
        let ways = self.traffic(point)?;
        Ok(ways.into_iter().flatten().flatten().map(|link| link.lost_packets()).sum())
    }

    fn traffic(&self, point: &Point) -> Result<Option<[Vec<Traffic>; 2]>, PlanError> {
        let traffic = self.fabric.traffic()?;
        let of_link = |(link, end): (usize, usize)| traffic[2 * link + end].clone();
        let of_way = |from| self.links(from, point).into_iter().map(of_link).collect();
        Ok(Some([Role::Client, Role::Server].map(of_way)))
    }

    fn settle(&self, from: Role, point: &Point, within: Duration) -> Result<(), PlanError> {
        let within = within + Duration::from_nanos(2 * point.rtt.unwrap_or_default().0);
        for (link, end) in self.links(from, point) {
            self.fabric.settle(link, end, within)?;
        }
        Ok(())
    }
}
