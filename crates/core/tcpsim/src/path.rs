//! The way there and back between two ends.

use fabricmark_link::{Counters, Delay, Element, Id, Net};
use fabricmark_units::Nanos;

/// What the packets of a connection carry through its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Payload: a train of segments.
    Data {
        /// Number of its first transmission; no two are the same, as if by exact time stamps.
        transmission: u64,
        /// Sequence number of its first segment, in segments.
        first: u64,
    },
    /// An acknowledgement.
    Ack(Ack),
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The first transmission that arrived.
    pub from: u64,
    /// The one after the last.
    pub until: u64,
    /// All segments before this one have arrived.
    pub expected: u64,
    /// A queue on the way was congested.
    pub congested: bool,
}

/// A chain of elements to the receiver and one back, for one connection.
pub struct Path {
    pub(crate) net: Net<Segment>,
    pub(crate) there: Vec<Id>,
    pub(crate) back: Vec<Id>,
}

impl Path {
    /// The elements in the order in which a packet meets them, as
    /// [`LinkWords::build`](fabricmark_link::LinkWords::build) gives them for each direction.
    pub fn new(
        there: Vec<Box<dyn Element<Segment> + Send>>,
        back: Vec<Box<dyn Element<Segment> + Send>>,
    ) -> Self {
        let mut net = Net::new();
        let mut chain = |elements: Vec<Box<dyn Element<Segment> + Send>>| {
            let mut ids: Vec<Id> = elements.into_iter().map(|element| net.add(element)).collect();
            // A chain has an end where departures are seen, also where there is nothing in it.
            ids.push(net.add(Delay::fixed(Nanos(0))));
            net.chain(&ids);
            ids
        };
        let (there, back) = (chain(there), chain(back));
        Self { net, there, back }
    }

    /// What each element did, on the way there and on the way back.
    pub(crate) fn counters(&self) -> [Vec<Counters>; 2] {
        [&self.there, &self.back].map(|chain| {
            // The last is the end that was added.
            let elements = &chain[..chain.len() - 1];
            elements.iter().map(|&id| *self.net.counters(id)).collect()
        })
    }
}
