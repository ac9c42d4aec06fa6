//! Parameters of a connection for the laws.

use fabricmark_units::Nanos;

/// How many segments the receiver acknowledges with one ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acks {
    /// One ACK per segment. Byte counting (RFC 3465) gives the same growth of the window.
    #[default]
    Each,
    /// One ACK per two segments (RFC 9293, section 3.8.6.3).
    Delayed,
}

impl Acks {
    /// Segments per ACK: `b` in the laws.
    pub fn segments(self) -> u8 {
        match self {
            Self::Each => 1,
            Self::Delayed => 2,
        }
    }
}

/// The constant of the square-root law. CUBIC and HighSpeed TCP fall back to that law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fit {
    /// Periodic losses: `sqrt(3 / 2b)`, 1.2247 and 0.8660.
    #[default]
    Periodic,
    /// Random losses: the measured 1.31 and 0.93 of Mathis et al. 1997.
    Random,
    /// The 1.2 of RFC 3649 and of the tables of RFC 9438, for one ACK per segment.
    Rounded,
}

impl Fit {
    /// The constant: average window in segments times the square root of the loss rate.
    pub fn constant(self, acks: Acks) -> f64 {
        match (self, acks) {
            (Self::Periodic, _) => (1.5 / f64::from(acks.segments())).sqrt(),
            (Self::Random, Acks::Each) => 1.31,
            (Self::Random, Acks::Delayed) => 0.93,
            (Self::Rounded, _) => 1.2 / f64::from(acks.segments()).sqrt(),
        }
    }
}

/// Parameters of a connection for the laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Payload of a full segment in bytes.
    pub mss_bytes: u64,
    /// Round-trip time.
    pub rtt: Nanos,
    /// Retransmission timeout. Only PFTK uses it; TFRC assumes four RTTs.
    pub timeout: Nanos,
    /// Maximum window in bytes. Only PFTK uses it.
    pub window_bytes: u64,
    /// Segments per ACK. Only Reno and PFTK use it; the other laws count bytes or assume 1.
    pub acks: Acks,
    /// Constant of the square-root law.
    pub fit: Fit,
}

impl Connection {
    pub(super) fn is_sound(&self) -> bool {
        self.mss_bytes > 0 && self.rtt.0 > 0 && self.window_bytes > 0
    }

    pub(super) fn rtt_s(&self) -> f64 {
        self.rtt.as_secs_f64()
    }

    pub(super) fn window_segments(&self) -> f64 {
        self.window_bytes as f64 / self.mss_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_square_root_law_has_its_published_constants() {
        for (fit, each, delayed) in [
            (Fit::Periodic, 1.2247, 0.8660),
            (Fit::Random, 1.31, 0.93),
            (Fit::Rounded, 1.2, 0.8485),
        ] {
            for (acks, constant) in [(Acks::Each, each), (Acks::Delayed, delayed)] {
                assert!((fit.constant(acks) - constant).abs() < 5e-5, "{fit:?} {acks:?}");
            }
        }
    }
}
