//! The two-node lab: a veth pair for each link, shaped where the link has a wire, or a pair of TUN devices
//! with the emulator between them.
//!
//! ```text
//!   client ── link0 10.71.0.1, fd71:0::1 ────────── link0 10.71.0.2, fd71:0::2 ── server
//!          └─ link1 10.71.1.1, fd71:1::1 ────────── link1 10.71.1.2, fd71:1::2 ─┘
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use fabricmark_link::{HostBus, LinkWords, TokenBucket};
use fabricmark_plan::{Offload, Point, Role};
use fabricmark_units::Nanos;
use fabricmark_wire::{Family, Link, MTU_MIN};

use crate::backpressure;
use crate::device;
use crate::emulator::Emulator;
use crate::namespace::Namespace;
use crate::path::{LinkEnd, Traffic};
use crate::qdisc::Backend;
use crate::tool::{self, LabError};
use crate::topology::{self, Node, Topology, Wire};
use crate::tun::Tun;

/// A link that a point asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wiring {
    /// Its technology.
    pub link: Link,
    /// What the emulator does in both directions; `None` for a veth pair, behind a token bucket where
    /// the technology has a wire.
    pub words: Option<LinkWords>,
    /// Whether senders hand over single packets to the emulator.
    pub single: bool,
    /// What all packets of the client cross, too.
    pub bus: Option<HostBus>,
}

impl Wiring {
    /// The link of a point.
    pub fn of(point: &Point) -> Self {
        let single = point.offload == Some(Offload::Off);
        Self { link: point.link, words: point.words(), single, bus: point.host_bus() }
    }

    /// Starts the emulator of a link with words; its devices are down and have no addresses.
    fn emulate(
        &self,
        words: &LinkWords,
        name: &str,
        nodes: &[Namespace; 2],
        seed: u64,
        cpu: Option<u32>,
    ) -> Result<Emulator, LabError> {
        let words = backpressure::words_behind(self.link, words);
        let end = |node: &Namespace, way: &str| {
            let tun = Tun::new(node, name)?;
            if self.single {
                tun.take_single_packets()?;
            }
            if words.delay() > Nanos(0) {
                TUNED_BUFFERS.iter().try_for_each(|(key, value)| node.set(key, value))?;
            }
            let name = format!("{name}:{way}");
            Ok::<_, LabError>(LinkEnd { tun: Some(tun), name, words: words.clone() })
        };
        let ends = vec![end(&nodes[0], "there")?, end(&nodes[1], "back")?];
        let between = [Role::Client, Role::Server].map(|role| role.name().to_owned());
        let client = Node { bus: self.bus, ..Node::default() };
        let nodes = BTreeMap::from([(between[0].clone(), client)]);
        let (name, words) = (name.to_owned(), [words.clone(), words]);
        let wire = Wire { name, between, words, single: None, backend: Backend::Emulator };
        let topology = Topology { nodes, links: vec![wire], ..Topology::default() };
        Emulator::start(ends, topology, seed, cpu)
    }
}

impl From<Link> for Wiring {
    fn from(link: Link) -> Self {
        Self { link, words: None, single: false, bus: None }
    }
}

/// Largest buffers that the kernel may give a connection by its own tuning, so that they are not what
/// bounds a long fat path: the most that it takes (net/ipv4/sysctl_net_ipv4.c). What a connection
/// begins with are Linux's defaults.
const TUNED_BUFFERS: [(&str, &str); 2] = [
    ("net.ipv4.tcp_rmem", "4096 131072 2147483647"),
    ("net.ipv4.tcp_wmem", "4096 16384 2147483647"),
];

/// Bytes that may wait where senders are to wait, not packets to be dropped: beyond the send buffer of
/// any socket.
const SENDERS_WAIT: u64 = 8 << 20;

/// Lets TCP hand single segments to a shaped link. The shaper cuts super-packets itself, but that
/// costs so much that TCP over `ethernet:10G,mtu=9000` stays at 4.8 to 5.7 Gbit/s from 16 KiB writes
/// on; with single segments it reaches 9.80 to 9.89 (`docs/notebook/measured.md`).
const SEGMENT_BY_SEGMENT: &str = "gso_max_segs 1";

