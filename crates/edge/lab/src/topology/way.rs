//! The path between two nodes of a topology, and what packets meet on it in both directions.

use std::collections::{BTreeMap, VecDeque};

use fabricmark_link::Forwarding;
use fabricmark_plan::Offload;
use fabricmark_units::Nanos;
use fabricmark_wire::{Hop, Link, Path, Switch, Switching};

use super::{Junction, Topology};
use crate::qdisc::Backend;

/// The path between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Links in order: index of each, and the end at which packets enter it in the forward direction.
    pub links: Vec<(usize, usize)>,
    /// Path MTU: the largest IP packet that crosses all links, in bytes.
    pub mtu: u16,
    /// Sum of the delays of all links in both directions.
    pub rtt: Nanos,
    /// Whether any of the delays varies.
    pub has_jitter: bool,
    /// Where the super-packets of all nodes are segmented; [`Offload::On`] if some cross whole.
    pub offload: Offload,
    /// The wires; `None` if one has no rate of a technology or is a queue of the kernel, if it joins two hubs, or if
    /// those before and after a relay have different MTUs.
    pub path: Option<Path>,
}

/// Number of networks crossed to a node, and the link by which it was reached with the end at which packets enter it.
type Found = (usize, Option<(usize, usize)>);

impl Topology {
    /// The path from one node to another: over the fewest networks, and of equal ones over the first link by name.
    /// `None` if there is none.
    pub fn way(&self, from: &str, to: &str) -> Option<Way> {
        self.way_by(None, from, to)
    }

    /// The path from one node to another that begins with this link, if one is given.
    pub fn way_by(&self, via: Option<&str>, from: &str, to: &str) -> Option<Way> {
        self.way_over(self.links_between(via, from, to)?)
    }

    /// The path from one node to another, or back to itself, through a node that relays connections.
    pub fn way_through(&self, relay: &str, via: Option<&str>, from: &str, to: &str) -> Option<Way> {
        let mut links = self.links_between(via, from, relay)?;
        links.extend(self.links_between(None, relay, to)?);
        let way = self.way_over(links)?;
        let is_of_mtu =
            |&(link, end): &(usize, usize)| self.links[link].options[end].mtu() == way.mtu;
        let path = way.path.filter(|_| way.links.iter().all(is_of_mtu));
        Some(Way { path, ..way })
    }

    fn way_over(&self, links: Vec<(usize, usize)>) -> Option<Way> {
        let directions = || links.iter().flat_map(|&(link, end)| [(link, end), (link, 1 - end)]);
        let options = |(link, end): (usize, usize)| &self.links[link].options[end];
        Some(Way {
            mtu: directions().map(|one| options(one).mtu()).min()?,
            rtt: Nanos(directions().map(|one| options(one).delay().0).sum()),
            has_jitter: directions().any(|one| options(one).has_jitter()),
            offload: directions()
                .filter(|&(link, end)| !self.is_at_junction(link, end))
                .map(|(link, end)| self.offload(link, end))
                .reduce(|one, other| match (one, other) {
                    (Offload::On, _) | (_, Offload::On) => Offload::On,
                    (Offload::Hosts, _) | (_, Offload::Hosts) => Offload::Hosts,
                    (Offload::Off, Offload::Off) => Offload::Off,
                })?,
            path: self.path(&links),
            links,
        })
    }

    fn links_between(
        &self,
        via: Option<&str>,
        from: &str,
        to: &str,
    ) -> Option<Vec<(usize, usize)>> {
        let mut found: BTreeMap<&str, Found> = BTreeMap::new();
        let (start, _) = self.nodes.get_key_value(from)?;
        found.insert(start, (0, None));
        let mut next: VecDeque<&str> = VecDeque::from([start.as_str()]);
        while let Some(here) = next.pop_front() {
            let networks = found[here].0;
            let is_junction = self.junctions.contains_key(here);
            let forwards = is_junction || self.nodes.get(here).is_some_and(|node| node.is_router);
            if here != from && !forwards {
                continue;
            }
            for (link, end) in self.ends(here) {
                if here == from && via.is_some_and(|via| via != self.links[link].name) {
                    continue;
                }
                let there = self.links[link].between[1 - end].as_str();
                let crossed = if is_junction { networks } else { networks + 1 };
                if found.get(there).is_none_or(|&(known, _)| crossed < known) {
                    found.insert(there, (crossed, Some((link, end))));
                    // Nodes in the same network come first.
                    if is_junction { next.push_front(there) } else { next.push_back(there) }
                }
            }
        }
        let mut links = Vec::new();
        let mut at = to;
        while let (_, Some((link, end))) = *found.get(at)? {
            links.push((link, end));
            at = &self.links[link].between[end];
        }
        links.reverse();
        (!links.is_empty()).then_some(links)
    }

