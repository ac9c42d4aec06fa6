//! Builds the elements of link options.

use fabricmark_units::{BIT_NS, BitRate, Nanos, Stream};
use fabricmark_wire::Link;

use super::LinkOptions;
use super::value::{Discipline, Distribution, Room};
use super::word::{Key, Value};
use crate::line::saturated;
use crate::{
    Adaptive, CoDel, Coalesce, Corrupt, Delay, Delays, Duplicate, Element, Framing, Invalid, Limit,
    Line, Loss, Marks, Moderation, Opportunities, Order, Outage, Queue, Rate, Red, RedSettings,
    Reorder,
};

/// Minimum of the default queue size: that of a Linux interface in packets (`txqueuelen`, and the limit of
/// tc-netem(8)).
const QUEUE_PACKETS_LEAST: u64 = 1000;

/// Defaults of the mlx4 driver of Linux (`MLX4_EN_RX_*` in mlx4_en.h), which samples its statistics every 250 ms. The
/// driver goes from low to high in steps; here there is one value between them.
const ADAPTIVE: Adaptive = Adaptive {
    rate_low: 400_000,
    rate_high: 450_000,
    sample: Nanos::from_millis(250),
    low: Moderation { time: Nanos(0), frames: 44 },
    normal: Moderation { time: Nanos(16_000), frames: 44 },
    high: Moderation { time: Nanos(128_000), frames: 44 },
};

type Part<T> = Box<dyn Element<T> + Send>;

/// A rate of `bits / seconds`.
type Ratio = (u64, u64);

