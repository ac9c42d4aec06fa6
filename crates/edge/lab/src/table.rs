//! Forwarding tables of switches and hubs.

use crate::offload::Offload;
use crate::route;
use crate::topology::Topology;

/// Forwarding table of a switch or a hub: for each address of a lab, the direction that leads there, by its number
/// in the emulator.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    network: u8,
    /// Hosts of its own network, by number.
    hosts: Vec<Option<usize>>,
    /// Other networks, by number: the direction to the router that is nearest to them.
    networks: Vec<Option<usize>>,
}

/// Where a switch or a hub sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// In this direction, by its number in the emulator.
    Direction(usize),
    /// In all directions: a multicast. There is no IGMP or MLD snooping.
    All,
    /// Nowhere.
    Unknown,
}

impl Table {
    /// The table of the switch or hub with this name.
    pub(crate) fn new(topology: &Topology, name: &str) -> Self {
        let mut hosts = vec![None; 256];
        let mut network = 0;
        for (link, here) in topology.ends(name) {
            network = topology.networks.of_link(link);
            // Links form a tree: each host is behind exactly one of them.
            let mut behind = vec![(link, 1 - here)];
            while let Some((at, end)) = behind.pop() {
                let host = topology.networks.host(at, end);
                if host > 0 {
                    hosts[usize::from(host)] = Some(topology.direction(link, here));
                    continue;
                }
                let next = topology.ends(&topology.links[at].between[end]);
                let others = next.filter(|&(next, _)| next != at);
                behind.extend(others.map(|(next, end)| (next, 1 - end)));
            }
        }
        let mut networks = vec![None; 256];
        for step in route::exits(topology, network) {
            let router = topology.networks.host(step.via.0, step.via.1);
            networks[step.target] = hosts[usize::from(router)];
        }
        Self { network: u8::try_from(network).unwrap_or(u8::MAX), hosts, networks }
    }

    /// The destination of a packet behind its [`Offload`] header.
    pub(crate) fn destination(&self, whole: &[u8]) -> Destination {
        let packet = whole.get(Offload::BYTES..).unwrap_or_default();
        if is_multicast(packet) {
            return Destination::All;
        }
        let direction = destination(packet).and_then(|(network, host)| {
            if network == self.network {
                self.hosts[usize::from(host)]
            } else {
                self.networks[usize::from(network)]
            }
        });
        direction.map_or(Destination::Unknown, Destination::Direction)
    }
}

/// Whether an IP packet is for a group: 224.0.0.0/4 (RFC 5771), ff00::/8 (RFC 4291).
fn is_multicast(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(16).is_some_and(|first| first >> 4 == 0xe),
        Some(6) => packet.get(24) == Some(&0xff),
        _ => false,
    }
}

/// Network and host of the destination of an IP packet; `None` if this is no address of a lab.
fn destination(packet: &[u8]) -> Option<(u8, u8)> {
    match packet.first()? >> 4 {
        4 => match *packet.get(16..20)? {
            [10, 71, network, host] => Some((network, host)),
            _ => None,
        },
        6 => match *packet.get(24..40)? {
            [0xfd, 0x71, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host] => {
                Some((network, host))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use fabricmark_wire::Family;

    fn packet(network: usize, host: u8, family: Family) -> Vec<u8> {
        let mut whole = vec![0; Offload::BYTES + 40];
        let packet = &mut whole[Offload::BYTES..];
        match topology::address(network, host, family) {
            std::net::IpAddr::V4(address) => {
                packet[0] = 0x45;
                packet[16..20].copy_from_slice(&address.octets());
            }
            std::net::IpAddr::V6(address) => {
                packet[0] = 0x60;
                packet[24..40].copy_from_slice(&address.octets());
            }
        }
        whole
    }

    #[test]
    fn a_tree_of_switches_knows_the_way_to_hosts_and_to_routers_of_other_networks() {
        let text = "[switches.s]\n[switches.t]\n[hosts.a]\n[hosts.b]\n[hosts.c]\n[routers.r]\n\
                    [links.l0]\nbetween = ['a', 's']\n[links.l1]\nbetween = ['s', 't']\n\
                    [links.l2]\nbetween = ['t', 'b']\n[links.l3]\nbetween = ['r', 't']\n\
                    [links.l4]\nbetween = ['r', 'c']\n";
        let topology = Topology::parse(text).unwrap();
        let tables = ["s", "t"].map(|name| Table::new(&topology, name));
        for family in [Family::V4, Family::V6] {
            let ways = |network, host| {
                let packet = packet(network, host, family);
                tables.each_ref().map(|table| match table.destination(&packet) {
                    Destination::Direction(direction) => Some(direction),
                    Destination::All | Destination::Unknown => None,
                })
            };
            // Hosts 1, 2 and 3 are a, b and r.
            assert_eq!(ways(0, 1), [Some(1), Some(3)]);
            assert_eq!(ways(0, 2), [Some(2), Some(4)]);
            assert_eq!(ways(0, 3), [Some(2), Some(7)]);
            assert_eq!(ways(4, 2), [Some(2), Some(7)]);
            assert_eq!((ways(0, 4), ways(0, 255), ways(9, 1)), ([None; 2], [None; 2], [None; 2]));
        }
    }

    #[test]
    fn a_multicast_leads_everywhere_and_what_is_no_packet_of_the_lab_nowhere() {
        let text = "[hubs.h]\nlink = 'ethernet:10M'\n[hosts.a]\n[links.l]\nbetween = ['a', 'h']\n";
        let table = Table::new(&Topology::parse(text).unwrap(), "h");
        for (family, first, at) in [(Family::V4, 239, 16), (Family::V6, 0xff, 24)] {
            let mut multicast = packet(0, 1, family);
            multicast[Offload::BYTES + at] = first;
            assert_eq!(table.destination(&multicast), Destination::All);
            assert_eq!(table.destination(&multicast[..20]), Destination::Unknown);
        }
        for whole in [&[0; 50][..], &[]] {
            assert_eq!(table.destination(whole), Destination::Unknown);
        }
        assert_eq!(table.destination(&packet(0, 1, Family::V4)), Destination::Direction(1));
    }
}
