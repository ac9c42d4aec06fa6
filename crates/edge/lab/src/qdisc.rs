//! Queueing disciplines of the kernel (qdiscs) for the options of a link, as options of `tc`.
//!
//! They do not behave exactly like the emulator: `docs/lab.md` lists the differences.

mod netem;

use fabricmark_link::{Description, Discipline, Limit, LinkOptions, TokenBucket, WireDescription};
use fabricmark_units::BitRate;
use fabricmark_wire::{Link, frame};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What carries the packets of a link.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Backend {
    /// The emulator of this program, between TUN devices.
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
    /// Whether queueing disciplines of the kernel delay or drop its packets.
    pub(crate) fn shapes(self) -> bool {
        !matches!(self, Self::Emulator | Self::Veth)
    }
}

/// Queueing disciplines of a device: the root, whose handle is 1, and those below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Qdiscs {
    root: String,
    /// The only class, if the root has classes.
    class: Option<String>,
    /// Queueing discipline of class 1:1.
    leaf: Option<String>,
}

/// Kinds that the lab may use; their kernel modules are `sch_KIND`.
const KINDS: [&str; 7] = ["tbf", "htb", "netem", "pfifo", "bfifo", "codel", "red"];

/// Bytes of a frame that queues and veth devices count in addition to the IP packet.
pub(crate) const HEADER: u64 = frame::ETHERNET_HEADER;

/// With a rate of IP packets, the queue must not count the Ethernet header: tc-stab(8).
const WITHOUT_HEADER: &str = "stab overhead -14 ";

impl Qdiscs {
    /// The queueing disciplines that carry out these link options; `None` if the emulator does. An error names the
    /// option that the backend does not support, and one that does.
    pub(crate) fn of(backend: Backend, options: &LinkOptions) -> Result<Option<Self>, String> {
        if backend == Backend::Emulator {
            return Ok(None);
        }
        let ask =
            Ask { backend, options, asked: options.describe(), mtu: u64::from(options.mtu()) };
        for key in ["schedule", "trace", "pause", "up", "down", "coalesce"] {
            if ask.said(key).is_some() {
                return Err(ask.refusal(key, "", "`emulator`"));
            }
        }
        let is_trace = |word: &str| word.contains("=trace:");
        let traced = ["delay", "loss"]
            .into_iter()
            .find(|key| ask.said(key).is_some_and(|word| is_trace(&word)));
        if let Some(key) = traced {
            return Err(ask.refusal(key, "", "`emulator`"));
        }
        if backend == Backend::Veth {
            let text = options.to_string();
            let mut others =
                text.split(' ').filter(|word| !word.is_empty() && !word.starts_with("mtu="));
            let key = others.next().map(|word| word.split('=').next().unwrap_or(word));
            return key.map_or(Ok(None), |key| Err(ask.refusal(key, "", "`emulator`")));
        }
        match (backend, ask.asked.wire) {
            (Backend::Netem, wire) => ask.netem_alone(wire).map(Some),
            (_, Some(wire)) => ask.shaped(wire).map(Some),
            (_, None) => Err(format!(
                "backend `{backend}` needs a rate: give `rate` or a `link` with one, or use \
                 backend `netem`"
            )),
        }
    }

    /// Whether this can replace `old` on a device that is up: the root of an htb cannot be changed.
    pub(crate) fn can_follow(&self, old: &Self) -> bool {
        self.class.is_none() || self.root == old.root
    }

    /// Whether packets are counted with their Ethernet header.
    pub(crate) fn counts_header(&self) -> bool {
        !self.root.starts_with(WITHOUT_HEADER)
    }

    /// Commands that set them; `is_new` says that the device has no queue of ours yet.
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
            // A handle keeps its kind, so that each kind has its own handle.
            let handle = kind(leaf) + 2;
            let words = format!("qdisc replace dev {device} parent 1:1 handle {handle}: {leaf}");
            commands.push(command(leaf, words));
        }
        commands
    }
}