    fn path(&self, links: &[(usize, usize)]) -> Option<Path> {
        let mut hops: Vec<Hop> = Vec::new();
        for (place, &(link, end)) in links.iter().enumerate() {
            let wire = &self.links[link];
            if wire.backend != Backend::Emulator {
                return None;
            }
            let hub = |end: usize| match self.junctions.get_key_value(&wire.between[end]) {
                Some((name, &Junction::Hub { link })) => Some((name, link)),
                _ => None,
            };
            // The links of a hub are one medium: packets cross it once on their way through.
            let (technology, medium) = match (hub(end), hub(1 - end)) {
                (Some(_), Some(_)) => return None,
                (Some(_), None) if place > 0 => continue,
                (Some((name, link)), None) | (None, Some((name, link))) => {
                    (link, self.junctions.keys().position(|junction| junction == name))
                }
                (None, None) => (self.technology(link, end)?, None),
            };
            if medium.is_none() && self.technology(link, 1 - end) != Some(technology)
                || wire.options.iter().any(|options| options.mtu() != technology.mtu())
            {
                return None;
            }
            let (forwarding, delay_ns) = match self.junctions.get(&wire.between[end]) {
                Some(&Junction::Switch { forwarding, delay }) => (forwarding, delay),
                _ => (Forwarding::Store, Nanos(0)),
            };
            let (mode, look_bytes) = match forwarding {
                Forwarding::Store => (Switching::StoreAndForward, None),
                Forwarding::CutThrough { look_bytes } => {
                    (Switching::CutThrough, Some(look_bytes.into()))
                }
            };
            let switch = (place > 0).then_some(Switch { mode, look_bytes, delay_ns });
            hops.push(Hop { link: technology, switch, medium });
        }
        Some(Path { hops, propagation_ns: Nanos(0) })
    }

    /// Technology of a link in one direction, if it alone determines rate, MTU and framing.
    fn technology(&self, link: usize, end: usize) -> Option<Link> {
        let options = &self.links[link].options[end];
        let technology = options.link()?;
        let rate_bps = technology.rate_bps()?.as_f64();
        let framing = options.describe().wire.and_then(|wire| wire.framing);
        let is_all = options.mtu() == technology.mtu()
            && framing == Some(technology)
            && options.rate_bps().is_some_and(|bps| (bps / rate_bps - 1.0).abs() < 1e-9);
        is_all.then_some(technology)
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_wire::{Family, Stack, path_stream_goodput};

    use super::*;

    #[test]
    fn a_way_has_the_links_that_packets_cross_with_their_delays_and_wires() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n[switches.s]\n\
                    [links.l0]\nbetween = ['s', 'a']\noptions = 'link=ethernet:1G'\n\
                    [links.l1]\nbetween = ['s', 'r']\noptions = 'link=ethernet:1G rtt=4ms'\n\
                    [links.l2]\nbetween = ['r', 'b']\noptions = 'link=ethernet:100M rtt=6ms'\n";
        let topology = Topology::parse(text).unwrap();
        let way = topology.way("a", "b").unwrap();
        assert_eq!(way.links, [(0, 1), (1, 0), (2, 0)]);
        assert_eq!((way.mtu, way.rtt, way.offload), (1500, Nanos::from_millis(10), Offload::On));
        assert_eq!(
            way.path.unwrap().to_string(),
            "ethernet:1G > store-and-forward > ethernet:1G > store-and-forward > ethernet:100M"
        );
        assert_eq!(topology.way("b", "a").unwrap().links, [(2, 1), (1, 1), (0, 0)]);
        assert_eq!(topology.way("a", "nobody"), None);
    }

