//! The forward and return path between both ends.

use fabricmark_link::{Counters, Delay, Element, Id, Net};
use fabricmark_units::Nanos;

/// Contents of a packet of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Data: a train of segments.
    Data {
        /// Number of its first transmission; unique, as if by exact timestamps.
        transmission: u64,
        /// Sequence number of its first segment, in segments.
        first: u64,
    },
    /// An acknowledgement.
    Ack(Ack),
}

/// Contents of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// First transmission that arrived.
    pub from: u64,
    /// One past the last transmission that arrived.
    pub until: u64,
    /// All segments before this one have arrived.
    pub expected: u64,
    /// ECN echo: a queue on the path was congested.
    pub congested: bool,
}

/// A chain of elements to the receiver and one back, for one connection.
pub struct Path {
    pub(crate) net: Net<Segment>,
    pub(crate) there: Vec<Id>,
    pub(crate) back: Vec<Id>,
}

impl Path {
    /// `there` and `back` hold the elements in the order in which a packet passes them, as
    /// [`LinkOptions::build`](fabricmark_link::LinkOptions::build) returns them for each direction.
    pub fn new(
        there: Vec<Box<dyn Element<Segment> + Send>>,
        back: Vec<Box<dyn Element<Segment> + Send>>,
    ) -> Self {
        let mut net = Net::new();
        let mut chain = |elements: Vec<Box<dyn Element<Segment> + Send>>| {
            let mut ids: Vec<Id> = elements.into_iter().map(|element| net.add(element)).collect();
            // Departures are observed at the end of a chain, so each gets an end element, even an empty one.
            ids.push(net.add(Delay::fixed(Nanos(0))));
            net.chain(&ids);
            ids
        };
        let (there, back) = (chain(there), chain(back));
        Self { net, there, back }
    }

    /// Counters of the elements of the forward and the return path.
    pub(crate) fn counters(&self) -> [Vec<Counters>; 2] {
        [&self.there, &self.back].map(|chain| {
            // Without the end element.
            let elements = &chain[..chain.len() - 1];
            elements.iter().map(|&id| *self.net.counters(id)).collect()
        })
    }
}
