//! A lab of any topology: a namespace for each node, TUN devices and the emulator for emulated links, veth devices
//! and queues of the kernel for other links.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricmark_link::LinkOptions;
use fabricmark_plan::Offload;
use fabricmark_wire::Family;

use crate::device;
use crate::emulator::Emulator;
use crate::kernel;
use crate::namespace::Namespace;
use crate::path::{LinkEnd, Traffic};
use crate::qdisc::Backend;
use crate::route;
use crate::tool::{self, LabError};
use crate::topology::{self, Adapter, Node, Topology, Wire};
use crate::tun::Tun;
use crate::wiring::Wiring;

/// A lab that is up. Dropping it removes it, except for processes that run in it.
#[derive(Debug)]
pub struct Lab {
    topology: Topology,
    nodes: BTreeMap<String, Namespace>,
    emulator: Emulator,
}

impl Lab {
    /// Builds the nodes `client` and `server` with one link, `link0`, between them.
    pub fn of_link(wiring: &Wiring, seed: u64, cpu: Option<u32>) -> Result<Self, LabError> {
        Self::build(wiring.topology("link0")?, seed, cpu)
    }

    /// Builds a lab. Needs the right to create networks (see [`crate::acquire`]). Random choices derive from
    /// `seed`; the emulator is pinned to `cpu` if one is given.
    pub fn build(topology: Topology, seed: u64, cpu: Option<u32>) -> Result<Self, LabError> {
        let mut nodes = BTreeMap::new();
        for (name, node) in &topology.nodes {
            let namespace = Namespace::new()?;
            configure(&namespace, node)?;
            nodes.insert(name.clone(), namespace);
        }
        let mut links = Vec::new();
        for (number, link) in topology.links.iter().enumerate() {
            if link.backend != Backend::Emulator {
                kernel::build(link, ends(&nodes, link))?;
                continue;
            }
            for end in [0, 1] {
                let [node, other] = [&link.between[end], &link.between[1 - end]];
                let namespace = nodes.get(node);
                let tun = namespace.map(|namespace| Tun::new(namespace, &link.name)).transpose()?;
                let offload = topology.offload(number, end);
                if let (Some(tun), Some(_), Offload::Off) = (&tun, &link.adapter, offload) {
                    tun.take_single_packets()?;
                }
                links.push(LinkEnd {
                    does_segment: tun.is_some() && offload == Offload::Hosts,
                    tun,
                    name: format!("{}:{node}>{other}", link.name),
                    options: link.options[end].clone(),
                });
            }
        }
        for (name, namespace) in &nodes {
            tool::ip(namespace, &set_up(&topology, name))?;
            device::lengthen_queues(namespace, &topology, name)?;
            for (link, _) in topology.ends(name) {
                let Wire { name, adapter, .. } = &topology.links[link];
                if let Some(Adapter { queue: Some(queue), .. }) = adapter {
                    tool::tc(namespace, &format!("qdisc add dev {name} root {queue}"))?;
                }
            }
            for (family, flag) in [(Family::V4, "-4"), (Family::V6, "-6")] {
                let rules = route::rules(&topology, name, family);
                if !rules.is_empty() {
                    tool::run(namespace, "ip", &[flag, "-batch", "-"], &rules)?;
                }
            }
        }
        for link in topology.links.iter().filter(|link| link.backend != Backend::Emulator) {
            kernel::await_carrier(link, ends(&nodes, link))?;
        }
        let emulator = Emulator::start(links, topology.clone(), seed, cpu)?;
        Ok(Self { topology, nodes, emulator })
    }

    /// Its topology, with the present link options.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Namespace of a node; `None` for switches, hubs and unknown names.
    pub fn namespace(&self, node: &str) -> Option<&Namespace> {
        self.nodes.get(node)
    }

