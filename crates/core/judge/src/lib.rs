//! Judges a run: from what its ends counted to flows, figures, limits, warnings, and whether it counts.
//!
//! Everything here is a function from values to values, so that a figure is the same wherever its run was carried out.
//!
//! Deliberately not here: how a run is carried out (`control`), and what many runs say together (`stats`, `report`).

mod bottleneck;
mod figures;
mod limits;
mod validity;
mod warnings;

use fabricmark_plan::{Direction, Pattern, Point, Purpose, Role, Testbed};
use fabricmark_proto::{EndReport, Ends};
use fabricmark_record::{
    Drops, Figures, Flow, KernelTimes, Limits, Outcome, Pacing, Provenance, Record, Warning,
};
use fabricmark_units::Nanos;
use fabricmark_wire::Path;

pub use bottleneck::bottleneck;
pub use figures::slice_rate;
pub use limits::{bucket_bytes, limits};
pub use validity::violations;
pub use warnings::{correlated, missed};

/// A part of a run and what its ends counted.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is for.
    pub purpose: Purpose,
    /// What it carried out.
    pub point: Point,
    /// The first part of its time, which does not count.
    pub omit: Nanos,
    /// What both ends counted.
    pub ends: Ends,
    /// The rate of each slice that counts, see [`slice_rate`]; none where the run is one piece.
    pub slice_rates: Vec<f64>,
}

/// The network between the ends.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// Where they are.
    pub testbed: Testbed,
    /// The wires between them, where that are others than the point's link alone.
    pub path: Option<&'a Path>,
    /// The nodes of client and server.
    pub nodes: [&'a str; 2],
    /// Whether other groups of flows ran at once.
    pub has_others: bool,
}

impl Route<'_> {
    /// Between client and server of a testbed, over the link of the point.
    pub fn of(testbed: Testbed) -> Self {
        let nodes = [Role::Client.name(), Role::Server.name()];
        Self { testbed, path: None, nodes, has_others: false }
    }
}

/// What follows from the parts of a run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// One for each part, in their order.
    pub flows: Vec<Flow>,
    /// Those of the whole run.
    pub figures: Figures,
    /// What the wire allows.
    pub limits: Limits,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
}

/// What follows from the parts of a run of a point, the load first; `link_drops` are packets that the link dropped
/// meanwhile.
pub fn judge(
    point: &Point,
    parts: &[Part],
    route: Route<'_>,
    provenance: Provenance,
    link_drops: u64,
) -> Findings {
    let (mut flows, mut found) = (Vec::new(), Vec::new());
    let mut warnings: Vec<Warning> = Vec::new();
    for part in parts {
        let (flow, figures, noted) = judge_part(part, route, provenance, link_drops);
        flows.push(flow);
        found.push((part, figures));
        for warning in noted {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings.extend(warnings::shared_cpu(parts));
    let figures = figures::together(&found, route.has_others);
    Findings { flows, figures, limits: limits(point, route), warnings }
}

/// Completed, or invalid with the reasons. A warm-up run is completed if it has a figure.
pub fn outcome(record: &Record) -> Outcome {
    let broken = violations(record, bucket_bytes(&record.point));
    let has_figure = record.measured_value().is_some();
    if broken.is_empty() || (has_figure && record.place.warm_up) {
        return Outcome::Completed;
    }
    Outcome::Invalid(broken.join("; "))
}

/// What one part of a run found: its flow, its figures, and what to know before trusting them.
fn judge_part(
    part: &Part,
    route: Route<'_>,
    provenance: Provenance,
    link_drops: u64,
) -> (Flow, Figures, Vec<Warning>) {
    let Part { purpose, point, omit, ends: Ends { client, server }, .. } = part;
    let is_reverse = point.direction == Some(Direction::Reverse);
    let (active, passive) = if is_reverse { (server, client) } else { (client, server) };
    let figures = figures::figures(point, *omit, active, passive, provenance);
    let drops = drops(point, active, passive, link_drops);
    let mut noted = Vec::new();
    let [client_node, server_node] = route.nodes;
    for (node, report) in [(client_node, client), (server_node, server)] {
        if let Some(reason) = report.not_pinned.clone() {
            noted.push(Warning::NotPinned { node: node.to_owned(), reason });
        }
    }
    noted.extend(warnings::stolen(route.nodes, [client, server]));
    noted.extend(active.pacing.as_ref().and_then(Pacing::warning));
    if drops.unexplained > 0 {
        noted.push(Warning::UnexplainedLoss { datagrams: drops.unexplained });
    }
    if client.lost_round_trips > 0 {
        noted.push(Warning::LostRoundTrips { count: client.lost_round_trips });
    }
    noted.extend(active.kernel_times.as_ref().and_then(KernelTimes::warning));
    noted.extend(warnings::small_buffer(point, passive));
    noted.extend(warnings::small_send_buffer(point, active));
    let (from, to) =
        if is_reverse { (server_node, client_node) } else { (client_node, server_node) };
    let named = point.group.as_deref().filter(|_| *purpose == Purpose::Load);
    let flow = Flow {
        group: named.unwrap_or(purpose.word()).to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        sent: active.counts,
        received: passive.counts,
        sent_series: active.series.clone(),
        received_series: passive.series.clone(),
        sent_thread: active.thread,
        received_thread: passive.thread,
        drops,
        reordered: passive.sequence.map(|counts| counts.reordered),
        duplicates: passive.sequence.map(|counts| counts.duplicates),
        fairness: active.fairness,
        rtt_ns: active.rtt_ns.clone(),
        kernel_times: active.kernel_times.clone(),
        pacing: active.pacing.clone(),
        tcp: active.tcp.clone(),
        quic: active.quic,
    };
    (flow, figures, noted)
}

/// Lost datagrams of a stream, by drop counter. Losses beyond the sum of all counters are unexplained.
fn drops(point: &Point, active: &EndReport, passive: &EndReport, link_drops: u64) -> Drops {
    if !point.transport.is_lossy() || point.pattern != Pattern::Stream {
        return Drops::default();
    }
    let arrived = passive.sequence.map_or(passive.counts.calls, |counts| counts.unique);
    let lost = active.counts.calls.saturating_sub(arrived);
    let link = link_drops + passive.device_drops;
    let (socket, reassembly) = (passive.socket_drops, passive.reassembly_failures);
    // What is dropped is a buffer, and counts as one.
    let explained = (socket + link + reassembly) * point.datagrams_per_buffer();
    let unexplained = lost.saturating_sub(explained);
    Drops { lost, socket, link, reassembly, unexplained }
}
