//! Evaluates a run: from the counts of its ends to flows, figures, limits, warnings, and whether it is valid.
//!
//! All functions are pure, so that a figure does not depend on where its run was carried out.
//!
//! Not here: how a run is carried out (`control`), and the evaluation of several runs (`stats`, `report`).

mod bottleneck;
mod figures;
mod limits;
mod mpi;
mod shop;
mod steady;
mod validity;
mod warnings;

use fabricmark_link::HostBus;
use fabricmark_plan::{Direction, Figure, Point, Purpose, Role, Testbed};
use fabricmark_proto::{EndReport, Ends, ZeroCopySends};
use fabricmark_record::{
    ActiveTime, Drops, Figures, Flow, KernelTimes, Limits, Outcome, Pacing, Provenance, Record,
    RelayTimes, Sourced, Warning,
};
use fabricmark_units::Nanos;
use fabricmark_wire::Path;

pub use bottleneck::bottleneck;
pub use figures::slice_rate;
pub use limits::{bucket_bytes, limits};
pub use mpi::{mpi_figures, mpi_warnings};
pub use shop::{shop_figures, shop_violations};
pub use steady::steady;
pub use validity::violations;
pub use warnings::{correlated, missed};

/// A part of a run, with the results of its ends.
#[derive(Clone, Debug)]
pub struct Part {
    /// Load, or probe with or without load.
    pub purpose: Purpose,
    /// The point that it measured.
    pub point: Point,
    /// First part of its time, which is not counted.
    pub omit: Nanos,
    /// Results of both ends.
    pub ends: Ends,
    /// When the sender was active, on the coordinator's clock, and the possible error of that clock in nanoseconds;
    /// `None` if not known.
    pub active: Option<(ActiveTime, u64)>,
    /// Rate of each counted slice, see [`slice_rate`]; empty if the run is not in slices.
    pub slice_rates: Vec<f64>,
    /// Times of the relay between the ends; `None` without one.
    pub relay: Option<RelayTimes>,
}

/// The network between the ends.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// Where the ends are.
    pub testbed: Testbed,
    /// The wires between them; `None`: only the point's link.
    pub path: Option<&'a Path>,
    /// Lower bound of the RTT of the path, which jitter shortens; `None`: the RTT of the point.
    pub least_rtt: Option<Nanos>,
    /// The tightest host bus that the flows cross, and the end that has it.
    pub bus: Option<(Role, HostBus)>,
    /// Names of the client's and the server's node.
    pub nodes: [&'a str; 2],
    /// Whether other groups of flows ran at the same time.
    pub has_others: bool,
    /// Whether both ends are on one machine, so that equal numbers name one CPU.
    pub is_one_machine: bool,
}

impl Route<'_> {
    /// Route from client to server in a testbed, over the point's link.
    pub fn of(testbed: Testbed) -> Self {
        let nodes = [Role::Client.name(), Role::Server.name()];
        Self {
            testbed,
            path: None,
            least_rtt: None,
            bus: None,
            nodes,
            has_others: false,
            is_one_machine: true,
        }
    }
}

/// Results of the evaluation of a run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// One flow for each part, in the order of the parts.
    pub flows: Vec<Flow>,
    /// Figures of the whole run.
    pub figures: Figures,
    /// Ceilings and floor of the wire.
    pub limits: Limits,
    /// Conditions that make the figures doubtful.
    pub warnings: Vec<Warning>,
}

/// Evaluates the parts of a run of a point, the load first; `link_drops` are packets that the link dropped.
pub fn judge(
    point: &Point,
    parts: &[Part],
    route: Route<'_>,
    provenance: Provenance,
    link_drops: u64,
) -> Findings {
    let (mut flows, mut found) = (Vec::new(), Vec::new());
    let mut warnings: Vec<Warning> = Vec::new();
    let lossy = parts.iter().filter(|part| Figure::Loss.applies(&part.point)).count();
    let of_part = Route { has_others: route.has_others || lossy > 1, ..route };
    let mut link_drops = link_drops;
    for part in parts {
        let (flow, figures, noted) = judge_part(part, of_part, provenance, link_drops);
        // What explains the loss of one direction does not explain that of the other.
        let Ends { client, server } = &part.ends;
        let is_reverse = part.point.direction == Some(Direction::Reverse);
        let of_device = if is_reverse { client.device_drops } else { server.device_drops };
        link_drops = link_drops.saturating_sub(flow.drops.link.saturating_sub(of_device));
        flows.push(flow);
        found.push((part, figures));
        for warning in noted {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings.extend(warnings::shared_cpu(parts, route.is_one_machine));
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

/// Evaluates one part: its flow, its figures and its warnings.
fn judge_part(
    part: &Part,
    route: Route<'_>,
    provenance: Provenance,
    link_drops: u64,
) -> (Flow, Figures, Vec<Warning>) {
    let Part { purpose, point, omit, ends: Ends { client, server }, .. } = part;
    let is_reverse = point.direction == Some(Direction::Reverse);
    let (active, passive) = if is_reverse { (server, client) } else { (client, server) };
    let mut figures =
        figures::figures(point, *omit, active, passive, part.relay, route.path, provenance);
    let drops = drops(point, active, passive, link_drops, route.has_others);
    if Figure::Loss.applies(point) && active.counts.calls > 0 {
        let value = drops.lost as f64 / active.counts.calls as f64;
        figures.set(Figure::Loss, Some(Sourced { value, provenance }));
    }
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
    let copied = active.zero_copy.filter(|zero_copy| zero_copy.copied > 0);
    noted.extend(copied.map(|ZeroCopySends { sends, copied }| Warning::Copied { copied, sends }));
    noted.extend(warnings::small_buffer(point, passive));
    noted.extend(warnings::small_send_buffer(point, active));
    let (from, to) =
        if is_reverse { (server_node, client_node) } else { (client_node, server_node) };
    let named = point.group.as_deref().filter(|_| *purpose == Purpose::Load);
    // Those of another host.
    let threads_of =
        |end: &EndReport| end.threads.iter().take(point.load_threads() as usize).cloned().collect();
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
        sent_threads: threads_of(active),
        received_threads: threads_of(passive),
        drops,
        reordered: passive.sequence.map(|counts| counts.reordered),
        duplicates: passive.sequence.map(|counts| counts.duplicates),
        fairness: active.fairness.clone(),
        rtt_ns: active.rtt_ns.clone(),
        kernel_times: active.kernel_times.clone(),
        pacing: active.pacing.clone(),
        tcp: active.tcp.clone(),
        quic: active.quic,
    };
    (flow, figures, noted)
}

/// Lost datagrams of a stream, by drop counter; those beyond the sum of all counters are unexplained.
fn drops(
    point: &Point,
    active: &EndReport,
    passive: &EndReport,
    link_drops: u64,
    has_others: bool,
) -> Drops {
    if !Figure::Loss.applies(point) {
        return Drops::default();
    }
    let arrived = passive.sequence.map_or(passive.counts.calls, |counts| counts.unique);
    let lost = active.counts.calls.saturating_sub(arrived);
    let link = link_drops + passive.device_drops;
    // The link counts what it dropped of others, too.
    let link = if has_others { link.min(lost) } else { link };
    let (socket, reassembly) = (passive.socket_drops, passive.reassembly_failures);
    // A drop counts as one, but drops a buffer, which may hold several datagrams.
    let explained = (socket + link + reassembly) * point.datagrams_per_buffer();
    let unexplained = lost.saturating_sub(explained);
    Drops { lost, socket, link, reassembly, unexplained }
}
