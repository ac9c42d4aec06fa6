//! The two-node lab: a veth pair for each link, shaped where the link has a wire, or a pair of TUN devices
//! with the emulator between them.
//!
//! ```text
//!   client ── link0 10.71.0.1, fd71:0::1 ────────── link0 10.71.0.2, fd71:0::2 ── server
//!          └─ link1 10.71.1.1, fd71:1::1 ────────── link1 10.71.1.2, fd71:1::2 ─┘
//! ```

use std::net::IpAddr;
use std::time::Duration;

use fabricmark_link::{LinkWords, TokenBucket};
use fabricmark_plan::Role;
use fabricmark_wire::{Family, Link, MTU_MIN};

use crate::backpressure;
use crate::emulated::Emulated;
use crate::namespace::Namespace;
use crate::path::Traffic;
use crate::tool::{self, LabError};
use crate::wiring::Wiring;

/// Where a node is attached to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Network device in the node's namespace.
    pub device: String,
    /// The node's address on the link.
    pub address: IpAddr,
}

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
    /// Behind which each link is, where it is emulated.
    emulated: Vec<Option<Emulated>>,
    client: Namespace,
    server: Namespace,
}

impl Lab {
    /// Builds the lab. Needs the right to make networks (see [`crate::acquire`]). The chance of
    /// emulators is drawn from `seed`; their threads stay on the processor `cpu`, where one is named.
    pub fn build(links: &[Wiring], seed: u64, cpu: Option<u32>) -> Result<Self, LabError> {
        if links.len() > LINKS_MAX {
            let asked = links.len();
            return Err(LabError::Input(format!(
                "a lab has at most {LINKS_MAX} links, the plan names {asked}"
            )));
        }
        for wiring in links.iter().filter(|wiring| wiring.words.is_none()) {
            check_emulated(wiring.link)?;
        }
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        client.forget_fragments()?;
        server.forget_fragments()?;
        let server_path = server.path();
        let mut pairs = String::from("link set lo up\n");
        let mut emulated = Vec::new();
        for (index, Wiring { link, words, single, bus }) in links.iter().enumerate() {
            let name = device(index);
            emulated.push(match words {
                Some(words) => Some(Emulated::build(
                    &name,
                    [&client, &server],
                    (&backpressure::words_behind(*link, words), *bus),
                    *single,
                    seed,
                    cpu,
                )?),
                None => {
                    let mtu = link.mtu();
                    pairs += &format!(
                        "link add {name} mtu {mtu} type veth peer name {name} mtu {mtu} \
                         netns {server_path}\n"
                    );
                    None
                }
            });
        }
        tool::run(&client, "ip", &["-batch", "-"], &pairs)?;
        let lab = Self { links: links.to_vec(), emulated, client, server };
        for role in [Role::Client, Role::Server] {
            lab.set_up(role)?;
        }
        Ok(lab)
    }

    /// Gives the devices of a node their addresses and queues, and switches them on.
    fn set_up(&self, role: Role) -> Result<(), LabError> {
        let mut text = String::from("link set lo up\n");
        for (index, Wiring { link, words, single, .. }) in self.links.iter().enumerate() {
            let name = device(index);
            for (family, bits) in [(Family::V4, 24), (Family::V6, 64)] {
                let address = self.attach(role, index, family).address;
                // A lab has no other node, so there is no duplicate address to wait for.
                let nodad = if family == Family::V6 { " nodad" } else { "" };
                // IPv6 does not live on a device of a smaller MTU.
                let mtu = words.as_ref().map_or(link.mtu(), LinkWords::mtu);
                if family == Family::V4 || mtu >= MTU_MIN {
                    text += &format!("addr add {address}/{bits} dev {name}{nodad}\n");
                }
            }
            match words {
                Some(words) => text += &Emulated::set_up(&name, words, *single),
                None if TokenBucket::of(link).is_some() => {
                    text += &format!("link set dev {name} {SEGMENT_BY_SEGMENT}\n");
                }
                None => {}
            }
            text += &format!("link set dev {name} up\n");
        }
        tool::run(self.namespace(role), "ip", &["-batch", "-"], &text)?;
        for (index, Wiring { link, words, .. }) in self.links.iter().enumerate() {
            let queue = match words {
                Some(words) => backpressure::words(*link, words),
                None => TokenBucket::of(link).map(|bucket| bucket.words(SENDERS_WAIT)),
            };
            if let Some(words) = queue {
                let device = device(index);
                let mut arguments = vec!["qdisc", "add", "dev", &device, "root"];
                arguments.extend(words.split(' '));
                tool::run(self.namespace(role), "tc", &arguments, "")?;
            }
        }
        Ok(())
    }

