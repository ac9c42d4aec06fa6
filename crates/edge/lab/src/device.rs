//! What is set on the device at one end of a link, and what of it changes with the words of links.

use fabricmark_link::LinkWords;

use crate::topology::{Topology, Wire};

/// Packets that may wait for the emulator in a device. Linux has 500 for TUN and drops what does not
/// fit; this is room for 1.3 GB of super-packets, more than the 1 GiB that TCP may have under way.
const QUEUE: usize = 20_000;

/// The same where the emulator takes nothing for a while (`pause`). TCP is then held by its window alone,
/// since what waits in a TUN device counts as sent; this is room for 1 GiB in packets of 9000 bytes. TUN
/// has up to 524,288 (`__ptr_ring_init_queue_alloc` in `linux/ptr_ring.h`, 4 MiB of pointers).
pub(crate) const QUEUE_OF_PAUSED: usize = 200_000;

/// Segments of a super-packet where they are not limited (`GSO_MAX_SEGS` in `linux/netdevice.h`).
const SEGMENTS_MAX: u16 = u16::MAX;

/// The settings of a device by its name, what becomes of what it sends, and whether that is single packets, as a
/// line for `ip -batch`.
pub(crate) fn line(name: &str, words: &LinkWords, is_single: bool) -> String {
    let mtu = words.mtu();
    let segments = if is_single { 1 } else { SEGMENTS_MAX };
    let queue = if words.pauses() { QUEUE_OF_PAUSED } else { QUEUE };
    format!("link set dev {name} mtu {mtu} txqueuelen {queue} gso_max_segs {segments}\n")
}

/// What [`line`] says, for a device that is to stand alone: without an address that the kernel makes, it
/// asks for no routers either.
pub(crate) fn set_up(name: &str, words: &LinkWords, is_single: bool) -> String {
    format!("link set dev {name} addrgenmode none\n{}", line(name, words, is_single))
}

/// What must be set anew where links have changed: for each node, lines for `ip -batch`.
pub(crate) fn changes<'a>(before: &Topology, after: &'a Topology) -> Vec<(&'a str, String)> {
    let nodes = after.nodes.keys().map(|node| {
        let lines = after.ends(node).map(|(link, end)| {
            let [old, new] = [before, after].map(|topology| {
                let Wire { name, words, .. } = &topology.links[link];
                line(name, &words[end], topology.is_single(link, end))
            });
            if new == old { String::new() } else { new }
        });
        (node.as_str(), lines.collect::<String>())
    });
    nodes.filter(|(_, lines)| !lines.is_empty()).collect()
}
