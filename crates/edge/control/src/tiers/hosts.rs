//! Tiers on hosts with agents; those without an agent are on this host.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use fabricmark_plan::{Point, Tier};
use fabricmark_proto::SessionId;
use fabricmark_wire::Family;

use super::network::{no_link, segment_before};
use super::process::TierProcess;
use crate::carrier::{self, Carrier};
use crate::error::PlanError;
use crate::host::{is_link_local, towards};
use crate::peer::AgentAccess;

/// Hosts of the tiers.
pub(super) struct Hosts {
    /// Agents by the name of the tier, and addresses of the same tier over a link by `TIER@LINK`.
    agents: BTreeMap<String, AgentAccess>,
    /// One for all tiers: a tier must not wait for another one of the same shop.
    session: SessionId,
    /// Addresses that the agent of a tier reported.
    reported: BTreeMap<Tier, Vec<IpAddr>>,
}

impl Hosts {
    pub(super) fn new(agents: BTreeMap<String, AgentAccess>) -> Result<Self, PlanError> {
        Ok(Self { agents, session: carrier::new_session()?, reported: BTreeMap::new() })
    }

    pub(super) fn start(
        &mut self,
        tier: Tier,
        fabricmark: &Path,
    ) -> Result<TierProcess, PlanError> {
        let Some(AgentAccess { host, tls }) = self.agents.get(tier.name()) else {
            return TierProcess::start(tier, fabricmark, None);
        };
        let (carrier, socket) = Carrier::call(&host.name, &host.control, tls, self.session)?;
        self.reported.insert(tier, carrier.welcome.addresses.clone());
        TierProcess::behind(tier, &host.name, carrier, socket)
    }

    /// Address of a tier's server for the tier before it, over the link of a point.
    pub(super) fn address(
        &self,
        tier: Tier,
        point: &Point,
        port: u16,
    ) -> Result<SocketAddr, PlanError> {
        let ip = match self.remote_address(tier, point) {
            Some(found) => found?,
            None => self.local_address(tier, point)?,
        };
        Ok(SocketAddr::new(ip, port))
    }

    /// Address of a tier on another host: the one for this link, or that of its agent. `None`: it is on this host.
    fn remote_address(&self, tier: Tier, point: &Point) -> Option<Result<IpAddr, PlanError>> {
        let of_tier = self.agents.get(tier.name())?;
        let segments = segment_before(tier).zip(point.segments());
        let link = segments.map(|(segment, links)| links[segment]);
        let named = link.and_then(|link| self.agents.get(&format!("{}@{link}", tier.name())));
        let host = &named.unwrap_or(of_tier).host;
        // What the agent reports are addresses of another link.
        let reported = self.reported.get(&tier).filter(|_| named.is_none());
        let found = host.data_address(point.family, reported.map_or(&[][..], Vec::as_slice));
        // The device of a link-local address is another one on each host.
        let found = found.map(|at| at.ip()).filter(|ip| !is_link_local(ip));
        Some(found.ok_or_else(|| {
            let (node, family) = (tier.name(), point.family);
            let message =
                format!("{} ({node}) has no address of {family} that all hosts reach", host.name);
            PlanError::Input(message)
        }))
    }

    /// Address of this host for the tier before `tier`, wherever that is.
    fn local_address(&self, tier: Tier, point: &Point) -> Result<IpAddr, PlanError> {
        let before = segment_before(tier).map(|segment| Tier::ALL[segment]);
        match self.remote_address(before.ok_or_else(|| no_link(tier))?, point) {
            None if point.family == Family::V4 => Ok(Ipv4Addr::LOCALHOST.into()),
            None => Ok(Ipv6Addr::LOCALHOST.into()),
            Some(other) => Ok(towards(SocketAddr::new(other?, 0))
                .map_err(PlanError::system("find the address of this host"))?
                .ip()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabricmark_trust::{Identity, Trusted, client_config};

    use super::*;
    use crate::host::AgentHost;

    #[test]
    fn a_tier_is_reached_at_the_address_of_its_link_or_else_at_that_of_its_agent() {
        let trusted = Arc::new(Trusted::at("/nowhere/trusted"));
        let tls = client_config(&Identity::generate().unwrap(), trusted).unwrap();
        let access =
            |at: &str| AgentAccess { host: AgentHost::find(at, None).unwrap(), tls: tls.clone() };
        let named =
            [("db", "192.0.2.3"), ("db@ipoib:4X-DDR", "198.51.100.3"), ("web", "127.0.0.1,::1")];
        let agents = named.map(|(node, at)| (node.to_owned(), access(at)));
        let hosts = Hosts::new(BTreeMap::from(agents)).unwrap();
        let at = |tier, levels: &str| {
            let shop = "pattern=shop,transport=http,link=loopback,payload=0";
            let point = fabricmark_testkit::point(&format!("{shop},{levels}"));
            hosts.address(tier, &point, 80).map(|at| at.to_string()).map_err(|e| e.to_string())
        };
        assert_eq!(at(Tier::Db, "family=4").as_deref(), Ok("192.0.2.3:80"));
        let over = "family=4,app_db=ipoib:4X-DDR";
        assert_eq!(at(Tier::Db, over).as_deref(), Ok("198.51.100.3:80"));
        assert_eq!(at(Tier::Web, "family=6").as_deref(), Ok("[::1]:80"));
        // The application server is on this host, and the web server, on the same one, reaches it over loopback.
        assert_eq!(at(Tier::App, "family=4").as_deref(), Ok("127.0.0.1:80"));
        let why = at(Tier::Db, "family=6").unwrap_err();
        assert_eq!(why, "192.0.2.3 (db) has no address of IPv6 that all hosts reach");
    }
}
