//! Computes when packets traverse the links of a path.
//!
//! On each link, a packet starts after enough of it has passed the switch before the link and after the previous
//! packet has left. Both conditions are sums and maxima, so a packet is a linear map of the times at which links
//! become free, in max-plus algebra. A run of equal packets is a power of that map: millions of packets take a few
//! dozen steps.

use crate::frame::{gap, on_wire};
use crate::message::Message;
use crate::{Family, Link};

/// A link of a path with its timing, in a unit that the caller chooses.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub link: Link,
    /// Time per byte.
    pub byte_time: u128,
    /// How much of a packet must have crossed the previous link before it starts on this one.
    pub entry: Entry,
    /// Forwarding delay of the switch before this link.
    pub delay: u128,
}

/// What a switch waits for before it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// This many bytes of the packet, or all of a shorter one.
    Bytes(u64),
    /// The whole packet.
    Packet,
    /// All packets on the previous link that carry the same packet of the layer above: a router.
    Whole,
}

/// A time, or `None` if nothing has happened on which it depends.
type Time = Option<u128>;

/// Time at which the last byte has crossed the last link, if the first byte starts at 0.
///
/// Sums must fit in 128 bits, which the caller that creates the [`Stage`]s checks.
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
    // `free` includes the gap after the last packet, which arrives before the gap.
    end - stages.last().map_or(0, |last| u128::from(gap(last.link)) * last.byte_time)
}

/// Matrix of one packet: how the times at which links become free depend on those before; one column per link.
fn map_of(stages: &[Stage], family: Family, packet: u64) -> Vec<Vec<Time>> {
    let column = |place: usize| {
        let mut free = vec![None; stages.len()];
        free[place] = Some(0);
        carry(stages, family, packet, &mut free);
        free
    };
    (0..stages.len()).map(column).collect()
}

/// Applies the map: for each link, the maximum over the columns.
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

/// Carries one packet of the layer above over all links and updates `free`, the times at which links become free.
fn carry(stages: &[Stage], family: Family, packet: u64, free: &mut [Time]) {
    let plus = |time: Time, more: u128| time.map(|time| time + more);
    let mut before: Vec<Span> = Vec::new();
    for (place, stage) in stages.iter().enumerate() {
        // Packets on the previous link; none for the first link, whose sender has all bytes available.
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
                        // If a frame gets shorter, its last byte must not leave before it has arrived.
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
