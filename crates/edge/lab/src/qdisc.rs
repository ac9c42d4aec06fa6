//! Queues of the kernel (qdiscs) that do what the words of a link say, in the words of `tc`.
//!
//! What they do is not what the emulator does to the last: `docs/lab.md` says where they differ.

mod netem;

use std::fmt;

use fabricmark_link::{Description, Discipline, Limit, LinkWords, TokenBucket, WireDescription};
use fabricmark_units::BitRate;
use fabricmark_wire::{Link, frame};
use serde::{Deserialize, Serialize};

/// What carries the packets of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Our own, between TUN devices.
    #[default]
    Emulator,
    /// The kernel's token bucket, tc-tbf(8), between veth devices.
    Tbf,
    /// The kernel's hierarchical token bucket, tc-htb(8), with one class.
    Htb,
    /// The kernel's network emulator, tc-netem(8).
    Netem,
    /// None: veth devices without a queue.
    Veth,
}

impl Backend {
    /// Whether queues of the kernel delay or drop its packets.
    pub(crate) fn shapes(self) -> bool {
        !matches!(self, Self::Emulator | Self::Veth)
    }
}

/// The queues of a device whose handle is 1, and what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Qdiscs {
    root: String,
    /// The only class, where the root has classes.
    class: Option<String>,
    /// The queue of class 1:1.
    leaf: Option<String>,
}

/// The queues that the lab may ask for: what a kernel without one of them lacks is `sch_KIND`.
const KINDS: [&str; 7] = ["tbf", "htb", "netem", "pfifo", "bfifo", "codel", "red"];

/// Bytes of a frame that queues and veth devices count beyond the IP packet.
pub(crate) const HEADER: u64 = frame::ETHERNET_HEADER;

/// Where the rate is one of IP packets, the queue is not to count the Ethernet header: tc-stab(8).
const WITHOUT_HEADER: &str = "stab overhead -14 ";

impl Qdiscs {
    /// The queueing disciplines that carry out these link options; `None` if the emulator does. An error names the option that
    /// the backend does not support, and one that does.
    pub(crate) fn of(backend: Backend, words: &LinkWords) -> Result<Option<Self>, String> {
        if backend == Backend::Emulator {
            return Ok(None);
        }
        let ask = Ask { backend, words, asked: words.describe(), mtu: u64::from(words.mtu()) };
        for key in ["schedule", "trace", "pause", "up", "down", "coalesce"] {
            if ask.said(key).is_some() {
                return Err(ask.refusal(key, "", "`emulator`"));
            }
        }
        if backend == Backend::Veth {
            let text = words.to_string();
            let mut others =
                text.split(' ').filter(|word| !word.is_empty() && !word.starts_with("mtu="));
            let key = others.next().map(|word| word.split('=').next().unwrap_or(word));
            return key.map_or(Ok(None), |key| Err(ask.refusal(key, "", "`emulator`")));
        }
        match (backend, ask.asked.wire) {
            (Backend::Netem, wire) => ask.netem_alone(wire).map(Some),
            (_, Some(wire)) => ask.shaped(wire).map(Some),
            (_, None) => Err(format!(
                "backend `{backend}` shapes to a rate: give `rate` or a `link` with one, or use backend \
                 `netem`"
            )),
        }
    }

    /// Whether this can take the place of `old` on a device that is up: htb takes no change.
    pub(crate) fn can_follow(&self, old: &Self) -> bool {
        self.class.is_none() || self.root == old.root
    }

    /// Whether packets are counted with their Ethernet header.
    pub(crate) fn counts_header(&self) -> bool {
        !self.root.starts_with(WITHOUT_HEADER)
    }

    /// What sets them; `is_new` where the device has no queue of ours yet.
    pub(crate) fn commands(&self, device: &str, is_new: bool) -> Vec<Command> {
        let Self { root, class, leaf } = self;
        let command = |queue, words| Command { kind: KINDS[kind(queue)], words };
        let mut commands = Vec::new();
        if is_new || class.is_none() {
            let words = format!("qdisc replace dev {device} root handle 1: {root}");
            commands.push(command(root, words));
        }
        if let Some(class) = class {
            let words = format!("class replace dev {device} parent 1: classid 1:1 {class}");
            commands.push(command(class, words));
        }
        if let Some(leaf) = leaf {
            // A handle keeps its kind, so that each kind has one of its own.
            let handle = kind(leaf) + 2;
            let words = format!("qdisc replace dev {device} parent 1:1 handle {handle}: {leaf}");
            commands.push(command(leaf, words));
        }
        commands
    }
}

/// The place of a queue's kind in [`KINDS`].
fn kind(queue: &str) -> usize {
    let place = |word| KINDS.iter().position(|&kind| kind == word);
    queue.split(' ').find_map(place).unwrap_or(0)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The kind of queue that it needs.
    pub(crate) kind: &'static str,
    /// The words behind `tc`.
    pub(crate) words: String,
}

/// What one direction of a link is asked to do.
struct Ask<'a> {
    backend: Backend,
    words: &'a LinkWords,
    asked: Description,
    mtu: u64,
}

