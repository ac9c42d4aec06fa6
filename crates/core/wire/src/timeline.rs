//! When packets cross the links of a path, one after another.
//!
//! On each link a packet starts once it has come far enough through the switch before it, and once
//! the packet ahead has gone. Both are sums and maxima, so one packet is a linear map of the times at
//! which the links are free, in the algebra where `max` adds and `+` multiplies; a run of equal packets
//! is a power of that map, and a message of millions of them costs a few dozen steps.

use crate::frame::{gap, on_wire};
use crate::message::Message;
use crate::{Family, Link};

/// A link of a path with what decides its times, in units that the caller chooses.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub link: Link,
    /// Time that a byte takes.
    pub byte_time: u128,
    /// What a packet must have done on the link before, before it starts on this one.
    pub entry: Entry,
    /// Time in the switch besides.
    pub delay: u128,
}

/// What a switch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// This many bytes of the packet, or all of a shorter one.
    Bytes(u64),
    /// The packet.
    Packet,
    /// All that the link before has cut the packet of the layer above into: a router.
    Whole,
}

/// A time, or none where nothing has happened that it would depend on.
type Time = Option<u128>;

/// When the last byte has crossed the last link, the first one starting at 0.
///
/// No sum may exceed 128 bits: see [`Stage`]'s maker.
pub(crate) fn arrival(stages: &[Stage], family: Family, message: &Message) -> u128 {
    let mut free: Vec<Time> = vec![Some(0); stages.len()];
    for run in message.runs.iter().filter(|run| run.count > 0) {
        let mut map = map_of(stages, family, run.bytes);
        let mut count = run.count;
        loop {
            if count % 2 == 1 {
                free = apply(&map, &free);
            }
            count /= 2;
            if count == 0 {
                break;
            }
            map = map.iter().map(|column| apply(&map, column)).collect();
        }
    }
    let end = free.last().copied().flatten().unwrap_or(0);
    // A link is free again after the gap behind a packet, and the packet has arrived before it.
    end - stages.last().map_or(0, |last| u128::from(gap(last.link)) * last.byte_time)
}

/// What one packet makes of the times at which links are free: for each link, its column.
fn map_of(stages: &[Stage], family: Family, packet: u64) -> Vec<Vec<Time>> {
    let column = |place: usize| {
        let mut free = vec![None; stages.len()];
        free[place] = Some(0);
        carry(stages, family, packet, &mut free);
        free
    };
    (0..stages.len()).map(column).collect()
}

/// The times after the map: for each link the latest over the columns.
fn apply(map: &[Vec<Time>], free: &[Time]) -> Vec<Time> {
    let latest = |row: usize| {
        let terms = map.iter().zip(free).map(|(column, free)| Some(column[row]? + (*free)?));
        terms.max().flatten()
    };
    (0..free.len()).map(latest).collect()
}

/// Start and end of a packet on one link.
#[derive(Clone, Copy)]
struct Span {
    start: Time,
    end: Time,
}

/// Carries one packet of the layer above over all links; `free` says when each link is free, before and
/// after.
fn carry(stages: &[Stage], family: Family, packet: u64, free: &mut [Time]) {
    let plus = |time: Time, more: u128| time.map(|time| time + more);
    let mut before: Vec<Span> = Vec::new();
    for (place, stage) in stages.iter().enumerate() {
        // Of the link before: none before the first, whose sender has everything at hand.
        let ingress = place.checked_sub(1).map(|before| {
            let Stage { link, byte_time, .. } = stages[before];
            (on_wire(link, family, packet), byte_time)
        });
        let gap_time = u128::from(gap(stage.link)) * stage.byte_time;
        let mut spans = Vec::new();
        for (kind, run) in on_wire(stage.link, family, packet).iter().enumerate() {
            let time = u128::from(run.bytes) * stage.byte_time;
            for _ in 0..run.count {
                let came = match (stage.entry, before.get(spans.len()), before.last()) {
                    (Entry::Whole, _, Some(last)) => last.end,
                    (Entry::Packet, Some(span), _) => span.end,
                    (Entry::Bytes(look), Some(span), _) => {
                        let looked = ingress.map_or(0, |(runs, byte_time)| {
                            u128::from(look.min(runs[kind].bytes)) * byte_time
                        });
                        // Nor may the last byte leave before it has come, where a frame gets shorter.
                        let not_before = span.end.map(|end| end.saturating_sub(time));
                        plus(span.start, looked).max(not_before)
                    }
                    _ => None,
                };
                let start = plus(came, stage.delay).max(free[place]);
                let end = plus(start, time);
                free[place] = plus(end, gap_time);
                spans.push(Span { start, end });
            }
        }
        before = spans;
    }
}
