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
use fabricmark_record::HostFacts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::doctor::tree::Tree;
use device::{Device, devices};
use link::Link;

pub use text::text;

/// A host and its network interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The machine.
    pub host: HostFacts,
    /// Network interfaces of one network namespace, in the order of their indexes.
    pub interfaces: Vec<Interface>,
}

/// The JSON Schema of [`Host`], ending in a newline.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Host);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}

/// A network interface. A value that the kernel or the driver does not report is null or an empty list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index in its network namespace.
    pub index: u32,
    /// What kind of device it is.
    pub technology: Technology,
    /// The kernel's name for the kind of a virtual device, such as `veth` or `vlan`.
    pub kind: Option<String>,
    /// Whether it is set up (IFF_UP).
    pub is_up: bool,
    /// Operational state (RFC 2863): `up`, `down`, `unknown`, `dormant`, `lowerlayerdown`, `testing` or `notpresent`.
    pub state: Option<String>,
    /// Hardware address, as bytes in hexadecimal with colons.
    pub hardware_address: Option<String>,
    /// IP addresses with the length of their prefix.
    pub addresses: Vec<String>,
    /// Maximum transmission unit.
    pub mtu_bytes: Option<u32>,
    /// Smallest MTU that can be set.
    pub mtu_min_bytes: Option<u32>,
    /// Largest MTU that can be set; null if there is no limit.
    pub mtu_max_bytes: Option<u32>,
    /// Speed of the link. For InfiniBand as the kernel rounds it: width times signalling rate. Null for virtual
    /// devices, whose drivers report an invented speed.
    pub speed_bps: Option<u64>,
    /// Lanes of the link: its width, for InfiniBand.
    pub lanes: Option<u32>,
    /// Signalling of an InfiniBand link: `SDR`, `DDR`, `QDR`, `FDR10`, `FDR`, `EDR`, `HDR`, `NDR` or `XDR`.
    pub signalling: Option<String>,
    /// Duplex mode: `full` or `half`.
    pub duplex: Option<String>,
    /// Connector, such as `fibre`.
    pub connector: Option<String>,
    /// Settings of an IPoIB interface.
    pub ipoib: Option<Ipoib>,
    /// Ports of RDMA devices on this interface: those with its hardware, or with its addresses (RoCE).
    pub rdma: Vec<RdmaPort>,
    /// Peer of a veth, or the interface below a virtual one, if that is in the same network namespace.
    pub lower: Option<String>,
    /// Bridge or bond of which it is a port.
    pub master: Option<String>,
    /// Root queueing discipline.
    pub qdisc: Option<String>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Send queues.
    pub tx_queues: Option<u32>,
    /// Offloads.
    pub offloads: Offloads,
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Sizes of the rings of each queue.
    pub rings: Option<Rings>,
    /// Numbers of channels: queues with an interrupt.
    pub channels: Option<Channels>,
    /// Interrupts of its hardware. Ports of one PCI function share them.
    pub irqs: Vec<Irq>,
    /// NUMA node of its hardware; null if the machine has only one.
    pub numa_node: Option<u32>,
    /// Its PCI function.
    pub pci: Option<Pci>,
    /// Driver.
    pub driver: Option<String>,
    /// Firmware of its hardware, in the driver's notation.
    pub firmware: Option<String>,
}

/// Kind of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Technology {
    /// Ethernet hardware.
    Ethernet,
    /// IP over InfiniBand (RFC 4391).
    Ipoib,
    /// A network card that a virtual machine gets from its hypervisor.
    Virtio,
    /// One end of a pair of virtual Ethernet devices (veth(4)).
    Veth,
    /// A TUN device, whose packets a program reads and writes.
    Tun,
    /// A TAP device, whose frames a program reads and writes.
    Tap,
    /// A bridge.
    Bridge,
    /// The loopback.
    Loopback,
    /// Another device without hardware of its own; `kind` is its kind.
    Virtual,
}

/// Settings of an IPoIB interface (Documentation/infiniband/ipoib.rst in the kernel).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ipoib {
    /// Mode: `datagram` (unreliable datagrams) or `connected` (reliable connections, MTU up to 65,520 bytes).
    pub mode: Option<String>,
    /// Partition key.
    pub pkey: Option<u16>,
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaPort {
    /// Name of the RDMA device, such as `mlx5_0`.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// Protocols of its GIDs: `InfiniBand`, `RoCE v1`, `RoCE v2`.
    pub protocols: Vec<String>,
    /// State, such as `ACTIVE`.
    pub state: String,
    /// Rate as the kernel reports it, such as `40 Gb/sec (4X QDR)`.
    pub rate: String,
}

/// State of an offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OffloadState {
    /// Whether one of its features is on.
    pub is_on: bool,
    /// Whether none of its features can be changed.
    pub is_fixed: bool,
}

/// Offloads (ethtool(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offloads {
    /// TCP segmentation by the device.
    pub tso: Option<OffloadState>,
    /// Segmentation by the kernel just before the driver.
    pub gso: Option<OffloadState>,
    /// Merging of received segments by the kernel.
    pub gro: Option<OffloadState>,
    /// Merging of received segments by the device.
    pub lro: Option<OffloadState>,
    /// Verification of received checksums by the device.
    pub rx_checksum: Option<OffloadState>,
    /// Computation of sent checksums by the device.
    pub tx_checksum: Option<OffloadState>,
}

