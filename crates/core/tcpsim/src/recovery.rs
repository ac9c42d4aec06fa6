//! Sending during loss recovery: proportional rate reduction (RFC 6937).

/// State of one recovery; numbers are segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// Recovery ends when this segment is the next expected.
    pub end: u64,
    /// Windows before and after the reduction.
    before: f64,
    after: f64,
    /// Acknowledged since recovery started.
    delivered: u64,
    /// Sent since recovery started.
    sent: u64,
    /// May be sent now.
    pub allowed: u64,
}

impl Recovery {
    /// The window is reduced from `before` to `after`; one segment may be sent at once.
    pub fn new(end: u64, before: f64, after: f64) -> Self {
        Self { end, before, after, delivered: 0, sent: 0, allowed: 1 }
    }

    /// Records that `count` segments were sent.
    pub fn send(&mut self, count: u64) {
        self.sent += count;
        self.allowed = self.allowed.saturating_sub(count);
    }

    /// `acked` segments were acknowledged and `in_flight` remain. `clean`: no new losses were found and the
    /// cumulative acknowledgement advanced.
    pub fn acknowledge(&mut self, acked: u64, in_flight: u64, clean: bool) {
        self.delivered += acked;
        let room = (self.after as u64).saturating_sub(in_flight);
        let conserved = self.delivered.saturating_sub(self.sent);
        self.allowed = if room == 0 {
            let share = (self.delivered as f64 * self.after / self.before).ceil() as u64;
            share.saturating_sub(self.sent)
        } else if clean {
            // As in slow start, since less than the window is in flight (RFC 6937, PRR-SSRB).
            room.min(conserved.max(acked) + 1)
        } else {
            room.min(conserved)
        };
        // The first segment is sent whatever is in flight (RFC 6675, section 5, step 4.3). If nothing is in flight,
        // no acknowledgement would release another.
        self.allowed = self.allowed.max(u64::from(self.sent == 0 || in_flight == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_window_is_sent_while_a_window_is_answered() {
        let mut recovery = Recovery::new(100, 20.0, 10.0);
        assert_eq!(recovery.allowed, 1);
        let mut sent = 0;
        let mut in_flight = 19;
        for _ in 0..19 {
            in_flight -= 1;
            recovery.acknowledge(1, in_flight, false);
            let now = recovery.allowed;
            recovery.send(now);
            in_flight += now;
            sent += now;
        }
        assert_eq!((sent, in_flight), (10, 10));
    }

    #[test]
    fn no_more_is_sent_than_arrives_while_losses_are_found() {
        let mut recovery = Recovery::new(100, 20.0, 10.0);
        recovery.send(1);
        // Seven are lost and one was retransmitted: four are in flight, and there is room for six.
        recovery.acknowledge(3, 4, false);
        assert_eq!(recovery.allowed, 2);
        // No new losses: send as in slow start.
        recovery.acknowledge(3, 4, true);
        assert_eq!(recovery.allowed, 6);
    }
}
