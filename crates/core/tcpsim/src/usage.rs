//! Congestion window validation: an unused window must not grow (RFC 7661).

/// Usage in this round trip and the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Transmission whose acknowledgement ends the round.
    ends: u64,
    rounds: [Round; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Whether the window limited the sender.
    stopped: bool,
    peak: u64,
}

impl Usage {
    /// Records that `in_flight` segments are unacknowledged and whether the window `stopped` the sender.
    pub fn note(&mut self, in_flight: u64, stopped: bool) {
        let [now, _] = &mut self.rounds;
        now.stopped |= stopped;
        now.peak = now.peak.max(in_flight);
    }

    /// Transmissions below `answered` were acknowledged; `next` is the next transmission.
    pub fn acknowledge(&mut self, answered: u64, next: u64) {
        if answered > self.ends {
            self.ends = next;
            self.rounds = [Round::default(), self.rounds[0]];
        }
    }

    /// Whether a window of `cwnd` segments may grow: it limited the sender, or in slow start more than half of it was
    /// in flight (Linux, `tcp_is_cwnd_limited`).
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
        // Five of nine are more than half, of ten they are not.
        assert!(usage.allows_growth(9.0, true));
        assert!(!usage.allows_growth(10.0, true));
    }
}
