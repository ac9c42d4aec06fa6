//! In the namespaces of a lab, and at the loopback device for points without a link.

use std::path::Path;
use std::time::Duration;

use fabricmark_lab::{Lab, Traffic, Wiring};
use fabricmark_plan::{Plan, Point, Role};
use fabricmark_units::Nanos;
use fabricmark_wire::Link;

use super::local::Loopback;
use super::{Testbed, in_turn};
use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;

/// A lab with the links of a plan.
pub(super) struct InLab {
    lab: Lab,
    plan: Plan,
    emulator_cpu: Option<u32>,
}

impl InLab {
    pub(super) fn build(plan: &Plan, emulator_cpu: Option<u32>) -> Result<Self, PlanError> {
        let mut wires: Vec<Wiring> = Vec::new();
        for point in plan.points.iter().filter(|point| point.link != Link::Loopback) {
            let wiring = Wiring::of(point);
            if !wires.contains(&wiring) {
                wires.push(wiring);
            }
        }
        let lab = Lab::build(&wires, plan.seed, emulator_cpu)?;
        Ok(Self { lab, plan: plan.clone(), emulator_cpu })
    }

    /// The place of a point's link; none where it has no link.
    fn place(&self, point: &Point) -> Result<Option<usize>, PlanError> {
        if point.link == Link::Loopback {
            return Ok(None);
        }
        self.lab.link(&Wiring::of(point)).map(Some).ok_or_else(|| super::no_link(point))
    }
}

impl Testbed for InLab {
    fn start_pair(&mut self, point: &Point, program: &Path) -> Result<Pair, PlanError> {
        if point.link == Link::Loopback {
            return Loopback.start_pair(point, program);
        }
        let nodes = self.plan.nodes(point);
        Pair::start(nodes, program, |role| Some(self.lab.namespace(self.plan.side(role, point))))
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        let Some(place) = self.place(point)? else { return Loopback.attach(role, point) };
        let address = self.lab.address(self.plan.side(role, point), place, point.family);
        Ok(Attachment { device: Lab::device(place), address, scope_id: 0 })
    }

    fn is_apart(&self, link: Link) -> bool {
        link == Link::Loopback
    }

    fn facts(&self, role: Role, point: &Point, _: Option<&Node>) -> NodeFacts {
        let side = self.plan.side(role, point);
        NodeFacts::here((point.link != Link::Loopback).then(|| side.name().to_owned()))
    }

    /// An emulator between the ends keeps its own.
    fn cpus(&self, point: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        let is_emulated = point.words().is_some();
        let is_free = |cpu: &u32| !is_emulated || Some(*cpu) != self.emulator_cpu;
        let free: Vec<u32> = here.iter().copied().filter(is_free).collect();
        [2 * place, 2 * place + 1].map(|number| in_turn(&free, number))
    }

    fn imitates(&self, point: &Point) -> bool {
        point.link.has_wire() || point.words().is_some()
    }

    /// What was asked for; jitter takes from it.
    fn least_rtt(&self, point: &Point) -> Option<Nanos> {
        let has_jitter = point.words().is_some_and(|words| words.jitter().is_some());
        let least = if has_jitter { None } else { point.rtt };
        Some(least.unwrap_or_default())
    }

    fn drops(&self, point: &Point) -> Result<u64, PlanError> {
        Ok(match self.place(point)? {
            Some(place) => self.lab.drops(place)?,
            None => 0,
        })
    }

    fn traffic(&self, point: &Point) -> Result<Option<[Vec<Traffic>; 2]>, PlanError> {
        Ok(match self.place(point)? {
            Some(place) => self.lab.traffic(place)?.map(|[there, back]| {
                match self.plan.side(Role::Client, point) {
                    Role::Client => [vec![there], vec![back]],
                    Role::Server => [vec![back], vec![there]],
                }
            }),
            None => None,
        })
    }

    fn settle(&self, from: Role, point: &Point, within: Duration) -> Result<(), PlanError> {
        let place = self.place(point)?;
        if let (Some(place), Some(_)) = (place, point.words()) {
            let within = within + Duration::from_nanos(2 * point.rtt.unwrap_or_default().0);
            self.lab.settle(place, self.plan.side(from, point), within)?;
        }
        Ok(())
    }
}
