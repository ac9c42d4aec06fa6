//! Leaves slow start when the path is full, before a loss.

mod linux;
mod plus_plus;

use fabricmark_units::Nanos;

use crate::HyStart;
use crate::window::Answer;
use linux::Linux;
use plus_plus::PlusPlus;

/// Factor by which conservative slow start grows more slowly (RFC 9406, `CSS_GROWTH_DIVISOR`).
pub(crate) const GROWTH_DIVISOR: f64 = 4.0;

/// RTT samples per round before it is judged (RFC 9406, `N_RTT_SAMPLE`; Linux, `HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;

/// RTT increase that counts as congestion: an eighth, within 4 to 16 ms (RFC 9406, section 4.3; Linux,
/// `HYSTART_DELAY_THRESH`).
fn threshold(rtt: Nanos) -> Nanos {
    Nanos(rtt.0 / 8).clamp(Nanos::from_millis(4), Nanos::from_millis(16))
}

/// How the window should grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Slow,
    Conservative,
    /// Enter congestion avoidance.
    Leave,
}

/// Evaluates acknowledgements in slow start.
#[derive(Clone, Debug)]
pub(crate) enum Detector {
    PlusPlus(PlusPlus),
    Linux(Linux),
}

impl Detector {
    /// `paced`: the sender spaces its segments.
    pub fn new(kind: HyStart, paced: bool) -> Self {
        match kind {
            HyStart::PlusPlus => Self::PlusPlus(PlusPlus::default()),
            HyStart::Linux => Self::Linux(Linux::new(true, paced)),
            HyStart::LinuxDelay => Self::Linux(Linux::new(false, paced)),
        }
    }

    /// Evaluates an acknowledgement at a window of `cwnd` segments.
    pub fn advise(&mut self, answer: Answer, cwnd: f64) -> Advice {
        match self {
            Self::PlusPlus(it) => it.advise(answer.rtt, answer.answered, answer.next),
            Self::Linux(it) => it.advise(answer, cwnd),
        }
    }
}
