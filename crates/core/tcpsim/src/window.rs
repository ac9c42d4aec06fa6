//! The congestion window.

use fabricmark_units::{Instant, Nanos};

use crate::cubic::{self, Cubic};
use crate::hystart::{Advice, Detector, GROWTH_DIVISOR};
use crate::{Congestion, Settings};

/// Minimum slow start threshold in segments (RFC 5681, equation 4).
const THRESHOLD_LEAST: f64 = 2.0;

/// The congestion window in segments.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub segments: f64,
    /// Slow start threshold (ssthresh) in segments.
    threshold: f64,
    /// Receive window in segments, the upper bound.
    most: f64,
    segments_per_ack: f64,
    /// `None` for Reno.
    cubic: Option<Cubic>,
    /// `None` after the first slow start (RFC 9406, section 4.3).
    hystart: Option<Detector>,
}

/// An acknowledgement of segments in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub now: Instant,
    /// Newly acknowledged segments.
    pub acked: u64,
    /// RTT of the last of them.
    pub rtt: Nanos,
    /// Smoothed RTT.
    pub smooth: Nanos,
    /// One past the last acknowledged transmission.
    pub answered: u64,
    /// Number of the next transmission.
    pub next: u64,
}

impl Window {
    pub fn new(settings: &Settings) -> Self {
        let (cubic, hystart) = match settings.congestion {
            Congestion::Reno => (None, None),
            Congestion::Cubic { hystart, fast_convergence } => {
                (Some(Cubic::new(fast_convergence)), hystart)
            }
        };
        let most = settings.window_segments() as f64;
        Self {
            segments: (settings.initial_segments as f64).min(most),
            threshold: f64::INFINITY,
            most,
            segments_per_ack: settings.acks.segments().into(),
            cubic,
            hystart: hystart.map(|kind| Detector::new(kind, settings.pacing.is_some())),
        }
    }

    pub fn is_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// Whether the first slow start is over: by a loss, by HyStart, or at the receive window.
    pub fn is_open(&self) -> bool {
        self.segments >= self.threshold.min(self.most) || self.threshold.is_finite()
    }

    /// Grows the window on an acknowledgement.
    pub fn grow(&mut self, answer: Answer) {
        let Answer { now, acked, smooth, .. } = answer;
        let acks = acked as f64 / self.segments_per_ack;
        let grown = if self.is_slow_start() {
            let advice = self.hystart.as_mut().map(|it| it.advise(answer, self.segments));
            let by = match advice {
                Some(Advice::Leave) => {
                    self.threshold = self.segments;
                    self.hystart = None;
                    0.0
                }
                Some(Advice::Conservative) => acks / GROWTH_DIVISOR,
                Some(Advice::Slow) | None => acks,
            };
            (self.segments + by).min(self.threshold)
        } else if let Some(cubic) = &mut self.cubic {
            // CUBIC grows with time and counts bytes (RFC 9438, section 4.3).
            cubic.grow(self.segments, now, acked as f64, smooth)
        } else {
            self.segments + acks / self.segments
        };
        self.segments = grown.min(self.most);
    }

    /// Reduces the window on a loss or a mark.
    pub fn reduce(&mut self) {
        let left = match &mut self.cubic {
            Some(cubic) => {
                cubic.reduce(self.segments);
                cubic::BETA
            }
            None => 0.5,
        };
        self.threshold = (left * self.segments).max(THRESHOLD_LEAST);
        self.segments = self.threshold;
        self.hystart = None;
    }

    /// Reduces the window to one segment on a retransmission timeout. The threshold is reduced by the first of consecutive
    /// timeouts alone (RFC 5681, section 3.1).
    pub fn collapse(&mut self, is_first: bool) {
        if is_first {
            let before = self.segments;
            self.reduce();
            if let Some(cubic) = &mut self.cubic {
                cubic.collapse(before);
            }
        }
        self.segments = 1.0;
    }
}
