//! Options of netem: tc-netem(8), and net/sched/sch_netem.c where the manual says less.

use fabricmark_link::{Description, Discipline, Losses, Order, WireDescription, beyond_header};
use fabricmark_units::Nanos;

use super::{Ask, HEADER, Qdiscs, limited};

/// A rate that is no noticeable delay: 12 ns for 1500 bytes. Netem keeps the order of packets if it has a rate,
/// since each packet then leaves after the previous one (`netem_enqueue` in net/sched/sch_netem.c). Without a rate,
/// a packet with a shorter delay overtakes others.
const KEEPING_ORDER: &str = "1000gbit 0";

/// Netem's jitter is within four standard deviations: its tables have 16 bits, and 8192 is one deviation
/// (NETEM_DIST_SCALE in linux/pkt_sched.h).
const DEVIATIONS: u64 = 4;

/// Smallest probability: netem draws 32 bits (`get_crandom`), so that less than half a step would be 0.
const SHARE_LEAST: f64 = 0.5 / 4_294_967_296.0;

/// Packets per second that size the limit of a netem without a rate: the smallest Ethernet frames at 10 Gbit/s (RFC
/// 5180, appendix A: 84 bytes with the gap).
const FRAMES_PER_SECOND: u128 = 14_880_953;

/// Smallest limit of a netem: its own default in packets (tc-netem(8)).
const NETEM_LEAST: u64 = 1000;

impl Ask<'_> {
    /// A netem at the root, with a rate of its own.
    pub(super) fn netem_alone(&self, wire: Option<WireDescription>) -> Result<Qdiscs, String> {
        let rate = match wire {
            Some(wire) => {
                let shapers = "`tbf`, `htb` or `emulator`";
                if wire.discipline != Discipline::DropTail {
                    return Err(self.refusal("discipline", "", shapers));
                }
                if self.asked.jitter.0 > 0 && self.asked.order == Order::Free {
                    return Err(self.refusal(
                        "order",
                        " with a rate, which keeps packets in order",
                        shapers,
                    ));
                }
                if self.asked.reorder.is_some() {
                    let why = " with a rate, which reordered packets would exceed";
                    return Err(self.refusal("reorder", why, shapers));
                }
                let (rate, vlan) = self.framed(wire)?;
                let overhead = vlan
                    .map_or_else(|| format!("-{HEADER}"), |vlan| beyond_header(vlan).to_string());
                format!("{}bit {overhead}", rate.0)
            }
            None => self.rate_for_order(),
        };
        Ok(Qdiscs { root: self.netem(&rate)?, class: None, leaf: None })
    }

    /// The rate of a netem that does not shape.
    pub(super) fn rate_for_order(&self) -> String {
        let is_kept = self.asked.jitter.0 > 0 && self.asked.order == Order::Kept;
        if is_kept { KEEPING_ORDER } else { "0bit 0" }.to_owned()
    }

    /// A netem with this rate. Rate and corruption are always set, since a change of netem keeps options that it
    /// does not name (`netem_change` in net/sched/sch_netem.c).
    pub(super) fn netem(&self, rate: &str) -> Result<String, String> {
        let Description { delay, jitter, distribution, loss, corrupt, duplicate, reorder, .. } =
            &self.asked;
        let mut text = format!("netem limit {}", self.netem_limit());
        if let &Some((share, longest, gap)) = reorder {
            // Netem sends a fraction of packets at once and delays the others: this is equivalent if nothing else
            // delays packets.
            if gap.is_some() || delay.0 > 0 {
                let why = " with a delay or a number of overtaking packets";
                return Err(self.refusal("reorder", why, "`emulator`"));
            }
            text += &format!(" delay {longest} reorder {}", percent(1.0 - share));
        } else if delay.0 > 0 || jitter.0 > 0 {
            text += &format!(" delay {delay}");
        }
        if jitter.0 > 0 {
            // Without a distribution the kernel draws uniformly, whatever tc-netem(8) says.
            text += &format!(" {jitter} distribution {distribution}");
        }
        match loss {
            None => {}
            Some(Losses::Independent(share)) => {
                text += &format!(" loss random {}", self.chance("loss", *share)?);
            }
            Some(Losses::GilbertElliott(bursts)) => {
                let shares = [bursts.to_bad, bursts.to_good, bursts.loss_bad, bursts.loss_good];
                let [p, r, h, k] = shares.map(|share| self.chance("loss", share));
                text += &format!(" loss gemodel {} {} {} {}", p?, r?, h?, k?);
            }
            Some(Losses::Periodic(_) | Losses::Trace(_)) => {
                return Err(self.refusal("loss", "", "`emulator`"));
            }
        }
        if *duplicate > 0.0 {
            text += &format!(" duplicate {}", self.chance("duplicate", *duplicate)?);
        }
        text += &format!(" corrupt {} rate {rate}", self.chance("corrupt", *corrupt)?);
        Ok(text)
    }

    /// Limit of a netem in packets: those that wait for the wire and those in flight, both of which netem counts.
    ///
    /// Its default of 1,000 packets is what 10 Gbit/s carry in 1.2 ms.
    fn netem_limit(&self) -> u64 {
        let reorder = self.asked.reorder.map_or(Nanos(0), |(_, longest, _)| longest);
        let spread = Nanos(self.asked.jitter.0.saturating_mul(DEVIATIONS));
        let longest = u128::from((self.asked.delay + spread + reorder).0);
        let Some(wire) = self.asked.wire else {
            let frames = (FRAMES_PER_SECOND * longest).div_ceil(1_000_000_000);
            return limited(u64::try_from(frames).unwrap_or(u64::MAX).max(NETEM_LEAST));
        };
        let (bits, seconds) = (u128::from(wire.rate.0), u128::from(wire.rate.1));
        let packet = u128::from(self.mtu) * 8_000_000_000 * seconds;
        let on_the_way = u64::try_from(bits.saturating_mul(longest).div_ceil(packet));
        let waiting = self.packets(wire.queue);
        // Plus the packet that is being sent.
        limited(waiting.saturating_add(on_the_way.unwrap_or(u64::MAX)).saturating_add(1))
    }

    /// A probability in percent, if netem can draw it.
    fn chance(&self, key: &str, share: f64) -> Result<String, String> {
        if share > 0.0 && share < SHARE_LEAST {
            let why = ", which is below its smallest probability (2^-33)";
            return Err(self.refusal(key, why, "`emulator`"));
        }
        Ok(percent(share))
    }
}

/// A percentage with more digits than the kernel's steps of 2^-32.
fn percent(share: f64) -> String {
    let text = format!("{:.10}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}
