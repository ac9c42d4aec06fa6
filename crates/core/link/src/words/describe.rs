//! What words ask for, as values: for drivers that are not made of elements.

use fabricmark_units::Nanos;
use fabricmark_wire::Link;

use super::LinkWords;
use super::value::{Discipline, Distribution};
use super::word::{Key, Value};
use crate::{Limit, Losses, Order};

/// What one direction of a link is asked to do, defaults filled in. It leaves out `schedule`, `trace`,
/// `pause`, `up`, `down` and `coalesce`; [`LinkWords`] prints them.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Mean delay.
    pub delay: Nanos,
    /// Standard deviation of the delay; 0 where all are the same.
    pub jitter: Nanos,
    /// How the delays lie around their mean.
    pub distribution: Distribution,
    /// Whether later packets overtake slow ones.
    pub order: Order,
    /// A wire of a rate; `None` where there is none or something else says when packets leave.
    pub wire: Option<WireDescription>,
    /// Which packets are lost.
    pub loss: Option<Losses>,
    /// Share of packets with a flipped bit.
    pub corrupt: f64,
    /// Share of packets that come twice.
    pub duplicate: f64,
    /// The share of packets that are held back, how long at most, and until how many have overtaken.
    pub reorder: Option<(f64, Nanos, Option<u32>)>,
}

/// A wire and the queue before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireDescription {
    /// The rate in bits in so many seconds.
    pub rate: (u64, u64),
    /// The link whose framing is added; `None` where the rate is one of IP packets.
    pub framing: Option<Link>,
    /// How much may wait.
    pub queue: Limit,
    /// The same in bytes, packets counted as long as the MTU.
    pub queue_bytes: u64,
    /// Who signals congestion before the queue is full.
    pub discipline: Discipline,
    /// Whether it marks instead of drops, where the packet allows it.
    pub ecn: bool,
}

impl LinkWords {
    /// What they ask for, as values.
    pub fn describe(&self) -> Description {
        let share = |key| if let Some(Value::Share(share)) = self.get(key) { share.0 } else { 0.0 };
        Description {
            delay: self.delay(),
            jitter: self.jitter().unwrap_or_default(),
            distribution: self.distribution(),
            order: self.order(),
            wire: self.ratio().map(|rate| WireDescription {
                rate,
                framing: self.framing_link(),
                queue: self.limit(rate),
                queue_bytes: self.queue_bytes(rate),
                discipline: self.discipline(),
                ecn: self.get(Key::Ecn).is_some(),
            }),
            loss: self.losses(),
            corrupt: share(Key::Corrupt),
            duplicate: share(Key::Duplicate),
            reorder: match self.get(Key::Reorder) {
                Some(Value::Reorder { share, longest, gap }) => Some((share.0, *longest, *gap)),
                _ => None,
            },
        }
    }
}
