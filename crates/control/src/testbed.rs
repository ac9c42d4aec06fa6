//! Where the ends of runs are: what each kind of network has to say of itself.
//!
//! A kind is a type in a file there. What it does not say is what holds for two processes of this machine in the network that this
//! process is in.

mod hosts;
mod iperf3;
mod lab;
mod local;

use std::path::Path;
use std::time::Duration;

use fabricmark_lab::Way;
use fabricmark_plan::{Plan, Point, Role};
use fabricmark_record::Carrier;
use fabricmark_units::Nanos;
use fabricmark_wire::Link;

use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::{Iperf3Access, Peer};

/// A place where the ends of runs are.
pub(crate) trait Testbed {
    /// Starts two workers at the ends of a link.
    fn start_pair(&mut self, link: Link, program: &Path) -> Result<Pair, PlanError>;

    /// Where an end is attached to the link of a point.
    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError>;

    /// Whether the workers of a link are of no use to other links.
    fn is_apart(&self, _link: Link) -> bool {
        false
    }

    /// What is known of an end beside what its worker, if it has one, reports.
    fn facts(&self, _role: Role, _point: &Point, _worker: Option<&Node>) -> NodeFacts {
        let carrier = Carrier::LocalSocket;
        NodeFacts { carrier, namespace: None, host: None, clock_offset: None }
    }

    /// CPUs of both ends' load threads, by the place of their part among those that run at once. Each part has some of
    /// its own as long as there are some; `here` are those of this machine.
    fn cpus(&self, _point: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        [2 * place, 2 * place + 1].map(|number| in_turn(here, number))
    }

    /// Whether a link of this machine stands for the wire of a point.
    fn imitates(&self, _point: &Point) -> bool {
        false
    }

    /// The least round trip of a point's path, where it is known.
    fn least_rtt(&self, _point: &Point) -> Option<Nanos> {
        None
    }

    /// Packets that a point's link has dropped so far.
    fn drops(&self, _point: &Point) -> Result<u64, PlanError> {
        Ok(0)
    }

    /// What the emulator of a point's link counted so far in both directions, where there is one.
    fn traffic(&self, _point: &Point) -> Result<Option<[Way; 2]>, PlanError> {
        Ok(None)
    }

    /// Waits until what an end has sent over the emulated link of a point has left it, for no longer than two round
    /// trips and `within`.
    fn settle(&self, _from: Role, _point: &Point, _within: Duration) -> Result<(), PlanError> {
        Ok(())
    }

    /// Waits until a connection that was lost is back.
    fn reconnect(&mut self, _is_interrupted: &dyn Fn() -> bool) -> Result<(), PlanError> {
        Ok(())
    }

    /// The server of iperf3 that is the other end, where one is.
    fn iperf3(&self) -> Option<&Iperf3Access> {
        None
    }
}

/// Builds what the plan's links need, or calls the other end.
pub(crate) fn open(
    plan: &Plan,
    peer: &Peer,
    emulator_cpu: Option<u32>,
) -> Result<Box<dyn Testbed>, PlanError> {
    let has_links = plan.points.iter().any(|point| point.link != Link::Loopback);
    Ok(match peer {
        Peer::Agent(agent) => Box::new(hosts::Hosts::call(agent)?),
        Peer::Iperf3(access) => Box::new(iperf3::Iperf3(access.clone())),
        Peer::Ends([client, server]) => Box::new(local::Addresses::of(*client, *server)?),
        Peer::Here if has_links => Box::new(lab::InLab::build(plan, emulator_cpu)?),
        Peer::Here => Box::new(local::Loopback),
    })
}

/// The CPU of this number, where they are taken in turn.
fn in_turn(cpus: &[u32], number: usize) -> Option<u32> {
    cpus.iter().cycle().nth(number).copied()
}
