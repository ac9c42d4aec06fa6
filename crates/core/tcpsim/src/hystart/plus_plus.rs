//! HyStart++: leaves slow start when the RTT grows, before a loss (RFC 9406).

use fabricmark_units::Nanos;

use super::{Advice, SAMPLES, threshold};

/// Rounds of conservative slow start (`CSS_ROUNDS`).
const ROUNDS: u32 = 5;

/// Minimum RTTs of the current and the last round.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlusPlus {
    /// Transmission whose acknowledgement ends the round.
    ends: u64,
    last: Option<Nanos>,
    current: Option<Nanos>,
    samples: u32,
    conservative: Option<Conservative>,
}

#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline: Nanos,
    rounds: u32,
}

impl PlusPlus {
    /// Transmissions below `answered` were acknowledged after `rtt`; `next` is the next transmission.
    pub fn advise(&mut self, rtt: Nanos, answered: u64, next: u64) -> Advice {
        if answered > self.ends {
            self.ends = next;
            (self.last, self.current, self.samples) = (self.current, None, 0);
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds >= ROUNDS {
                    return Advice::Leave;
                }
            }
        }
        let current = self.current.map_or(rtt, |least| least.min(rtt));
        self.current = Some(current);
        self.samples += 1;
        if self.samples >= SAMPLES {
            self.judge(current);
        }
        if self.conservative.is_some() { Advice::Conservative } else { Advice::Slow }
    }

    fn judge(&mut self, current: Nanos) {
        match (self.conservative, self.last) {
            (Some(Conservative { baseline, .. }), _) if current < baseline => {
                self.conservative = None;
            }
            (None, Some(last)) if current >= last + threshold(last) => {
                self.conservative = Some(Conservative { baseline: current, rounds: 0 });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advice at the end of rounds of 10 acknowledgements with these minimum RTTs in ms.
    fn rounds(least_ms: &[u64]) -> Vec<Advice> {
        let mut hystart = PlusPlus::default();
        let mut answered = 0u64;
        let mut round = |ms| {
            let mut advice = Advice::Slow;
            for _ in 0..10 {
                answered += 1;
                let next = answered.next_multiple_of(10);
                match hystart.advise(Nanos::from_millis(ms), answered, next) {
                    Advice::Leave => return Advice::Leave,
                    other => advice = other,
                }
            }
            advice
        };
        least_ms.iter().map(|&ms| round(ms)).collect()
    }

    #[test]
    fn slow_start_goes_on_while_the_round_trip_stays() {
        // An eighth of 100 ms is 12.5 ms.
        assert_eq!(rounds(&[100, 112, 124, 136]), [Advice::Slow; 4]);
        // At 10 ms the smallest increase that counts is 4 ms, at 1 s it is 16 ms.
        assert_eq!(rounds(&[10, 13, 16]), [Advice::Slow; 3]);
        assert_eq!(rounds(&[1000, 1016])[1], Advice::Conservative);
    }

    #[test]
    fn a_longer_round_trip_ends_slow_start_after_five_conservative_rounds() {
        use Advice::{Conservative, Leave, Slow};
        let advice = rounds(&[100, 113, 114, 115, 116, 117, 118]);
        assert_eq!(
            advice,
            [Slow, Conservative, Conservative, Conservative, Conservative, Conservative, Leave]
        );
    }

    #[test]
    fn a_round_trip_that_shrinks_again_was_no_queue() {
        use Advice::{Conservative, Slow};
        assert_eq!(rounds(&[100, 113, 100, 100]), [Slow, Conservative, Slow, Slow]);
    }
}
