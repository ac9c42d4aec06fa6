//! RDMA adapters in `/sys/class/infiniband`.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// Link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

/// Type of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GidKind {
    /// InfiniBand, or RoCEv1, whose packets are not IP packets.
    InfiniBand,
    /// RoCEv2: UDP packets.
    RoceV2,
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "IB/RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// An entry of a port's GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Index in the table.
    pub index: u8,
    /// The GID.
    pub bytes: [u8; 16],
    /// Type of the GID.
    pub kind: GidKind,
    /// Network device of the GID, if there is one.
    pub device: Option<String>,
}

impl Gid {
    /// The GID as an IP address.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.bytes).to_canonical()
    }
}

/// A port of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name of the adapter.
    pub adapter: String,
    /// Number of the port, from 1.
    pub number: u8,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// State, such as `ACTIVE`.
    pub state: String,
    /// Rate as the kernel reports it, such as `10 Gb/sec (1X QDR)`.
    pub rate: String,
    /// GIDs in use.
    pub gids: Vec<Gid>,
    /// NUMA node of the adapter; `None` if the machine has only one.
    pub numa_node: Option<u32>,
}

/// How a network device keeps RoCE from losing packets, as far as its driver shows it in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lossless {
    /// Priorities whose packets are paused instead of dropped (PFC, IEEE 802.1Qbb), in the driver's notation.
    pub pfc: Option<String>,
    /// Priorities, from 0 on, for which the receiver responds to ECN marks: 1 for those.
    pub ecn: Option<String>,
}

/// Reads the settings of a network device. The vendor's mlx5 driver shows both in files, drivers of the kernel
/// neither.
pub fn lossless(device: &str) -> Lossless {
    lossless_of(&Path::new("/sys/class/net").join(device))
}

fn lossless_of(folder: &Path) -> Lossless {
    let enabled = folder.join("ecn/roce_np/enable");
    let marks: Vec<String> =
        names(&enabled).iter().filter_map(|priority| read(&enabled.join(priority))).collect();
    Lossless {
        pfc: read(&folder.join("qos/pfc")),
        ecn: Some(marks.join(" ")).filter(|marks| !marks.is_empty()),
    }
}

/// All ports of this machine, sorted by name; none if the kernel has no RDMA.
pub fn ports() -> Vec<Port> {
    ports_in(Path::new("/sys/class/infiniband"))
}

/// All ports in a directory with the layout of `/sys/class/infiniband`.
pub fn ports_in(class: &Path) -> Vec<Port> {
    let mut ports = Vec::new();
    for adapter in names(class) {
        let folder = class.join(&adapter).join("ports");
        let numa_node = read(&class.join(&adapter).join("device/numa_node"));
        // -1 if there is only one.
        let numa_node = numa_node.and_then(|node| node.parse().ok());
        for number in names(&folder) {
            let Ok(place) = number.parse() else { continue };
            ports.push(Port { numa_node, ..port(&folder.join(number), &adapter, place) });
        }
    }
    ports
}

fn port(folder: &Path, adapter: &str, number: u8) -> Port {
    let line = |name: &str| read(&folder.join(name)).unwrap_or_default();
    let link_layer = match line("link_layer").as_str() {
        "InfiniBand" => LinkLayer::InfiniBand,
        _ => LinkLayer::Ethernet,
    };
    let mut gids: Vec<Gid> = names(&folder.join("gids"))
        .into_iter()
        .filter_map(|index| gid(folder, index.parse().ok()?))
        .collect();
    gids.sort_by_key(|gid| gid.index);
    let state = line("state");
    let state = state.split_once(": ").map_or(state.as_str(), |(_, word)| word).to_owned();
    let (adapter, rate) = (adapter.to_owned(), line("rate"));
    Port { adapter, number, link_layer, state, rate, gids, numa_node: None }
}

/// An entry of a port's GID table; unused ones are 0 and have no type.
fn gid(folder: &Path, index: u8) -> Option<Gid> {
    let address: Ipv6Addr = read(&folder.join(format!("gids/{index}")))?.parse().ok()?;
    if address.is_unspecified() {
        return None;
    }
    let kind = match read(&folder.join(format!("gid_attrs/types/{index}")))?.as_str() {
        "RoCE v2" => GidKind::RoceV2,
        _ => GidKind::InfiniBand,
    };
    let device = read(&folder.join(format!("gid_attrs/ndevs/{index}")));
    Some(Gid { index, bytes: address.octets(), kind, device })
}

/// The only line of a file; `None` if it cannot be read, as for unused entries.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_with_its_addresses_and_unused_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let port = folder.path().join("rxe0/ports/1");
        for (name, text) in [
            ("link_layer", "Ethernet\n"),
            ("state", "4: ACTIVE\n"),
            ("rate", "2.5 Gb/sec (1X SDR)\n"),
            ("gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n"),
            ("gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n"),
            ("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
            ("gid_attrs/types/0", "RoCE v2\n"),
            ("gid_attrs/types/1", "RoCE v2\n"),
            ("gid_attrs/ndevs/1", "v0\n"),
            ("../../device/numa_node", "1\n"),
        ] {
            let path = port.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let ports = ports_in(folder.path());
        let [port] = &ports[..] else { panic!("{ports:?}") };
        assert_eq!(
            (port.adapter.as_str(), port.number, port.state.as_str()),
            ("rxe0", 1, "ACTIVE")
        );
        assert_eq!(port.link_layer, LinkLayer::Ethernet);
        assert_eq!(port.gids.len(), 2);
        assert_eq!(port.gids[1].ip(), IpAddr::from([10, 9, 0, 1]));
        assert_eq!(port.gids[1].device.as_deref(), Some("v0"));
        assert_eq!(port.numa_node, Some(1));
    }

    #[test]
    fn what_keeps_a_device_from_losing_packets_is_said_where_its_driver_does() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(lossless_of(folder.path()), Lossless::default());
        for (name, text) in [
            ("qos/pfc", "0,0,0,1,0,0,0,0\n"),
            ("ecn/roce_np/enable/0", "0\n"),
            ("ecn/roce_np/enable/1", "1\n"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let said = lossless_of(folder.path());
        assert_eq!(
            (said.pfc.as_deref(), said.ecn.as_deref()),
            (Some("0,0,0,1,0,0,0,0"), Some("0 1"))
        );
    }

    #[test]
    fn a_kernel_without_rdma_has_no_port() {
        assert_eq!(ports_in(Path::new("/nonexistent")), []);
    }
}
