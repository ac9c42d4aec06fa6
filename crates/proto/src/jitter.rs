//! Interarrival jitter (RFC 3550, section 6.4.1 and appendix A.8).

/// The smoothed difference between the times that two datagrams in a row took from sender to receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    /// In nanoseconds.
    pub jitter_ns: f64,
    /// What the last one took, by two clocks with an unknown offset.
    transit_ns: Option<i64>,
}

impl Jitter {
    /// Counts a datagram that was sent and arrived at these times, each of its own clock.
    pub fn arrive(&mut self, sent_ns: u64, arrived_ns: u64) {
        let transit_ns = arrived_ns.wrapping_sub(sent_ns).cast_signed();
        let before_ns = self.transit_ns.replace(transit_ns).unwrap_or(transit_ns);
        let difference_ns = transit_ns.abs_diff(before_ns) as f64;
        self.jitter_ns += (difference_ns - self.jitter_ns) / 16.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_moves_by_a_sixteenth_of_each_difference_whatever_the_offset_of_the_clocks() {
        for offset_ns in [0, 1 << 40, u64::MAX] {
            let mut jitter = Jitter::default();
            for (sent_ns, took_ns) in [(0, 500), (1_000, 500), (2_000, 2_100), (3_000, 500)] {
                jitter.arrive(offset_ns.wrapping_add(sent_ns), sent_ns + took_ns);
            }
            // 0, 0, 1,600 / 16, then (1,600 - 100) / 16 more.
            assert_eq!(jitter.jitter_ns, 100.0 + 1_500.0 / 16.0, "{offset_ns}");
        }
    }
}
