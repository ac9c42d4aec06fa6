//! Network interfaces of a host: links, settings and hardware.

use std::fmt;

use fabricmark_units::BitRate;
use fabricmark_wire::{IB_MTUS, Ipoib as IpoibLink, IpoibMode, Lanes, Link, MTU_DEFAULT, MTU_MIN};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::HostFacts;

/// A host and its network interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The machine.
    pub host: HostFacts,
    /// Network interfaces of one network namespace, in the order of their indexes.
    pub interfaces: Vec<Interface>,
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

impl fmt::Display for Technology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Ipoib => "IPoIB",
            Self::Virtio => "virtio",
            Self::Veth => "veth",
            Self::Tun => "TUN",
            Self::Tap => "TAP",
            Self::Bridge => "bridge",
            Self::Loopback => "loopback",
            Self::Virtual => "virtual",
        })
    }
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

/// The network interface of one end of a run, at its end. What the kernel or the driver does not report is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceFacts {
    /// What kind of device it is.
    pub technology: Technology,
    /// Driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Firmware of its hardware, in the driver's notation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Speed of the link. For InfiniBand as the kernel rounds it; absent for virtual devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bps: Option<u64>,
    /// Lanes of the link: its width, for InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Signalling of an InfiniBand link, such as `QDR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signalling: Option<String>,
    /// Mode of an IPoIB interface: `datagram` or `connected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipoib_mode: Option<String>,
    /// Maximum transmission unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// Root queueing discipline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<String>,
    /// Which offloads are on.
    #[serde(default)]
    pub offloads: EnabledOffloads,
    /// Interrupt coalescing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<Coalescing>,
    /// Size of each receive ring, in descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_ring: Option<u32>,
    /// Size of each send ring, in descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_ring: Option<u32>,
    /// Receive queues in use: channels that receive, or all queues of a device without channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u32>,
    /// Send queues in use: channels that send, or all queues of a device without channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_queues: Option<u32>,
}

/// Which offloads are on (ethtool -k).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnabledOffloads {
    /// TCP segmentation by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tso: Option<bool>,
    /// Segmentation by the kernel just before the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso: Option<bool>,
    /// Merging of received segments by the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// Merging of received segments by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lro: Option<bool>,
    /// Verification of received checksums by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_checksum: Option<bool>,
    /// Computation of sent checksums by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_checksum: Option<bool>,
}

impl From<&Interface> for InterfaceFacts {
    fn from(interface: &Interface) -> Self {
        let offloads = interface.offloads;
        let is_on = |offload: Option<OffloadState>| offload.map(|state| state.is_on);
        let channels = interface.channels;
        let in_use = |of: fn(Channels) -> Option<u32>| {
            let (own, both) = (channels.and_then(of), channels.and_then(|all| all.combined));
            let sum = own.unwrap_or(0).saturating_add(both.unwrap_or(0));
            Some(sum).filter(|&sum| sum > 0)
        };
        Self {
            technology: interface.technology,
            driver: interface.driver.clone(),
            firmware: interface.firmware.clone(),
            speed_bps: interface.speed_bps,
            lanes: interface.lanes,
            signalling: interface.signalling.clone(),
            ipoib_mode: interface.ipoib.as_ref().and_then(|ipoib| ipoib.mode.clone()),
            mtu_bytes: interface.mtu_bytes,
            qdisc: interface.qdisc.clone(),
            offloads: EnabledOffloads {
                tso: is_on(offloads.tso),
                gso: is_on(offloads.gso),
                gro: is_on(offloads.gro),
                lro: is_on(offloads.lro),
                rx_checksum: is_on(offloads.rx_checksum),
                tx_checksum: is_on(offloads.tx_checksum),
            },
            coalescing: interface.coalescing,
            rx_ring: interface.rings.and_then(|rings| rings.rx),
            tx_ring: interface.rings.and_then(|rings| rings.tx),
            rx_queues: in_use(|all| all.rx).or(interface.rx_queues),
            tx_queues: in_use(|all| all.tx).or(interface.tx_queues),
        }
    }
}

impl InterfaceFacts {
    /// The link of the interface, as far as it is known: [`Link::Veth`], which has no ceiling, if there is no rate.
    pub fn link(&self) -> Link {
        // A ceiling with a smaller MTU than the grammar of links allows is a little too high.
        let mtu = self.mtu_bytes.map_or(MTU_DEFAULT, |mtu| mtu.try_into().unwrap_or(u16::MAX));
        let mtu = mtu.max(MTU_MIN);
        let known = match self.technology {
            Technology::Loopback => Some(Link::Loopback),
            Technology::Ethernet | Technology::Virtio => {
                self.speed_bps.map(|bps| Link::Ethernet { rate: BitRate(bps), mtu, vlan: 0 })
            }
            Technology::Ipoib => self.ipoib_link(mtu),
            Technology::Veth
            | Technology::Tun
            | Technology::Tap
            | Technology::Bridge
            | Technology::Virtual => None,
        };
        known.filter(|link| link.check().is_ok()).unwrap_or(Link::Veth { mtu })
    }

    /// The rate of a port as the kernel rounds it gives no bound, but its width and signalling do.
    fn ipoib_link(&self, mtu: u16) -> Option<Link> {
        let lanes = Lanes::new(self.lanes?.try_into().ok()?)?;
        let speed = self.signalling.as_ref()?.parse().ok()?;
        let mode = match self.ipoib_mode.as_deref()? {
            "datagram" => IpoibMode::Datagram,
            "connected" => IpoibMode::Connected,
            _ => return None,
        };
        // The MTU of InfiniBand is not reported. The largest one gives an upper bound.
        let ib_mtu = *IB_MTUS.last()?;
        Some(Link::Ipoib(IpoibLink { lanes, speed, mode, ib_mtu, mtu, grh: false }))
    }
}
