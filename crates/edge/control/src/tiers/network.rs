//! Where the tiers are, and how each reaches the next one.

use std::net::SocketAddr;
use std::path::Path;

use fabricmark_lab::Namespace;
use fabricmark_plan::{Point, Tier};
use fabricmark_record::Provenance;

use super::hosts::Hosts;
use super::lab::TierLab;
use super::process::TierProcess;
use crate::error::PlanError;
use crate::peer::Peer;

/// Index of the segment before a tier: browsers have none.
pub(super) fn segment_before(tier: Tier) -> Option<usize> {
    (tier as usize).checked_sub(1)
}

/// A defect: a point whose link to a tier does not exist.
pub(super) fn no_link(tier: Tier) -> PlanError {
    PlanError::Internal(format!("no link to tier {}", tier.name()))
}

/// The network between the tiers.
pub(super) enum Network {
    Lab(Box<TierLab>),
    Hosts(Hosts),
}

impl Network {
    /// Builds a lab for these points, or finds the hosts.
    pub(super) fn build(
        points: &[Point],
        peer: &Peer,
        emulator_cpu: Option<u32>,
    ) -> Result<Self, PlanError> {
        Ok(match peer {
            Peer::Agents(agents) => Self::Hosts(Hosts::new(agents.clone())?),
            Peer::Here => Self::Lab(Box::new(TierLab::build(points, emulator_cpu)?)),
            Peer::Iperf3(_) | Peer::Ends(_) => {
                let message = "the bookstore needs a lab or hosts with agents".to_owned();
                return Err(PlanError::Input(message));
            }
        })
    }

    /// Starts the process of a tier, with nothing to do yet.
    pub(super) fn start(
        &mut self,
        tier: Tier,
        fabricmark: &Path,
    ) -> Result<TierProcess, PlanError> {
        match self {
            Self::Lab(lab) => TierProcess::start(tier, fabricmark, lab.namespace(tier)),
            Self::Hosts(hosts) => hosts.start(tier, fabricmark),
        }
    }

    /// Namespace of a tier; `None` outside a lab.
    pub(super) fn namespace(&self, tier: Tier) -> Option<&Namespace> {
        match self {
            Self::Lab(lab) => lab.namespace(tier),
            Self::Hosts(_) => None,
        }
    }

    /// Sets the congestion control of new connections between the tiers.
    pub(super) fn set_congestion(&self, name: &str) -> Result<(), PlanError> {
        match self {
            Self::Lab(lab) => lab.set_congestion(name),
            Self::Hosts(_) => {
                // `Plan::to_host` refuses it.
                Err(PlanError::Internal("congestion between hosts".to_owned()))
            }
        }
    }

    /// Address of a tier's server for the tier before it, over the link of a point.
    pub(super) fn address(
        &self,
        tier: Tier,
        point: &Point,
        port: u16,
    ) -> Result<SocketAddr, PlanError> {
        match self {
            Self::Lab(lab) => lab.address(tier, point, port),
            Self::Hosts(hosts) => hosts.address(tier, point, port),
        }
    }

    /// Whether the links between the tiers are emulated.
    pub(super) fn provenance(&self) -> Provenance {
        match self {
            Self::Lab(_) => Provenance::Emulated,
            Self::Hosts(_) => Provenance::Measured,
        }
    }
}
