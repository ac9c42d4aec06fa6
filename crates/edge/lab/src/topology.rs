//! Topologies: the hosts, routers, switches, hubs and links of a lab, as a file defines them.

mod file;
mod junction;
pub(crate) mod networks;
mod way;

pub use junction::Junction;
pub use way::Way;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use fabricmark_link::{HostBus, Invalid, LinkOptions, SUPER_PACKET_MAX};
use fabricmark_plan::Offload;
use fabricmark_wire::Family;
use serde::{Deserialize, Serialize};

use crate::qdisc::Backend;
use file::File;
use networks::Networks;

/// Why a text is no topology: which part of it is wrong, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TopologyError(String);

/// A checked topology: the ends of each link exist.
///
/// Nodes and links are in the order of their names, from which the addresses follow.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Title; `None` if the file has none.
    pub title: Option<String>,
    /// Hosts and routers, by name.
    pub nodes: BTreeMap<String, Node>,
    /// Switches and hubs, by name. No node has the same name.
    pub junctions: BTreeMap<String, Junction>,
    /// Links, in the order of their names.
    pub links: Vec<Wire>,
    pub(crate) networks: Networks,
}

/// A host or a router.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Whether it forwards packets of others.
    pub is_router: bool,
    /// Bus that all its devices share; `None` without one.
    pub bus: Option<HostBus>,
    /// Sysctls of its network and their values, such as `net.ipv4.tcp_rmem`.
    pub sysctl: BTreeMap<String, String>,
}

/// A link between two nodes, switches or hubs.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Name of the link and of the devices at its ends; switches and hubs have no devices.
    pub name: String,
    /// Names of the nodes, switches or hubs at its ends.
    pub between: [String; 2],
    /// Link options for packets from each end.
    pub options: [LinkOptions; 2],
    /// Where super-packets are segmented. `None`: where the options need it; see [`Topology::offload`].
    pub offload: Option<Offload>,
    /// What carries its packets.
    pub backend: Backend,
    /// How the devices of a plan's emulated link differ from those of a topology file.
    pub(crate) adapter: Option<Adapter>,
}

/// Devices that behave like a network adapter: the kernel segments super-packets before they leave, and a sender
/// that is faster than the link waits at its device.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    /// Where super-packets are segmented.
    pub(crate) offload: Offload,
    /// Options of `tc` for the queue at which senders wait (see `backpressure`).
    pub(crate) queue: Option<String>,
}

