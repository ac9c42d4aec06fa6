//! The elements that words ask for.

use fabricmark_units::{BitRate, Nanos, Stream};
use fabricmark_wire::Link;

use super::LinkWords;
use super::value::{Discipline, Distribution, Room};
use super::word::{Key, Value};
use crate::line::saturated;
use crate::{
    Adaptive, CoDel, Coalesce, Corrupt, Delay, Delays, Duplicate, Element, Framing, Invalid, Limit,
    Line, Loss, Marks, Moderation, Opportunities, Order, Outage, Queue, Rate, Red, RedSettings,
    Reorder,
};

/// The queue of a Linux interface in packets (`txqueuelen`, and the limit of tc-netem(8)).
const QUEUE_PACKETS_LEAST: u64 = 1000;

/// What the mlx4 driver of Linux begins with (`MLX4_EN_RX_*` in mlx4_en.h), whose statistics are read
/// each 250 ms. It goes from low to high by steps; here one value stands between.
const ADAPTIVE: Adaptive = Adaptive {
    rate_low: 400_000,
    rate_high: 450_000,
    sample: Nanos::from_millis(250),
    low: Moderation { time: Nanos(0), frames: 44 },
    normal: Moderation { time: Nanos(16_000), frames: 44 },
    high: Moderation { time: Nanos(128_000), frames: 44 },
};

/// Bits in a byte times nanoseconds in a second.
const BIT_NS: u128 = 8_000_000_000;

/// An element of a chain.
type Part<T> = Box<dyn Element<T> + Send>;

/// A rate of `bits / seconds`.
type Ratio = (u64, u64);

impl LinkWords {
    /// The elements in the order in which a packet meets them, with chance from streams of `seed` that
    /// are named after `name`: wire with its queue, outage, loss, corruption, copies, delay,
    /// overtaking, coalescing. None where packets pass at once.
    ///
    /// Losses come after the queue: what a medium loses has taken its time on the wire (tc-netem(8)
    /// loses it before). Coalescing comes last, since it is the receiver's card that waits. With
    /// `pause`, port 1 of the first element asks for pauses.
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

    /// The wire and the queue before it, for a port of a switch; `None` where there is no rate, or the wire
    /// is one of [`build`](Self::build) alone: a schedule, a trace, one that pauses.
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

    /// The elements of [`build`](Self::build) behind the wire.
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

    /// Whether something says when packets leave: a rate, that of a link, a schedule, a trace.
    pub fn is_paced(&self) -> bool {
        self.ratio().is_some() || self.get(Key::Pace).is_some()
    }

    /// The wire alone, without its queue; `None` where packets pass at once. What a schedule or a trace
    /// lets through stands here with its mean rate and no framing.
    pub fn line(&self) -> Result<Option<Line>, Invalid> {
        let Some(((bits, seconds), framing)) = self.pace()? else { return Ok(None) };
        Line::ratio(bits, seconds, framing).map(Some)
    }

    /// The rate of a wire and its framing, or the mean rate of a schedule or a trace.
    fn pace(&self) -> Result<Option<(Ratio, Framing)>, Invalid> {
        Ok(match (self.ratio(), self.get(Key::Pace)) {
            (Some(ratio), _) => Some((ratio, self.framing())),
            (None, Some(Value::Schedule { bytes, period })) => {
                Some(((bytes.0.saturating_mul(8_000_000_000), period.0), Framing::NONE))
            }
            (None, Some(Value::Trace(_))) => {
                let trace = self.trace.as_ref().ok_or(Invalid::Unread)?;
                Some(((trace.mean_rate_bps() as u64, 1), Framing::NONE))
            }
            _ => None,
        })
    }

    /// No word may be without effect.
    fn check(&self) -> Result<(), Invalid> {
        let wired = self.ratio().is_some();
        let managed = self.discipline() != Discipline::DropTail;
        let jitters = self.get(Key::Jitter).is_some();
        let needs = [
            (Key::Jitter, "delay", self.get(Key::Delay).is_some()),
            (Key::Distribution, "jitter", jitters),
            (Key::Order, "jitter", jitters),
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
        // What makes it ask for a pause has room.
        if self.pause_room_bytes().is_some_and(|room| room < u64::from(self.mtu())) {
            return Err(Invalid::Narrow);
        }
        Ok(())
    }

    /// The rate of the wire; `None` where there is none or something else says when packets leave.
    pub(super) fn ratio(&self) -> Option<Ratio> {
        match self.words.get(&Key::Pace).map(|word| &word.value) {
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

    /// The link whose framing is added.
    pub(super) fn framing_link(&self) -> Option<Link> {
        if let Some(Value::Framing(link)) = self.get(Key::Framing) { *link } else { self.link() }
    }

    /// What says when packets leave, with its queue.
    fn wire<T: Clone + Send + 'static>(&self, stream: Stream) -> Result<Option<Part<T>>, Invalid> {
        let Some((ratio, framing)) = self.pace()? else { return Ok(None) };
        let queue = || self.queue(ratio, stream);
        Ok(Some(match (self.get(Key::Pace), &self.trace) {
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

    /// Bytes that have room in the queue when it asks for a pause; `None` where it asks for none.
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
                    // A quarter and a twelfth of the limit, as tc-red(8) sets them.
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

    /// How much may wait.
    pub(super) fn limit(&self, ratio: Ratio) -> Limit {
        let bytes = self.queue_bytes(ratio);
        match self.get(Key::Queue) {
            // What small packets fill, the marks would not see in time.
            _ if self.pauses() => Limit::Bytes(bytes),
            Some(Value::Queue(Room::Bytes(_) | Room::Time(_))) => Limit::Bytes(bytes),
            Some(Value::Queue(Room::Packets(packets))) => Limit::Packets(*packets),
            _ => Limit::Packets(bytes / u64::from(self.mtu())),
        }
    }

    /// Bytes that may wait, where they wait in packets of the MTU.
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

/// The Pareto distribution of a mean and a standard deviation: of shape `a` and least `l` they are
/// `l * a / (a - 1)` and that by `1 / sqrt(a * (a - 2))`.
fn pareto(mean: Nanos, deviation: Nanos) -> Result<Delays, Invalid> {
    crate::invalid::some("the delay around which it varies", mean.0)?;
    let shape = 1.0 + (1.0 + (mean.0 as f64 / deviation.0 as f64).powi(2)).sqrt();
    let least = Nanos((mean.0 as f64 * (shape - 1.0) / shape).round() as u64);
    Ok(Delays::Pareto { least, shape })
}

/// What RED draws from.
fn red_stream(seed: u64, name: &str) -> Stream {
    Stream::new(seed, &format!("{name} red"))
}

/// The mark at which a queue asks for a pause. The other half is room for what comes before the request is
/// heard.
fn high_bytes(queue_bytes: u64) -> u64 {
    queue_bytes / 2
}