/// Links are numbered by one byte of their IPv4 addresses.
pub(crate) const LINKS_MAX: usize = 256;

/// Refuses what a veth pair and a token bucket cannot imitate.
fn check_emulated(link: Link) -> Result<(), LabError> {
    let technology = match link {
        Link::Loopback | Link::Veth { .. } | Link::Ethernet { .. } => return Ok(()),
        Link::Ipoib(_) => "IPoIB by a token bucket",
        Link::Ib(_) => "InfiniBand without IP",
        Link::RoceV1 { .. } | Link::RoceV2 { .. } => "RDMA over Ethernet",
    };
    Err(LabError::Input(format!(
        "`{link}`: the lab on this machine emulates no {technology}; use ethernet:RATE, ipoib:4X-SDR \
         or veth, or name a host that has one and --link {link}"
    )))
}

/// Two namespaces with a pair of devices for each link.
#[derive(Debug)]
pub struct Lab {
    links: Vec<Wiring>,
    /// Of the links that have words.
    emulators: Vec<Option<Emulator>>,
    /// Client and server.
    nodes: [Namespace; 2],
}

impl Lab {
    /// Builds the lab. Needs the right to make networks (see [`crate::acquire`]). The chance of
    /// emulators is drawn from `seed`; their threads stay on the processor `cpu`, where one is named.
    pub fn build(links: &[Wiring], seed: u64, cpu: Option<u32>) -> Result<Self, LabError> {
        if links.len() > LINKS_MAX {
            let why =
                format!("a lab has at most {LINKS_MAX} links, the plan names {}", links.len());
            return Err(LabError::Input(why));
        }
        for wiring in links.iter().filter(|wiring| wiring.words.is_none()) {
            check_emulated(wiring.link)?;
        }
        let nodes = [Namespace::new()?, Namespace::new()?];
        nodes.iter().try_for_each(Namespace::forget_fragments)?;
        let server = nodes[1].path();
        let mut pairs = String::from("link set lo up\n");
        let mut emulators = Vec::new();
        for (index, wiring) in links.iter().enumerate() {
            let name = Self::device(index);
            let emulate = |words| wiring.emulate(words, &name, &nodes, seed, cpu);
            emulators.push(wiring.words.as_ref().map(emulate).transpose()?);
            if wiring.words.is_none() {
                let mtu = wiring.link.mtu();
                pairs += &format!(
                    "link add {name} mtu {mtu} type veth peer name {name} mtu {mtu} netns {server}\n"
                );
            }
        }
        tool::ip(&nodes[0], &pairs)?;
        let lab = Self { links: links.to_vec(), emulators, nodes };
        lab.set_up(Role::Client)?;
        lab.set_up(Role::Server)?;
        Ok(lab)
    }

    /// Gives the devices of a node their addresses and queues, and switches them on.
    fn set_up(&self, role: Role) -> Result<(), LabError> {
        let mut text = String::from("link set lo up\n");
        for (index, Wiring { link, words, single, .. }) in self.links.iter().enumerate() {
            let name = Self::device(index);
            // IPv6 does not live on a device of a smaller MTU.
            let has_v6 = words.as_ref().map_or(link.mtu(), LinkWords::mtu) >= MTU_MIN;
            let families = if has_v6 { &[Family::V4, Family::V6][..] } else { &[Family::V4] };
            for &family in families {
                text += &topology::add_address(index, host(role), family, &name);
            }
            if let Some(words) = words {
                text += &device::set_up(&name, words, false);
                if *single {
                    // A window of 1 GiB comes in bursts of its segments, of which 20,000 found no room at 400 ms.
                    text +=
                        &format!("link set dev {name} txqueuelen {}\n", device::QUEUE_OF_PAUSED);
                }
            } else if TokenBucket::of(link).is_some() {
                text += &format!("link set dev {name} {SEGMENT_BY_SEGMENT}\n");
            }
            text += &format!("link set dev {name} up\n");
        }
        tool::ip(self.namespace(role), &text)?;
        for (index, Wiring { link, words, .. }) in self.links.iter().enumerate() {
            let queue = match words {
                Some(words) => backpressure::words(*link, words),
                None => TokenBucket::of(link).map(|bucket| bucket.words(SENDERS_WAIT)),
            };
            if let Some(words) = queue {
                let words = format!("qdisc add dev {} root {words}", Self::device(index));
                tool::tc(self.namespace(role), &words)?;
            }
        }
        Ok(())
    }

