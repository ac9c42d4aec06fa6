//! Interarrival jitter (RFC 3550, section 6.4.1 and appendix A.8).

/// Inverse gain of the smoothing filter: each difference moves the jitter by 1/16 of its deviation.
const SMOOTHING: u64 = 16;

/// Smoothed difference between the transit times of consecutive datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    /// In nanoseconds; 0 before the second datagram.
    pub jitter_ns: f64,
    /// Number of differences so far.
    differences: u64,
    /// Transit time of the last datagram, by two clocks with an unknown offset.
    transit_ns: Option<i64>,
}

impl Jitter {
    /// Adds a datagram by its send time (sender's clock) and arrival time (receiver's clock).
    pub fn arrive(&mut self, sent_ns: u64, arrived_ns: u64) {
        let transit_ns = arrived_ns.wrapping_sub(sent_ns).cast_signed();
        if let Some(before_ns) = self.transit_ns.replace(transit_ns) {
            let difference_ns = transit_ns.abs_diff(before_ns) as f64;
            self.jitter_ns += (difference_ns - self.jitter_ns) / SMOOTHING as f64;
            self.differences += 1;
        }
    }

    /// The jitter in nanoseconds; `None` before 16 differences, while it still depends on the length of the stream.
    pub fn settled_ns(&self) -> Option<f64> {
        (self.differences >= SMOOTHING).then_some(self.jitter_ns)
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
            assert_eq!(jitter.settled_ns(), None);
            (0..13).for_each(|_| jitter.arrive(offset_ns.wrapping_add(4_000), 4_500));
            assert_eq!(jitter.settled_ns(), Some(jitter.jitter_ns));
        }
    }
}
