//! Interfaces as text for the terminal.

use std::fmt::Display;

use fabricmark_ethtool::on_off;
use fabricmark_record::{Interface, OffloadState, Pci, RdmaPort, Technology};

use crate::doctor::cpus::cpu_list;
use crate::doctor::text::printable;

/// Width of the labels.
const LABEL: usize = 12;

/// One block per interface: a line with its technology and state, and a line for each known value.
pub fn text(interfaces: &[Interface]) -> String {
    interfaces.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(interface: &Interface) -> String {
    let rows = [
        ("speed", speed(interface)),
        ("MTU", mtu(interface)),
        ("address", interface.hardware_address.clone().unwrap_or_default()),
        ("IP", interface.addresses.join(", ")),
        ("RDMA", rdma(&interface.rdma)),
        ("port of", interface.master.clone().unwrap_or_default()),
        ("driver", driver(interface)),
        ("PCI", interface.pci.as_ref().map(pci).unwrap_or_default()),
        ("NUMA node", word(interface.numa_node)),
        ("qdisc", interface.qdisc.clone().unwrap_or_default()),
        ("queues", pairs(&[("rx", word(interface.rx_queues)), ("tx", word(interface.tx_queues))])),
        ("channels", channels(interface)),
        ("rings", rings(interface)),
        ("coalescing", coalescing(interface)),
        ("offloads", offloads(interface)),
        ("IRQs", irqs(interface)),
    ];
    let rows = rows.iter().filter(|(_, value)| !value.is_empty());
    let rows: String =
        rows.map(|(label, value)| format!("  {label:LABEL$}{}\n", printable(value))).collect();
    // What another host reports may contain any characters.
    let heading = format!("{}: {}, {}", interface.name, technology(interface), state(interface));
    format!("{}\n{rows}", printable(&heading))
}

fn word(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Names and values, without those that have no value: `rx 1, tx 1`.
fn pairs(pairs: &[(&str, String)]) -> String {
    let known = pairs.iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn technology(interface: &Interface) -> String {
    let lower = |what: &str| interface.lower.as_ref().map(|lower| format!("{what} {lower}"));
    let details = match interface.technology {
        Technology::Ipoib => {
            let ipoib = interface.ipoib.as_ref();
            let mode = ipoib.and_then(|ipoib| ipoib.mode.clone());
            let pkey = ipoib.and_then(|ipoib| ipoib.pkey);
            let pkey = pkey.map(|pkey| format!("P_Key {pkey:#06x}"));
            vec![mode, pkey, lower("on")]
        }
        Technology::Veth => vec![lower("peer")],
        Technology::Virtual => vec![interface.kind.clone(), lower("on")],
        Technology::Ethernet
        | Technology::Virtio
        | Technology::Tun
        | Technology::Tap
        | Technology::Bridge
        | Technology::Loopback => vec![],
    };
    let name = interface.technology;
    let details: Vec<String> = details.into_iter().flatten().collect();
    if details.is_empty() { name.to_string() } else { format!("{name} ({})", details.join(", ")) }
}

/// The loopback and other virtual devices are up in state `unknown`.
fn state(interface: &Interface) -> &str {
    match interface.state.as_deref() {
        _ if !interface.is_up => "down",
        None | Some("unknown") => "up",
        Some("down") => "no carrier",
        Some(state) => state,
    }
}

/// A rate: `40 Gbit/s`, `100 Mbit/s`.
fn rate(bps: u64) -> String {
    if bps < 1_000_000_000 {
        format!("{} Mbit/s", bps as f64 / 1e6)
    } else {
        format!("{} Gbit/s", bps as f64 / 1e9)
    }
}

fn speed(interface: &Interface) -> String {
    let lanes = interface.lanes.map(|lanes| match lanes {
        1 => "1 lane".to_owned(),
        _ => format!("{lanes} lanes"),
    });
    let parts = [
        interface.speed_bps.map(rate),
        lanes,
        interface.signalling.clone(),
        interface.duplex.as_ref().map(|duplex| format!("{duplex} duplex")),
        interface.connector.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn mtu(interface: &Interface) -> String {
    let Some(mtu) = interface.mtu_bytes else { return String::new() };
    match (interface.mtu_min_bytes, interface.mtu_max_bytes) {
        (Some(min), Some(max)) => format!("{mtu} bytes ({min} to {max})"),
        _ => format!("{mtu} bytes"),
    }
}

fn rdma(ports: &[RdmaPort]) -> String {
    let ports = ports.iter().map(|RdmaPort { device, port, protocols, state, rate }| {
        let protocols = protocols.join(" and ");
        let words = [protocols, state.clone(), rate.clone()];
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        format!("{device} port {port}: {}", words.join(", "))
    });
    ports.collect::<Vec<_>>().join("; ")
}

fn driver(interface: &Interface) -> String {
    let firmware = interface.firmware.as_ref().map(|firmware| format!("firmware {firmware}"));
    let parts = [interface.driver.clone(), firmware];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn pci(pci: &Pci) -> String {
    let link = |transfers: Option<u64>, lanes: Option<u32>| {
        Some(format!("{} GT/s x{}", transfers? as f64 / 1e9, lanes?))
    };
    let now = link(pci.transfers_per_s, pci.lanes);
    let max = link(pci.transfers_per_s_max, pci.lanes_max);
    match (now, max) {
        (Some(now), Some(max)) => format!("{}, {now} (at most {max})", pci.address),
        (Some(now), None) => format!("{}, {now}", pci.address),
        (None, _) => pci.address.clone(),
    }
}

/// A count and its maximum.
fn limited(value: Option<u32>, max: Option<u32>) -> String {
    match (value, max) {
        (Some(value), Some(max)) => format!("{value} (at most {max})"),
        (Some(value), None) => value.to_string(),
        (None, _) => String::new(),
    }
}

fn channels(interface: &Interface) -> String {
    let Some(of) = interface.channels else { return String::new() };
    pairs(&[
        ("rx", limited(of.rx, of.rx_max)),
        ("tx", limited(of.tx, of.tx_max)),
        ("combined", limited(of.combined, of.combined_max)),
    ])
}

fn rings(interface: &Interface) -> String {
    let Some(of) = interface.rings else { return String::new() };
    pairs(&[("rx", limited(of.rx, of.rx_max)), ("tx", limited(of.tx, of.tx_max))])
}

/// Names and units of ethtool(8).
fn coalescing(interface: &Interface) -> String {
    let Some(of) = interface.coalescing else { return String::new() };
    let usecs = |ns: Option<u64>| word(ns.map(|ns| ns / 1000));
    pairs(&[
        ("rx-usecs", usecs(of.rx_delay_ns)),
        ("rx-frames", word(of.rx_frames)),
        ("tx-usecs", usecs(of.tx_delay_ns)),
        ("tx-frames", word(of.tx_frames)),
        ("adaptive-rx", word(of.adaptive_rx.map(on_off))),
        ("adaptive-tx", word(of.adaptive_tx.map(on_off))),
    ])
}

fn offloads(interface: &Interface) -> String {
    let of = interface.offloads;
    let state = |state: Option<OffloadState>| match state {
        Some(OffloadState { is_on, is_fixed: true }) => format!("{} [fixed]", on_off(is_on)),
        Some(OffloadState { is_on, .. }) => on_off(is_on).to_owned(),
        None => String::new(),
    };
    pairs(&[
        ("tso", state(of.tso)),
        ("gso", state(of.gso)),
        ("gro", state(of.gro)),
        ("lro", state(of.lro)),
        ("rx", state(of.rx_checksum)),
        ("tx", state(of.tx_checksum)),
    ])
}

/// Consecutive interrupts with the same CPUs as a range.
fn irqs(interface: &Interface) -> String {
    let mut groups: Vec<(Vec<u32>, &[u32])> = Vec::new();
    for irq in &interface.irqs {
        match groups.last_mut() {
            Some((numbers, cpus)) if *cpus == irq.cpus => numbers.push(irq.number),
            _ => groups.push((vec![irq.number], &irq.cpus)),
        }
    }
    let groups = groups.iter().map(|(numbers, cpus)| match cpus {
        [] => cpu_list(numbers),
        [cpu] => format!("{} on CPU {cpu}", cpu_list(numbers)),
        _ => format!("{} on CPUs {}", cpu_list(numbers), cpu_list(cpus)),
    });
    groups.collect::<Vec<_>>().join("; ")
}
