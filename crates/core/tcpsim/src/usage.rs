//! Whether a connection uses its window: one that it does not use must not grow (RFC 7661).

/// What was used in this round trip and the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Transmission whose answer ends the round.
    ends: u64,
    rounds: [Round; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// The window stopped the sender.
    stopped: bool,
    peak: u64,
}

impl Usage {
    /// `in_flight` segments are unanswered, and the window did or did not stop the sender from more.
    pub fn note(&mut self, in_flight: u64, stopped: bool) {
        let [now, _] = &mut self.rounds;
        now.stopped |= stopped;
        now.peak = now.peak.max(in_flight);
    }

    /// Transmissions below `answered` were answered, and the next one is `next`.
    pub fn acknowledge(&mut self, answered: u64, next: u64) {
        if answered > self.ends {
            self.ends = next;
            self.rounds = [Round::default(), self.rounds[0]];
        }
    }

    /// Whether a window of `cwnd` segments may grow: it stopped the sender, or half of it was in flight
    /// in slow start (Linux, `tcp_is_cwnd_limited`).
    pub fn allows_growth(&self, cwnd: f64, slow_start: bool) -> bool {
        let stopped = self.rounds.iter().any(|round| round.stopped);
        let peak = self.rounds.iter().map(|round| round.peak).max().unwrap_or(0);
        stopped || slow_start && 2.0 * peak as f64 > cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_for_two_rounds_after_it_stopped_the_sender() {
        let mut usage = Usage::default();
        usage.note(10, true);
        usage.acknowledge(1, 20);
        assert!(usage.allows_growth(10.0, false));
        usage.note(5, false);
        usage.acknowledge(20, 30);
        assert!(usage.allows_growth(10.0, false));
        usage.acknowledge(21, 30);
        assert!(!usage.allows_growth(10.0, false));
        // Five of less than ten are more than half.
        assert!(usage.allows_growth(9.0, true));
        assert!(!usage.allows_growth(10.0, true));
    }
}
