//! Workers at both ends of every link, and the orders that prepare them for a run.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant as Clock;

use fabricmark_lab::{Attachment, End, Lab, LabError, Namespace};
use fabricmark_plan::{Pace, Plan, Point};
use fabricmark_proto::{Prepare, Role};
use fabricmark_units::{Instant, Nanos};
use fabricmark_wire::{Family, Link};

use crate::experiment::PlanError;
use crate::node::Node;

/// Workers at both ends of every link of a plan, ready for runs.
pub(crate) struct Coordinator {
    program: PathBuf,
    lab: Option<Lab>,
    /// Workers in the lab's namespaces, a pair for each part of a run that is carried out at once.
    in_lab: Vec<Pair>,
    /// Workers in the network that this process is in, for loopback.
    at_home: Vec<Pair>,
    /// Processors of this machine.
    cpus: Vec<u32>,
    began: Clock,
    runs: u64,
}

/// The two workers of a part of a run.
pub(crate) struct Pair {
    client: Node,
    server: Node,
}

impl Pair {
    fn start<'a>(
        program: &Path,
        namespace: impl Fn(End) -> Option<&'a Namespace>,
    ) -> Result<Self, PlanError> {
        let start = |end: End| Node::start(end.name(), program, namespace(end));
        Ok(Self { client: start(End::Client)?, server: start(End::Server)? })
    }

    /// The sockets to both.
    pub(crate) fn sockets(&self) -> [&UnixStream; 2] {
        [&self.client.socket, &self.server.socket]
    }

    pub(crate) fn node(&mut self, role: Role) -> &mut Node {
        match role {
            Role::Start => &mut self.client,
            Role::Answer => &mut self.server,
        }
    }
}

impl Coordinator {
    /// Builds what the links need.
    pub(crate) fn start(links: &[Link], program: &Path) -> Result<Self, PlanError> {
        let wires: Vec<Link> =
            links.iter().copied().filter(|&link| link != Link::Loopback).collect();
        let lab = if wires.is_empty() { None } else { Some(Lab::build(&wires)?) };
        Ok(Self {
            program: program.to_owned(),
            lab,
            in_lab: Vec::new(),
            at_home: Vec::new(),
            cpus: fabricmark_host::cpus(),
            began: Clock::now(),
            runs: 0,
        })
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(Nanos::from(self.began.elapsed()).0)
    }

    /// The workers at the ends of a link, `count` pairs; those that were not needed so far are started.
    pub(crate) fn pairs(&mut self, link: Link, count: usize) -> Result<&mut [Pair], PlanError> {
        let (pairs, lab) = match (link, &self.lab) {
            (Link::Loopback, _) => (&mut self.at_home, None),
            (_, Some(lab)) if lab.link(&link).is_some() => (&mut self.in_lab, Some(lab)),
            _ => return Err(PlanError::NoLink(link)),
        };
        while pairs.len() < count {
            pairs.push(Pair::start(&self.program, |end| lab.map(|lab| lab.namespace(end)))?);
        }
        Ok(pairs)
    }

    /// Where an end is attached to the link of a point.
    pub(crate) fn attach(&self, end: End, point: &Point) -> Attachment {
        match &self.lab {
            Some(lab) if point.link != Link::Loopback => {
                lab.attach(end, lab.link(&point.link).unwrap_or_default(), point.family)
            }
            _ => Attachment {
                device: "lo".to_owned(),
                address: match point.family {
                    Family::V4 => Ipv4Addr::LOCALHOST.into(),
                    Family::V6 => Ipv6Addr::LOCALHOST.into(),
                },
            },
        }
    }

    /// Packets that the queue in front of a point's link has dropped so far.
    pub(crate) fn queue_drops(&self, point: &Point) -> Result<u64, LabError> {
        match &self.lab {
            Some(lab) if point.link != Link::Loopback => {
                lab.queue_drops(lab.link(&point.link).unwrap_or_default())
            }
            _ => Ok(0),
        }
    }

    /// Orders for both ends of a part of a run, by its place among the parts that run at once; `seed` is
    /// that of what is random in the run.
    pub(crate) fn prepare(
        &mut self,
        plan: &Plan,
        point: &Point,
        place: usize,
        duration: Nanos,
        seed: u64,
    ) -> Result<(Prepare, Prepare), PlanError> {
        self.runs += 1;
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random token")(error.into()))?;
        let trace = match &point.pace {
            Pace::Trace(file) => plan.traces.get(file),
            _ => None,
        };
        let port = if plan.port == 0 { 0 } else { plan.port.saturating_add(place as u16) };
        let side = |role, end, cpu| {
            let attachment = self.attach(end, point);
            Prepare {
                run: self.runs,
                role,
                point: point.clone(),
                duration_ns: plan.omit_ns + duration,
                omit_ns: plan.omit_ns,
                amount: plan.amount.map(|amount| amount.of(point.payload)),
                token,
                address: attachment.address,
                port,
                device: attachment.device,
                cpu,
                interval_ns: plan.interval_ns,
                seed,
                trace: trace.cloned(),
            }
        };
        // Each part has two processors of its own as long as there are some.
        let cpu = |number| self.cpus.iter().cycle().nth(number).copied();
        let chosen = plan.cpus.map(|(start, answer)| (Some(start), Some(answer)));
        let (start, answer) = chosen.unwrap_or((cpu(2 * place), cpu(2 * place + 1)));
        Ok((side(Role::Start, End::Client, start), side(Role::Answer, End::Server, answer)))
    }
}
