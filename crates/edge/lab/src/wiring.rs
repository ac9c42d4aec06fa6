//! The link of a point as a topology: client and server, and one link between them.

use std::collections::BTreeMap;

use fabricmark_link::{HostBus, LinkOptions};
use fabricmark_plan::{Offload, Point, Role};
use fabricmark_units::Nanos;
use fabricmark_wire::Link;

use crate::backpressure;
use crate::qdisc::Backend;
use crate::tool::LabError;
use crate::topology::networks::Networks;
use crate::topology::{Adapter, Node, Topology, Wire};

/// The link of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Wiring {
    /// Technology of the link.
    pub link: Link,
    /// Options of the emulated link in both directions. `None`: a veth pair, behind a token bucket if the
    /// technology has a rate.
    pub options: Option<LinkOptions>,
    /// Where super-packets of up to 64 KiB are segmented, and whether they are.
    pub offload: Offload,
    /// Host bus of the client; `None` without one.
    pub bus: Option<HostBus>,
}

impl Wiring {
    /// The link of a point.
    pub fn of(point: &Point) -> Self {
        let offload = point.offload.unwrap_or(Offload::On);
        Self { link: point.link, options: point.link_options(), offload, bus: point.host_bus() }
    }

    /// The topology of this link; `name` is that of the link and of its devices.
    ///
    /// # Errors
    ///
    /// A technology that neither veth devices nor the emulator imitate.
    pub fn topology(&self, name: &str) -> Result<Topology, LabError> {
        let (backend, options, adapter) = match &self.options {
            Some(options) => {
                let queue = backpressure::queue(self.link, options);
                let adapter = Adapter { offload: self.offload, queue };
                (Backend::Emulator, backpressure::options_behind(self.link, options), Some(adapter))
            }
            None => {
                let (backend, options) = kernel_options(self.link)?;
                (backend, options, None)
            }
        };
        let mut sysctl = BTreeMap::new();
        if options.delay() > Nanos(0) {
            let buffers = TCP_BUFFERS.map(|(key, value)| (key.to_owned(), value.to_owned()));
            sysctl.extend(buffers);
        }
        let node = |bus| Node { bus, sysctl: sysctl.clone(), ..Node::default() };
        let between = [Role::Client, Role::Server].map(|role| role.name().to_owned());
        let [client, server] = between.clone();
        let links = vec![Wire {
            name: name.to_owned(),
            between,
            options: [options.clone(), options],
            offload: None,
            backend,
            adapter,
        }];
        let junctions = BTreeMap::new();
        let networks = Networks::of(&links, &junctions).map_err(LabError::Input)?;
        let nodes = BTreeMap::from([(client, node(self.bus)), (server, node(None))]);
        Ok(Topology { title: None, nodes, junctions, links, networks })
    }
}

impl From<Link> for Wiring {
    fn from(link: Link) -> Self {
        Self { link, options: None, offload: Offload::On, bus: None }
    }
}

/// Largest buffers for autotuning: the most that the kernel accepts (net/ipv4/sysctl_net_ipv4.c), so that they do
/// not limit a long fat path. Initial sizes are Linux's defaults.
const TCP_BUFFERS: [(&str, &str); 2] = [
    ("net.ipv4.tcp_rmem", "4096 131072 2147483647"),
    ("net.ipv4.tcp_wmem", "4096 16384 2147483647"),
];

/// The queue before a token bucket: larger than the send buffer of any socket, so that senders wait and no packet
/// is dropped.
const QUEUE: &str = "8MiB";

/// Backend and link options of a link without the emulator.
fn kernel_options(link: Link) -> Result<(Backend, LinkOptions), LabError> {
    let (backend, options) = match link {
        Link::Loopback | Link::Veth { .. } => (Backend::Veth, format!("mtu={}", link.mtu())),
        Link::Ethernet { .. } => (Backend::Tbf, format!("link={link} queue={QUEUE}")),
        Link::Ipoib(_) => return Err(refusal(link, "IPoIB by a token bucket")),
        Link::Ib(_) => return Err(refusal(link, "InfiniBand without IP")),
        Link::RoceV1 { .. } | Link::RoceV2 { .. } => {
            return Err(refusal(link, "RDMA over Ethernet"));
        }
    };
    let options = options.parse().map_err(|error| LabError::Input(format!("`{link}`: {error}")))?;
    Ok((backend, options))
}

fn refusal(link: Link, technology: &str) -> LabError {
    LabError::Input(format!(
        "`{link}`: a lab does not emulate {technology}; use ethernet:RATE, ipoib:4X-SDR or veth, \
         or a host with this link and --link {link}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::Qdiscs;

    fn topology(link: &str) -> Result<Topology, LabError> {
        Wiring::from(link.parse::<Link>().unwrap()).topology("link0")
    }

    #[test]
    fn a_link_that_the_lab_cannot_imitate_is_refused() {
        for (text, technology) in
            [("ib:4X-HDR", "InfiniBand without IP"), ("rocev2:25G", "RDMA over Ethernet")]
        {
            let error = topology(text).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`{text}`: a lab does not emulate {technology}; use ethernet:RATE, \
                     ipoib:4X-SDR or veth, or a host with this link and --link {text}"
                )
            );
        }
    }

    #[test]
    fn ethernet_is_a_token_bucket_before_which_senders_wait_and_veth_has_no_queue() {
        let of = |link: &str| {
            let topology = topology(link).unwrap();
            let wire = &topology.links[0];
            Qdiscs::of(wire.backend, &wire.options[0]).unwrap()
        };
        let commands = of("ethernet:1G").unwrap().commands("link0", true);
        assert_eq!(
            commands[0].words,
            "qdisc replace dev link0 root handle 1: tbf rate 1000000000bit burst 65536 limit 8388608 \
             overhead 24 mpu 84 peakrate 1000gbit mtu 1600"
        );
        assert_eq!(of("veth,mtu=9000"), None);
        assert_eq!(topology("veth,mtu=9000").unwrap().links[0].options[1].mtu(), 9000);
    }
}
