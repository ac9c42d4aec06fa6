//! At two nodes of a topology, whose links, routers, switches and hubs lie between them.

use std::path::Path;
use std::time::Duration;

use fabricmark_lab::{Fabric, TopologyWay, Traffic, Way};
use fabricmark_plan::{Plan, Point, Role, Topology};
use fabricmark_record::Carrier;
use fabricmark_units::Nanos;
use fabricmark_wire::{self as wire, Link};

use super::Testbed;
use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;

/// A lab of any shape.
pub(super) struct InTopology {
    fabric: Fabric,
    named: Topology,
    way: TopologyWay,
}

impl InTopology {
    /// Builds the lab of a plan's topology; none where it has none.
    pub(super) fn build(plan: &Plan, emulator_cpu: Option<u32>) -> Result<Option<Self>, PlanError> {
        let Some(named) = plan.topology.clone() else { return Ok(None) };
        let no_way = || PlanError::NoWay(named.client.clone(), named.server.clone());
        let topology = fabricmark_lab::Topology::parse(&named.text).map_err(|_| no_way())?;
        let way = topology.way(&named.client, &named.server).ok_or_else(no_way)?;
        let fabric = Fabric::build(topology, plan.seed, emulator_cpu)?;
        Ok(Some(Self { fabric, named, way }))
    }

    fn name(&self, role: Role) -> &str {
        match role {
            Role::Client => &self.named.client,
            Role::Server => &self.named.server,
        }
    }

    /// The links of the way from an end, each with the end at which packets enter it.
    fn links(&self, from: Role) -> Vec<(usize, usize)> {
        let links = self.way.links.iter();
        match from {
            Role::Client => links.copied().collect(),
            Role::Server => links.rev().map(|&(link, end)| (link, 1 - end)).collect(),
        }
    }

    /// What happened on all links of a way.
    fn way(&self, from: Role, traffic: &[Traffic], device_drops: &[u64]) -> Way {
        let mut whole = Traffic::default();
        let mut drops = 0;
        for (place, (link, end)) in self.links(from).into_iter().enumerate() {
            let one = &traffic[2 * link + end];
            if place == 0 {
                whole.arrived = one.arrived;
                whole.trains = one.trains;
            }
            whole.departed = one.departed;
            whole.refused += one.refused;
            for (sum, dropped) in whole.dropped.iter_mut().zip(&one.dropped) {
                *sum += *dropped;
            }
            whole.lateness.merge(&one.lateness);
            drops += device_drops[2 * link + end];
        }
        Way { traffic: whole, device_drops: drops }
    }
}

impl Testbed for InTopology {
    fn start_pair(&mut self, _: Link, program: &Path) -> Result<Pair, PlanError> {
        Pair::start(program, |role| self.fabric.namespace(self.name(role)))
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        let (link, end) = self.links(role)[0];
        let topology = self.fabric.topology();
        let device = topology.links[link].name.clone();
        Ok(Attachment { device, address: topology.address(link, end, point.family), scope_id: 0 })
    }

    fn facts(&self, role: Role, _: &Point, _: Option<&Node>) -> NodeFacts {
        let namespace = Some(self.name(role).to_owned());
        NodeFacts { carrier: Carrier::LocalSocket, namespace, host: None, clock_offset: None }
    }

    fn imitates(&self, _: &Point) -> bool {
        true
    }

    fn path(&self) -> Option<wire::Path> {
        self.way.path.clone()
    }

    /// The delays of the links; jitter takes from them.
    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        Some(if self.way.has_jitter { Nanos(0) } else { self.way.rtt })
    }

    fn drops(&self, point: &Point) -> Result<u64, PlanError> {
        let ways = self.traffic(point)?;
        Ok(ways.into_iter().flatten().map(|way| way.lost_packets()).sum())
    }

    fn traffic(&self, _: &Point) -> Result<Option<[Way; 2]>, PlanError> {
        let (traffic, drops) = (self.fabric.traffic()?, self.fabric.device_drops()?);
        Ok(Some([Role::Client, Role::Server].map(|from| self.way(from, &traffic, &drops))))
    }

    fn settle(&self, from: Role, point: &Point, within: Duration) -> Result<(), PlanError> {
        let within = within + Duration::from_nanos(2 * point.rtt.unwrap_or_default().0);
        for (link, end) in self.links(from) {
            self.fabric.settle(link, end, within)?;
        }
        Ok(())
    }
}
