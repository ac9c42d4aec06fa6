//! Hosts with several links: what they send leaves by the device whose address it carries.

use fabricmark_wire::Family;

use crate::route;
use crate::topology::{self, Topology};

/// A table for each link begins here; tables from 253 on are the kernel's (`/etc/iproute2/rt_tables`).
const TABLES: usize = 1000;

/// Rules and their tables for one family of a node, as words for `ip -batch`; none for routers and for hosts
/// with one link. What a table does not know is looked up where hosts with one link look.
pub(crate) fn rules(topology: &Topology, node: &str, family: Family) -> String {
    let mut text = String::new();
    if topology.nodes[node].is_router || topology.ends(node).count() < 2 {
        return text;
    }
    let bits = if family == Family::V4 { 24 } else { 64 };
    for (link, end) in topology.ends(node) {
        let (table, device) = (TABLES + link, &topology.links[link].name);
        let from = topology.address(link, end, family);
        let own = topology::address(topology.networks().of_link(link), 0, family);
        text += &format!("rule add from {from} table {table}\n");
        text += &format!("route add {own}/{bits} dev {device} table {table}\n");
        for step in route::routes_by(topology, node, link) {
            let to = topology::address(step.target, 0, family);
            let via = topology.address(step.via.0, step.via.1, family);
            text += &format!("route add {to}/{bits} via {via} dev {device} table {table}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
