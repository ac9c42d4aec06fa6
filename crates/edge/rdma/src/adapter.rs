//! An open adapter, found by an IP address of this machine.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use crate::abi::{self, PortAttr};
use crate::sys::{self, Context, Domain, Region};
use crate::sysfs::{Gid, GidKind, LinkLayer, Port, ports};

/// Why RDMA is unavailable at an address, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// libibverbs cannot be loaded, with the loader's error.
    #[error(
        "RDMA unavailable: libibverbs cannot be loaded ({0}): install it (Debian, Ubuntu: apt-get install \
         libibverbs1 ibverbs-providers)"
    )]
    NoLibrary(String),
    /// The kernel has no adapter.
    #[error(
        "RDMA unavailable: this machine has no adapter: run `modprobe rdma_rxe && rdma link add \
         rxe0 type rxe netdev DEVICE` as root, or use a guest kernel with Soft RoCE: fabricmark \
         lab guest -- COMMAND"
    )]
    NoAdapter,
    /// No adapter has the address.
    #[error(
        "RDMA unavailable: no adapter has the address {address}; known addresses: {known}; `rdma \
         link add rxe0 type rxe netdev DEVICE` adds Soft RoCE to a device"
    )]
    NoAddress {
        /// The requested address.
        address: IpAddr,
        /// Addresses of the existing adapters.
        known: String,
    },
    /// The port is down.
    #[error(
        "RDMA unavailable: port {number} of {adapter} is {state}: run `ip link set DEVICE up`, or \
         check its cable"
    )]
    Down {
        /// Name of the adapter.
        adapter: String,
        /// Number of the port, from 1.
        number: u8,
        /// State of the port, as the kernel reports it.
        state: String,
    },
    /// The adapter cannot be opened.
    #[error(
        "RDMA unavailable: {adapter} cannot be opened: {source}; check the permissions of \
         /dev/infiniband/uverbs*"
    )]
    Closed {
        /// Name of the adapter.
        adapter: String,
        /// Error of the system call.
        source: io::Error,
    },
}

/// An open adapter, with the port and the GID of an IP address.
#[derive(Debug)]
pub struct Adapter {
    pub(crate) domain: Arc<Domain>,
    pub(crate) attributes: PortAttr,
    /// The port of the address.
    pub port: Port,
    /// The GID of the address.
    pub gid: Gid,
}

impl Adapter {
    /// Opens the adapter of an address of this machine; `device` is the network device of the address.
    pub fn open(address: IpAddr, device: &str) -> Result<Self, Unavailable> {
        let ports = ports();
        let (port, gid) = find(&ports, address, device)?;
        sys::load().map_err(Unavailable::NoLibrary)?;
        let closed = |source| Unavailable::Closed { adapter: port.adapter.clone(), source };
        let context = Arc::new(Context::open(&port.adapter).map_err(closed)?);
        let attributes = context.port(port.number).map_err(closed)?;
        let domain = Arc::new(Domain::new(context).map_err(closed)?);
        Ok(Self { domain, attributes, port: port.clone(), gid: gid.clone() })
    }

    /// Length of the longest message, in bytes.
    pub fn message_max(&self) -> u64 {
        self.attributes.max_msg_sz.into()
    }

    /// Registers `bytes` bytes of new memory, all 0, which the other end may write.
    pub fn region(&self, bytes: usize) -> io::Result<Region> {
        Region::new(Arc::clone(&self.domain), bytes, abi::ACCESS_WRITE)
    }

    /// As [`Self::region`], for memory that is also the target of RDMA READ and atomics. The adapter responds to these
    /// without the program, which cannot limit their rate.
    pub fn region_to_fetch(&self, bytes: usize) -> io::Result<Region> {
        Region::new(Arc::clone(&self.domain), bytes, abi::ACCESS_FETCH)
    }
}

/// Fails if an address of this machine belongs to no adapter; `device` is the network device of the address.
pub fn check_address(address: IpAddr, device: &str) -> Result<(), Unavailable> {
    find(&ports(), address, device).map(|_| ())
}

/// Largest packet payload of a port, in bytes; fails if its adapter cannot be opened.
pub fn packet_bytes(port: &Port) -> Result<usize, Unavailable> {
    sys::load().map_err(Unavailable::NoLibrary)?;
    let closed = |source| Unavailable::Closed { adapter: port.adapter.clone(), source };
    let context = Context::open(&port.adapter).map_err(closed)?;
    Ok(mtu_bytes(context.port(port.number).map_err(closed)?.active_mtu))
}

/// `enum ibv_mtu` in bytes.
pub(crate) fn mtu_bytes(code: u32) -> usize {
    128 << code.clamp(1, 5)
}