/// Index of a queue's kind in [`KINDS`].
fn kind(queue: &str) -> usize {
    let place = |word| KINDS.iter().position(|&kind| kind == word);
    queue.split(' ').find_map(place).unwrap_or(0)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Kind of queueing discipline that it needs.
    pub(crate) kind: &'static str,
    /// Arguments of `tc`.
    pub(crate) words: String,
}

/// Options of one direction of a link, and the backend that has to support them.
struct Ask<'a> {
    backend: Backend,
    options: &'a LinkOptions,
    asked: Description,
    mtu: u64,
}

impl Ask<'_> {
    /// A tbf or htb, with a queue below it.
    fn shaped(&self, wire: WireDescription) -> Result<Qdiscs, String> {
        let (rate, vlan) = self.framed(wire)?;
        let token_bucket = TokenBucket::new(rate, self.options.mtu(), vlan);
        let waiting = match wire.queue {
            // The queue counts packets with the Ethernet header, unless the header is not to be counted.
            Limit::Bytes(bytes) if vlan.is_some() => {
                Limit::Bytes(bytes.saturating_add(bytes / self.mtu * HEADER))
            }
            other => other,
        };
        let counted = if vlan.is_some() { "" } else { WITHOUT_HEADER };
        let leaf = Some(match wire.discipline {
            _ if self.needs_netem() => {
                if wire.discipline != Discipline::DropTail {
                    let why = " with delays or losses, for which netem is the queue";
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
            // The default quantum is a tenth of the rate in bytes, which exceeds the kernel's limit from 16 Mbit/s
            // on (200,000 bytes, net/sched/sch_htb.c); a single class needs only one packet.
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

    /// The rate in bit/s, and the number of VLAN tags of Ethernet's framing; `None` for a rate of IP packets.
    fn framed(&self, wire: WireDescription) -> Result<(BitRate, Option<u8>), String> {
        match (wire.framing, wire.rate) {
            // A link in memory has no framing.
            (None | Some(Link::Loopback | Link::Veth { .. }), (bps, 1)) => Ok((BitRate(bps), None)),
            (Some(Link::Ethernet { vlan, .. } | Link::RoceV2 { vlan, .. }), (bps, 1)) => {
                Ok((BitRate(bps), Some(vlan)))
            }
            _ => {
                let key = if self.said("framing").is_some() { "framing" } else { "link" };
                let why = ", whose packets are padded and fragmented differently";
                Err(self.refusal(key, why, "`emulator`"))
            }
        }
    }

    fn needs_netem(&self) -> bool {
        let Description { delay, jitter, loss, corrupt, duplicate, reorder, .. } = &self.asked;
        let differs = *corrupt > 0.0 || *duplicate > 0.0 || reorder.is_some();
        delay.0 > 0 || jitter.0 > 0 || loss.is_some() || differs
    }

    /// Number of packets of the MTU for which a queue has room.
    fn packets(&self, queue: Limit) -> u64 {
        match queue {
            Limit::Bytes(bytes) => bytes.div_ceil(self.mtu),
            Limit::Packets(packets) => packets,
        }
    }

    /// Minimum, maximum, burst and probability as tc-red(8) advises; idle time is measured in packets of the MTU.
    /// The kernel's RED is not gentle: above the maximum it signals to all packets.
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

    /// The option with this key as it is printed; `None` if it is absent or `none`.
    fn said(&self, key: &str) -> Option<String> {
        let text = self.options.to_string();
        let word = text.split(' ').find(|word| word.split('=').next() == Some(key));
        word.filter(|word| !word.ends_with("=none")).map(str::to_owned)
    }

    /// The message that an option is not supported, with the reason `why` if it is supported alone, and with the
    /// backends that support it.
    fn refusal(&self, key: &str, why: &str, instead: &str) -> String {
        let (backend, word) = (self.backend, self.said(key).unwrap_or_else(|| key.to_owned()));
        format!(
            "backend `{backend}` does not support `{word}`{why}: use backend {instead}, or leave \
             it out"
        )
    }
}

/// Limits of `tc` have 32 bits.
fn limited(value: u64) -> u64 {
    value.min(u64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
