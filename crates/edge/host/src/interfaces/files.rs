//! Hardware of a link, from sysfs and procfs (Documentation/ABI in the kernel: sysfs-class-net, sysfs-bus-pci,
//! stable/sysfs-class-infiniband).

use fabricmark_rdma::{GidKind, LinkLayer, Port};
use fabricmark_record::{Irq, Pci, RdmaPort};

use super::link::Link;
use crate::doctor::cpus::parse_cpu_list;
use crate::doctor::interface::{folder, pci_function};
use crate::doctor::interrupts;
use crate::doctor::tree::Tree;

/// What files say about a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hardware {
    /// Whether the link has hardware, or a device of a hypervisor.
    pub is_there: bool,
    pub driver: Option<String>,
    pub firmware: Option<String>,
    pub mode: Option<String>,
    pub pkey: Option<u16>,
    pub rdma: Vec<RdmaPort>,
    /// Rate of its InfiniBand port, if that is active.
    pub infiniband: Option<Rate>,
    pub numa_node: Option<u32>,
    pub pci: Option<Pci>,
}

/// The rate of an InfiniBand port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub bps: u64,
    pub lanes: u32,
    pub signalling: String,
}

/// Reads the hardware of a link. Empty if sysfs shows another link of this name, or none: it may have been mounted in
/// another network namespace.
pub(super) fn hardware(tree: &Tree, link: &Link, ports: &[Port]) -> Hardware {
    let folder = folder(&link.name);
    let [index, address, mode, pkey, dev_port] =
        tree.files_in(&folder, ["ifindex", "address", "mode", "pkey", "dev_port"]);
    if index.count() != Some(link.index.into()) || address.text() != Some(&link.address()) {
        return Hardware::default();
    }
    let device = format!("{folder}/device");
    let function = pci_function(tree, &link.name);
    let numa = function.as_ref().unwrap_or(&device);
    let names = tree.names(&format!("{device}/infiniband"));
    let number = dev_port.count().map_or(1, |number| number.saturating_add(1));
    // RoCE has the addresses of an Ethernet interface as GIDs, also above a VLAN or in software.
    let is_own = |port: &&Port| {
        let has_hardware = names.contains(&port.adapter) && u64::from(port.number) == number;
        let named = port.gids.iter().any(|gid| gid.device.as_deref() == Some(&link.name));
        has_hardware || named
    };
    let own: Vec<&Port> = ports.iter().filter(is_own).collect();
    let active =
        own.iter().find(|port| port.link_layer == LinkLayer::InfiniBand && port.state == "ACTIVE");
    let firmware = names.iter().find_map(|name| {
        let file = tree.file(&format!("{device}/infiniband/{name}/fw_ver"));
        file.text().filter(|text| !text.is_empty()).map(str::to_owned)
    });
    Hardware {
        is_there: tree.has(&device),
        driver: value(tree, &format!("{device}/uevent"), "DRIVER"),
        firmware,
        mode: mode.text().map(str::to_owned),
        pkey: pkey.text().and_then(|text| u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()),
        infiniband: active.and_then(|port| rate(&port.rate)),
        rdma: own.iter().map(|port| rdma_port(port)).collect(),
        // -1 if there is only one.
        numa_node: tree
            .file(&format!("{numa}/numa_node"))
            .count()
            .and_then(|node| node.try_into().ok()),
        pci: function.and_then(|function| pci(tree, &function)),
    }
}

/// Interrupts of the hardware of a link.
pub(super) fn irqs(tree: &Tree, name: &str) -> Vec<Irq> {
    interrupts::numbers(tree, name).iter().map(|irq| interrupt(tree, *irq)).collect()
}

/// The value of `KEY=value` in a uevent file.
fn value(tree: &Tree, path: &str, key: &str) -> Option<String> {
    crate::field(tree.file(path).text()?, key, '=').map(str::to_owned)
}

fn rdma_port(port: &Port) -> RdmaPort {
    let mut protocols: Vec<String> = match port.link_layer {
        LinkLayer::InfiniBand => vec!["InfiniBand".to_owned()],
        LinkLayer::Ethernet => {
            let kinds = port.gids.iter().map(|gid| match gid.kind {
                GidKind::InfiniBand => "RoCE v1".to_owned(),
                GidKind::RoceV2 => "RoCE v2".to_owned(),
            });
            kinds.collect()
        }
    };
    protocols.sort();
    protocols.dedup();
    RdmaPort {
        device: port.adapter.clone(),
        port: port.number,
        protocols,
        state: port.state.clone(),
        rate: port.rate.clone(),
    }
}

/// Parses the rate of a port: `40 Gb/sec (4X QDR)`, `2.5 Gb/sec (1X SDR)` (`rate_show` in
/// drivers/infiniband/core/sysfs.c).
fn rate(text: &str) -> Option<Rate> {
    let (number, rest) = text.split_once(" Gb/sec (")?;
    let (width, signalling) = rest.strip_suffix(')')?.split_once(' ')?;
    let number: f64 = number.parse().ok().filter(|gbps: &f64| (0.0..1e6).contains(gbps))?;
    Some(Rate {
        bps: (number * 1e9).round() as u64,
        lanes: width.strip_suffix('X')?.parse().ok()?,
        signalling: signalling.to_owned(),
    })
}

fn interrupt(tree: &Tree, number: u32) -> Irq {
    let folder = format!("/proc/irq/{number}");
    let cpus = |name: &str| {
        let file = tree.file(&format!("{folder}/{name}"));
        file.text().map(parse_cpu_list).unwrap_or_default()
    };
    // The handler has a directory of its name beside the files.
    let handler =
        tree.names(&folder).into_iter().find(|name| tree.is_folder(&format!("{folder}/{name}")));
    Irq {
        number,
        name: handler,
        cpus: cpus("smp_affinity_list"),
        effective_cpus: cpus("effective_affinity_list"),
    }
}

/// A PCI function and its link, in files such as `8.0 GT/s PCIe` and `8`; unknown values are other words, or 0.
fn pci(tree: &Tree, folder: &str) -> Option<Pci> {
    let files = ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"];
    let [speed, width, speed_max, width_max] = tree.files_in(folder, files);
    let transfers = |text: Option<&str>| {
        let number: f64 = text?.split_once(" GT/s")?.0.parse().ok()?;
        (0.0..1e6).contains(&number).then(|| (number * 1e9).round() as u64)
    };
    let lanes = |count: Option<u64>| {
        count.and_then(|count| count.try_into().ok()).filter(|&lanes| lanes != 0)
    };
    Some(Pci {
        address: value(tree, &format!("{folder}/uevent"), "PCI_SLOT_NAME")?,
        transfers_per_s: transfers(speed.text()),
        lanes: lanes(width.count()),
        transfers_per_s_max: transfers(speed_max.text()),
        lanes_max: lanes(width_max.count()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_speed_lanes_and_signalling() {
        let of = |text| rate(text).map(|rate| (rate.bps, rate.lanes, rate.signalling));
        assert_eq!(of("40 Gb/sec (4X QDR)"), Some((40_000_000_000, 4, "QDR".to_owned())));
        assert_eq!(of("2.5 Gb/sec (1X SDR)"), Some((2_500_000_000, 1, "SDR".to_owned())));
        assert_eq!(of("400 Gb/sec (4X NDR)"), Some((400_000_000_000, 4, "NDR".to_owned())));
        for text in
            ["", "40 Gb/sec", "x Gb/sec (4X QDR)", "40 Gb/sec (X QDR)", "inf Gb/sec (4X QDR)"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
