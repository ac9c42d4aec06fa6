//! Links that the kernel carries: a veth pair, with queueing disciplines at both ends for the link options.

use std::io;
use std::thread;
use std::time::Duration;

use fabricmark_link::{Count, LinkOptions, Reason};
use fabricmark_wire::Link;
use serde_json::Value;

use crate::device;
use crate::namespace::{Namespace, Sent};
use crate::path::Traffic;
use crate::qdisc::{Backend, Command, HEADER, Qdiscs};
use crate::tool::{self, LabError};
use crate::topology::Wire;

/// MAC address of both ends, locally administered. Since both are equal, no ARP is needed, whose packets would be
/// delayed, lost and counted like IP packets.
const ADDRESS: &str = "02:00:00:00:00:01";

/// Creates the devices of a link and their queues; the devices are down and have no IP addresses.
pub(crate) fn build(wire: &Wire, ends: [&Namespace; 2]) -> Result<(), LabError> {
    let (name, there) = (&wire.name, ends[1].path());
    let quiet = format!("link set dev {name} arp off\n");
    let pair = format!(
        "link add {name} address {ADDRESS} type veth peer name {name} address {ADDRESS} \
         netns {there}\n{quiet}"
    );
    tool::ip(ends[0], &pair)?;
    tool::ip(ends[1], &quiet)?;
    for (end, namespace) in ends.into_iter().enumerate() {
        if let Some(qdiscs) = wanted(wire, end)? {
            set(wire, namespace, &qdiscs.commands(name, true))?;
        }
    }
    Ok(())
}

/// Shell commands that make a wire of a pair of devices. They use netem's rate, which is exact per packet, so that
/// senders hand over single packets.
///
/// # Errors
///
/// The kernel does not support the framing of the link.
pub fn wire_of(link: Link, devices: [&str; 2]) -> Result<String, String> {
    let options: LinkOptions =
        format!("link={link}").parse().map_err(|error| format!("{error}"))?;
    let queue = Qdiscs::of(Backend::Netem, &options)?;
    let mut script = String::new();
    for name in devices {
        script += &format!("ip {}", device::line(name, &options, true));
        for command in queue.iter().flat_map(|queue| queue.commands(name, true)) {
            script += &format!("tc {}\n", command.words);
        }
    }
    Ok(script)
}

