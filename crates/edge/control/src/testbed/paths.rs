//! Paths over a plan's topology.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fabricmark_lab::{Topology, Way};
use fabricmark_plan::{Plan, Point, RELAY};

use crate::error::PlanError;

/// Paths by the names of their first and last node, and whether they lead through a relay.
pub(super) type Ways = BTreeMap<([String; 2], bool), Way>;

/// Key of a point's path.
pub(super) fn key(plan: &Plan, point: &Point) -> ([String; 2], bool) {
    (plan.nodes(point).map(str::to_owned), point.relay.is_some())
}

/// The path between two nodes: through the node [`RELAY`] if it is relayed and the topology has that node.
pub(crate) fn way(topology: &Topology, [from, to]: [&str; 2], is_relayed: bool) -> Option<Way> {
    let relay = Some(RELAY).filter(|relay| is_relayed && topology.nodes.contains_key(*relay));
    match relay.filter(|relay| ![from, to].contains(relay)) {
        Some(relay) => topology.way_through(relay, from, to),
        None => topology.way(from, to),
    }
}

pub(super) fn parse(text: &str) -> Result<Topology, PlanError> {
    Topology::parse(text).map_err(|error| PlanError::Input(error.to_string()))
}

/// The paths between the ends of a plan's points.
pub(super) fn ways(plan: &Plan, topology: &Topology) -> Result<Ways, PlanError> {
    let mut ways = Ways::new();
    for point in &plan.points {
        let [from, to] = plan.nodes(point);
        if let Entry::Vacant(unknown) = ways.entry(key(plan, point)) {
            let none = || format!("no path from `{from}` to `{to}` in the topology");
            let way = way(topology, [from, to], point.relay.is_some());
            unknown.insert(way.ok_or_else(|| PlanError::Internal(none()))?);
        }
    }
    Ok(ways)
}
