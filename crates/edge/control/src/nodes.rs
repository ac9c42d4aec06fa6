//! The nodes of a run, for its record.

use fabricmark_judge::Part;
use fabricmark_plan::{Point, Role};
use fabricmark_record::{HostFacts, Node};

use crate::coordinator::Coordinator;
use crate::error::PlanError;

/// The nodes of a run: facts about them, and what their workers measured.
pub(crate) fn nodes(
    coordinator: &Coordinator,
    host: &HostFacts,
    names: [&str; 2],
    point: &Point,
    parts: &[Part],
) -> Result<Vec<Node>, PlanError> {
    let Some(ends) = parts.first().map(|part| &part.ends) else { return Ok(Vec::new()) };
    let reports = [(Role::Client, &ends.client), (Role::Server, &ends.server)];
    let nodes = reports.map(|(role, report)| {
        let attachment = coordinator.testbed().attach(role, point)?;
        let facts = coordinator.facts(role, point);
        Ok(Node {
            name: names[role as usize].to_owned(),
            carrier: facts.carrier,
            namespace: facts.namespace,
            address: Some(attachment.address),
            device: [&report.device, &attachment.device]
                .into_iter()
                .find(|name| !name.is_empty())
                .cloned(),
            interface: report.interface.clone(),
            side: report.side.clone(),
            usage: report.usage.clone(),
            kernel: report.kernel,
            host: facts.host.unwrap_or_else(|| host.clone()),
            clock_offset: facts.clock_offset,
        })
    });
    nodes.into_iter().collect()
}