/// Waits until both devices, which are up, carry packets.
///
/// A device drops packets until a kernel thread has seen that both ends are up (net/core/link_watch.c). Since Linux
/// 6.8, asking for the state waits for that thread.
pub(crate) fn await_carrier(wire: &Wire, ends: [&Namespace; 2]) -> Result<(), LabError> {
    const PAUSE: Duration = Duration::from_millis(1);
    const PATIENCE: u32 = 2000;
    for namespace in ends {
        let mut left = PATIENCE;
        loop {
            let text = tool::run(namespace, "ip", &["-j", "link", "show", "dev", &wire.name], "")?;
            let devices: Value = serde_json::from_str(&text).unwrap_or_default();
            if devices[0]["operstate"] == "UP" {
                break;
            }
            left = left.checked_sub(1).ok_or_else(|| {
                LabError::system("bring up a veth device")(io::ErrorKind::TimedOut)
            })?;
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Changes a link that is up to the options of `new`; restores those of `old` if that fails.
pub(crate) fn change(old: &Wire, new: &Wire, ends: [&Namespace; 2]) -> Result<(), LabError> {
    let mut steps = Vec::new();
    for (end, namespace) in ends.into_iter().enumerate() {
        let (Some(before), Some(after)) = (wanted(old, end)?, wanted(new, end)?) else { continue };
        if !after.can_follow(&before) {
            return Err(LabError::Input(format!(
                "link `{}`: the framing of an htb qdisc cannot change: set it in the file, then \
                 run `lab down` and `lab up`",
                old.name
            )));
        }
        if after != before {
            let [before, after] = [before, after].map(|all| all.commands(&old.name, false));
            steps.push((namespace, before, after));
        }
    }
    let done = steps.iter().try_for_each(|(namespace, _, after)| set(new, namespace, after));
    if done.is_err() {
        for (namespace, before, _) in &steps {
            set(old, namespace, before)?;
        }
    }
    done
}

fn wanted(wire: &Wire, end: usize) -> Result<Option<Qdiscs>, LabError> {
    Qdiscs::of(wire.backend, &wire.options[end])
        .map_err(|error| LabError::Backend(format!("link `{}`: {error}", wire.name)))
}

fn set(wire: &Wire, namespace: &Namespace, commands: &[Command]) -> Result<(), LabError> {
    for Command { kind, words } in commands {
        tool::tc(namespace, words).map_err(|error| match error {
            LabError::Tool { message, .. } if is_unknown_kind(&message) => {
                LabError::NoQdisc { link: wire.name.clone(), kind }
            }
            error => error,
        })?;
    }
    Ok(())
}

/// Whether the kernel says that it has no such queueing discipline and no module for it: a message of its own, or
/// ENOENT from kernels before 4.16.
fn is_unknown_kind(message: &str) -> bool {
    message.contains("qdisc kind is unknown") || message.contains("No such file or directory")
}

/// Counters of the packets that one end sent.
///
/// The kernel counts neither packets that arrive at a queue nor the bytes of those that it drops: the first is the
/// sum of all outcomes here, the second is 0. A copy counts as one more arrival.
pub(crate) fn traffic(wire: &Wire, end: usize, sender: &Namespace) -> Result<Traffic, LabError> {
    let name = &wire.name;
    let queues = if wire.backend.shapes() { tool::queues(sender, name)? } else { Vec::new() };
    let sent = sender.sent(name)?;
    let [node, other] = [&wire.between[end], &wire.between[1 - end]];
    let title = format!("{name}:{node}>{other}");
    let header = match wanted(wire, end)? {
        Some(qdiscs) if !qdiscs.counts_header() => 0,
        _ => HEADER,
    };
    Ok(Traffic { name: title, ..counted(&queues, header, reason(wire, end), sent) })
}

/// `header` is the length that the queue counts for each packet in addition to IP.
fn counted(queues: &[Value], header: u64, reason: Reason, sent: Sent) -> Traffic {
    let number = |queue: &Value, key: &str| queue[key].as_u64().unwrap_or(0);
    // The root also counts what is dropped and what waits below it (`qdisc_tree_reduce_backlog`).
    let root = queues.iter().find(|queue| queue["root"] == true).unwrap_or(&Value::Null);
    let packets = number(root, "qlen");
    let held = Count { packets, bytes: number(root, "backlog").saturating_sub(packets * header) };
    // The queue counts its packets together with those that wait. Its bytes would include its framing.
    let departed = Count {
        packets: match queues {
            [] => sent.packets,
            _ => number(root, "packets").saturating_sub(sent.drops),
        },
        bytes: sent.bytes.saturating_sub(sent.packets * HEADER),
    };
    let drops = Count { packets: number(root, "drops"), bytes: 0 };
    let refused = Count { packets: sent.drops, bytes: 0 };
    // Counters of CoDel and of RED.
    let marks = queues.iter().map(|queue| number(queue, "ecn_mark") + number(queue, "marked"));
    let marked = Count { packets: marks.sum(), bytes: 0 };
    let mut dropped = [Count::default(); Reason::ALL.len()];
    dropped[reason as usize] = drops;
    let arrived = departed + refused + drops + held;
    Traffic { arrived, departed, refused, dropped, marked, held, ..Traffic::default() }
}

/// Reason of most drops: the kernel has a single counter for all of them.
fn reason(wire: &Wire, end: usize) -> Reason {
    let asked = wire.options[end].describe();
    let is_managed =
        asked.wire.is_some_and(|wire| wire.discipline != fabricmark_link::Discipline::DropTail);
    match asked.loss {
        Some(_) => Reason::Loss,
        None if is_managed => Reason::Congestion,
        None => Reason::Overflow,
    }
}

impl Backend {
    /// Whether all senders of a lab must hand over single packets for this link. Its queues count a super-packet as
    /// one: a loss would take 64 KiB, a limit would hold 40 times as much, and the framing would be added once.
    /// Routers forward what they receive. Only the token bucket segments super-packets.
    pub(crate) fn needs_single_packets(self) -> bool {
        matches!(self, Self::Htb | Self::Netem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::sent;

    #[test]
    fn a_wire_between_devices_has_the_rate_the_mtu_and_the_framing_of_its_link() {
        let script = wire_of("ethernet:1G,mtu=4200".parse().unwrap(), ["v0", "v1"]).unwrap();
        let of = |device: &str| {
            format!(
                "ip link set dev {device} mtu 4200 txqueuelen 20000 gso_max_segs 1\n\
                 tc qdisc replace dev {device} root handle 1: netem limit 1001 corrupt 0% rate 1000000000bit 24\n"
            )
        };
        assert_eq!(script, of("v0") + &of("v1"));
        let refusal = wire_of("ipoib:4X-SDR".parse().unwrap(), ["v0", "v1"]).unwrap_err();
        assert!(refusal.contains("padded and fragmented differently"), "{refusal}");
    }

    #[test]
    fn what_waits_is_dropped_or_was_sent_adds_up() {
        // As iproute2 6.1 prints it.
        let queues = r#"[{"kind":"tbf","handle":"1:","root":true,"refcnt":3,"options":{"rate":125000},
            "bytes":4542,"packets":3,"drops":3,"overlimits":7,"requeues":0,"backlog":1514,"qlen":1},
            {"kind":"pfifo","handle":"5:","parent":"1:1","options":{"limit":1},
            "bytes":4542,"packets":3,"drops":3,"overlimits":0,"requeues":0,"backlog":1514,"qlen":1}]"#;
        let queues: Vec<Value> = serde_json::from_str(queues).unwrap();
        let devices = "Inter-|   Receive |  Transmit\n face |bytes packets\n   \
                       wan: 10245     149    1    2    3     4          5         6     3028       2    0    1    0     0       0          0\n";
        let sent = sent(devices, "wan");
        assert_eq!(sent, Sent { bytes: 3028, packets: 2, drops: 1 });
        let way = counted(&queues, HEADER, Reason::Overflow, sent);
        assert_eq!(way.departed, Count { packets: 2, bytes: 3000 });
        assert_eq!(way.held, Count { packets: 1, bytes: 1500 });
        assert_eq!(way.dropped[Reason::Overflow as usize].packets, 3);
        assert_eq!((way.refused.packets, way.arrived.packets), (1, 7));
    }
}
