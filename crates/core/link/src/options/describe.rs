//! Link options as values, for drivers that do not use elements.

use fabricmark_units::Nanos;
use fabricmark_wire::Link;

use super::LinkOptions;
use super::value::{Discipline, Distribution};
use super::word::{Key, Value};
use crate::{Limit, Losses, Order};

/// Options of one direction, defaults filled in. Not included: `schedule`, `trace`, `pause`, `up`, `down` and
/// `coalesce`; [`LinkOptions`] prints them.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Mean one-way delay.
    pub delay: Nanos,
    /// Standard deviation of the delay; 0 if it is constant.
    pub jitter: Nanos,
    /// Distribution of delays around their mean.
    pub distribution: Distribution,
    /// Whether packets may overtake those with longer delays.
    pub order: Order,
    /// Wire of a rate; `None` if unlimited, or set by a schedule or a trace.
    pub wire: Option<WireDescription>,
    /// Loss model; `None` without loss.
    pub loss: Option<Losses>,
    /// Share of packets with a flipped bit, 0 to 1.
    pub corrupt: f64,
    /// Share of packets that are duplicated, 0 to 1.
    pub duplicate: f64,
    /// Share of packets held back, longest hold time, and number of packets that overtake them (`None`: no limit).
    pub reorder: Option<(f64, Nanos, Option<u32>)>,
}

/// A wire and the queue before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireDescription {
    /// Rate as (bits, seconds).
    pub rate: (u64, u64),
    /// Link whose framing is added; `None` if the rate counts IP packets.
    pub framing: Option<Link>,
    /// Queue limit.
    pub queue: Limit,
    /// Queue limit in bytes, packets counted at MTU size.
    pub queue_bytes: u64,
    /// How congestion is signalled before the queue is full.
    pub discipline: Discipline,
    /// Whether the discipline marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl LinkOptions {
    /// The options as values, defaults filled in.
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
