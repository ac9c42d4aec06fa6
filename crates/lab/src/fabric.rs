//! A lab of any shape: namespaces for its nodes, TUN devices for the ends of its links and the emulator
//! between them, or veth devices and queues of the kernel.

use std::collections::BTreeMap;

use fabricmark_link::LinkWords;
use fabricmark_wire::Family;

use crate::emulated::DEVICE_QUEUE;
use crate::emulator::Emulator;
use crate::kernel;
use crate::namespace::Namespace;
use crate::path::{LinkEnd, Traffic};
use crate::qdisc::Backend;
use crate::route;
use crate::tool::{self, LabError};
use crate::topology::{Node, Topology, Wire};
use crate::tun::Tun;

/// A lab that is up. It is gone when this value is, but for processes that run in it.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    nodes: BTreeMap<String, Namespace>,
    emulator: Emulator,
}

impl Fabric {
    /// Builds a lab. Needs the right to make networks (see [`crate::acquire`]). Chance is drawn from
    /// `seed`.
    pub fn build(topology: Topology, seed: u64) -> Result<Self, LabError> {
        let mut nodes = BTreeMap::new();
        for (name, node) in &topology.nodes {
            let namespace = Namespace::new()?;
            configure(&namespace, node)?;
            nodes.insert(name.clone(), namespace);
        }
        let mut links = Vec::new();
        for link in &topology.links {
            if link.backend != Backend::Emulator {
                kernel::build(link, ends(&nodes, link))?;
                continue;
            }
            let end = |end: usize| -> Result<LinkEnd, LabError> {
                let [node, other] = [&link.between[end], &link.between[1 - end]];
                Ok(LinkEnd {
                    tun: Tun::new(&nodes[node], &link.name)?,
                    name: format!("{}:{node}>{other}", link.name),
                    words: link.words[end].clone(),
                })
            };
            links.push([end(0)?, end(1)?]);
        }
        for (name, namespace) in &nodes {
            tool::run(namespace, "ip", &["-batch", "-"], &set_up(&topology, name))?;
        }
        for link in topology.links.iter().filter(|link| link.backend != Backend::Emulator) {
            kernel::await_carrier(link, ends(&nodes, link))?;
        }
        let emulator = Emulator::start(links, seed, None)?;
        Ok(Self { topology, nodes, emulator })
    }

    /// What it was built from, with the words as they are now.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The namespace of a node.
    pub fn namespace(&self, node: &str) -> Option<&Namespace> {
        self.nodes.get(node)
    }

    /// Changes a link that is up, by its place: what comes from one end, or from both.
    pub fn change(
        &mut self,
        link: usize,
        from: Option<usize>,
        change: &LinkWords,
    ) -> Result<(), LabError> {
        let emulated = self.emulated(link);
        let wire = &mut self.topology.links[link];
        let mut words = wire.words.clone();
        let changed = from.map_or([0, 1].as_slice(), |end| if end == 0 { &[0] } else { &[1] });
        for &end in changed {
            words[end].merge(change);
            if words[end].mtu() != wire.words[end].mtu() {
                return Err(LabError::OtherMtu { link: wire.name.clone() });
            }
        }
        if let Some(number) = emulated {
            for &end in changed {
                self.emulator.change(2 * number + end, change.clone())?;
            }
        } else {
            for words in &words {
                words.build::<()>(0, "")?;
            }
            let new = Wire { words: words.clone(), ..wire.clone() };
            kernel::change(wire, &new, ends(&self.nodes, wire))?;
        }
        wire.words = words;
        Ok(())
    }

    /// What happened in each direction: two for each link, from its first end and from its second.
    pub fn traffic(&self) -> Result<Vec<Traffic>, LabError> {
        let mut emulated = self.emulator.traffic()?.into_iter();
        let mut all = Vec::new();
        for link in &self.topology.links {
            if link.backend == Backend::Emulator {
                all.extend(emulated.by_ref().take(2));
                continue;
            }
            for (end, sender) in ends(&self.nodes, link).into_iter().enumerate() {
                all.push(kernel::traffic(link, end, sender)?);
            }
        }
        Ok(all)
    }