impl Ask<'_> {
    /// A tbf or htb, and below it what waits.
    fn shaped(&self, wire: WireDescription) -> Result<Qdiscs, String> {
        let (rate, vlan) = self.framed(wire)?;
        let token_bucket = TokenBucket::new(rate, self.words.mtu(), vlan);
        let waiting = match wire.queue {
            // What waits is counted with the Ethernet header, unless it is not to be counted at all.
            Limit::Bytes(bytes) if vlan.is_some() => {
                Limit::Bytes(bytes.saturating_add(bytes / self.mtu * HEADER))
            }
            other => other,
        };
        let counted = if vlan.is_some() { "" } else { WITHOUT_HEADER };
        let leaf = Some(match wire.discipline {
            _ if self.needs_netem() => {
                if wire.discipline != Discipline::DropTail {
                    let why = " beside delays and losses, for which netem is the queue";
                    return Err(self.refusal("discipline", why, "`emulator`"));
                }
                self.netem(&self.rate_for_order())?
            }
            Discipline::DropTail => match waiting {
                Limit::Bytes(bytes) => format!("bfifo limit {}", limited(bytes)),
                Limit::Packets(packets) => format!("pfifo limit {}", limited(packets)),
            },
            Discipline::CoDel { target, interval } => {
                let ecn = if wire.ecn { "ecn" } else { "noecn" };
                let packets = limited(self.packets(wire.queue));
                format!("codel limit {packets} target {target} interval {interval} {ecn}")
            }
            Discipline::Red => self.red(wire, rate),
        });
        if self.backend == Backend::Htb {
            let (bucket, quantum) = (token_bucket.bucket_bytes(), token_bucket.largest_bytes());
            // The default quantum is a tenth of the rate in bytes, above what the kernel takes from
            // 16 Mbit/s on (200,000 bytes, net/sched/sch_htb.c); of one class, one packet will do.
            let class = format!(
                "htb rate {0}bit ceil {0}bit burst {bucket} cburst {bucket} quantum {quantum}{1}",
                rate.0,
                token_bucket.framing()
            );
            let root = format!("{counted}htb default 1");
            return Ok(Qdiscs { root, class: Some(class), leaf });
        }
        let bucket = token_bucket.words(limited(wire.queue_bytes));
        Ok(Qdiscs { root: format!("{counted}{bucket}"), class: None, leaf })
    }

    /// The rate in bit/s and the tags of Ethernet's framing; `None` for a rate of IP packets.
    fn framed(&self, wire: WireDescription) -> Result<(BitRate, Option<u8>), String> {
        match (wire.framing, wire.rate) {
            // A link of memory has no framing.
            (None | Some(Link::Loopback | Link::Veth { .. }), (bps, 1)) => Ok((BitRate(bps), None)),
            (Some(Link::Ethernet { vlan, .. } | Link::RoceV2 { vlan, .. }), (bps, 1)) => {
                Ok((BitRate(bps), Some(vlan)))
            }
            _ => {
                let key = if self.said("framing").is_some() { "framing" } else { "link" };
                let why = ", whose packets are padded and cut by rules of their own";
                Err(self.refusal(key, why, "`emulator`"))
            }
        }
    }

    fn needs_netem(&self) -> bool {
        let Description { delay, jitter, loss, corrupt, duplicate, reorder, .. } = &self.asked;
        let differs = *corrupt > 0.0 || *duplicate > 0.0 || reorder.is_some();
        delay.0 > 0 || jitter.0 > 0 || loss.is_some() || differs
    }

    /// Packets of the MTU that a queue has room for.
    fn packets(&self, queue: Limit) -> u64 {
        match queue {
            Limit::Bytes(bytes) => bytes.div_ceil(self.mtu),
            Limit::Packets(packets) => packets,
        }
    }

    /// Minimum, maximum, burst and probability as tc-red(8) advises; the wire is idle for packets of
    /// the MTU. The kernel's RED is not gentle: above the maximum it signals to all.
    fn red(&self, wire: WireDescription, rate: BitRate) -> String {
        let (limit, mtu) = (limited(wire.queue_bytes), self.mtu);
        let (min, max) = (limit / 12, limit / 4);
        let burst = (2 * min + max).div_ceil(3 * mtu) + 1;
        let ecn = if wire.ecn { " ecn" } else { "" };
        format!(
            "red limit {limit} min {min} max {max} avpkt {mtu} burst {burst} probability 0.1 \
             bandwidth {}bit{ecn}",
            rate.0
        )
    }

    /// The word of a key as it is printed, unless it says that there is no such thing.
    fn said(&self, key: &str) -> Option<String> {
        let text = self.words.to_string();
        let word = text.split(' ').find(|word| word.split('=').next() == Some(key));
        word.filter(|word| !word.ends_with("=none")).map(str::to_owned)
    }

    /// That a word cannot be done, `why` if the word alone would do, and which backends can.
    fn refusal(&self, key: &str, why: &str, instead: &str) -> String {
        let (backend, word) = (self.backend, self.said(key).unwrap_or_else(|| key.to_owned()));
        format!(
            "backend `{backend}` cannot do `{word}`{why}: use backend {instead}, or leave it out"
        )
    }
}

/// `tc` has 32 bits for each limit.
fn limited(value: u64) -> u64 {
    value.min(u64::from(u32::MAX))
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emulator => "emulator",
            Self::Tbf => "tbf",
            Self::Htb => "htb",
            Self::Netem => "netem",
            Self::Veth => "veth",
        })
    }
}

#[cfg(test)]
mod tests;
