//! Routes through a lab: from each node to each network, over the fewest links.

use std::collections::{BTreeSet, VecDeque};

use fabricmark_wire::{Family, MTU_MIN};

use crate::topology::{self, Topology};

/// The first hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Destination network.
    pub(crate) target: usize,
    /// Outgoing link.
    pub(crate) by: usize,
    /// Link and end at which the next node is.
    pub(crate) via: (usize, usize),
}

impl Step {
    /// The route, as arguments of `ip`.
    pub(crate) fn words(&self, topology: &Topology, family: Family) -> String {
        let to = topology::prefix(self.target, 0, family);
        let via = topology.address(self.via.0, self.via.1, family);
        format!("route add {to} via {via} dev {}", topology.links[self.by].name)
    }
}

/// Whether the ends of a link have addresses of a family. IPv6 needs an MTU of 1280 bytes (RFC 8200, section 5).
pub(crate) fn carries(topology: &Topology, link: usize, family: Family) -> bool {
    let options = &topology.links[link].options;
    family == Family::V4 || options.iter().all(|options| options.mtu() >= MTU_MIN)
}

/// Metric of the routes that the kernel makes with an IPv6 address (IP6_RT_PRIO_ADDRCONF of linux/ipv6_route.h).
const ADDRESS_METRIC: u32 = 256;

/// The routes to the neighbours over one end of a link of a host, with a congestion control, as lines for `ip -batch`. They
/// replace those that the kernel made with the addresses, and those of [`rules`].
pub(crate) fn to_neighbours(
    topology: &Topology,
    node: &str,
    link: usize,
    end: usize,
    algorithm: &str,
) -> String {
    let network = topology.networks.of_link(link);
    let device = &topology.links[link].name;
    let line = |family| {
        let to = topology::prefix(network, 0, family);
        let own = match family {
            Family::V4 => format!("scope link src {}", topology.address(link, end, family)),
            Family::V6 => format!("metric {ADDRESS_METRIC}"),
        };
        let mut text =
            format!("route replace {to} dev {device} proto kernel {own} congctl {algorithm}\n");
        if has_tables(topology, node) {
            let table = TABLES + link;
            text += &format!("route replace {to} dev {device} table {table} congctl {algorithm}\n");
        }
        text
    };
    let families = [Family::V4, Family::V6].into_iter();
    families.filter(|&family| carries(topology, link, family)).map(line).collect()
}

/// Routes of a node to all networks that it can reach and is not attached to. Only routers forward. Of routes over
/// equally many networks, that over the first link by name is taken.
pub(crate) fn routes(topology: &Topology, node: &str) -> Vec<Step> {
    let reached = topology.ends(node).map(|(link, _)| topology.networks.of_link(link));
    Search { topology, reached: reached.collect(), seen: BTreeSet::from([node]) }
        .run(VecDeque::from([(node, None)]))
}

/// [`routes`] of a node as if it had only this link.
fn routes_by(topology: &Topology, node: &str, link: usize) -> Vec<Step> {
    let network = topology.networks.of_link(link);
    let mut search =
        Search { topology, reached: BTreeSet::from([network]), seen: BTreeSet::from([node]) };
    let routers = search.routers(network, |end| (link, end));
    search.run(routers)
}

/// Routes out of a network: for each other network that can be reached, the router to use. `by` is the link of that
/// router.
pub(crate) fn exits(topology: &Topology, network: usize) -> Vec<Step> {
    let mut search = Search { topology, reached: BTreeSet::from([network]), seen: BTreeSet::new() };
    let routers = search.routers(network, |end| (end.0, end));
    search.run(routers)
}

/// Number of the routing table of the first link; 253 to 255 are the kernel's (`/etc/iproute2/rt_tables`).
const TABLES: usize = 1000;

/// Policy routing of a host with several links: packets leave by the device that has their source address. Rules
/// and tables for one family, as lines for `ip -batch`; empty for routers and for hosts with one link. What a table
/// does not contain is looked up in the main table.
pub(crate) fn rules(topology: &Topology, node: &str, family: Family) -> String {
    let mut text = String::new();
    if !has_tables(topology, node) {
        return text;
    }
    let links = topology.ends(node).filter(|&(link, _)| carries(topology, link, family));
    for (link, end) in links {
        let (table, device) = (TABLES + link, &topology.links[link].name);
        let from = topology.address(link, end, family);
        let own = topology::prefix(topology.networks.of_link(link), 0, family);
        text += &format!("rule add from {from} table {table}\n");
        text += &format!("route add {own} dev {device} table {table}\n");
        for step in routes_by(topology, node, link) {
            text += &format!("{} table {table}\n", step.words(topology, family));
        }
    }
    text
}

/// Whether a node has a routing table for each link.
fn has_tables(topology: &Topology, node: &str) -> bool {
    !topology.nodes[node].is_router && topology.ends(node).count() > 1
}

/// A breadth-first search.
struct Search<'a> {
    topology: &'a Topology,
    /// Networks reached so far.
    reached: BTreeSet<usize>,
    /// Nodes visited so far.
    seen: BTreeSet<&'a str>,
}

/// Outgoing link, and where the next node is.
type First = (usize, (usize, usize));

