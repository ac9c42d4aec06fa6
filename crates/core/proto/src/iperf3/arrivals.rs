//! What a receiver of datagrams makes of their counters: the original's own arithmetic, so that both
//! give the same figures.

use super::datagram::Header;
use crate::jitter::Jitter;

/// What a receiver has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// The highest counter that arrived.
    pub packets: u64,
    /// Counters that were skipped and have not arrived since. A duplicate takes one away, too: the
    /// original cannot tell it from a late datagram.
    pub errors: u64,
    /// Arrivals after a higher counter, or of the same.
    pub out_of_order: u64,
    /// When they arrived.
    pub jitter: Jitter,
}

impl Arrivals {
    /// Counts a datagram that arrived at that time.
    pub fn arrive(&mut self, header: Header, now_us: u64, is_wide: bool) {
        let counter = if is_wide { header.counter } else { self.unwrap(header.counter as u32) };
        if counter > self.packets {
            self.errors = self.errors.saturating_add(counter - 1 - self.packets);
            self.packets = counter;
        } else {
            self.out_of_order += 1;
            self.errors = self.errors.saturating_sub(1);
        }
        self.jitter.arrive(header.sent_us.wrapping_mul(1_000), now_us.wrapping_mul(1_000));
    }

    /// The full counter of 32 bits that is nearest to the highest one.
    fn unwrap(&self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(self.packets as u32).cast_signed();
        self.packets.saturating_add_signed(i64::from(ahead))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrived(counters: &[u64]) -> (u64, u64, u64) {
        let mut arrivals = Arrivals::default();
        for &counter in counters {
            arrivals.arrive(Header { sent_us: 0, counter }, 0, false);
        }
        (arrivals.packets, arrivals.errors, arrivals.out_of_order)
    }

    #[test]
    fn gaps_are_errors_and_late_ones_take_them_back() {
        for (counters, expected) in [
            (&[1, 2, 3][..], (3, 0, 0)),
            (&[1, 4], (4, 2, 0)),
            (&[1, 4, 2], (4, 1, 1)),
            (&[1, 4, 2, 3, 3], (4, 0, 3)),
            (&[2], (2, 1, 0)),
        ] {
            assert_eq!(arrived(counters), expected, "{counters:?}");
        }
    }

    #[test]
    fn a_narrow_counter_goes_on_after_its_wrap() {
        let mut arrivals = Arrivals { packets: u64::from(u32::MAX), ..Arrivals::default() };
        arrivals.arrive(Header { sent_us: 0, counter: 1 }, 0, false);
        assert_eq!((arrivals.packets, arrivals.errors), ((1 << 32) + 1, 1));
    }

    #[test]
    fn jitter_is_a_sixteenth_of_each_difference() {
        let mut arrivals = Arrivals::default();
        for (counter, now_us) in [(1, 1_000), (2, 1_000), (3, 1_160)] {
            arrivals.arrive(Header { sent_us: 500, counter }, now_us, true);
        }
        assert!((arrivals.jitter.jitter_ns - 10e3).abs() < 1e-3, "{:?}", arrivals.jitter);
    }

    proptest! {
        #[test]
        fn no_header_makes_the_counting_panic(headers: Vec<(u64, u64, u64)>, is_wide: bool) {
            let mut arrivals = Arrivals::default();
            for (sent_us, counter, now_us) in headers {
                arrivals.arrive(Header { sent_us, counter }, now_us, is_wide);
            }
        }
    }
}
