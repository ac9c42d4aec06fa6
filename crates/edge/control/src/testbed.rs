//! Testbeds: the networks in which the nodes of a plan are.
//!
//! Each implements [`Testbed`]. The default methods hold for two workers in the network namespace of this process.

mod hosts;
mod iperf3;
mod lab;
mod local;
mod paths;

pub use hosts::RECONNECTS_FOR;
pub(crate) use paths::way;

use std::path::Path;
use std::time::Duration;

use fabricmark_lab::Traffic;
use fabricmark_link::HostBus;
use fabricmark_plan::{Plan, Point, RELAY, Role, Testbed as TestbedOfPlan};
use fabricmark_units::Nanos;
use fabricmark_wire::{self as wire, Link};

use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::{Iperf3Access, Peer};
use crate::relay::RelayPlace;

/// Counters of the links on the path from client to server, and on the reverse path, in the order in which packets cross
/// them.
pub(crate) type PathTraffic = [Vec<Traffic>; 2];

/// A network in which the nodes of a plan are.
pub(crate) trait Testbed {
    /// Network device and address of an end, on the link of a point.
    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError>;

    /// Starts a worker at each end of a point's flows.
    fn start_pair(&mut self, _point: &Point, program: &Path) -> Result<Pair, PlanError> {
        Pair::start(ENDS, program, |_| None)
    }

    /// Where the relay of a point runs: at its server, unless the testbed has a node for it.
    fn relay(&self, point: &Point) -> Result<RelayPlace, PlanError> {
        Ok(RelayPlace::at(self.attach(Role::Server, point)?.address))
    }

    /// Starts a worker there.
    fn start_relay(&mut self, _point: &Point, program: &Path) -> Result<Node, PlanError> {
        Node::start(RELAY, program, None)
    }

    /// Number of the network that has the ends of a point. Each network has workers of its own.
    fn network(&self, _point: &Point) -> usize {
        0
    }

    /// Facts about an end besides those that its worker, if it has one, reports.
    fn facts(&self, _role: Role, _point: &Point, _worker: Option<&Node>) -> NodeFacts {
        NodeFacts::here(None)
    }

    /// CPUs of the load threads of both ends. `place` is the index of their part among those that run at once; each
    /// part has CPUs of its own as long as there are enough. `here` are the CPUs of this machine.
    fn cpus(&self, point: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        on_one_machine(point, &near(self.attach(Role::Client, point), here), place)
    }

    /// Whether the link of a point is shaped or emulated by this machine.
    fn imitates(&self, _point: &Point) -> bool {
        false
    }

    /// Lower bound of the RTT of a point's path; `None` if nothing is known of the path.
    fn least_rtt(&self, _point: &Point) -> Option<Nanos> {
        Some(Nanos(0))
    }

    /// The wires between the ends of a point, if they are those of a topology and all are known.
    fn path(&self, _point: &Point) -> Option<wire::Path> {
        None
    }

    /// The tightest emulated host bus that a point's flows cross, and the end that has it.
    fn bus(&self, _point: &Point) -> Option<(Role, HostBus)> {
        None
    }

    /// Counters of the links between the ends of a point; `None` without a lab.
    fn traffic(&self, _point: &Point) -> Result<Option<PathTraffic>, PlanError> {
        Ok(None)
    }

    /// Packets that the path of a point has dropped so far: on its links, whose counters these are, and before the bus of
    /// a host.
    fn drops(&self, _point: &Point, _traffic: &PathTraffic) -> Result<u64, PlanError> {
        Ok(0)
    }

    /// Waits until the emulated link of a point has delivered what an end sent, for at most two RTTs plus `within`.
    fn settle(&self, _from: Role, _point: &Point, _within: Duration) -> Result<(), PlanError> {
        Ok(())
    }

    /// Reconnects to agents after a connection was lost.
    fn reconnect(&mut self, _is_interrupted: &dyn Fn() -> bool) -> Result<(), PlanError> {
        Ok(())
    }

    /// The iperf3 server, if the server of the runs is one.
    fn iperf3(&self) -> Option<&Iperf3Access> {
        None
    }
}

/// Nodes of a plan that names none.
const ENDS: [&str; 2] = [Role::Client.name(), Role::Server.name()];

/// Builds the lab of a plan of which earlier processes made `runs_before` runs, or connects to the agents.
pub(crate) fn open(
    plan: &Plan,
    peer: &Peer,
    emulator_cpu: Option<u32>,
    runs_before: usize,
) -> Result<Box<dyn Testbed>, PlanError> {
    let is_over_links =
        plan.topology.is_some() || plan.points.iter().any(|point| point.link != Link::Loopback);
    Ok(match peer {
        // Tiers have workers of their own.
        _ if plan.testbed == TestbedOfPlan::Tiers => Box::new(local::Loopback),
        Peer::Agents(nodes) => Box::new(hosts::Hosts::call(plan, nodes)?),
        Peer::Iperf3(access) => Box::new(iperf3::Iperf3(access.clone())),
        Peer::Ends(ends) => Box::new(local::Addresses::of(plan, *ends)?),
        // The launcher places the ranks.
        Peer::Here if plan.testbed == TestbedOfPlan::Mpi => Box::new(local::Loopback),
        Peer::Here if is_over_links => {
            Box::new(lab::InLab::build(plan, emulator_cpu, runs_before)?)
        }
        Peer::Here => Box::new(local::Loopback),
    })
}

/// The CPUs of this machine, first those near the device of an end.
fn near(end: Result<Attachment, PlanError>, here: &[u32]) -> Vec<u32> {
    end.map_or_else(|_| here.to_vec(), |end| fabricmark_host::near(&end.device, here))
}

/// CPUs for both ends of a place on one machine. If there are not enough for all threads of a point, both ends of each
/// share of its flows have the same one: with two threads on two CPUs TCP streams over loopback moved 43 Gbit/s this way,
/// and 24 Gbit/s with all threads of an end on one CPU (medians of six interleaved runs of 1 s).
fn on_one_machine(point: &Point, cpus: &[u32], place: usize) -> [Option<u32>; 2] {
    let threads = point.load_threads() as usize;
    let numbers = match threads > 1 && 2 * threads > cpus.len() {
        true => [place, place],
        false => [2 * place, 2 * place + 1],
    };
    numbers.map(|number| in_turn(cpus, number))
}

/// The CPU for a number, round robin.
fn in_turn(cpus: &[u32], number: usize) -> Option<u32> {
    cpus.iter().cycle().nth(number).copied()
}