impl LinkOptions {
    /// Builds the elements in the order in which a packet passes them: wire with its queue, outage, loss, corruption,
    /// duplication, delay, reordering, coalescing. Empty if packets pass unchanged. Random streams derive from `seed`
    /// and `name`.
    ///
    /// Loss comes after the queue: a packet lost by the medium has taken its time on the wire (tc-netem(8) drops it
    /// before). Coalescing comes last because the receiver's NIC does it. With `pause`, port 1 of the first element
    /// requests pauses.
    pub fn build<T: Clone + Send + 'static>(
        &self,
        seed: u64,
        name: &str,
    ) -> Result<Vec<Part<T>>, Invalid> {
        self.check()?;
        let mut parts: Vec<Part<T>> = Vec::new();
        parts.extend(self.wire(red_stream(seed, name))?);
        parts.extend(self.build_behind(seed, name)?);
        Ok(parts)
    }

    /// The wire and its queue, for a port of a switch. `None` without a rate, or if only [`build`](Self::build)
    /// supports the wire: a schedule, a trace, or `pause`.
    pub fn build_line<T: Clone>(
        &self,
        seed: u64,
        name: &str,
    ) -> Result<Option<(Line, Queue<T>)>, Invalid> {
        self.check()?;
        let Some(ratio) = self.ratio().filter(|_| !self.pauses()) else { return Ok(None) };
        let queue = self.queue(ratio, red_stream(seed, name))?;
        Ok(Some((Line::ratio(ratio.0, ratio.1, self.framing())?, queue)))
    }

    /// The elements of [`build`](Self::build) after the wire.
    pub fn build_behind<T: Clone + Send + 'static>(
        &self,
        seed: u64,
        name: &str,
    ) -> Result<Vec<Part<T>>, Invalid> {
        self.check()?;
        let stream = |what: &str| Stream::new(seed, &format!("{name} {what}"));
        let mut parts: Vec<Part<T>> = Vec::new();
        if let (Some(Value::Time(up)), Some(Value::Time(down))) =
            (self.get(Key::Up), self.get(Key::Down))
        {
            parts.push(Box::new(Outage::new(*up, *down, Nanos(0))?));
        }
        if let Some(losses) = self.losses() {
            parts.push(Box::new(Loss::new(losses, stream("loss"))?));
        }
        if let Some(Value::Share(share)) = self.get(Key::Corrupt) {
            parts.push(Box::new(Corrupt::new(share.0, stream("corrupt"))?));
        }
        if let Some(Value::Share(share)) = self.get(Key::Duplicate) {
            parts.push(Box::new(Duplicate::new(share.0, stream("duplicate"))?));
        }
        if let Some(delay) = self.delaying(stream("delay"))? {
            parts.push(Box::new(delay));
        }
        if let Some(Value::Reorder { share, longest, gap }) = self.get(Key::Reorder) {
            let gap = gap.unwrap_or(u32::MAX);
            parts.push(Box::new(Reorder::new(share.0, gap, *longest, stream("reorder"))?));
        }
        match self.get(Key::Coalesce) {
            Some(Value::Coalesce(Some(moderation))) => {
                parts.push(Box::new(Coalesce::fixed(*moderation)));
            }
            Some(Value::Coalesce(None)) => parts.push(Box::new(Coalesce::adaptive(ADAPTIVE)?)),
            _ => {}
        }
        Ok(parts)
    }

    /// Whether a rate, the rate of a link, a schedule or a trace limits when packets leave.
    pub fn is_paced(&self) -> bool {
        self.ratio().is_some() || self.get(Key::Pace).is_some()
    }

    /// The wire without its queue; `None` if the rate is unlimited. A schedule or a trace counts as a wire of its
    /// mean rate without framing.
    pub fn line(&self) -> Result<Option<Line>, Invalid> {
        let Some(((bits, seconds), framing)) = self.pace()? else { return Ok(None) };
        Line::ratio(bits, seconds, framing).map(Some)
    }

    /// Rate and framing of the wire, or the mean rate of a schedule or a trace.
    fn pace(&self) -> Result<Option<(Ratio, Framing)>, Invalid> {
        Ok(match (self.ratio(), self.get(Key::Pace)) {
            (Some(ratio), _) => Some((ratio, self.framing())),
            (None, Some(Value::Schedule { bytes, period })) => {
                Some(((bytes.0.saturating_mul(8_000_000_000), period.0), Framing::NONE))
            }
            (None, Some(Value::Trace(_))) => {
                let trace = self.files.trace.as_ref().ok_or(Invalid::Unread)?;
                Some(((trace.mean_rate_bps() as u64, 1), Framing::NONE))
            }
            _ => None,
        })
    }

    /// Rejects options that would have no effect.
    fn check(&self) -> Result<(), Invalid> {
        let wired = self.ratio().is_some();
        let managed = self.discipline() != Discipline::DropTail;
        let jitters = self.get(Key::Jitter).is_some();
        let has_delays = matches!(self.get(Key::Delay), Some(Value::OfEach(_)));
        let has_losses = matches!(self.get(Key::Loss), Some(Value::OfEach(_)));
        if has_delays && self.files.delays.is_none() || has_losses && self.files.losses.is_none() {
            return Err(Invalid::Unread);
        }
        let needs = [
            (
                Key::Jitter,
                if has_delays { "delay=TIME" } else { "delay" },
                self.get(Key::Delay).is_some() && !has_delays,
            ),
            (Key::Distribution, "jitter", jitters),
            (Key::Order, "jitter", self.has_jitter()),
            (Key::Queue, "rate, schedule, trace or link", self.is_paced()),
            (Key::Discipline, "rate, schedule, trace or link", self.is_paced()),
            (Key::Ecn, "discipline=codel or discipline=red", managed),
            (Key::Framing, "rate or link", wired),
            (Key::Pause, "rate or link", wired),
            (Key::Up, "down", self.get(Key::Down).is_some()),
            (Key::Down, "up", self.get(Key::Up).is_some()),
        ];
        for (key, needs, has) in needs {
            if self.get(key).is_some() && !has {
                return Err(Invalid::Alone { word: key.name(), needs });
            }
        }
        // The packet that triggers the pause must fit.
        if self.pause_room_bytes().is_some_and(|room| room < u64::from(self.mtu())) {
            return Err(Invalid::Narrow);
        }
        Ok(())
    }

    /// Rate of the wire; `None` if unlimited, or set by a schedule or a trace.
    pub(super) fn ratio(&self) -> Option<Ratio> {
        match self.options.get(&Key::Pace).map(|word| &word.value) {
            Some(Value::Rate(rate)) => Some((rate.0, 1)),
            Some(_) => None,
            None => {
                let exact = self.link()?.rate_bps()?;
                Some((exact.numerator().try_into().ok()?, exact.denominator().try_into().ok()?))
            }
        }
    }

    fn framing(&self) -> Framing {
        self.framing_link().and_then(Framing::of).unwrap_or(Framing::NONE)
    }

    /// Link whose framing is added; `None` if the rate counts IP packets.
    pub(super) fn framing_link(&self) -> Option<Link> {
        if let Some(Value::Framing(link)) = self.get(Key::Framing) { *link } else { self.link() }
    }

    /// The element that limits when packets leave, with its queue.
    fn wire<T: Clone + Send + 'static>(&self, stream: Stream) -> Result<Option<Part<T>>, Invalid> {
        let Some((ratio, framing)) = self.pace()? else { return Ok(None) };
        let queue = || self.queue(ratio, stream);
        Ok(Some(match (self.get(Key::Pace), &self.files.trace) {
            (Some(Value::Schedule { bytes, period }), _) => {
                Box::new(Opportunities::schedule(bytes.0, *period, queue()?)?)
            }
            (Some(Value::Trace(_)), Some(trace)) => {
                Box::new(Opportunities::trace(trace.clone(), queue()?))
            }
            _ => {
                let line = Line::ratio(ratio.0, ratio.1, framing)?;
                let rate = Rate::new(line, queue()?);
                if !self.pauses() {
                    return Ok(Some(Box::new(rate)));
                }
                let bytes = self.queue_bytes(ratio);
                let time = Marks::longest_pause(BitRate(ratio.0 / ratio.1));
                Box::new(rate.with_marks(Marks::new(high_bytes(bytes), bytes / 4, time)?))
            }
        }))
    }

    /// Bytes free in the queue when it requests a pause; `None` without `pause`.
    pub fn pause_room_bytes(&self) -> Option<u64> {
        let bytes = self.queue_bytes(self.ratio().filter(|_| self.pauses())?);
        Some(bytes - high_bytes(bytes))
    }

    fn queue<T: Clone>(&self, ratio: Ratio, stream: Stream) -> Result<Queue<T>, Invalid> {
        let bytes = self.queue_bytes(ratio);
        let limit = self.limit(ratio);
        let marks = self.get(Key::Ecn).is_some();
        Ok(match self.discipline() {
            Discipline::CoDel { target, interval } => {
                Queue::codel(limit, CoDel::new(target, interval, marks)?)
            }
            Discipline::Red => {
                let settings = RedSettings {
                    // A twelfth and a quarter of the limit, as tc-red(8) sets them.
                    min_bytes: bytes / 12,
                    max_bytes: bytes / 4,
                    probability: 0.1,
                    weight: 0.002,
                    packet_time: Nanos(saturated(
                        u128::from(self.mtu()) * BIT_NS * u128::from(ratio.1)
                            / u128::from(ratio.0.max(1)),
                    )),
                    marks,
                };
                Queue::red(limit, Red::new(settings, stream)?)
            }
            Discipline::DropTail => Queue::drop_tail(limit),
        })
    }

    /// Queue limit.
    pub(super) fn limit(&self, ratio: Ratio) -> Limit {
        let bytes = self.queue_bytes(ratio);
        match self.get(Key::Queue) {
            // The marks count bytes: small packets could fill a limit in packets before a mark is reached.
            _ if self.pauses() => Limit::Bytes(bytes),
            Some(Value::Queue(Room::Bytes(_) | Room::Time(_))) => Limit::Bytes(bytes),
            Some(Value::Queue(Room::Packets(packets))) => Limit::Packets(*packets),
            _ => Limit::Packets(bytes / u64::from(self.mtu())),
        }
    }

    /// Queue size in bytes, packets counted at MTU size. Default: 1.25 BDP, at least 1000 packets.
    pub(super) fn queue_bytes(&self, (bits, seconds): Ratio) -> u64 {
        let mtu = u64::from(self.mtu());
        let sent_in = |time: u128| {
            saturated(u128::from(bits).saturating_mul(time) / (BIT_NS * u128::from(seconds)))
        };
        match self.get(Key::Queue) {
            Some(Value::Queue(Room::Packets(packets))) => packets.saturating_mul(mtu),
            Some(Value::Queue(Room::Bytes(bytes))) => bytes.0,
            Some(Value::Queue(Room::Time(time))) => sent_in(time.0.into()),
            _ => {
                let product = sent_in(2 * u128::from(self.delay().0));
                let product = product.saturating_add(product / 4);
                product.div_ceil(mtu).max(QUEUE_PACKETS_LEAST).saturating_mul(mtu)
            }
        }
    }

    fn delaying<T>(&self, stream: Stream) -> Result<Option<Delay<T>>, Invalid> {
        if let (Some(Value::OfEach(_)), Some(delays)) = (self.get(Key::Delay), &self.files.delays) {
            return Delay::new(Delays::Trace(delays.clone()), self.order(), stream).map(Some);
        }
        let mean = self.delay();
        let delays = match (self.jitter(), self.distribution()) {
            (Some(deviation), Distribution::Normal) => Delays::Normal { mean, deviation },
            (Some(deviation), Distribution::Pareto) if deviation.0 > 0 => pareto(mean, deviation)?,
            _ => return Ok((mean.0 > 0).then(|| Delay::fixed(mean))),
        };
        Delay::new(delays, self.order(), stream).map(Some)
    }

    pub(super) fn discipline(&self) -> Discipline {
        let said = self.get(Key::Discipline);
        if let Some(Value::Discipline(said)) = said { *said } else { Discipline::default() }
    }

    pub(super) fn order(&self) -> Order {
        if let Some(Value::Order(order)) = self.get(Key::Order) { *order } else { Order::Kept }
    }

    pub(super) fn distribution(&self) -> Distribution {
        let said = self.get(Key::Distribution);
        if let Some(Value::Distribution(said)) = said { *said } else { Distribution::default() }
    }
}

/// Pareto distribution with the given mean and standard deviation. For shape `a` and minimum `l`, the mean is
/// `l * a / (a - 1)` and the deviation is the mean times `1 / sqrt(a * (a - 2))`.
fn pareto(mean: Nanos, deviation: Nanos) -> Result<Delays, Invalid> {
    crate::invalid::some("the mean of a Pareto delay", mean.0)?;
    let shape = 1.0 + (1.0 + (mean.0 as f64 / deviation.0 as f64).powi(2)).sqrt();
    let least = Nanos((mean.0 as f64 * (shape - 1.0) / shape).round() as u64);
    Ok(Delays::Pareto { least, shape })
}

/// Random stream of RED.
fn red_stream(seed: u64, name: &str) -> Stream {
    Stream::new(seed, &format!("{name} red"))
}

/// Queue level in bytes at which it requests a pause. The other half holds what arrives before the sender stops.
fn high_bytes(queue_bytes: u64) -> u64 {
    queue_bytes / 2
}
