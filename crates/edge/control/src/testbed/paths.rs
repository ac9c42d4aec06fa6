//! Paths over a plan's topology.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fabricmark_lab::{Topology, Way};
use fabricmark_plan::{PathSpec, Plan, RELAY};

use crate::error::PlanError;

/// The paths of a plan.
pub(super) type Ways = BTreeMap<PathSpec, Way>;

/// The path between two nodes: through the node [`RELAY`] if it is relayed and the topology has that node.
pub(crate) fn way(topology: &Topology, spec: &PathSpec) -> Option<Way> {
    let PathSpec { from, to, via, is_relayed } = spec;
    let relay = Some(RELAY).filter(|relay| *is_relayed && topology.nodes.contains_key(*relay));
    match relay.filter(|relay| from != relay && to != relay) {
        Some(relay) => topology.way_through(relay, via.as_deref(), from, to),
        None => topology.way_by(via.as_deref(), from, to),
    }
}

/// The topology of a plan, whose traces have been read.
pub(super) fn parse(text: &str, plan: &Plan) -> Result<Topology, PlanError> {
    let mut read = |name: &str| {
        plan.link_traces.get(name).cloned().ok_or_else(|| "it was not read".to_owned())
    };
    Topology::parse_with(text, &mut read).map_err(|error| PlanError::Input(error.to_string()))
}

/// The paths between the ends of a plan's points.
pub(super) fn ways(plan: &Plan, topology: &Topology) -> Result<Ways, PlanError> {
    let mut ways = Ways::new();
    for point in &plan.points {
        if let Entry::Vacant(unknown) = ways.entry(plan.path_spec(point)) {
            let PathSpec { from, to, .. } = unknown.key();
            let none = || format!("no path from `{from}` to `{to}` in the topology");
            let way = way(topology, unknown.key()).ok_or_else(|| PlanError::Internal(none()))?;
            unknown.insert(way);
        }
    }
    Ok(ways)
}