    /// Changes the options of a link that is up, by its index: for packets from the end `from`, or from both.
    /// Devices get the settings that follow from the options, such as the MTU.
    pub fn change(
        &mut self,
        link: usize,
        from: Option<usize>,
        change: &LinkOptions,
    ) -> Result<(), LabError> {
        let mut topology = self.topology.clone();
        let changed = from.map_or([0, 1].as_slice(), |end| if end == 0 { &[0] } else { &[1] });
        for &end in changed {
            topology.links[link].options[end].merge(change);
        }
        // Refused before anything is changed.
        let name = &topology.links[link].name;
        let refused = |error| LabError::Input(format!("link `{name}`: {error}"));
        topology.check_link(link).map_err(refused)?;
        let [old, new] = [&self.topology, &topology].map(|topology| &topology.links[link]);
        let is_emulated = new.backend == Backend::Emulator;
        if !is_emulated {
            // This fails for options that its queues do not support.
            kernel::change(old, new, ends(&self.nodes, old))?;
        }
        for (node, commands) in device::changes(&self.topology, &topology) {
            tool::ip(&self.nodes[node], &commands)?;
            device::lengthen_queues(&self.nodes[node], &topology, node)?;
        }
        // Super-packets that wait in a device are segmented, too.
        self.set_segmentation(&topology, true)?;
        for &end in changed.iter().filter(|_| is_emulated) {
            self.emulator.change(topology.direction(link, end), change.clone())?;
        }
        self.set_segmentation(&topology, false)?;
        self.topology = topology;
        Ok(())
    }

    /// Begins or ends segmentation by the devices for which the changed topology has it otherwise.
    fn set_segmentation(&self, changed: &Topology, does_segment: bool) -> Result<(), LabError> {
        for (link, end) in changed.emulated_devices() {
            let has = |topology: &Topology| topology.offload(link, end) == Offload::Hosts;
            if has(changed) == does_segment && has(&self.topology) != does_segment {
                self.emulator.set_segmentation(changed.direction(link, end), does_segment)?;
            }
        }
        Ok(())
    }

    /// Sets the congestion control of TCP connections between neighbours, for both ends. It is a property of routes (`congctl`
    /// of ip-route(8)): a namespace's own default cannot be an algorithm that the machine restricts.
    pub fn set_congestion(&self, algorithm: &str) -> Result<(), LabError> {
        for (name, namespace) in &self.nodes {
            let mut text = String::new();
            for (link, end) in self.topology.ends(name) {
                text += &route::to_neighbours(&self.topology, name, link, end, algorithm);
            }
            tool::ip(namespace, &text)?;
        }
        Ok(())
    }

    /// Counters of each direction: two for each link, from its first end and from its second.
    pub fn traffic(&self) -> Result<Vec<Traffic>, LabError> {
        let mut emulated = self.emulator.traffic()?.into_iter();
        let mut all = Vec::new();
        for link in &self.topology.links {
            for (end, node) in link.between.iter().enumerate() {
                // Switches and hubs have no devices.
                let sender = self.nodes.get(node);
                all.push(match sender {
                    Some(sender) if link.backend != Backend::Emulator => {
                        kernel::traffic(link, end, sender)?
                    }
                    _ => {
                        let drops = sender.map(|sender| device_drops(link, sender)).transpose()?;
                        let device_drops = drops.unwrap_or_default();
                        Traffic { device_drops, ..emulated.next().unwrap_or_default() }
                    }
                });
            }
        }
        Ok(all)
    }

    /// Waits until an emulated link has delivered what one end sent, for at most `within`.
    pub fn settle(&self, link: usize, end: usize, within: Duration) -> Result<(), LabError> {
        if self.topology.links[link].backend == Backend::Emulator {
            self.emulator.settle(self.topology.direction(link, end), within)?;
        }
        Ok(())
    }

    /// Counters of each switch and hub, by name, and then of the bus of each node that has one. Packets of all
    /// their links are counted together; the links count what enters and leaves each of them.
    pub fn shared_traffic(&self) -> Result<Vec<Traffic>, LabError> {
        self.emulator.shared_traffic()
    }
}