/// Interrupt coalescing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coalescing {
    /// Delay of the interrupt after a frame was received (`rx-usecs`).
    pub rx_delay_ns: Option<u64>,
    /// Received frames after which the interrupt is not delayed further (`rx-frames`).
    pub rx_frames: Option<u32>,
    /// Delay of the interrupt after a frame was sent (`tx-usecs`).
    pub tx_delay_ns: Option<u64>,
    /// Sent frames after which the interrupt is not delayed further (`tx-frames`).
    pub tx_frames: Option<u32>,
    /// Whether the device adapts the delay of receive interrupts to the load (`adaptive-rx`).
    pub adaptive_rx: Option<bool>,
    /// Whether the device adapts the delay of send interrupts to the load (`adaptive-tx`).
    pub adaptive_tx: Option<bool>,
}

/// Sizes of rings, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rings {
    /// Receive ring.
    pub rx: Option<u32>,
    /// Largest receive ring.
    pub rx_max: Option<u32>,
    /// Send ring.
    pub tx: Option<u32>,
    /// Largest send ring.
    pub tx_max: Option<u32>,
}

/// Numbers of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Channels {
    /// Channels that only receive.
    pub rx: Option<u32>,
    /// Largest number of channels that only receive.
    pub rx_max: Option<u32>,
    /// Channels that only send.
    pub tx: Option<u32>,
    /// Largest number of channels that only send.
    pub tx_max: Option<u32>,
    /// Channels that send and receive.
    pub combined: Option<u32>,
    /// Largest number of channels that send and receive.
    pub combined_max: Option<u32>,
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Irq {
    /// Number, as in `/proc/interrupts`.
    pub number: u32,
    /// Name of its handler.
    pub name: Option<String>,
    /// CPUs that may handle it (`smp_affinity_list`).
    pub cpus: Vec<u32>,
    /// CPUs that handle it now (`effective_affinity_list`).
    pub effective_cpus: Vec<u32>,
}

/// A PCI function and its PCI Express link; a device that a hypervisor provides has no such link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pci {
    /// Domain, bus, device and function, such as `0000:03:00.0`.
    pub address: String,
    /// Transfers per second of each lane: 8,000,000,000 for PCIe 3.0.
    pub transfers_per_s: Option<u64>,
    /// Lanes in use.
    pub lanes: Option<u32>,
    /// Largest number of transfers per second of each lane that the device supports.
    pub transfers_per_s_max: Option<u64>,
    /// Largest number of lanes that the device supports.
    pub lanes_max: Option<u32>,
}

impl Interface {
    /// All interfaces of the network namespace of the calling thread, on the host whose files are below `root`.
    pub fn all(root: &Path) -> Result<Vec<Self>, NetlinkError> {
        Ok(complete(root, &devices()?))
    }
}

/// Adds what the files below `root` say to what the kernel reports about `devices`.
fn complete(root: &Path, devices: &[Device]) -> Vec<Interface> {
    let tree = Tree(root.to_owned());
    let ports = fabricmark_rdma::ports_in(&root.join("sys/class/infiniband"));
    let name_of = |index: Option<u32>| {
        let found = devices.iter().find(|device| Some(device.link.index) == index);
        found.map(|device| device.link.name.clone())
    };
    let mut interfaces: Vec<Interface> = devices
        .iter()
        .map(|device| {
            let hardware = files::hardware(&tree, &device.link, &ports);
            Interface {
                lower: name_of(device.link.lower),
                master: name_of(device.link.master),
                ..interface(device, hardware)
            }
        })
        .collect();
    interfaces.sort_by_key(|interface| interface.index);
    interfaces
}

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
        coalescing: coalescing.map(Coalescing::from),
        rings: rings.map(Rings::from),
        channels: channels.map(Channels::from),
        irqs: hardware.irqs,
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

impl From<fabricmark_ethtool::Coalescing> for Coalescing {
    fn from(of: fabricmark_ethtool::Coalescing) -> Self {
        let ns = |usecs: Option<u32>| usecs.map(|usecs| u64::from(usecs) * 1000);
        Self {
            rx_delay_ns: ns(of.rx_usecs),
            rx_frames: of.rx_frames,
            tx_delay_ns: ns(of.tx_usecs),
            tx_frames: of.tx_frames,
            adaptive_rx: of.adaptive_rx,
            adaptive_tx: of.adaptive_tx,
        }
    }
}

impl From<fabricmark_ethtool::Rings> for Rings {
    fn from(of: fabricmark_ethtool::Rings) -> Self {
        Self { rx: of.rx, rx_max: of.rx_max, tx: of.tx, tx_max: of.tx_max }
    }
}

impl From<fabricmark_ethtool::Channels> for Channels {
    fn from(of: fabricmark_ethtool::Channels) -> Self {
        Self {
            rx: of.rx,
            rx_max: of.rx_max,
            tx: of.tx,
            tx_max: of.tx_max,
            combined: of.combined,
            combined_max: of.combined_max,
        }
    }
}