/// The port of an address, and its GID there. Of GIDs that are listed twice, the RoCEv2 one, which routers forward.
/// An IPoIB address belongs to the port of its device.
fn find<'a>(
    ports: &'a [Port],
    address: IpAddr,
    device: &str,
) -> Result<(&'a Port, &'a Gid), Unavailable> {
    if ports.is_empty() {
        return Err(Unavailable::NoAdapter);
    }
    let all = || ports.iter().flat_map(|port| port.gids.iter().map(move |gid| (port, gid)));
    let is_of = |(port, gid): &(&Port, &Gid)| match port.link_layer {
        LinkLayer::Ethernet => gid.ip() == address,
        LinkLayer::InfiniBand => gid.device.as_deref() == Some(device) || is_behind(port, device),
    };
    let found = all().filter(is_of).max_by_key(|(_, gid)| (gid.kind, std::cmp::Reverse(gid.index)));
    let Some((port, gid)) = found else {
        let known = all().filter(|(_, gid)| gid.kind == GidKind::RoceV2 || ports.len() == 1);
        let known: Vec<String> =
            known.map(|(port, gid)| format!("{} at {}", gid.ip(), port.adapter)).collect();
        return Err(Unavailable::NoAddress { address, known: known.join(", ") });
    };
    if !port.state.starts_with("ACTIVE") {
        let Port { adapter, number, state, .. } = port.clone();
        return Err(Unavailable::Down { adapter, number, state });
    }
    Ok((port, gid))
}

/// Whether a network device is that of IPoIB on a port.
fn is_behind(port: &Port, device: &str) -> bool {
    is_behind_in(Path::new("/sys/class/net"), port, device)
}

/// As [`is_behind`], by the network devices in this folder. `dev_port` is the number of the port from 0
/// (Documentation/ABI/testing/sysfs-class-net); without it the adapter has one.
fn is_behind_in(devices: &Path, port: &Port, device: &str) -> bool {
    let device = devices.join(device);
    let dev_port = fs::read_to_string(device.join("dev_port")).ok();
    let number = dev_port.and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0);
    device.join("device/infiniband").join(&port.adapter).is_dir()
        && u32::from(port.number) == number.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_of_an_adapter_has_the_device_with_its_number() {
        let devices = tempfile::tempdir().unwrap();
        for (device, number) in [("ib0", "0\n"), ("ib1", "1\n")] {
            let folder = devices.path().join(device);
            fs::create_dir_all(folder.join("device/infiniband/mlx4_0")).unwrap();
            fs::write(folder.join("dev_port"), number).unwrap();
        }
        let behind = |number, device| {
            let port = Port { number, ..port("mlx4_0", Vec::new()) };
            is_behind_in(devices.path(), &port, device)
        };
        assert_eq!([behind(1, "ib0"), behind(2, "ib0")], [true, false]);
        assert_eq!([behind(1, "ib1"), behind(2, "ib1")], [false, true]);
    }

    fn gid(index: u8, ip: &str, kind: GidKind) -> Gid {
        let bytes = match ip.parse().unwrap() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Gid { index, bytes, kind, device: None }
    }

    fn port(adapter: &str, gids: Vec<Gid>) -> Port {
        Port {
            adapter: adapter.to_owned(),
            number: 1,
            link_layer: LinkLayer::Ethernet,
            state: "ACTIVE".to_owned(),
            rate: String::new(),
            gids,
            numa_node: None,
        }
    }

    fn two() -> Vec<Port> {
        let first = vec![
            gid(0, "fe80::1", GidKind::InfiniBand),
            gid(1, "fe80::1", GidKind::RoceV2),
            gid(2, "10.9.0.1", GidKind::InfiniBand),
            gid(3, "10.9.0.1", GidKind::RoceV2),
        ];
        vec![port("rxe0", first), port("rxe1", vec![gid(0, "10.9.0.2", GidKind::RoceV2)])]
    }

    #[test]
    fn an_address_has_its_adapter_and_that_of_rocev2_is_taken() {
        let ports = two();
        for (address, adapter, index) in
            [("10.9.0.1", "rxe0", 3), ("10.9.0.2", "rxe1", 0), ("fe80::1", "rxe0", 1)]
        {
            let (port, gid) = find(&ports, address.parse().unwrap(), "v0").unwrap();
            assert_eq!((port.adapter.as_str(), gid.index), (adapter, index), "{address}");
        }
    }

    #[test]
    fn what_is_missing_is_said_with_what_mends_it() {
        let address = "10.9.0.3".parse().unwrap();
        let text = find(&two(), address, "v0").unwrap_err().to_string();
        assert!(
            text.contains("10.9.0.3; known addresses: fe80::1 at rxe0, 10.9.0.1 at rxe0, "),
            "{text}"
        );
        let text = find(&[], address, "v0").unwrap_err().to_string();
        assert!(text.contains("fabricmark lab guest"), "{text}");
        let mut down = two();
        down[1].state = "DOWN".to_owned();
        let text = find(&down, "10.9.0.2".parse().unwrap(), "v1").unwrap_err().to_string();
        assert!(text.contains("port 1 of rxe1 is DOWN"), "{text}");
    }

    #[test]
    fn an_mtu_is_a_power_of_two_from_256() {
        assert_eq!([1, 2, 3, 4, 5].map(mtu_bytes), [256, 512, 1024, 2048, 4096]);
    }
}