    /// The namespace of a node.
    pub fn namespace(&self, role: Role) -> &Namespace {
        match role {
            Role::Client => &self.client,
            Role::Server => &self.server,
        }
    }

    /// The place of a link in this lab.
    pub fn link(&self, link: &Wiring) -> Option<usize> {
        self.links.iter().position(|known| known == link)
    }

    /// Where a node is attached to a link, by the link's place.
    pub fn attach(&self, role: Role, link: usize, family: Family) -> Attachment {
        let host = match role {
            Role::Client => 1,
            Role::Server => 2,
        };
        let number = u16::try_from(link).unwrap_or(u16::MAX);
        let address = match family {
            Family::V4 => IpAddr::from([10, 71, number as u8, host]),
            Family::V6 => IpAddr::from([0xfd71, number, 0, 0, 0, 0, 0, u16::from(host)]),
        };
        Attachment { device: device(link), address }
    }

    /// Packets that a link has dropped so far, both directions: in the queue in front of it, or
    /// wherever its emulator was asked to, or could not help it.
    pub fn drops(&self, link: usize) -> Result<u64, LabError> {
        let lost = self.traffic(link)?.into_iter().flatten().map(|way| way.lost_packets());
        let mut drops = lost.sum();
        let Wiring { link: technology, words, .. } = &self.links[link];
        if words.as_ref().is_some_and(|words| backpressure::words(*technology, words).is_none()) {
            return Ok(drops);
        }
        for role in [Role::Client, Role::Server] {
            let device = device(link);
            let arguments = ["-s", "-j", "qdisc", "show", "dev", &device];
            let text = tool::run(self.namespace(role), "tc", &arguments, "")?;
            let queues: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let counts = queues.as_array().into_iter().flatten();
            drops += counts.filter_map(|queue| queue["drops"].as_u64()).sum::<u64>();
        }
        Ok(drops)
    }

    /// Waits until what an end has sent over an emulated link has left it, at most for so long.
    pub fn settle(&self, link: usize, from: Role, within: Duration) -> Result<(), LabError> {
        let way = if from == Role::Client { 0 } else { 1 };
        self.emulated[link].as_ref().map_or(Ok(true), |emulated| emulated.settle(way, within))?;
        Ok(())
    }

    /// What happened on an emulated link so far, there and back; `None` for another one.
    pub fn traffic(&self, link: usize) -> Result<Option<[Way; 2]>, LabError> {
        let Some(emulated) = &self.emulated[link] else { return Ok(None) };
        let mut ways = emulated.traffic()?.into_iter();
        let mut way = |role: Role| -> Result<Way, LabError> {
            let device_drops = self.namespace(role).sent_drops(&device(link))?;
            Ok(Way { traffic: ways.next().unwrap_or_default(), device_drops })
        };
        Ok(Some([way(Role::Client)?, way(Role::Server)?]))
    }
}

/// One direction of an emulated link.
#[derive(Clone, Debug)]
pub struct Way {
    /// What the emulator counted.
    pub traffic: Traffic,
    /// Packets that the sending device dropped since the emulator did not take them in time.
    pub device_drops: u64,
}

impl Way {
    /// Packets that went in and will not come out.
    pub fn lost_packets(&self) -> u64 {
        let Traffic { dropped, refused, .. } = &self.traffic;
        let dropped: u64 = dropped.iter().map(|count| count.packets).sum();
        dropped + refused.packets + self.device_drops
    }
}

/// The name of a link's devices.
fn device(link: usize) -> String {
    format!("link{link}")
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
