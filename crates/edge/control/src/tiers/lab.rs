//! The lab between the tiers, with a link for each level of a segment.
//!
//! Links of a segment lie beside each other. A run uses one of them by the addresses of its ends.

use std::fmt::Write;
use std::net::SocketAddr;

use fabricmark_lab::{Lab, Namespace, Topology};
use fabricmark_plan::{Point, Tier};
use fabricmark_wire::Link;

use super::network::{no_link, segment_before};
use crate::error::PlanError;

/// Seed of the links: they lose nothing.
const SEED: u64 = 1;

/// More ports for connections, and those of closed ones again after a second: browsers that give up under overload open
/// more connections than the 28,232 ports of the kernel's default allow in a minute.
const PORTS: &str =
    "{ 'net.ipv4.ip_local_port_range' = '32768 65535', 'net.ipv4.tcp_tw_reuse' = '1' }";

/// The lab between the tiers.
pub(super) struct TierLab {
    lab: Lab,
    /// The links of each segment.
    links: [Vec<Link>; 3],
}

/// Name of a link; those of a segment are numbered in the order of the plan's points.
fn name(segment: usize, number: usize) -> String {
    let [before, after] = [Tier::ALL[segment], Tier::ALL[segment + 1]].map(Tier::name);
    format!("{before}-{after}{number}")
}

/// The links of each segment that points use.
fn links(points: &[Point]) -> [Vec<Link>; 3] {
    let mut links = [const { Vec::new() }; 3];
    for segments in points.iter().filter_map(Point::segments) {
        for (known, link) in links.iter_mut().zip(segments) {
            if !known.contains(&link) {
                known.push(link);
            }
        }
    }
    links
}

/// The topology of a lab, as a topology file. The emulator carries every link, so that links differ in nothing but their
/// options.
fn topology(links: &[Vec<Link>; 3]) -> String {
    let host = |tier: Tier| format!("[hosts.{}]\nsysctl = {PORTS}\n", tier.name());
    let mut text: String = Tier::ALL.map(host).concat();
    for (segment, links) in links.iter().enumerate() {
        let [before, after] = [Tier::ALL[segment], Tier::ALL[segment + 1]].map(Tier::name);
        for (number, link) in links.iter().enumerate() {
            let options = match link {
                Link::Veth { mtu } => format!("mtu={mtu}"),
                link => format!("link={link}"),
            };
            let _ = writeln!(
                text,
                "[links.{}]\nbetween = ['{before}', '{after}']\noptions = '{options}'",
                name(segment, number)
            );
        }
    }
    text
}

impl TierLab {
    pub(super) fn build(points: &[Point], emulator_cpu: Option<u32>) -> Result<Self, PlanError> {
        let links = links(points);
        let topology = Topology::parse(&topology(&links))
            .map_err(|error| PlanError::Input(error.to_string()))?;
        Ok(Self { lab: Lab::build(topology, SEED, emulator_cpu)?, links })
    }

    pub(super) fn namespace(&self, tier: Tier) -> Option<&Namespace> {
        self.lab.namespace(tier.name())
    }

    /// Sets the congestion control of new connections between the tiers.
    pub(super) fn set_congestion(&self, name: &str) -> Result<(), PlanError> {
        Ok(self.lab.set_congestion(name)?)
    }

    /// Address of a tier's server for the tier before it, over the link of a point.
    pub(super) fn address(
        &self,
        tier: Tier,
        point: &Point,
        port: u16,
    ) -> Result<SocketAddr, PlanError> {
        let topology = self.lab.topology();
        let found = segment_before(tier).and_then(|segment| {
            let wanted = point.segments()?[segment];
            let number = self.links[segment].iter().position(|link| *link == wanted)?;
            let name = name(segment, number);
            let link = topology.links.iter().position(|link| link.name == name)?;
            let end = topology.links[link].between.iter().position(|node| node == tier.name())?;
            Some(topology.address(link, end, point.family))
        });
        Ok(SocketAddr::new(found.ok_or_else(|| no_link(tier))?, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(levels: &str) -> Point {
        let shop = "pattern=shop,transport=http,family=4,link=loopback,payload=0";
        fabricmark_testkit::point(&format!("{shop}{levels}"))
    }

    #[test]
    fn each_level_of_a_segment_is_a_link() {
        let points = [point(""), point(",app_db=ipoib:4X-DDR"), point(",app_db=veth")];
        let links = links(&points);
        // The web server reaches the application server as that reaches its database.
        assert_eq!(links.each_ref().map(Vec::len), [1, 3, 3]);
        let text = topology(&links);
        let topology = Topology::parse(&text).unwrap();
        let names: Vec<&str> = topology.links.iter().map(|link| link.name.as_str()).collect();
        let app_db = ["app-db0", "app-db1", "app-db2"];
        assert_eq!(names[..4], [&app_db[..], &["client-web0"]].concat());
        assert_eq!(names[4..], ["web-app0", "web-app1", "web-app2"]);
        assert!(text.contains("options = 'link=ipoib:4X-DDR'"), "{text}");
    }
}