    #[test]
    fn one_of_two_parallel_links_is_taken_if_it_is_named() {
        let text = "[hosts.a]\n[hosts.b]\n[links.l0]\nbetween = ['a', 'b']\n\
                    [links.l1]\nbetween = ['b', 'a']\n";
        let topology = Topology::parse(text).unwrap();
        let links = |via| topology.way_by(via, "a", "b").map(|way| way.links);
        assert_eq!(links(None), Some(vec![(0, 0)]));
        assert_eq!(links(Some("l1")), Some(vec![(1, 1)]));
        assert_eq!(links(Some("l2")), None);
    }

    #[test]
    fn packets_are_single_where_all_nodes_of_a_way_send_or_segment_them_so() {
        let text = "[hosts.a]\n[hosts.b]\n[hosts.c]\n[hosts.d]\n[switches.s]\n\
                    [links.l0]\nbetween = ['a', 's']\noffload = 'off'\n\
                    [links.l1]\nbetween = ['b', 's']\noptions = 'loss=1%'\n\
                    [links.l2]\nbetween = ['c', 's']\noffload = 'on'\n\
                    [links.l3]\nbetween = ['d', 's']\noffload = 'off'\n";
        let offload = |text: &str, to| Topology::parse(text).unwrap().way("a", to).unwrap().offload;
        assert_eq!(
            ["b", "c", "d"].map(|to| offload(text, to)),
            [Offload::Off, Offload::On, Offload::Off]
        );
        let segmented = text.replace("offload = 'off'", "");
        assert_eq!(offload(&segmented, "b"), Offload::Hosts);
    }

    #[test]
    fn packets_cross_a_hub_once_and_those_of_a_relay_on_it_twice() {
        let topology = Topology::parse(include_str!("../../../../../plans/labs/hub.toml")).unwrap();
        let direct = topology.way("client", "server").unwrap().path.unwrap();
        assert_eq!(
            (direct.to_string(), direct.is_half_duplex()),
            ("ethernet:100M".to_owned(), true)
        );
        for to in ["server", "client"] {
            let relayed = topology.way_through("relay", None, "client", to).unwrap();
            assert_eq!(relayed.links.len(), 4);
            let path = relayed.path.unwrap();
            assert_eq!(path.to_string(), "ethernet:100M > store-and-forward > ethernet:100M");
            let stack = Stack::Tcp { family: Family::V4, option_bytes: 0 };
            let bps = |path| path_stream_goodput(path, stack).unwrap().goodput_bps.as_f64();
            // P5's bytes cross the hub twice: 47.46 Mbit/s.
            assert_eq!(bps(&path), 100e6 * 1460.0 / 1538.0 / 2.0);
            assert_eq!(bps(&direct), 2.0 * bps(&path));
        }
    }

    #[test]
    fn hosts_do_not_forward_and_a_wire_without_a_technology_has_no_path() {
        let text = "[hosts.a]\n[hosts.b]\n[hosts.c]\n[routers.r]\n\
                    [links.l0]\nbetween = ['a', 'b']\noptions = 'rate=1G'\n[links.l1]\nbetween = ['b', 'c']\n\
                    [links.l2]\nbetween = ['a', 'r']\n[links.l3]\nbetween = ['r', 'c']\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(topology.way("a", "c").unwrap().links, [(2, 0), (3, 0)]);
        assert_eq!(topology.way("a", "b").unwrap().path, None);
        let framed = text.replace("rate=1G", "link=ethernet:1G framing=none");
        assert_eq!(Topology::parse(&framed).unwrap().way("a", "b").unwrap().path, None);
        let plain = text.replace("rate=1G", "link=ethernet:1G");
        assert!(Topology::parse(&plain).unwrap().way("a", "b").unwrap().path.is_some());
    }
}
