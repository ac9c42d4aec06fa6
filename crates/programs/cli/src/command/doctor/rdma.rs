//! `fabricmark doctor rdma`: the RDMA adapters of this machine, and what prevents their use.

use fabricmark_rdma::{Gid, Lossless, Port, lossless, packet_bytes, ports};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output::answer;

/// Minimum of memory that both ends of a run on this machine register: 64 MiB of receive buffers each.
const MEMLOCK_MIN: u64 = 128 << 20;

/// A port with facts that come from its adapter or its network device.
struct Seen {
    port: Port,
    packet_bytes: Result<usize, String>,
    lossless: Lossless,
}

impl Seen {
    fn of(port: Port) -> Self {
        let device = port.gids.iter().find_map(|gid| gid.device.as_deref());
        Self {
            packet_bytes: packet_bytes(&port).map_err(|error| error.to_string()),
            lossless: device.map(lossless).unwrap_or_default(),
            port,
        }
    }

    fn json(&self) -> Value {
        let Self { port, packet_bytes, lossless } = self;
        let gids: Vec<Value> = port.gids.iter().map(gid_json).collect();
        json!({
            "adapter": port.adapter,
            "port": port.number,
            "link_layer": port.link_layer.to_string(),
            "state": port.state,
            "rate": port.rate,
            "packet_bytes": packet_bytes.as_ref().ok(),
            "unavailable": packet_bytes.as_ref().err(),
            "numa_node": port.numa_node,
            "pfc": lossless.pfc,
            "ecn": lossless.ecn,
            "gids": gids,
        })
    }

    fn text(&self) -> String {
        let Self { port, packet_bytes, lossless } = self;
        let mut lines = vec![format!(
            "{} port {}: {}, {}, {}",
            port.adapter, port.number, port.link_layer, port.state, port.rate
        )];
        lines.push(match packet_bytes {
            Ok(bytes) => format!("  packets    up to {bytes} bytes of payload"),
            Err(reason) => format!("  packets    {reason}"),
        });
        let node = port.numa_node.map_or("only one".to_owned(), |node| node.to_string());
        lines.push(format!("  NUMA node  {node}"));
        let unsaid = || "not reported by the driver".to_owned();
        lines.push(format!("  PFC        {}", lossless.pfc.clone().unwrap_or_else(unsaid)));
        lines.push(format!("  ECN        {}", lossless.ecn.clone().unwrap_or_else(unsaid)));
        for gid in &port.gids {
            let device = gid.device.as_deref().unwrap_or("no device");
            lines.push(format!("  GID {:<6} {} ({}, {device})", gid.index, gid.ip(), gid.kind));
        }
        if port.gids.is_empty() {
            lines.push("  GID        none; add an address to its network device".to_owned());
        }
        lines.join("\n")
    }
}

fn gid_json(gid: &Gid) -> Value {
    json!({
        "index": gid.index,
        "address": gid.ip().to_string(),
        "kind": gid.kind.to_string(),
        "device": gid.device,
    })
}

/// How much memory may be locked (RLIMIT_MEMLOCK), and how to raise it if it is too little.
fn memlock(limit: Option<u64>) -> String {
    match limit {
        None => "memory     unlimited".to_owned(),
        Some(bytes) if bytes >= MEMLOCK_MIN => format!("memory     up to {} MiB", bytes >> 20),
        Some(bytes) => format!(
            "memory     up to {} KiB, too little for a run: use `ulimit -l unlimited` as root, or \
             LimitMEMLOCK= of a unit",
            bytes >> 10
        ),
    }
}

/// Prints the adapters. The exit code is 0 whatever was found.
pub(super) fn survey(as_json: bool) -> Result<(), Failure> {
    let seen: Vec<Seen> = ports().into_iter().map(Seen::of).collect();
    // The kernel ignores the limit for whoever has the capability (drivers/infiniband/core/umem.c).
    let is_exempt =
        capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::IPC_LOCK));
    let limit = getrlimit(Resource::Memlock).current.filter(|_| !is_exempt);
    let json = || {
        let ports: Vec<Value> = seen.iter().map(Seen::json).collect();
        json!({ "ports": ports, "memlock_bytes": limit })
    };
    answer(as_json, json, || {
        let mut parts: Vec<String> = seen.iter().map(Seen::text).collect();
        if parts.is_empty() {
            parts.push(fabricmark_rdma::Unavailable::NoAdapter.to_string());
        }
        parts.push(memlock(limit));
        parts.join("\n\n") + "\n"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_said_with_what_raises_it() {
        assert_eq!(memlock(None), "memory     unlimited");
        assert_eq!(memlock(Some(256 << 20)), "memory     up to 256 MiB");
        let little = memlock(Some(8 << 20));
        assert!(little.contains("8192 KiB") && little.contains("ulimit -l"), "{little}");
    }
}
