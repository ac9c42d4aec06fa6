//! Settings of the device at one end of a link, and which of them follow from link options.

use fabricmark_link::LinkOptions;
use fabricmark_plan::Offload;

use crate::namespace::Namespace;
use crate::tool::{self, LabError};
use crate::topology::{Topology, Wire};

/// Packets that may wait in a device for the emulator. Linux has 500 for TUN and drops what does not fit. This is
/// room for 1.3 GB of super-packets, more than the 1 GiB that TCP may have in flight.
const QUEUE: usize = 20_000;

/// The same for a device that the emulator may pause (`pause`), or that sends single packets: a window of 1 GiB arrives in
/// bursts of its segments, for which a queue of 20,000 had no room at 400 ms. TCP is then limited only by its window, since
/// packets in a TUN device count as sent. This is room for 1 GiB in packets of 9000 bytes. TUN has up to 524,288
/// (`__ptr_ring_init_queue_alloc` in `linux/ptr_ring.h`, 4 MiB of pointers).
const LONG_QUEUE: usize = 200_000;

/// Longest queue that some kernels accept: Debian's 6.1.192 answers ERANGE to more, 6.18 does not.
const QUEUE_MAX_OF_SOME_KERNELS: usize = 32_767;

/// Largest number of segments of a super-packet if it is not limited (`GSO_MAX_SEGS` in `linux/netdevice.h`).
const SEGMENTS_MAX: u16 = u16::MAX;

/// A line for `ip -batch` with the settings of a device: `options` are the options of the link for what it sends, and
/// `is_single` says whether it sends single packets.
pub(crate) fn line(name: &str, options: &LinkOptions, is_single: bool) -> String {
    let mtu = options.mtu();
    let segments = if is_single { 1 } else { SEGMENTS_MAX };
    format!("link set dev {name} mtu {mtu} txqueuelen {QUEUE} gso_max_segs {segments}\n")
}

/// The same as [`line`] for a new device, which gets no address from the kernel and therefore solicits no routers.
pub(crate) fn set_up(name: &str, options: &LinkOptions, is_single: bool) -> String {
    format!("link set dev {name} addrgenmode none\n{}", line(name, options, is_single))
}

/// Lengthens the queues of those devices of a node that need it, after [`line`].
pub(crate) fn lengthen_queues(
    namespace: &Namespace,
    topology: &Topology,
    node: &str,
) -> Result<(), LabError> {
    let ends = topology.ends(node);
    for (link, _) in ends.filter(|&(link, end)| has_long_queue(topology, link, end)) {
        let name = &topology.links[link].name;
        let set = |queue| tool::ip(namespace, &format!("link set dev {name} txqueuelen {queue}\n"));
        set(LONG_QUEUE).or_else(|_| set(QUEUE_MAX_OF_SOME_KERNELS))?;
    }
    Ok(())
}

fn has_long_queue(topology: &Topology, link: usize, end: usize) -> bool {
    let Wire { options, adapter, .. } = &topology.links[link];
    let is_off = adapter.as_ref().is_some_and(|adapter| adapter.offload == Offload::Off);
    is_off || options[end].pauses()
}

/// Settings that differ after links have changed: lines for `ip -batch`, by node, to be followed by [`lengthen_queues`].
pub(crate) fn changes<'a>(before: &Topology, after: &'a Topology) -> Vec<(&'a str, String)> {
    let nodes = after.nodes.keys().map(|node| {
        let lines = after.ends(node).map(|(link, end)| {
            let [old, new] = [before, after].map(|topology| {
                let Wire { name, options, .. } = &topology.links[link];
                let line = line(name, &options[end], topology.is_single(link, end));
                (line, has_long_queue(topology, link, end))
            });
            if new == old { String::new() } else { new.0 }
        });
        (node.as_str(), lines.collect::<String>())
    });
    nodes.filter(|(_, lines)| !lines.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_begins_to_pause_has_its_devices_set_again() {
        let topology = |options| {
            let text = "[hosts.a]\n[hosts.b]\n[links.l0]\nbetween = ['a', 'b']\n";
            Topology::parse(&format!("{text}options = '{options}'\n")).unwrap()
        };
        let [steady, pausing] = ["rate=1G queue=1MiB", "rate=1G queue=1MiB pause"].map(topology);
        let nodes = |before, after| -> Vec<&str> {
            changes(before, after).into_iter().map(|(node, _)| node).collect()
        };
        assert_eq!(nodes(&steady, &pausing), ["a", "b"]);
        assert_eq!(nodes(&pausing, &steady), ["a", "b"]);
        assert!(nodes(&pausing, &pausing).is_empty());
    }
}
