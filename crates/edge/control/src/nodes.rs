//! The nodes of a run, for its record.

use fabricmark_judge::Part;
use fabricmark_plan::{Point, Role};
use fabricmark_proto::{EndReport, Ends};
use fabricmark_record::{HostFacts, Node};

use crate::coordinator::Coordinator;
use crate::error::PlanError;

/// The nodes of a run: what is known of them, and what their workers found.
pub(crate) fn nodes(
    coordinator: &Coordinator,
    host: &HostFacts,
    names: [&str; 2],
    point: &Point,
    parts: &[Part],
) -> Result<Vec<Node>, PlanError> {
    let Some(Ends { client, server }) = parts.first().map(|part| &part.ends) else {
        return Ok(Vec::new());
    };
    let [client_name, server_name] = names;
    let client = node(coordinator, host, client_name, (Role::Client, client), point)?;
    Ok(vec![client, node(coordinator, host, server_name, (Role::Server, server), point)?])
}

fn node(
    coordinator: &Coordinator,
    host: &HostFacts,
    name: &str,
    (role, report): (Role, &EndReport),
    point: &Point,
) -> Result<Node, PlanError> {
    let attachment = coordinator.testbed().attach(role, point)?;
    let facts = coordinator.facts(role, point);
    Ok(Node {
        name: name.to_owned(),
        carrier: facts.carrier,
        namespace: facts.namespace,
        address: Some(attachment.address),
        device: Some(attachment.device),
        side: report.side.clone(),
        usage: report.usage.clone(),
        kernel: report.kernel,
        host: facts.host.unwrap_or_else(|| host.clone()),
        clock_offset: facts.clock_offset,
    })
}
