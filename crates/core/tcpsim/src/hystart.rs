//! Leaving slow start when the path shows that it is full, before anything is lost.

mod linux;
mod plus_plus;

use fabricmark_units::Nanos;

use crate::HyStart;
use crate::window::Answer;
use linux::Linux;
use plus_plus::PlusPlus;

/// By how much slow start is slower while it is conservative (RFC 9406, `CSS_GROWTH_DIVISOR`).
pub(crate) const GROWTH_DIVISOR: f64 = 4.0;

/// Samples of a round before it is judged (RFC 9406, `N_RTT_SAMPLE`; Linux, `HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;

/// Increase of the round trip that counts: an eighth, from 4 to 16 ms (RFC 9406, section 4.3; Linux,
/// `HYSTART_DELAY_THRESH`).
fn threshold(rtt: Nanos) -> Nanos {
    Nanos(rtt.0 / 8).clamp(Nanos::from_millis(4), Nanos::from_millis(16))
}

/// What to do with the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Slow,
    Conservative,
    /// Congestion avoidance.
    Leave,
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
            HyStart::PlusPlus => Self::PlusPlus(PlusPlus::default()),
            HyStart::Linux => Self::Linux(Linux::new(true, paced)),
            HyStart::LinuxDelay => Self::Linux(Linux::new(false, paced)),
        }
    }

    /// What an answer advises at a window of `cwnd` segments.
    pub fn advise(&mut self, answer: Answer, cwnd: f64) -> Advice {
        match self {
            Self::PlusPlus(it) => it.advise(answer.rtt, answer.answered, answer.next),
            Self::Linux(it) => it.advise(answer, cwnd),
        }
    }
}