    /// The namespace of a node.
    pub fn namespace(&self, role: Role) -> &Namespace {
        &self.nodes[role as usize]
    }

    /// The place of a link in this lab.
    pub fn link(&self, link: &Wiring) -> Option<usize> {
        self.links.iter().position(|known| known == link)
    }

    /// A node's address on a link, by the link's place.
    pub fn address(&self, role: Role, link: usize, family: Family) -> IpAddr {
        topology::address(link, host(role), family)
    }

    /// The name of the devices of a link, by its place.
    pub fn device(link: usize) -> String {
        format!("link{link}")
    }

    /// Packets that a link has dropped so far, both directions: in the queue in front of it, or
    /// wherever its emulator was asked to, or could not help it.
    pub fn drops(&self, link: usize) -> Result<u64, LabError> {
        let mut drops = self.traffic(link)?.iter().flatten().map(Traffic::lost_packets).sum();
        let Wiring { link: technology, words, .. } = &self.links[link];
        if words.as_ref().is_some_and(|words| backpressure::words(*technology, words).is_none()) {
            return Ok(drops);
        }
        for node in &self.nodes {
            let queues = tool::queues(node, &Self::device(link))?;
            drops += queues.iter().filter_map(|queue| queue["drops"].as_u64()).sum::<u64>();
        }
        Ok(drops)
    }

    /// Waits until what an end has sent over an emulated link has left it, at most for so long.
    pub fn settle(&self, link: usize, from: Role, within: Duration) -> Result<(), LabError> {
        let settle = |emulator: &Emulator| emulator.settle(from as usize, within).map(|_| ());
        self.emulators[link].as_ref().map_or(Ok(()), settle)
    }

    /// What happened on an emulated link so far, there and back; `None` for another one.
    pub fn traffic(&self, link: usize) -> Result<Option<[Traffic; 2]>, LabError> {
        let Some(emulator) = &self.emulators[link] else { return Ok(None) };
        let mut ways = emulator.traffic()?.into_iter();
        let mut way = |node: &Namespace| {
            let device_drops = node.sent(&Self::device(link))?.drops;
            Ok::<_, LabError>(Traffic { device_drops, ..ways.next().unwrap_or_default() })
        };
        let (there, mut back) = (way(&self.nodes[0])?, way(&self.nodes[1])?);
        // What finds no room before the bus was on its way back: the memory of the host drops nothing that
        // leaves.
        for bus in emulator.shared_traffic()? {
            for (count, more) in back.dropped.iter_mut().zip(bus.dropped) {
                *count += more;
            }
        }
        Ok(Some([there, back]))
    }
}

/// The number of a node in the network of each link.
fn host(role: Role) -> u8 {
    1 + role as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_no_lab_imitates_is_refused_before_anything_is_built() {
        for (text, technology) in
            [("ib:4X-HDR", "InfiniBand without IP"), ("rocev2:25G", "RDMA over Ethernet")]
        {
            let error = Lab::build(&[text.parse::<Link>().unwrap().into()], 1, None)
                .unwrap_err()
                .to_string();
            assert_eq!(
                error,
                format!(
                    "`{text}`: the lab on this machine emulates no {technology}; use ethernet:RATE, \
                     ipoib:4X-SDR or veth, or name a host that has one and --link {text}"
                )
            );
        }
        assert!(check_emulated("ethernet:10G".parse().unwrap()).is_ok());
    }
}
