//! The network interfaces of this host: their links, settings and hardware. `fabricmark hosts show` prints them.
//!
//! Links, addresses and settings come from the kernel by netlink, in the network namespace of the calling thread.
//! Hardware comes from sysfs, which shows the devices of the namespace in which it was mounted.

mod address;
mod device;
mod files;
mod link;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

pub use fabricmark_ethtool::netlink::NetlinkError;
use fabricmark_record::{
    Channels, Coalescing, Interface, InterfaceFacts, Ipoib, OffloadState, Offloads, Rings,
    Technology,
};

use crate::doctor::tree::Tree;
use device::{Device, device, devices};
use link::Link;

pub use text::text;

/// All interfaces of the network namespace of the calling thread.
pub fn all() -> Result<Vec<Interface>, NetlinkError> {
    Ok(complete(Path::new("/"), &devices()?))
}

/// The interface of this name in the network namespace of the calling thread, as records describe it. `None` if there
/// is none, or if the kernel does not answer.
pub fn facts(name: &str) -> Option<InterfaceFacts> {
    Some(described(Path::new("/"), &device(name).ok()?))
}

fn described(root: &Path, device: &Device) -> InterfaceFacts {
    // Only IPoIB has its rate from an RDMA port. To read the GIDs of RoCE takes hundreds of files.
    let ports = match device.link.hardware {
        libc::ARPHRD_INFINIBAND => ports(root),
        _ => Vec::new(),
    };
    let hardware = files::hardware(&Tree(root.to_owned()), &device.link, &ports);
    (&interface(device, hardware)).into()
}

fn ports(root: &Path) -> Vec<fabricmark_rdma::Port> {
    fabricmark_rdma::ports_in(&root.join("sys/class/infiniband"))
}

/// Adds what the files below `root` say to what the kernel reports about `devices`.
fn complete(root: &Path, devices: &[Device]) -> Vec<Interface> {
    let tree = Tree(root.to_owned());
    let ports = ports(root);
    let name_of = |index: Option<u32>| {
        let found = devices.iter().find(|device| Some(device.link.index) == index);
        found.map(|device| device.link.name.clone())
    };
    let mut interfaces: Vec<Interface> = devices
        .iter()
        .map(|device| {
            let hardware = files::hardware(&tree, &device.link, &ports);
            let has_hardware = hardware.is_there;
            Interface {
                irqs: if has_hardware { files::irqs(&tree, &device.link.name) } else { Vec::new() },
                lower: name_of(device.link.lower),
                master: name_of(device.link.master),
                ..interface(device, hardware)
            }
        })
        .collect();
    interfaces.sort_by_key(|interface| interface.index);
    interfaces
}

