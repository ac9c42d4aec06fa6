//! Paths over a plan's topology.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fabricmark_lab::{Topology, Way};
use fabricmark_plan::Plan;

use crate::error::PlanError;

/// Paths by the names of their first and last node.
pub(super) type Ways = BTreeMap<[String; 2], Way>;

pub(super) fn parse(text: &str) -> Result<Topology, PlanError> {
    Topology::parse(text).map_err(|error| PlanError::Input(error.to_string()))
}

/// The paths between the ends of a plan's points.
pub(super) fn ways(plan: &Plan, topology: &Topology) -> Result<Ways, PlanError> {
    let mut ways = Ways::new();
    for point in &plan.points {
        let [from, to] = plan.nodes(point);
        let nodes = [from, to].map(str::to_owned);
        if let Entry::Vacant(unknown) = ways.entry(nodes) {
            let none = || format!("no path from `{from}` to `{to}` in the topology");
            let way = topology.way(from, to).ok_or_else(|| PlanError::Internal(none()))?;
            unknown.insert(way);
        }
    }
    Ok(ways)
}
