//! Values of link options.

use std::fmt;

use fabricmark_units::{Bytes, Nanos, Percent};

use super::word::Value;
use crate::{CoDel, GilbertElliott, Losses, Model, Moderation};

/// A probability from 0 to 1, written as a number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(pub f64);

impl Share {
    pub fn parse(text: &str) -> Option<Self> {
        let share = match text.ends_with('%') {
            true => text.parse::<Percent>().ok()?.0,
            false => text.parse().ok()?,
        };
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            small if small > 0.0 && small < 1e-3 => write!(f, "{small:e}"),
            share => write!(f, "{share}"),
        }
    }
}

/// Distribution of delays around their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Normal; negative delays become 0.
    #[default]
    Normal,
    /// Pareto, with the shape that gives the requested mean and deviation.
    Pareto,
}

impl Distribution {
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Normal, Self::Pareto].into_iter().find(|it| it.to_string() == text)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Pareto => "pareto",
        })
    }
}

/// Queue size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Packets(u64),
    Bytes(Bytes),
    /// As much as the wire sends in this time.
    Time(Nanos),
}

impl Room {
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(packets) = text.strip_suffix('p') {
            return packets.parse().ok().map(Self::Packets);
        }
        if text.ends_with('B') {
            return text.parse().ok().map(Self::Bytes);
        }
        text.parse().ok().map(Self::Time)
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{}B", bytes.to_string().trim_end_matches('B')),
            Self::Time(time) => write!(f, "{time}"),
        }
    }
}

/// Queue discipline: how congestion is signalled before the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// No signal: packets that do not fit are dropped.
    #[default]
    DropTail,
    /// CoDel (RFC 8289).
    CoDel {
        /// Acceptable queueing delay.
        target: Nanos,
        /// How long the queueing delay may exceed the target.
        interval: Nanos,
    },
    /// RED with thresholds at a twelfth and a quarter of the queue, as tc-red(8) advises.
    Red,
}

impl Discipline {
    const CODEL: Self = Self::CoDel { target: CoDel::TARGET, interval: CoDel::INTERVAL };

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "drop-tail" => Some(Self::DropTail),
            "codel" => Some(Self::CODEL),
            "red" => Some(Self::Red),
            _ => {
                let (target, interval) = text.strip_prefix("codel:")?.split_once(',')?;
                let (target, interval) = (target.parse().ok()?, interval.parse().ok()?);
                Some(Self::CoDel { target, interval })
            }
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropTail => f.write_str("drop-tail"),
            &Self::CODEL => f.write_str("codel"),
            Self::CoDel { target, interval } => write!(f, "codel:{target},{interval}"),
            Self::Red => f.write_str("red"),
        }
    }
}

/// Value of `loss=`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LossWord {
    Share(Share),
    /// `p`, `r`, `h` and `k` of tc-netem(8); `h` and `k` are probabilities of delivery.
    Bursts([Share; 4]),
    Every(u64),
}

impl LossWord {
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(period) = text.strip_prefix("every:") {
            return period.parse().ok().filter(|&period| period > 0).map(Self::Every);
        }
        let Some(shares) = text.strip_prefix("ge:") else {
            return Share::parse(text).map(Self::Share);
        };
        let mut shares = shares.split(',').map(Share::parse);
        let (p, r) = (shares.next()??, shares.next()??);
        // By default the bad state loses all packets and the good state none.
        let h = shares.next().unwrap_or(Some(Share(0.0)))?;
        let k = shares.next().unwrap_or(Some(Share(1.0)))?;
        shares.next().is_none().then_some(Self::Bursts([p, r, h, k]))
    }

    pub fn losses(self) -> Losses {
        match self {
            Self::Share(share) => Losses::Independent(share.0),
            Self::Bursts([p, r, h, k]) => Losses::GilbertElliott(GilbertElliott {
                to_bad: p.0,
                to_good: r.0,
                loss_good: 1.0 - k.0,
                loss_bad: 1.0 - h.0,
            }),
            Self::Every(period) => Losses::Periodic(period),
        }
    }
}

impl fmt::Display for LossWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{share}"),
            Self::Bursts([p, r, h, k]) => write!(f, "ge:{p},{r},{h},{k}"),
            Self::Every(period) => write!(f, "every:{period}"),
        }
    }
}

/// Reads `62487B/5995us`, and the name of a model of P5.
pub(super) fn schedule(text: &str) -> Option<Value> {
    if let Some(Model { bytes, period, .. }) = Model::named(text) {
        return Some(Value::Schedule { bytes, period });
    }
    let (bytes, period) = text.split_once('/')?;
    let (bytes, period) = (bytes.parse::<Bytes>().ok()?, period.parse::<Nanos>().ok()?);
    (bytes.0 > 0 && period.0 > 0).then_some(Value::Schedule { bytes, period })
}

/// Reads `0.01:5ms` and `0.01:5ms:3`.
pub(super) fn reorder(text: &str) -> Option<Value> {
    let mut parts = text.split(':');
    let share = Share::parse(parts.next()?)?;
    let longest: Nanos = parts.next()?.parse().ok()?;
    let gap = match parts.next() {
        Some(gap) => Some(gap.parse().ok().filter(|&gap| gap > 0)?),
        None => None,
    };
    let is_whole = longest.0 > 0 && parts.next().is_none();
    is_whole.then_some(Value::Reorder { share, longest, gap })
}

/// Reads `64:50us`, or `adaptive` as `None`.
pub(super) fn coalesce(text: &str) -> Option<Value> {
    if text == "adaptive" {
        return Some(Value::Coalesce(None));
    }
    let (frames, time) = text.split_once(':')?;
    let moderation = Moderation { time: time.parse().ok()?, frames: frames.parse().ok()? };
    Some(Value::Coalesce(Some(moderation)))
}
