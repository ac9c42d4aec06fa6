//! The two-node lab: one veth pair for each link, shaped where the link has a wire.
//!
//! ```text
//!   client ── link0 10.71.0.1, fd71:0::1 ────────── link0 10.71.0.2, fd71:0::2 ── server
//!          └─ link1 10.71.1.1, fd71:1::1 ────────── link1 10.71.1.2, fd71:1::2 ─┘
//! ```

use std::net::IpAddr;

use fabricmark_wire::{Family, Link};

use crate::namespace::Namespace;
use crate::shaper::Shaper;
use crate::tool::{self, LabError};

/// The two ends of every link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Starts flows.
    Client,
    /// Answers them.
    Server,
}

impl End {
    /// The node's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Where a node is attached to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Network device in the node's namespace.
    pub device: String,
    /// The node's address on the link.
    pub address: IpAddr,
}

/// Lets TCP hand single segments to a shaped link. The shaper cuts super-packets itself, but that
/// costs so much that TCP over `ethernet:10G,mtu=9000` stays at 4.8 to 5.7 Gbit/s from 16 KiB writes
/// on; with single segments it reaches 9.80 to 9.89 (`docs/measured.md`).
const SEGMENT_BY_SEGMENT: &str = "gso_max_segs 1";

/// Links are numbered by one byte of their IPv4 addresses.
pub(crate) const LINKS_MAX: usize = 256;

/// Refuses what a veth pair and a token bucket cannot imitate.
fn check_emulated(link: Link) -> Result<(), LabError> {
    let technology = match link {
        Link::Loopback | Link::Veth { .. } | Link::Ethernet { .. } => return Ok(()),
        Link::Ipoib(_) | Link::Ib(_) => "InfiniBand",
        Link::RoceV1 { .. } | Link::RoceV2 { .. } => "RDMA over Ethernet",
    };
    Err(LabError::NotEmulated { link, technology })
}

/// Two namespaces with a veth pair for each link.
#[derive(Debug)]
pub struct Lab {
    links: Vec<Link>,
    client: Namespace,
    server: Namespace,
}

impl Lab {
    /// Builds the lab. Needs the right to make networks (see [`crate::acquire`]).
    pub fn build(links: &[Link]) -> Result<Self, LabError> {
        if links.len() > LINKS_MAX {
            return Err(LabError::TooManyLinks { asked: links.len() });
        }
        for &link in links {
            check_emulated(link)?;
        }
        let lab =
            Self { links: links.to_vec(), client: Namespace::new()?, server: Namespace::new()? };
        let server_path = lab.server.path();
        let mut pairs = String::from("link set lo up\n");
        for (index, link) in links.iter().enumerate() {
            let mtu = link.mtu();
            pairs += &format!(
                "link add link{index} mtu {mtu} type veth peer name link{index} mtu {mtu} \
                 netns {server_path}\n"
            );
        }
        tool::run(&lab.client, "ip", &["-batch", "-"], &pairs)?;
        for end in [End::Client, End::Server] {
            let mut addresses = String::from("link set lo up\n");
            for (index, link) in links.iter().enumerate() {
                for (family, bits) in [(Family::V4, 24), (Family::V6, 64)] {
                    let Attachment { device, address } = lab.attach(end, index, family);
                    // A lab has no other node, so there is no duplicate address to wait for.
                    let nodad = if family == Family::V6 { " nodad" } else { "" };
                    addresses += &format!("addr add {address}/{bits} dev {device}{nodad}\n");
                }
                if Shaper::of(link).is_some() {
                    addresses += &format!("link set link{index} {SEGMENT_BY_SEGMENT}\n");
                }
                addresses += &format!("link set link{index} up\n");
            }
            tool::run(lab.namespace(end), "ip", &["-batch", "-"], &addresses)?;
            for (index, link) in links.iter().enumerate() {
                if let Some(shaper) = Shaper::of(link) {
                    let words = shaper.words();
                    let device = format!("link{index}");
                    let mut arguments = vec!["qdisc", "add", "dev", &device, "root"];
                    arguments.extend(words.split(' '));
                    tool::run(lab.namespace(end), "tc", &arguments, "")?;
                }
            }
        }
        Ok(lab)
    }

    /// The namespace of a node.
    pub fn namespace(&self, end: End) -> &Namespace {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    /// The place of a link in this lab.
    pub fn link(&self, link: &Link) -> Option<usize> {
        self.links.iter().position(|known| known == link)
    }

    /// Where a node is attached to a link, by the link's place.
    pub fn attach(&self, end: End, link: usize, family: Family) -> Attachment {
        let host = match end {
            End::Client => 1,
            End::Server => 2,
        };
        let number = u16::try_from(link).unwrap_or(u16::MAX);
        let address = match family {
            Family::V4 => IpAddr::from([10, 71, number as u8, host]),
            Family::V6 => IpAddr::from([0xfd71, number, 0, 0, 0, 0, 0, u16::from(host)]),
        };
        Attachment { device: format!("link{link}"), address }
    }

    /// Packets that the queue in front of a link has dropped so far, both directions.
    pub fn queue_drops(&self, link: usize) -> Result<u64, LabError> {
        let mut drops = 0;
        for end in [End::Client, End::Server] {
            let device = format!("link{link}");
            let arguments = ["-s", "-j", "qdisc", "show", "dev", &device];
            let text = tool::run(self.namespace(end), "tc", &arguments, "")?;
            let queues: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let counts = queues.as_array().into_iter().flatten();
            drops += counts.filter_map(|queue| queue["drops"].as_u64()).sum::<u64>();
        }
        Ok(drops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_no_lab_imitates_is_refused_before_anything_is_built() {
        for (text, technology) in [
            ("ipoib:4X-FDR", "InfiniBand"),
            ("ib:4X-HDR", "InfiniBand"),
            ("rocev2:25G", "RDMA over Ethernet"),
        ] {
            let error = Lab::build(&[text.parse().unwrap()]).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`{text}`: the lab on this machine emulates no {technology}; use ethernet:RATE or \
                     veth, or name a host that has one and --link {text}"
                )
            );
        }
        assert!(check_emulated("ethernet:10G".parse().unwrap()).is_ok());
    }
}