impl Topology {
    /// Parses a topology file that names no other files.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        Self::parse_with(text, &mut |_| Err("no files are read here".to_owned()))
    }

    /// Parses a topology file; `read` returns the text of a trace that an option names, or why there is none.
    pub fn parse_with(
        text: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, TopologyError> {
        let file: File = toml::from_str(text).map_err(|error| TopologyError(error.to_string()))?;
        file.check(read).map_err(TopologyError)
    }

    /// Address of one end of a link: 10.71.NETWORK.HOST and fd71:NETWORK::HOST. A network has the number of its
    /// first link; its hosts are numbered from 1 in the order of links and ends.
    pub fn address(&self, link: usize, end: usize, family: Family) -> IpAddr {
        address(self.networks.of_link(link), self.networks.host(link, end), family)
    }

    /// The nodes that have a bus, by name.
    pub(crate) fn buses(&self) -> impl Iterator<Item = (&String, HostBus)> {
        let buses = self.nodes.iter().filter_map(|(name, node)| node.bus.map(|bus| (name, bus)));
        // The bus of a node without devices carries no packets.
        buses.filter(|(name, _)| self.ends(name).next().is_some())
    }

    /// Whether one end of a link is at a switch or a hub.
    pub(crate) fn is_at_junction(&self, link: usize, end: usize) -> bool {
        self.junctions.contains_key(&self.links[link].between[end])
    }

    /// The ends of emulated links at which there is a device: links, and the end of each.
    pub(crate) fn emulated_devices(&self) -> impl Iterator<Item = (usize, usize)> {
        let ends = (0..self.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
        ends.filter(|&(link, end)| {
            self.links[link].backend == Backend::Emulator && !self.is_at_junction(link, end)
        })
    }

    /// Number of the direction from one end of a link, among the directions that the emulator carries.
    pub(crate) fn direction(&self, link: usize, end: usize) -> usize {
        let before = self.links[..link].iter();
        2 * before.filter(|wire| wire.backend == Backend::Emulator).count() + end
    }

    /// Where the super-packets of the device at one end of a link are segmented: as the link says, otherwise as the options
    /// that its packets meet need. Devices hand over single packets if a link of the lab needs that from all
    /// senders.
    pub(crate) fn offload(&self, link: usize, end: usize) -> Offload {
        if self.links.iter().any(|wire| wire.backend.needs_single_packets()) {
            return Offload::Off;
        }
        let wire = &self.links[link];
        if let Some(adapter) = &wire.adapter {
            return adapter.offload;
        }
        match wire.offload {
            Some(Offload::Hosts) if self.has_single() => Offload::Off,
            Some(offload) => offload,
            None if self.takes_single(link, end) => Offload::Off,
            None if wire.options[end].needs_single_packets() || self.needs_behind(link) => {
                if self.has_single() { Offload::Off } else { Offload::Hosts }
            }
            None => Offload::On,
        }
    }

    /// Whether a device hands over single packets, so that no other may get joined ones: a router would forward them.
    fn has_single(&self) -> bool {
        let mut ends = (0..self.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
        ends.any(|(link, end)| match self.links[link].offload {
            Some(offload) => offload == Offload::Off,
            None => self.takes_single(link, end),
        })
    }

    /// Whether the device at one end of a link has to hand over single packets: super-packets cost more there, or have no
    /// room.
    fn takes_single(&self, link: usize, end: usize) -> bool {
        let wire = &self.links[link];
        // The token bucket segments super-packets itself, but that costs more than single segments do: TCP over
        // `ethernet:10G,mtu=9000` stays at 4.8 to 5.7 Gbit/s from writes of 16 KiB on, and reaches 9.80 to 9.89
        // with single segments (`docs/notebook/measured.md`).
        let is_cut = wire.backend.shapes();
        // A super-packet that arrives when the queue requests a pause must have room.
        let most = SUPER_PACKET_MAX * self.packets_beyond(link, end);
        let is_narrow = wire.options[end].pause_room_bytes().is_some_and(|room| room < most);
        is_cut || is_narrow
    }

    /// Whether the device at one end of a link is limited to single packets (`gso_max_segs 1`).
    pub(crate) fn is_single(&self, link: usize, end: usize) -> bool {
        self.links[link].adapter.is_none() && self.offload(link, end) == Offload::Off
    }

    /// Packets that may still arrive when a queue requests a pause: the one that caused it, and one on the bus.
    fn packets_beyond(&self, link: usize, end: usize) -> u64 {
        let node = self.nodes.get(&self.links[link].between[end]);
        if node.is_some_and(|node| node.bus.is_some()) { 2 } else { 1 }
    }

    /// Whether options behind a switch or hub that packets of a link may reach need single packets.
    fn needs_behind(&self, link: usize) -> bool {
        let network = self.networks.of_link(link);
        let others = (0..self.links.len())
            .filter(|&other| other != link && self.networks.of_link(other) == network);
        let mut ends = others.flat_map(|link| [(link, 0), (link, 1)]);
        ends.any(|(link, end)| {
            self.is_at_junction(link, end) && self.links[link].options[end].needs_single_packets()
        })
    }

    /// Rejects a link that cannot carry out its options.
    pub(crate) fn check_link(&self, link: usize) -> Result<(), String> {
        let Wire { between, options, offload, backend, .. } = &self.links[link];
        let has_bus = |name: &String| self.nodes.get(name).is_some_and(|node| node.bus.is_some());
        let shared = |name: &&String| self.junctions.contains_key(*name) || has_bus(name);
        if let Some(name) = between.iter().find(shared).filter(|_| *backend != Backend::Emulator) {
            let what = self.junctions.get(name).map_or("the bus of", |junction| junction.kind());
            return Err(format!(
                "{what} `{name}` needs backend `emulator`, not `{backend}`: leave out `backend`"
            ));
        }
        let is_by_hosts = |end| {
            *backend == Backend::Emulator
                && !self.takes_single(link, end)
                && self.offload(link, end) == Offload::Hosts
        };
        if *offload == Some(Offload::Hosts) && ![0, 1].into_iter().all(is_by_hosts) {
            return Err("`offload = \"hosts\"` needs backend `emulator`, room for super-packets, and no other link of the \
                        lab with single packets: leave out `offload`"
                .to_owned());
        }
        let is_hub =
            |name: &&String| matches!(self.junctions.get(*name), Some(Junction::Hub { .. }));
        for (end, options) in options.iter().enumerate() {
            if let (Some(hub), true) = (between.iter().find(is_hub), options.is_paced()) {
                return Err(format!(
                    "the hub `{hub}` sets the rate: leave out rate, link, schedule and trace"
                ));
            }
            options.build::<()>(0, "").map_err(|error| error.to_string())?;
            if options.pauses() && self.is_at_junction(link, end) {
                return Err(format!(
                    "`pause` would stop all traffic through `{}`: set it for the other direction \
                     only, with `forward` or `reverse`",
                    between[end]
                ));
            }
            let least = u64::from(options.mtu()) * self.packets_beyond(link, end);
            if options.pause_room_bytes().is_some_and(|room| room < least) {
                return Err(Invalid::Narrow.to_string());
            }
        }
        Ok(())
    }

    /// Where a node is attached: links, and the end of each.
    pub fn ends<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
        let ends = (0..self.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
        ends.filter(move |&(link, end)| self.links[link].between[end] == node)
    }
}

/// Text of a topology file and of the traces that it names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Source {
    text: String,
    /// By file name.
    traces: BTreeMap<String, String>,
}

impl Source {
    /// Checks the text of a topology file, and reads the traces that it names, relative to `folder`.
    pub fn read(text: String, folder: &Path) -> Result<Self, TopologyError> {
        let mut traces = BTreeMap::new();
        let mut read = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).map_err(|error| error.to_string())?;
            traces.insert(file.to_owned(), text.clone());
            Ok(text)
        };
        Topology::parse_with(&text, &mut read)?;
        Ok(Self { text, traces })
    }

    /// Parses the topology.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        let mut read =
            |file: &str| self.traces.get(file).cloned().ok_or_else(|| "it was not sent".to_owned());
        Topology::parse_with(&self.text, &mut read)
    }
}

/// Address of a host in a network; host 0 is the network itself.
pub(crate) fn address(network: usize, host: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 71, network as u8, host]),
        Family::V6 => IpAddr::from([0xfd71, network as u16, 0, 0, 0, 0, 0, u16::from(host)]),
    }
}

/// The same with the prefix length of the network, as `ip` writes it.
pub(crate) fn prefix(network: usize, host: u8, family: Family) -> String {
    let bits = if family == Family::V4 { 24 } else { 64 };
    format!("{}/{bits}", address(network, host, family))
}

/// Line for `ip -batch` that gives a device an address. No other node has it, so that IPv6 need not wait for
/// duplicate address detection.
pub(crate) fn add_address(network: usize, host: u8, family: Family, device: &str) -> String {
    let nodad = if family == Family::V6 { " nodad" } else { "" };
    format!("addr add {} dev {device}{nodad}\n", prefix(network, host, family))
}

#[cfg(test)]
mod tests;
