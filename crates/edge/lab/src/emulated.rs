//! A link of a two-node lab behind the emulator: a TUN device at each end and a thread between them.

use std::time::Duration;

use fabricmark_link::{HostBus, LinkWords};
use fabricmark_units::Nanos;

use crate::bus::BusPlan;
use crate::device;
use crate::emulator::Emulator;
use crate::namespace::Namespace;
use crate::path::Traffic;
use crate::shared::Entry;
use crate::tool::LabError;
use crate::tun::Tun;

/// Largest buffers that the kernel may give a connection by its own tuning, so that they are not what
/// bounds a long fat path: the most that it takes (net/ipv4/sysctl_net_ipv4.c). What a connection
/// begins with are Linux's defaults.
const TUNED_BUFFERS: [(&str, &str); 2] = [
    ("net.ipv4.tcp_rmem", "4096 131072 2147483647"),
    ("net.ipv4.tcp_wmem", "4096 16384 2147483647"),
];

/// A link behind the emulator.
#[derive(Debug)]
pub(crate) struct Emulated {
    emulator: Emulator,
}

impl Emulated {
    /// Makes the devices, both called `name`; they are down and have no addresses.
    pub(crate) fn build(
        name: &str,
        nodes: [&Namespace; 2],
        (words, bus): (&LinkWords, Option<HostBus>),
        single: bool,
        seed: u64,
        cpu: Option<u32>,
    ) -> Result<Self, LabError> {
        let end = |node: &Namespace, way: &str| {
            let tun = Tun::new(node, name)?;
            if single {
                tun.take_single_packets()?;
            }
            let name = format!("{name}:{way}");
            Ok::<_, LabError>(Entry { tun: Some(tun), name, words: words.clone() })
        };
        let ends = vec![end(nodes[0], "there")?, end(nodes[1], "back")?];
        // What begins at the client's device is the first direction.
        let buses = bus.into_iter().map(|bus| BusPlan::of("client", bus, vec![0])).collect();
        if words.delay() > Nanos(0) {
            for node in nodes {
                for (key, value) in TUNED_BUFFERS {
                    node.set(key, value)?;
                }
            }
        }
        Ok(Self { emulator: Emulator::start_shared(ends, Vec::new(), buses, seed, cpu)? })
    }

    /// What its device is set to at both ends, as words for `ip -batch`.
    pub(crate) fn set_up(name: &str, words: &LinkWords, single: bool) -> String {
        // Without an address that the kernel makes, it asks for no routers either.
        let mut text =
            format!("link set dev {name} addrgenmode none\n{}", device::line(name, words, false));
        if single {
            // A window of 1 GiB comes in bursts of its segments, of which 20,000 found no room at 400 ms.
            text += &format!("link set dev {name} txqueuelen {}\n", device::QUEUE_OF_PAUSED);
        }
        text
    }

    /// Waits until nothing is on its way there (0) or back (1), at most for so long.
    pub(crate) fn settle(&self, way: usize, within: Duration) -> Result<bool, LabError> {
        self.emulator.settle(way, within)
    }

    /// What happened there and back.
    pub(crate) fn traffic(&self) -> Result<Vec<Traffic>, LabError> {
        let mut ways = self.emulator.traffic()?;
        // What finds no room before the bus was on its way back: the memory of the host drops nothing that
        // leaves.
        for bus in self.emulator.shared_traffic()? {
            if let Some(back) = ways.get_mut(1) {
                for (count, more) in back.dropped.iter_mut().zip(bus.dropped) {
                    *count += more;
                }
            }
        }
        Ok(ways)
    }
}
