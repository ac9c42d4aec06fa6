//! In the network that this process is in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use fabricmark_plan::{Point, Role};
use fabricmark_units::Nanos;
use fabricmark_wire::{Family, Link};

use super::Testbed;
use crate::attachment::Attachment;
use crate::error::PlanError;
use crate::pair::Pair;

/// Both ends at the loopback device.
pub(super) struct Loopback;

impl Testbed for Loopback {
    fn start_pair(&mut self, _: Link, program: &Path) -> Result<Pair, PlanError> {
        Pair::start(program, |_| None)
    }

    fn attach(&self, _: Role, point: &Point) -> Result<Attachment, PlanError> {
        let address = match point.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        Ok(Attachment { device: "lo".to_owned(), address, scope_id: 0 })
    }

    /// Next to nothing.
    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        Some(Nanos(0))
    }
}

/// Each end at an address of its own.
pub(super) struct Addresses {
    client: Attachment,
    server: Attachment,
}

impl Addresses {
    pub(super) fn of(client: IpAddr, server: IpAddr) -> Result<Self, PlanError> {
        Ok(Self { client: Attachment::here(client)?, server: Attachment::here(server)? })
    }
}

impl Testbed for Addresses {
    fn start_pair(&mut self, _: Link, program: &Path) -> Result<Pair, PlanError> {
        Pair::start(program, |_| None)
    }

    fn attach(&self, role: Role, _: &Point) -> Result<Attachment, PlanError> {
        Ok(match role {
            Role::Client => self.client.clone(),
            Role::Server => self.server.clone(),
        })
    }

    /// Next to nothing.
    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        Some(Nanos(0))
    }
}
