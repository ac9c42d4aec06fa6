//! Digest of a plan. Plans with equal digests share records.

use std::fmt::Write;

use crate::plan::{Group, Plan, Topology, Wire};
use sha2::{Digest, Sha256};

/// Version of the digest. Increment it when a default changes what is run, or when the digest covers other
/// settings. A new factor or key whose default leaves runs unchanged keeps the version.
const VERSION: u32 = 3;

impl Plan {
    /// Version of the digest, a dash, and the SHA-256 (64 hexadecimal digits) of all settings that affect runs and
    /// differ from their defaults. A changed title or table does not change it.
    pub fn digest(&self) -> String {
        let sum = Sha256::digest(self.canonical());
        let mut digest = format!("{VERSION}-");
        for byte in sum {
            let _ = write!(digest, "{byte:02x}");
        }
        digest
    }

    /// The settings that affect runs, one per line: the input of the hash.
    fn canonical(&self) -> String {
        let Self { stop, .. } = self;
        let mut lines = vec![
            format!("seed {}", self.seed),
            format!("duration {}", self.duration_ns.0),
            format!("warm-up {}", self.warm_up_ns.0),
            format!(
                "stop {} {:?} {} {}",
                stop.confidence, stop.half_width, stop.runs_min, stop.runs_max
            ),
        ];
        lines.extend(self.topology.as_ref().map(|Topology { file, client, server, text, .. }| {
            format!(
                "topology Topology {{ file: {file:?}, client: {client:?}, server: {server:?}, text: {text:?} }}"
            )
        }));
        if self.slices && self.topology.as_ref().is_some_and(|topology| !topology.takes_turns) {
            lines.push("whole runs".to_owned());
        }
        // The names of wires are part of the topology.
        lines.extend(self.wires.iter().map(|Wire { between, link, options, .. }| {
            format!("wire Wire {{ between: {between:?}, link: {link:?}, options: {options:?} }}")
        }));
        lines.extend(self.groups.iter().map(|Group { name, from, to, via, start_ns }| {
            let via = via.as_ref().map(|via| format!(", via: {via:?}")).unwrap_or_default();
            let start = match start_ns.0 {
                0 => String::new(),
                start_ns => format!(", start: {start_ns}"),
            };
            format!("flows Group {{ name: {name:?}, from: {from:?}, to: {to:?}{via}{start} }}")
        }));
        lines.extend(self.launcher.as_ref().map(|launcher| format!("launcher {launcher}")));
        lines.extend(self.peer.as_ref().map(|peer| format!("peer {peer}")));
        if self.omit_ns.0 > 0 {
            lines.push(format!("omit {}", self.omit_ns.0));
        }
        lines.extend(self.steady.map(|share| format!("steady {share}")));
        if self.slices {
            lines.push("slices".to_owned());
        }
        if stop.decides {
            lines.push("decides".to_owned());
        }
        lines.extend(self.amount.map(|amount| format!("amount {amount:?}")));
        lines.extend(self.interval_ns.map(|interval| format!("interval {}", interval.0)));
        if self.port > 0 {
            lines.push(format!("port {}", self.port));
        }
        let cpus = self.cpus.as_ref();
        lines.extend(cpus.map(|[client, server]| format!("cpus {client} {server}")));
        lines.extend(self.points.iter().map(|point| format!("point {}", point.key())));
        lines.extend(self.comparison_groups.iter().map(|group| format!("group {group:?}")));
        lines.extend(self.compare.iter().map(|compare| {
            format!("compare {} {} {}", compare.factor, compare.baseline, compare.candidate)
        }));
        lines.extend(self.traces.iter().map(|(name, trace)| format!("trace {name} {trace:?}")));
        let links = self.link_traces.iter();
        lines.extend(links.map(|(name, text)| format!("link trace {name} {text:?}")));
        lines.join("\n")
    }
}