impl<'a> Search<'a> {
    /// Continues from these nodes, each with the first hop by which it was reached.
    fn run(mut self, mut next: VecDeque<(&'a str, Option<First>)>) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((here, first)) = next.pop_front() {
            for (link, _) in self.topology.ends(here) {
                let network = self.topology.networks.of_link(link);
                if let Some((by, via)) = first
                    && self.reached.insert(network)
                {
                    steps.push(Step { target: network, by, via });
                }
                next.extend(self.routers(network, |end| first.unwrap_or((link, end))));
            }
        }
        steps.sort_by_key(|step| step.target);
        steps
    }

    /// Routers of a network that were not visited yet, each with the first hop to it.
    fn routers(
        &mut self,
        network: usize,
        step: impl Fn((usize, usize)) -> First,
    ) -> VecDeque<(&'a str, Option<First>)> {
        let mut routers = VecDeque::new();
        for (link, end) in self.topology.networks.ends(network) {
            let node = self.topology.links[link].between[end].as_str();
            if self.topology.nodes[node].is_router && self.seen.insert(node) {
                routers.push_back((node, Some(step((link, end)))));
            }
        }
        routers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(target: usize, by: usize, end: usize) -> Step {
        Step { target, by, via: (by, end) }
    }

    #[test]
    fn a_chain_of_routers_is_crossed_link_by_link() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n[routers.s]\n\
                    [links.l0]\nbetween = ['a', 'r']\n[links.l1]\nbetween = ['s', 'r']\n\
                    [links.l2]\nbetween = ['s', 'b']\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(routes(&topology, "a"), [step(1, 0, 1), step(2, 0, 1)]);
        assert_eq!(routes(&topology, "r"), [step(2, 1, 0)]);
        assert_eq!(routes(&topology, "b"), [step(0, 2, 0), step(1, 2, 0)]);
    }

    #[test]
    fn hosts_do_not_forward_and_the_shortest_way_wins() {
        // A triangle of routers, and a host between two of them.
        let text = "[routers.a]\n[routers.b]\n[routers.c]\n[hosts.h]\n[hosts.x]\n\
                    [links.ab]\nbetween = ['a', 'b']\n[links.bc]\nbetween = ['b', 'c']\n\
                    [links.ca]\nbetween = ['c', 'a']\n[links.hx]\nbetween = ['h', 'x']\n\
                    [links.ah]\nbetween = ['a', 'h']\n";
        let topology = Topology::parse(text).unwrap();
        let names = |steps: Vec<Step>| -> Vec<_> {
            let name = |link: usize| topology.links[link].name.as_str();
            steps.iter().map(|step| (name(step.target), name(step.by))).collect()
        };
        assert_eq!(names(routes(&topology, "a")), [("bc", "ab")]);
        assert_eq!(names(routes(&topology, "c")), [("ab", "bc"), ("ah", "ca")]);
        assert_eq!(names(routes(&topology, "x")), []);
    }

    #[test]
    fn hosts_on_a_switch_leave_by_the_router_that_is_nearest() {
        let text = "[switches.s]\n[hosts.a]\n[hosts.b]\n[hosts.c]\n[routers.r]\n[routers.t]\n\
                    [links.l0]\nbetween = ['a', 's']\n[links.l1]\nbetween = ['s', 't']\n\
                    [links.l2]\nbetween = ['r', 's']\n[links.l3]\nbetween = ['r', 'b']\n\
                    [links.l4]\nbetween = ['t', 'c']\n";
        let topology = Topology::parse(text).unwrap();
        let [to_b, to_c] = [(3, (2, 0)), (4, (1, 1))];
        let a = [to_b, to_c].map(|(target, via)| Step { target, by: 0, via });
        assert_eq!(routes(&topology, "a"), a);
        let out = [to_b, to_c].map(|(target, via)| Step { target, by: via.0, via });
        assert_eq!(exits(&topology, 0), out);
        assert_eq!(routes(&topology, "b"), [step(0, 3, 0), step(4, 3, 0)]);
    }

    #[test]
    fn each_address_of_a_dual_homed_host_has_ways_by_its_own_link() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n[routers.s]\n\
                    [links.l0]\nbetween = ['a', 'r']\n[links.l1]\nbetween = ['a', 's']\n\
                    [links.l2]\nbetween = ['r', 's']\n[links.l3]\nbetween = ['s', 'b']\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(
            rules(&topology, "a", Family::V4),
            "rule add from 10.71.0.1 table 1000\n\
             route add 10.71.0.0/24 dev l0 table 1000\n\
             route add 10.71.1.0/24 via 10.71.0.2 dev l0 table 1000\n\
             route add 10.71.2.0/24 via 10.71.0.2 dev l0 table 1000\n\
             route add 10.71.3.0/24 via 10.71.0.2 dev l0 table 1000\n\
             rule add from 10.71.1.1 table 1001\n\
             route add 10.71.1.0/24 dev l1 table 1001\n\
             route add 10.71.0.0/24 via 10.71.1.2 dev l1 table 1001\n\
             route add 10.71.2.0/24 via 10.71.1.2 dev l1 table 1001\n\
             route add 10.71.3.0/24 via 10.71.1.2 dev l1 table 1001\n"
        );
        assert!(rules(&topology, "b", Family::V6).is_empty());
        assert!(rules(&topology, "s", Family::V6).is_empty());
    }
}
