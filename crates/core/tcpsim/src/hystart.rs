//! Leaving slow start when the path shows that it is full, before anything is lost.

mod linux;
mod plus_plus;

use fabricmark_units::{Instant, Nanos};

use crate::HyStart;
use linux::Linux;
use plus_plus::PlusPlus;

/// By how much slow start is slower while it is conservative (RFC 9406, `CSS_GROWTH_DIVISOR`).
pub(crate) const GROWTH_DIVISOR: f64 = 4.0;

/// What to do with the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Slow,
    Conservative,
    /// Congestion avoidance.
    Leave,
}

/// An answer in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub now: Instant,
    /// Round trip of the last segment that it answers.
    pub rtt: Nanos,
    /// The transmission after the last that it answers.
    pub answered: u64,
    /// The number of the next transmission.
    pub next: u64,
    /// The congestion window in segments.
    pub cwnd: f64,
}

/// Watches the answers of slow start.
#[derive(Clone, Debug)]
pub(crate) enum Detector {
    PlusPlus(PlusPlus),
    Linux(Linux),
}

impl Detector {
    /// `paced` where the sender spreads its segments.
    pub fn new(kind: HyStart, paced: bool) -> Self {
        match kind {
            HyStart::PlusPlus => Self::PlusPlus(PlusPlus::new()),
            HyStart::Linux => Self::Linux(Linux::new(true, paced)),
            HyStart::LinuxDelay => Self::Linux(Linux::new(false, paced)),
        }
    }

    pub fn advise(&mut self, sample: Sample) -> Advice {
        match self {
            Self::PlusPlus(it) => it.advise(sample.rtt, sample.answered, sample.next),
            Self::Linux(it) => it.advise(sample),
        }
    }
}
