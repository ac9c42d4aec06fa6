//! Testbeds in the network namespace of this process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fabricmark_plan::{Plan, Point, Role};
use fabricmark_wire::Family;

use super::Testbed;
use crate::attachment::Attachment;
use crate::error::PlanError;

/// Both ends at the loopback device.
pub(super) struct Loopback;

impl Testbed for Loopback {
    fn attach(&self, _: Role, point: &Point) -> Result<Attachment, PlanError> {
        let address = match point.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        Ok(Attachment { device: "lo".to_owned(), address, scope_id: 0 })
    }
}

/// Each end at an address of its own.
pub(super) struct Addresses {
    plan: Plan,
    ends: [Attachment; 2],
}

impl Addresses {
    pub(super) fn of(plan: &Plan, [client, server]: [IpAddr; 2]) -> Result<Self, PlanError> {
        let ends = [Attachment::here(client)?, Attachment::here(server)?];
        Ok(Self { plan: plan.clone(), ends })
    }
}

impl Testbed for Addresses {
    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        Ok(self.ends[self.plan.side(role, point) as usize].clone())
    }
}