/// An interface without the names of other interfaces and without interrupts.
fn interface(device: &Device, hardware: files::Hardware) -> Interface {
    let Device { link, addresses, driver, features, coalescing, rings, channels, speed } = device;
    let driver = driver.clone().unwrap_or_default();
    let driver_name = driver.name.or(hardware.driver);
    let technology = technology(link, driver_name.as_deref(), hardware.is_there);
    let has_link = matches!(technology, Technology::Ethernet | Technology::Virtio);
    let speed = if has_link { *speed } else { fabricmark_ethtool::Link::default() };
    let infiniband = hardware.infiniband.filter(|_| technology == Technology::Ipoib);
    let offload = |offload: fabricmark_ethtool::Offload| {
        let (is_on, is_fixed) = (offload.is_on(features)?, offload.is_fixed(features)?);
        Some(OffloadState { is_on, is_fixed })
    };
    Interface {
        name: link.name.clone(),
        index: link.index,
        technology,
        kind: link.kind.clone(),
        is_up: link.flags & libc::IFF_UP as u32 != 0,
        state: link.state.and_then(state).map(str::to_owned),
        hardware_address: Some(link.address()).filter(|address| !address.is_empty()),
        addresses: addresses.clone(),
        mtu_bytes: link.mtu,
        mtu_min_bytes: link.mtu_min,
        mtu_max_bytes: link.mtu_max.filter(|&max| max != 0),
        speed_bps: infiniband.as_ref().map(|rate| rate.bps).or(speed.speed_bps),
        lanes: infiniband.as_ref().map(|rate| rate.lanes).or(speed.lanes),
        signalling: infiniband.map(|rate| rate.signalling),
        duplex: speed.duplex.map(|duplex| duplex.name().to_owned()),
        connector: speed.connector.map(|connector| connector.name().to_owned()),
        ipoib: (technology == Technology::Ipoib).then(|| Ipoib {
            mode: link.mode.and_then(mode).map(str::to_owned).or(hardware.mode),
            pkey: link.pkey.or(hardware.pkey),
        }),
        rdma: hardware.rdma,
        lower: None,
        master: None,
        qdisc: link.qdisc.clone(),
        rx_queues: link.rx_queues,
        tx_queues: link.tx_queues,
        offloads: Offloads {
            tso: offload(fabricmark_ethtool::Offload::Tso),
            gso: offload(fabricmark_ethtool::Offload::Gso),
            gro: offload(fabricmark_ethtool::Offload::Gro),
            lro: offload(fabricmark_ethtool::Offload::Lro),
            rx_checksum: offload(fabricmark_ethtool::Offload::RxChecksum),
            tx_checksum: offload(fabricmark_ethtool::Offload::TxChecksum),
        },
        coalescing: coalescing.map(coalescing_of),
        rings: rings.map(rings_of),
        channels: channels.map(channels_of),
        irqs: Vec::new(),
        numa_node: hardware.numa_node,
        pci: hardware.pci,
        driver: driver_name,
        firmware: driver.firmware.or(hardware.firmware),
    }
}

fn technology(link: &Link, driver: Option<&str>, has_hardware: bool) -> Technology {
    match (link.hardware, link.kind.as_deref()) {
        (libc::ARPHRD_LOOPBACK, _) => Technology::Loopback,
        (libc::ARPHRD_INFINIBAND, _) => Technology::Ipoib,
        (_, Some("veth")) => Technology::Veth,
        (libc::ARPHRD_ETHER, Some("tun")) => Technology::Tap,
        (_, Some("tun")) => Technology::Tun,
        (_, Some("bridge")) => Technology::Bridge,
        (_, Some(_)) => Technology::Virtual,
        (libc::ARPHRD_ETHER, None) if driver == Some("virtio_net") => Technology::Virtio,
        // In a namespace whose devices sysfs does not show, a driver without a link kind is that of hardware.
        (libc::ARPHRD_ETHER, None) if has_hardware || driver.is_some() => Technology::Ethernet,
        _ => Technology::Virtual,
    }
}

/// The name of an operational state, `IF_OPER_*` of linux/if.h, as in sysfs.
fn state(number: u8) -> Option<&'static str> {
    const STATES: [&str; 7] =
        ["unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"];
    STATES.get(usize::from(number)).copied()
}

/// The name of an IPoIB mode, `IPOIB_MODE_*` of linux/if_link.h.
fn mode(number: u16) -> Option<&'static str> {
    ["datagram", "connected"].get(usize::from(number)).copied()
}

fn coalescing_of(of: fabricmark_ethtool::Coalescing) -> Coalescing {
    let ns = |usecs: Option<u32>| usecs.map(|usecs| u64::from(usecs) * 1000);
    Coalescing {
        rx_delay_ns: ns(of.rx_usecs),
        rx_frames: of.rx_frames,
        tx_delay_ns: ns(of.tx_usecs),
        tx_frames: of.tx_frames,
        adaptive_rx: of.adaptive_rx,
        adaptive_tx: of.adaptive_tx,
    }
}

fn rings_of(of: fabricmark_ethtool::Rings) -> Rings {
    Rings { rx: of.rx, rx_max: of.rx_max, tx: of.tx, tx_max: of.tx_max }
}

fn channels_of(of: fabricmark_ethtool::Channels) -> Channels {
    Channels {
        rx: of.rx,
        rx_max: of.rx_max,
        tx: of.tx,
        tx_max: of.tx_max,
        combined: of.combined,
        combined_max: of.combined_max,
    }
}