    /// The number of a link among those of the emulator.
    fn emulated(&self, link: usize) -> Option<usize> {
        let links = &self.topology.links;
        let is_ours = |link: &&Wire| link.backend == Backend::Emulator;
        is_ours(&&links[link]).then(|| links[..link].iter().filter(is_ours).count())
    }

    /// Packets that devices dropped since the emulator did not take them in time, in the order of
    /// [`traffic`](Self::traffic). Devices of the kernel's links drop what the other end refuses, which
    /// stands there.
    pub fn device_drops(&self) -> Result<Vec<u64>, LabError> {
        let ends = self.topology.links.iter().flat_map(|link| {
            link.between.each_ref().map(|node| match link.backend {
                Backend::Emulator => self.nodes[node].sent_drops(&link.name),
                _ => Ok(0),
            })
        });
        ends.collect()
    }
}

/// The namespaces at both ends of a link.
fn ends<'a>(nodes: &'a BTreeMap<String, Namespace>, link: &Wire) -> [&'a Namespace; 2] {
    link.between.each_ref().map(|node| &nodes[node])
}

/// Sets what holds for the whole network of a node, before it has devices.
fn configure(namespace: &Namespace, node: &Node) -> Result<(), LabError> {
    let forwarding = if node.is_router { "1" } else { "0" };
    let ours = [
        ("net.ipv4.ip_forward", forwarding),
        ("net.ipv6.conf.all.forwarding", forwarding),
        // Ways there and back may differ; strict filters of the machine would be inherited.
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
    ];
    let theirs = node.sysctl.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in ours.into_iter().chain(theirs) {
        namespace.set(key, value)?;
    }
    Ok(())
}

/// Devices, addresses and routes of a node, as words for `ip -batch`.
fn set_up(topology: &Topology, node: &str) -> String {
    let families = [(Family::V4, 24, ""), (Family::V6, 64, " nodad")];
    let mut text = String::from("link set lo up\n");
    for (link, end) in topology.ends(node) {
        let wire = &topology.links[link];
        let (name, mtu) = (&wire.name, wire.words[end].mtu());
        // Without an address that the kernel makes, it asks for no routers either.
        text += &format!("link set {name} mtu {mtu} txqueuelen {DEVICE_QUEUE} addrgenmode none\n");
        if topology.is_single(link) {
            text += &format!("link set {name} gso_max_segs 1\n");
        }
        for (family, bits, nodad) in families {
            // A lab has no other node, so there is no duplicate address to wait for.
            let address = Topology::address(link, end, family);
            text += &format!("addr add {address}/{bits} dev {name}{nodad}\n");
        }
        text += &format!("link set {name} up\n");
    }
    for step in route::routes(topology, node) {
        let device = &topology.links[step.by].name;
        for (family, bits, _) in families {
            let to = Topology::address(step.target, 0, family);
            let via = Topology::address(step.by, step.end, family);
            let net = network(to);
            text += &format!("route add {net}/{bits} via {via} dev {device}\n");
        }
    }
    text
}

/// The address of the network of an address that ends in 1.
fn network(address: std::net::IpAddr) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(address) => (u32::from(address) & !0xff).to_be_bytes().into(),
        std::net::IpAddr::V6(address) => (u128::from(address) & !0xff).to_be_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_knows_the_way_over_its_router() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n\
                    [links.l0]\nbetween = ['a', 'r']\nwords = 'mtu=9000'\nsingle = true\n\
                    [links.l1]\nbetween = ['r', 'b']\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(
            set_up(&topology, "a"),
            "link set lo up\n\
             link set l0 mtu 9000 txqueuelen 20000 addrgenmode none\n\
             link set l0 gso_max_segs 1\n\
             addr add 10.71.0.1/24 dev l0\n\
             addr add fd71::1/64 dev l0 nodad\n\
             link set l0 up\n\
             route add 10.71.1.0/24 via 10.71.0.2 dev l0\n\
             route add fd71:1::/64 via fd71::2 dev l0\n"
        );
    }
}