/// Packets that an end of an emulated link dropped before the emulator read them.
fn device_drops(link: &Wire, sender: &Namespace) -> Result<u64, LabError> {
    let mut drops = sender.sent(&link.name)?.drops;
    if link.adapter.as_ref().is_some_and(|adapter| adapter.queue.is_some()) {
        let queues = tool::queues(sender, &link.name)?;
        drops += queues.iter().filter_map(|queue| queue["drops"].as_u64()).sum::<u64>();
    }
    Ok(drops)
}

fn ends<'a>(nodes: &'a BTreeMap<String, Namespace>, link: &Wire) -> [&'a Namespace; 2] {
    link.between.each_ref().map(|node| &nodes[node])
}

/// Sets the sysctls of a node's network, before it has devices.
fn configure(namespace: &Namespace, node: &Node) -> Result<(), LabError> {
    let forwarding = if node.is_router { "1" } else { "0" };
    let ours = [
        ("net.ipv4.ip_forward", forwarding),
        ("net.ipv6.conf.all.forwarding", forwarding),
        // The paths in both directions may differ, and strict filters of the machine would be inherited.
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
    ];
    namespace.forget_fragments()?;
    let theirs = node.sysctl.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in ours.into_iter().chain(theirs) {
        namespace.set(key, value)?;
    }
    Ok(())
}

/// Devices, addresses and routes of a node, as lines for `ip -batch`.
fn set_up(topology: &Topology, node: &str) -> String {
    let families = [Family::V4, Family::V6];
    let mut text = String::from("link set lo up\n");
    for (link, end) in topology.ends(node) {
        let Wire { name, options, .. } = &topology.links[link];
        text += &device::set_up(name, &options[end], topology.is_single(link, end));
        let networks = &topology.networks;
        let (network, host) = (networks.of_link(link), networks.host(link, end));
        for family in families.into_iter().filter(|&family| route::carries(topology, link, family))
        {
            text += &topology::add_address(network, host, family, name);
        }
        text += &format!("link set dev {name} up\n");
    }
    for step in route::routes(topology, node) {
        for family in
            families.into_iter().filter(|&family| route::carries(topology, step.by, family))
        {
            text += &format!("{}\n", step.words(topology, family));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_knows_the_way_over_its_router() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n\
                    [links.l0]\nbetween = ['a', 'r']\noptions = 'mtu=9000'\noffload = 'off'\n\
                    [links.l1]\nbetween = ['r', 'b']\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(
            set_up(&topology, "a"),
            "link set lo up\n\
             link set dev l0 addrgenmode none\n\
             link set dev l0 mtu 9000 txqueuelen 20000 gso_max_segs 1\n\
             addr add 10.71.0.1/24 dev l0\n\
             addr add fd71::1/64 dev l0 nodad\n\
             link set dev l0 up\n\
             route add 10.71.1.0/24 via 10.71.0.2 dev l0\n\
             route add fd71:1::/64 via fd71::2 dev l0\n"
        );
    }
    #[test]
    fn a_link_too_small_for_ipv6_has_no_routes_of_it() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n\
                    [links.l0]\nbetween = ['a', 'r']\noptions = 'link=ipoib:4X-SDR,mtu=1000'\n\
                    [links.l1]\nbetween = ['a', 'b']\n[links.l2]\nbetween = ['r', 'b']\n";
        let topology = Topology::parse(text).unwrap();
        let rules = |family| route::rules(&topology, "a", family);
        for text in [set_up(&topology, "a"), set_up(&topology, "r"), rules(Family::V6)] {
            let of_link = |line: &&str| line.contains("fd71") && line.contains("dev l0");
            assert_eq!(text.lines().find(of_link), None, "{text}");
        }
        assert!(set_up(&topology, "a").contains("via 10.71.0.2 dev l0"));
        assert!(rules(Family::V4).contains("dev l0 table 1000"));
    }
}
