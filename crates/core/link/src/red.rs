//! RED: drops by chance before the queue is full (Floyd and Jacobson, "Random Early Detection
//! Gateways for Congestion Avoidance", 1993), in its gentle form (Floyd, 2000).

use fabricmark_units::{Instant, Nanos, Stream};

use crate::invalid::{Invalid, positive, share};

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSettings {
    /// Average queue in bytes below which nothing is signalled.
    pub min_bytes: u64,
    /// Average queue in bytes at which a signal has `probability`. The probability grows to 1 at twice `max_bytes`;
    /// above that all packets are dropped.
    pub max_bytes: u64,
    /// Probability of a signal at `max_bytes`; the authors advise 0.1.
    pub probability: f64,
    /// Weight of each arrival in the average; the authors advise 0.002.
    pub weight: f64,
    /// Transmission time of a typical packet; converts idle time to a number of packets.
    pub packet_time: Nanos,
    /// Whether ECN-capable packets are marked instead of dropped, up to twice `max_bytes` (RFC 3168, section 7).
    pub marks: bool,
}

/// State of a queue that RED manages.
#[derive(Debug)]
pub struct Red {
    settings: RedSettings,
    stream: Stream,
    average_bytes: f64,
    /// Packets since the last signal.
    count: f64,
    idle_since: Option<Instant>,
}

/// Decision about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Mark it if allowed, else drop it.
    Signal,
    Drop,
}

impl Red {
    /// A queue that is empty since instant 0; random numbers come from `stream`.
    pub fn new(settings: RedSettings, stream: Stream) -> Result<Self, Invalid> {
        share("the probability of RED", settings.probability)?;
        share("the weight of RED", settings.weight)?;
        positive("the packet time of RED in ns", settings.packet_time.0 as f64)?;
        if settings.min_bytes >= settings.max_bytes {
            return Err(Invalid::Order { low: "the minimum of RED", high: "the maximum of RED" });
        }
        let idle_since = Some(Instant(0));
        Ok(Self { settings, stream, average_bytes: 0.0, count: 0.0, idle_since })
    }

    /// Records that the queue is empty.
    pub(crate) fn empty(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    pub(crate) fn marks(&self) -> bool {
        self.settings.marks
    }

    /// Decides about a packet that arrives while `waiting_bytes` wait.
    pub(crate) fn verdict(&mut self, now: Instant, waiting_bytes: u64) -> Verdict {
        let RedSettings { weight, packet_time, .. } = self.settings;
        match self.idle_since.take() {
            Some(since) => {
                let packets = (now - since).0 as f64 / packet_time.0 as f64;
                self.average_bytes *= (1.0 - weight).powf(packets);
            }
            None => self.average_bytes += weight * (waiting_bytes as f64 - self.average_bytes),
        }
        let chance = self.probability();
        // Spreads the signals evenly: the gap between two is uniform, not geometric.
        let spread = chance / (1.0 - self.count * chance).max(chance);
        if chance == 0.0 {
            self.count = 0.0;
        } else if self.stream.unit() < spread {
            self.count = 0.0;
            return if chance < 1.0 { Verdict::Signal } else { Verdict::Drop };
        } else {
            self.count += 1.0;
        }
        Verdict::Keep
    }

    /// Probability of a signal before it is spread; 1 means that all packets are dropped.
    fn probability(&self) -> f64 {
        let RedSettings { min_bytes, max_bytes, probability, .. } = self.settings;
        let (min, max) = (min_bytes as f64, max_bytes as f64);
        match self.average_bytes {
            average if average < min => 0.0,
            average if average < max => probability * (average - min) / (max - min),
            average if average < 2.0 * max => {
                probability + (1.0 - probability) * (average - max) / max
            }
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(weight: f64) -> Red {
        let settings = RedSettings {
            min_bytes: 10_000,
            max_bytes: 30_000,
            probability: 0.1,
            weight,
            packet_time: Nanos(1000),
            marks: false,
        };
        Red::new(settings, Stream::new(1, "red")).unwrap()
    }

    /// Share of signals among 20,000 arrivals at a queue of constant length.
    fn share_signalled(waiting_bytes: u64) -> f64 {
        let mut red = red(1.0);
        red.verdict(Instant(0), waiting_bytes);
        let signalled =
            (0..20_000).filter(|_| red.verdict(Instant(0), waiting_bytes) != Verdict::Keep).count();
        signalled as f64 / 20_000.0
    }

    #[test]
    fn the_share_of_signals_follows_the_average() {
        assert_eq!(share_signalled(9_999), 0.0);
        // The gap between two signals is uniform over 1 to 1/p, so its mean is (1 + 1/p) / 2.
        for (waiting, probability) in [(20_000, 0.05f64), (30_000, 0.1), (45_000, 0.55)] {
            // At 0.55 the gap is 1, else 2.
            let expected =
                if probability > 0.5 { 1.0 / 1.45 } else { 2.0 / (1.0 + 1.0 / probability) };
            // Gaps vary by at most their range over sqrt(12); five standard errors of their number.
            let error = 5.0 * expected * (1.0 / (60_000.0 * expected)).sqrt();
            let share = share_signalled(waiting);
            assert!((share - expected).abs() < error, "{waiting}: {share} {expected} {error}");
        }
        assert_eq!(share_signalled(60_000), 1.0);
    }

    #[test]
    fn beyond_twice_the_maximum_no_mark_helps() {
        let mut red = red(1.0);
        red.verdict(Instant(0), 0);
        assert_eq!(red.verdict(Instant(0), 60_000), Verdict::Drop);
        assert_ne!(red.verdict(Instant(0), 59_999), Verdict::Drop);
    }

    #[test]
    fn the_average_follows_slowly_and_forgets_while_idle() {
        let mut red = red(0.002);
        red.verdict(Instant(0), 0);
        for _ in 0..1000 {
            red.verdict(Instant(0), 5_000);
        }
        // 5000 * (1 - 0.998^1000)
        assert!((red.average_bytes - 4324.7).abs() < 0.1, "{}", red.average_bytes);
        red.empty(Instant(0));
        red.verdict(Instant(1_000_000), 0);
        // Another 1000 packets of 1000 ns.
        assert!((red.average_bytes - 584.1).abs() < 0.1, "{}", red.average_bytes);
    }

    #[test]
    fn limits_the_wrong_way_round_are_refused() {
        let settings = RedSettings { max_bytes: 10_000, ..red(0.1).settings };
        let text = Red::new(settings, Stream::new(0, "red")).err().unwrap().to_string();
        assert_eq!(text, "the minimum of RED is not below the maximum of RED: lower it");
    }
}
