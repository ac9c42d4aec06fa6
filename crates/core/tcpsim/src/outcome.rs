//! What a simulated connection did.

use fabricmark_link::Counters;
use fabricmark_units::{Instant, Nanos};

/// What a connection did, over time and in all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One after the other, without gaps.
    pub intervals: Vec<Interval>,
    /// Until slow start first ended: by a loss, by HyStart, or at the receiver's window. `None`
    /// where it did not.
    pub ramp: Option<Nanos>,
    /// Segments delivered in order.
    pub delivered_segments: u64,
    /// Segments that arrived, those that had arrived before included.
    pub received_segments: u64,
    /// Segments that arrived with a wrong bit.
    pub corrupted_segments: u64,
    /// Segments sent, those sent again included.
    pub sent_segments: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// How often the window was reduced for a loss or a mark, time-outs left out.
    pub reductions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// What each element on the way there did, in their order; what it holds is still under way.
    pub there: Vec<Counters>,
    /// What each element on the way back did.
    pub back: Vec<Counters>,
}

/// One interval of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// When it began.
    pub start: Instant,
    /// How long it is.
    pub length: Nanos,
    /// Payload delivered in order in it, in bytes.
    pub delivered_bytes: u64,
    /// Segments sent again in it.
    pub retransmitted_segments: u64,
    /// The congestion window at its end, in segments.
    pub cwnd_segments: f64,
    /// Unanswered segments at its end.
    pub in_flight_segments: u64,
    /// The smoothed round trip at its end; 0 before the first sample.
    pub rtt: Nanos,
}

impl Interval {
    /// Payload delivered in order, in bit/s.
    pub fn goodput_bps(&self) -> f64 {
        self.delivered_bytes as f64 * 8.0 / self.length.as_secs_f64()
    }
}
