//! Network interfaces of the nodes.

use fabricmark_record::{InterfaceFacts, Record, Technology};

use crate::number::bit_rate;

/// Interfaces of the runs, those with the same settings together: `client eth0, server eth0: Ethernet (mlx5_core),
/// 100 Gbit/s, MTU 9000, tso on, gro on, lro off`. `None` if no record has one.
pub(super) fn line(records: &[Record]) -> Option<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for node in records.iter().flat_map(|record| &record.nodes) {
        let (Some(device), Some(interface)) = (&node.device, &node.interface) else { continue };
        let (settings, name) = (settings(interface), format!("{} {device}", node.name));
        match groups.iter_mut().find(|(known, _)| *known == settings) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => groups.push((settings, vec![name])),
        }
    }
    let groups =
        groups.into_iter().map(|(settings, names)| format!("{}: {settings}", names.join(", ")));
    Some(groups.collect::<Vec<_>>().join("; ")).filter(|line| !line.is_empty())
}

/// Settings that change the cost of packets, with the names of ethtool(8).
fn settings(of: &InterfaceFacts) -> String {
    // The drivers of other devices have the names of their technologies.
    let has_hardware = matches!(of.technology, Technology::Ethernet | Technology::Ipoib);
    let driver = of.driver.as_deref().filter(|_| has_hardware);
    let details: Vec<&str> = [of.ipoib_mode.as_deref(), driver].into_iter().flatten().collect();
    let technology = match details.as_slice() {
        [] => of.technology.to_string(),
        details => format!("{} ({})", of.technology, details.join(", ")),
    };
    let offloads = [("tso", of.offloads.tso), ("gro", of.offloads.gro), ("lro", of.offloads.lro)]
        .map(|(name, is_on)| {
            is_on.map(|is_on| format!("{name} {}", if is_on { "on" } else { "off" }))
        });
    let coalescing = of.coalescing.and_then(|coalescing| match coalescing.adaptive_rx {
        Some(true) => Some("adaptive-rx on".to_owned()),
        _ => coalescing.rx_delay_ns.map(|ns| format!("rx-usecs {}", ns / 1000)),
    });
    let parts = [
        Some(technology),
        of.speed_bps.map(|bps| bit_rate(bps as f64)),
        of.mtu_bytes.map(|mtu| format!("MTU {mtu}")),
    ];
    let parts = parts.into_iter().chain(offloads).chain([coalescing]);
    parts.flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(facts: Value) -> String {
        settings(&serde_json::from_value(facts).unwrap())
    }

    #[test]
    fn settings_are_written_as_far_as_they_are_known() {
        let virtio = json!({
            "technology": "virtio", "driver": "virtio_net", "mtu_bytes": 1400,
            "offloads": { "tso": true, "gso": true, "gro": true, "lro": false },
        });
        assert_eq!(written(virtio), "virtio, MTU 1400, tso on, gro on, lro off");
        let ipoib = json!({
            "technology": "ipoib", "driver": "ib_ipoib", "speed_bps": 40_000_000_000_u64,
            "ipoib_mode": "connected", "mtu_bytes": 65520,
        });
        assert_eq!(written(ipoib), "IPoIB (connected, ib_ipoib), 40 Gbit/s, MTU 65520");
        for (coalescing, expected) in [
            (json!({ "rx_delay_ns": 16_000 }), "Ethernet (mlx5_core), rx-usecs 16"),
            (
                json!({ "rx_delay_ns": 8_000, "adaptive_rx": false }),
                "Ethernet (mlx5_core), rx-usecs 8",
            ),
            (
                json!({ "rx_delay_ns": 8_000, "adaptive_rx": true }),
                "Ethernet (mlx5_core), adaptive-rx on",
            ),
            (json!({ "rx_frames": 1 }), "Ethernet (mlx5_core)"),
        ] {
            let facts = json!({
                "technology": "ethernet", "driver": "mlx5_core", "coalescing": coalescing
            });
            assert_eq!(written(facts), expected);
        }
    }
}
